#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# The cost of a recording in bursts outside them: wall time and processor time (the recorder's included) of a
# program in perl under `valgrind --tool=none`, under `record --accesses` and with a burst that never begins.
# Usage: bursts.sh [OUT [RUNS]]. The lowest of RUNS runs (3).
source "$(dirname "$0")/common.sh"
out=$(realpath "${1:-out}")
runs=${2:-3}
program=(perl "$(dirname "$0")/program.pl")
record=("$out/libexec/heaptape-record" -o "$scratch/t.tape" --accesses)

row() {
  read -r wall cpu <<<"$2"
  awk -v name="$1" -v wall="$wall" -v cpu="$cpu" -v none="${none% *}" \
    'BEGIN { printf "| %s | %.2f | %.2f | %.2f |\n", name, wall, cpu, wall / none }'
}

echo "| | seconds | CPU seconds | times none |"
echo "|---|---|---|---|"
none=$(lowest valgrind -q --tool=none "${program[@]}")
row "--tool=none" "$none"
row "--accesses, outside of bursts" "$(lowest "${record[@]}" --burst nobody.. -- "${program[@]}")"
row "--accesses" "$(lowest "${record[@]}" -- "${program[@]}")"
