# SPDX-License-Identifier: MIT
"""The bucket allocator's switches on its own suite: what threads wait for, and which atomic operations they make.

Replays the shape of `mtmalloc` (as many freeing threads as allocating ones), reads the allocator's own counters,
and prints two Markdown tables: `cache_lock` and `exclusive` from 1 to 64 allocating threads, then `max_cached` over
loads above 64 KiB. Counts of waits depend on other load and on the number of processors; the other counts don't.
With --timed instead CPU cycles of the bare pass, lowest of the runs, as ratios: for a quiet machine.

    python -m tests.bench.allocators.bucket_allocator [--timed] [--replays N] [--threads N]...
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

from heaptape.common.home import Home, default_home
from heaptape.run import registry, replay, rounds

from tests.bench.harness import heading, row
from tests.support import succeed, workload

THREADS = (1, 2, 4, 8, 16, 32, 64)
PAIRS = 400_000  # of malloc and free in each run, shared by all threads
SAMPLES = 1024  # the pattern's own
REPLAYS = 3  # with two bare runs each
# As many buckets as a machine of 32 processors has.
MANY = 64
DESIGNS = {
    "mutex": "cache_lock=mutex",
    "atomic": "cache_lock=atomic",
    "exclusive, mutex": "exclusive=1:cache_lock=mutex",
    "exclusive": "exclusive=1",
    f"mutex, {MANY} buckets": f"cache_lock=mutex:buckets={MANY}",
    f"exclusive, {MANY} buckets": f"exclusive=1:buckets={MANY}",
}
MAX_CACHED = [1 << shift for shift in range(16, 22)]
# Largest size and its pattern: 8 threads, few objects, as they are large.
LOADS = {
    "to 192 KiB": ("--max=131072", "--threads=8", "--samples=64", "--rounds=400"),
    "to 1.5 MiB": ("--max=1048576", "--threads=8", "--samples=64", "--rounds=400"),
}


def bare_runs(file: Path, settings: Iterable[str], replays: int, home: Home) -> dict[str, list[dict]]:
    """Tunables -> runs of the bare pass, two for each replay. Threads wait only for objects that others acquire."""
    chosen = [f"bucket:BUCKET_TUNABLES={tunables}" for tunables in settings]
    choices = registry.choose_all(chosen, registry.load(home))
    tunables_of = {choice.variant: choice.environment["BUCKET_TUNABLES"] for choice in choices}
    about = replay.describe_workload(file, file.stem)
    runs: dict[str, list[dict]] = {tunables: [] for tunables in tunables_of.values()}
    for seed in range(replays):
        plan = rounds.Settings(1, passes=("bare",), order="causal", seed=seed)
        for run in replay.replay(file, about, choices, plan, home)["runs"]:
            if "error" in run:
                raise RuntimeError(run["error"])
            runs[tunables_of[run["variant"]]].append(run)
    return runs


def median(runs: list[dict], counter: str) -> float:
    """Median of one of the allocator's counters."""
    return statistics.median(run["reference_stats"][counter] for run in runs)


def counted(runs: list[dict]) -> str:
    """Contended acquisitions of parent and cache locks per 1,000 pairs, and atomic operations per pair."""
    pairs = median(runs, "cached_hits") + median(runs, "oversize_hits")
    parent, cache = (1000 * median(runs, f"{kind}_locks_contended") / pairs for kind in ("parent", "cache"))
    return f"{parent:.2f} + {cache:.2f}; {median(runs, 'atomics') / pairs:.1f}"


def oversize(runs: list[dict]) -> str:
    """Acquisitions of the oversize lock, those that found it taken, and acquisitions of parent locks that waited."""
    counters = ("oversize_locks", "oversize_locks_contended", "parent_locks_contended")
    return "; ".join(f"{median(runs, counter):,.0f}" for counter in counters)


def cycles(runs: list[dict]) -> float:
    """Lowest of the runs: other load only adds."""
    return min(run["cycles_total"] for run in runs)


def made(folder: Path, *options: str) -> Path:
    file = folder / f"{'-'.join(options).replace('=', '')}.work"
    succeed(workload("mtmalloc"), *options, f"--work={file}", "--quiet=1")
    return file


def by_threads(folder: Path, arguments: argparse.Namespace, home: Home) -> None:
    heading("threads", *DESIGNS)
    for threads in arguments.threads or THREADS:
        repetitions = max(1, PAIRS // (SAMPLES * threads))
        file = made(folder, f"--threads={threads}", f"--rounds={repetitions}", f"--samples={SAMPLES}")
        if arguments.timed:
            runs = bare_runs(file, DESIGNS.values(), arguments.replays, home)
            first = cycles(runs[DESIGNS["mutex"]])
            row(threads, *(f"{100 * cycles(runs[tunables]) / first:.0f} %" for tunables in DESIGNS.values()))
        else:
            runs = bare_runs(file, (f"{tunables}:stats=1" for tunables in DESIGNS.values()), arguments.replays, home)
            row(threads, *map(counted, runs.values()))


def by_max_cached(folder: Path, arguments: argparse.Namespace, home: Home) -> None:
    suffix = "" if arguments.timed else ":stats=1"
    heading("sizes", *(f"{size >> 10} KiB" for size in MAX_CACHED))
    for name, options in LOADS.items():
        settings = [f"max_cached={size}{suffix}" for size in MAX_CACHED]
        runs = bare_runs(made(folder, *options), settings, arguments.replays, home)
        first = cycles(runs[settings[0]])
        row(name, *(f"{100 * cycles(of) / first:.0f} %" if arguments.timed else oversize(of) for of in runs.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timed", action="store_true", help="cycles as ratios to the first column, instead of counts")
    parser.add_argument("--replays", type=int, default=REPLAYS, help="of two runs each (default %(default)s)")
    parser.add_argument("--threads", type=int, action="append", help="this many allocating threads (default: 1 to 64)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        by_threads(Path(folder), arguments, default_home())
        print()
        by_max_cached(Path(folder), arguments, default_home())


if __name__ == "__main__":
    main()
