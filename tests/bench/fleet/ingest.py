# SPDX-License-Identifier: MIT
"""`heaptape fleet ingest` of generated traces beside `heaptape-convert profile` of the same: traces and MB per second,
CPU time, memory of the largest process; and the same command again, when all traces are in the store.

python -m tests.bench.fleet.ingest [COUNT] [--events N] [--workers N] [--runs N] [--portion N]: COUNT traces (default
200) of N events (default 50,000), in alternating runs. Traces are generated, measured and deleted in portions (default
2,500), all of which go into one store: so the disk space needed is only about 3 bytes per event of a portion. 10,000
of 100,000 events take about 10 minutes of two idle processors, and 0.8 GB of /tmp. Needs `make out/bench/bench_trace`.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.reading.rates import Spent, spend
from tests.support import CONVERT, HEAPTAPE, OUT, succeed

THREADS, LIVE, RUN = 4, 2000, 16


def generate(folder: Path, numbers: range, events: int) -> int:
    """Makes traces, each of one event more than the one before, so that no two are equal. Returns their bytes."""
    for number in numbers:
        shape = [str(n) for n in (events + number, THREADS, LIVE, RUN)]
        succeed(OUT / "bench/bench_trace", folder / f"{number:06}.tape", *shape)
    return sum(tape.stat().st_size for tape in folder.iterdir())


def profiled(folder: Path, workers: int) -> Spent:
    """The cost of `profile` alone, each trace in a separate process."""
    names = folder.parent / "names"
    names.write_text("\n".join(map(str, sorted(folder.iterdir()))))
    return spend("xargs", "-a", names, "-P", str(workers), "-n", "1", CONVERT, "profile")


def ingested(folder: Path, store: Path, workers: int) -> Spent:
    return spend(HEAPTAPE, "fleet", "ingest", folder, "--store", store, "--scheduler", f"local={workers}")


def portion(folder: Path, stores: Sequence[Path], workers: int) -> Iterator[dict[str, Spent]]:
    """The cost of the traces of a folder, once for each store, into which they go."""
    for store in stores:
        yield {
            "profile": profiled(folder, workers),
            "ingest": ingested(folder, store, workers),
            "ingest, all there": ingested(folder, store, workers),
        }


def added(parts: Sequence[Spent]) -> Spent:
    seconds, cpu = sum(part.seconds for part in parts), sum(part.cpu_seconds for part in parts)
    return Spent(seconds=seconds, cpu_seconds=cpu, peak_rss_bytes=max(part.peak_rss_bytes for part in parts))


def measured(scratch: Path, given: argparse.Namespace) -> tuple[int, list[dict[str, Spent]]]:
    """Bytes of all traces; the cost of each run, all portions together."""
    folder, bytes_ = scratch / "tapes", 0
    stores = [scratch / f"store{number}" for number in range(given.runs)]
    portions = []
    for first in range(0, given.count, given.portion):
        folder.mkdir()
        bytes_ += generate(folder, range(first, min(first + given.portion, given.count)), given.events)
        portions.append(list(portion(folder, stores, given.workers)))
        shutil.rmtree(folder)
    of_runs = [[parts[number] for parts in portions] for number in range(given.runs)]
    return bytes_, [{what: added([part[what] for part in parts]) for what in parts[0]} for parts in of_runs]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--portion", type=int, default=2500)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        bytes_, found = measured(Path(scratch), given)
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
