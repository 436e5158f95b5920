#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# The cost of the Valgrind tool: processor time of one program natively, under Valgrind's tools and under ours, and of one
# replay's instructions pass. Usage: observe/valgrind/bench/costs.sh [OUT]
# The program is program.pl. The lowest of three runs; each table names its rows as valgrind's options do.
source "$(dirname "$0")/common.sh"
out=$(realpath "${1:-out}")
export VALGRIND_LIB=$out/libexec/valgrind
row() {
  local seconds
  read -r _ seconds <<<"$(lowest "${@:2}")"
  native=${native:-$seconds}
  awk -v name="$1" -v s="$seconds" -v n="$native" 'BEGIN { printf "| %s | %.2f | %.1f |\n", name, s, s / n }'
}

program=(perl "$(dirname "$0")/program.pl")
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
row "--pass instructions" "${replay[@]}" --pass instructions "$work"
