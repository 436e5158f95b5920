#!/usr/bin/env bash
# What the Valgrind tool costs: processor time of one program natively, under Valgrind's tools and under ours, and of one
# replay's instructions pass. Usage: observe/valgrind/bench/costs.sh [OUT]
# The program is perl with hashes, strings and a sort: 2.1 G instructions. The lowest of three runs; each table names its
# rows as valgrind's options do.
set -euo pipefail
out=$(realpath "${1:-out}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export VALGRIND_LIB=$out/libexec/valgrind PERL_HASH_SEED=0
TIMEFORMAT='%U %S'

cat >"$scratch/program.pl" <<'PERL'
my %h; my @a;
for (1..400000) { $h{$_ % 20011} .= "x$_"; push @a, "k".($_ * 7919 % 1000003); }
@a = sort @a;
print scalar(keys %h), " $a[5]\n";
PERL

# lowest CMD...: seconds of user and system time
lowest() {
  for _ in 1 2 3; do
    { time "$@" >/dev/null 2>&1; } 2>&1
  done | awk '{ s = $1 + $2 } NR == 1 || s < low { low = s } END { printf "%.2f", low }'
}
row() {
  local seconds
  seconds=$(lowest "${@:2}")
  native=${native:-$seconds}
  awk -v name="$1" -v s="$seconds" -v n="$native" 'BEGIN { printf "| %s | %.2f | %.1f |\n", name, s, s / n }'
}

program=(perl "$scratch/program.pl")
sizes=(--D1=32768,8,64 --I1=32768,8,64 --LL=1048576,16,64)
echo "| perl | CPU seconds | times native |"
echo "|---|---|---|"
row "native" "${program[@]}"
row "none" valgrind -q --tool=none "${program[@]}"
row "heaptape --mode=count" valgrind -q --tool=heaptape --mode=count --out-file="$scratch/r" "${program[@]}"
row "heaptape --mode=simulate" valgrind -q --tool=heaptape --mode=simulate --out-file="$scratch/r" "${program[@]}"
row "cachegrind" valgrind -q --tool=cachegrind "${sizes[@]}" --cachegrind-out-file="$scratch/r" "${program[@]}"
row "callgrind" valgrind -q --tool=callgrind --callgrind-out-file="$scratch/r" "${program[@]}"

unset native
work=$scratch/replayed.work
"$out/test-programs/make_workload" "$work" ops=2000000 threads=1 live_objects=5000 >/dev/null
replay=("$out/libexec/heaptape-replay" -o "$scratch/r")
echo
echo "| replay of 2 M ops (glibc) | CPU seconds | times native |"
echo "|---|---|---|"
row "--pass bare" "${replay[@]}" --pass bare --engine-cycles-per-op 0 "$work"
row "--pass instructions --counter heaptape" "${replay[@]}" --pass instructions --counter heaptape "$work"
row "--pass instructions --counter callgrind" "${replay[@]}" --pass instructions --counter callgrind "$work"
