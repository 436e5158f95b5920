# SPDX-License-Identifier: MIT
"""windows and distil of heaptape-convert: ops per second and peak memory, instructions per op. About five minutes.

python -m tests.bench.reading.distil_pace [F ...]: traces, from which workloads are made first; without one, larson of
two threads (10 M ops) and redis of the corpus. Rates are by CPU time, of the fastest of three runs; instructions by
callgrind, of the first workload only.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.reading import rates
from tests.support import CONVERT, REPOSITORY, info, succeed

RUNS = 3


def commands(work: Path, folder: Path) -> Iterator[tuple[str, list[str | Path]]]:
    """A name and the arguments. Plans have 100 windows that make 1 % of the ops, half of which warm up."""
    ops = info(work)["ops"]
    length = ops // 10_000
    windows = [[at, at + length // 2, at + length, 1] for at in range(0, ops - length, ops // 100)]
    plans: dict[str, dict] = {
        "all that is live in a window": {"windows": windows},
        "what a window touches, and 16 highs": {"windows": windows, "heap": "touched", "highs": 16},
    }
    yield "windows --ops 10000", ["windows", work, "--ops", "10000", "-o", folder / "windows.bin"]
    for number, (name, plan) in enumerate(plans.items()):
        path = folder / f"plan-{number}.json"
        path.write_text(json.dumps(plan))
        yield f"distil, {name}", ["distil", work, "--plan", path, "-o", folder / "d.tape"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="*", type=Path, metavar="F")
    arguments = parser.parse_args()
    print("| | ops | M ops/s | peak RSS, the mapped file included | instructions per op |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="heaptape-bench-") as name:
        folder = Path(name)
        default = [rates.ten_million_events(folder), REPOSITORY / "workloads/corpus/redis.tape"]
        for number, tape in enumerate(arguments.inputs or default):
            work = folder / f"{tape.stem}.work"
            succeed(CONVERT, "compile", tape, "-o", work)
            ops = info(work)["ops"]
            for what, words in commands(work, folder):
                best = min((rates.spend(CONVERT, *words) for _ in range(RUNS)), key=lambda spent: spent.cpu_seconds)
                counted = f"{rates.instructions(folder, CONVERT, *words) / ops:.0f}" if number == 0 else ""
                rate, peak = ops / best.cpu_seconds / 1e6, best.peak_rss_bytes / 2**20
                print(f"| {what}, {tape.stem} | {ops:,} | {rate:.0f} | {peak:.0f} MiB | {counted} |", flush=True)
            work.unlink()


if __name__ == "__main__":
    main()
