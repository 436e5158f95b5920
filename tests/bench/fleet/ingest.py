# SPDX-License-Identifier: MIT
"""`heaptape fleet ingest` of generated traces beside `heaptape-convert profile` of the same: traces and MB per second,
CPU time, memory of the largest process; and the same command again, when all are there.

python -m tests.bench.fleet.ingest [COUNT] [--events N] [--workers N] [--runs N]: COUNT traces (default 200) of so many
events (default 50,000), in alternating runs. Needs `make out/bench/bench_trace`, and some 3 bytes of disk per event.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.reading.rates import Spent, spend
from tests.support import CONVERT, HEAPTAPE, OUT, succeed

THREADS, LIVE, RUN = 4, 2000, 16


def generate(folder: Path, count: int, events: int) -> None:
    """Traces, each of one event more than the one before: so no two are alike."""
    for number in range(count):
        shape = [str(n) for n in (events + number, THREADS, LIVE, RUN)]
        succeed(OUT / "bench/bench_trace", folder / f"{number:06}.tape", *shape)


def profiled(folder: Path, workers: int) -> Spent:
    """What `profile` takes by itself, each trace in a process of its own."""
    names = folder.parent / "names"
    names.write_text("\n".join(map(str, sorted(folder.iterdir()))))
    return spend("xargs", "-a", names, "-P", str(workers), "-n", "1", CONVERT, "profile")


def ingested(folder: Path, store: Path, workers: int) -> Spent:
    """What the command takes."""
    return spend(HEAPTAPE, "fleet", "ingest", folder, "--store", store, "--scheduler", f"local={workers}")


def runs(folder: Path, workers: int, count: int) -> Iterator[dict[str, Spent]]:
    """One after the other, so many times."""
    for _ in range(count):
        store = folder.parent / "store"
        yield {
            "profile": profiled(folder, workers),
            "ingest": ingested(folder, store, workers),
            "ingest, all there": ingested(folder, store, workers),
        }
        shutil.rmtree(store)


def main() -> None:
    """Prints a table of medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        folder = Path(scratch) / "tapes"
        folder.mkdir()
        generate(folder, given.count, given.events)
        bytes_ = sum(tape.stat().st_size for tape in folder.iterdir())
        found = list(runs(folder, given.workers, given.runs))
    print(f"{given.count:,} traces of {given.events:,} events, {bytes_ / 1e6:,.1f} MB, {given.workers} workers")
    print("| | traces/s | MB/s | CPU ms per trace | largest process, MiB |\n|---|---|---|---|---|")
    for what in found[0]:
        wall, cpu = (statistics.median(getattr(run[what], of) for run in found) for of in ("seconds", "cpu_seconds"))
        most = max(run[what].peak_rss_bytes for run in found) / (1 << 20)
        rates = f"{given.count / wall:,.1f} | {bytes_ / wall / 1e6:,.1f} | {1000 * cpu / given.count:,.2f}"
        print(f"| {what} | {rates} | {most:,.0f} |")
    for of in ("seconds", "cpu_seconds"):
        ratio = statistics.median(getattr(run["profile"], of) / getattr(run["ingest"], of) for run in found)
        print(f"ingest's rate by {of.replace('_', ' ')}: {100 * ratio:.0f} % of profile's")


if __name__ == "__main__":
    main()
