# shellcheck shell=bash
# For the scripts in this folder, which source it: a scratch folder that is removed when they end, and the lowest of some runs.
# program.pl: hashes, strings and a sort (2.1 G instructions).
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PERL_HASH_SEED=0
TIMEFORMAT='%R %U %S'

# lowest CMD...: seconds of wall time, and of user plus system time: the lowest of $runs runs, or three
lowest() {
  for ((run = 0; run < ${runs:-3}; run++)); do
    { time "$@" >/dev/null 2>&1; } 2>&1
  done | awk '{ s = $2 + $3 } NR == 1 || $1 < wall { wall = $1 } NR == 1 || s < cpu { cpu = s }
    END { printf "%.2f %.2f", wall, cpu }'
}
