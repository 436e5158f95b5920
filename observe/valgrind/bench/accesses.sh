#!/usr/bin/env bash
# What recording data accesses costs: time on the wall and processor time of three programs natively, under
# `valgrind --tool=none` and under `heaptape record --accesses`; bytes on disk. Usage: accesses.sh [OUT [RUNS]]
# The lowest of RUNS runs (3). The programs execute 0.6 to 2.1 G instructions.
set -euo pipefail
out=$(realpath "${1:-out}")
runs=${2:-3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PERL_HASH_SEED=0 PYTHONHASHSEED=0
TIMEFORMAT='%R %U %S'

cat >"$scratch/program.pl" <<'PERL'
my %h; my @a;
for (1..400000) { $h{$_ % 20011} .= "x$_"; push @a, "k".($_ * 7919 % 1000003); }
@a = sort @a;
print scalar(keys %h), " $a[5]\n";
PERL
cat >"$scratch/program.py" <<'PYTHON'
import json
rows = [{"id": i, "name": f"n{i * 7919 % 10007}", "values": [i, i + 1, str(i)]} for i in range(20000)]
index = {}
for row in json.loads(json.dumps(rows)):
    index.setdefault(row["name"], []).append(row)
print(len(index), sum(len(v) for v in index.values()))
PYTHON
cat >"$scratch/program.sql" <<'SQL'
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
  insert into t select i, 'row ' || (i * 7919 % 100003), i * 0.5 from n;
create index u on t(b);
select count(*), sum(c) from t where b > 'row 5';
select substr(b, 1, 6), avg(c) from t group by 1 order by 2 limit 5;
SQL

# lowest CMD...: seconds on the wall, and of user and system time
lowest() {
  for ((run = 0; run < runs; run++)); do
    { time "$@" >/dev/null 2>&1; } 2>&1
  done | awk '{ s = $2 + $3 } NR == 1 || $1 < wall { wall = $1 } NR == 1 || s < cpu { cpu = s }
    END { printf "%.2f %.2f", wall, cpu }'
}
total() {
  "$out/libexec/heaptape-convert" info --json "$scratch/t.tape" | python3 -c "
import json, sys
a = json.load(sys.stdin)['footer']['accesses']
print(a['$1'])"
}
row() {
  read -r wall cpu <<<"$2"
  awk -v name="$1" -v wall="$wall" -v cpu="$cpu" -v none="$3" \
    'BEGIN { printf "| %s | %.2f | %.2f | %.2f |\n", name, wall, cpu, wall / none }'
}

for name in perl python3 sqlite3; do
  case $name in
  perl) program=(perl "$scratch/program.pl") ;;
  python3) program=(python3 -E -S "$scratch/program.py") ;;
  sqlite3) program=(sqlite3 :memory: ".read $scratch/program.sql") ;;
  esac
  none=$(lowest valgrind -q --tool=none "${program[@]}")
  echo "| $name | seconds | CPU seconds | times none |"
  echo "|---|---|---|---|"
  row native "$(lowest "${program[@]}")" "${none% *}"
  row "--tool=none" "$none" "${none% *}"
  for filter in 4096 1024 all; do
    took=$(lowest "$out/libexec/heaptape-record" -o "$scratch/t.tape" "--accesses=$filter" -- "${program[@]}")
    row "--accesses=$filter" "$took" "${none% *}"
    python3 - "$scratch/t.tape" "$filter" <<'PYTHON'
import sys
from heaptape.formats.tape_format import open_trace
with open_trace(sys.argv[1]) as trace:
    footer = trace.footer
accesses = footer["accesses"]
giga = (accesses["program_instructions"] + accesses["allocator_instructions"]) / 1e9
PYTHON
  done
  echo
done
