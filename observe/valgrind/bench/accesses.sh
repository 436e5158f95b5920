#!/usr/bin/env bash
# What recording data accesses costs: time on the wall and processor time (the recorder's included) of three programs
# under `valgrind --tool=none` and under `heaptape record --accesses`; bytes on disk. Usage: accesses.sh [OUT [RUNS]]
# The lowest of RUNS runs (3). The programs execute 0.6 to 2.3 G instructions. PYTHON: the python3 to record.
source "$(dirname "$0")/common.sh"
out=$(realpath "${1:-out}")
runs=${2:-3}
ours=$(dirname "$out")/.venv/bin/python
export PYTHONHASHSEED=0

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

row() {
  read -r wall cpu <<<"$2"
  awk -v name="$1" -v wall="$wall" -v cpu="$cpu" -v none="${none% *}" -v disk="$3" \
    'BEGIN { printf "| %s | %.2f | %.2f | %.2f | %s |\n", name, wall, cpu, wall / none, disk }'
}
# disk F: what is kept of the accesses, and MB per 10^9 instructions
disk() {
  "$ours" - "$1" <<'PYTHON'
import os
import sys

from heaptape.formats.tape_format import open_trace

with open_trace(sys.argv[1]) as trace:
    counts = trace.footer["accesses"]
instructions = counts["program_instructions"] + counts["allocator_instructions"]
kept = (counts["objects"] + counts["other"]) / counts["program_accesses"]
print(f"{100 * kept:.1f} % | {os.path.getsize(sys.argv[1]) / instructions * 1000:.1f}")
PYTHON
}

interpreter=${PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
echo "| | seconds | CPU seconds | times none | accesses kept | MB per 10^9 instructions |"
echo "|---|---|---|---|---|---|"
for name in perl python3 sqlite3; do
  case $name in
  perl) program=(perl "$scratch/program.pl") ;;
  python3) program=("$interpreter" -E -S "$scratch/program.py") ;;
  sqlite3) program=(sqlite3 :memory: ".read $scratch/program.sql") ;;
  esac
  none=$(lowest valgrind -q --tool=none "${program[@]}")
  row "$name --tool=none" "$none" "| "
  for filter in 4096 1024 all; do
    took=$(lowest "$out/libexec/heaptape-record" -o "$scratch/t.tape" "--accesses=$filter" -- "${program[@]}")
    row "$name --accesses=$filter" "$took" "$(disk "$scratch/t.tape")"
  done
done
