# SPDX-License-Identifier: MIT
"""Waits inside calls of several allocators, as the table of docs/measurements/contention.md, and the pass's cost per
call: `python -m tests.bench.allocators.contention`. About six minutes; shares of time need a quiet machine.
"""

import resource
import subprocess
import tempfile
from pathlib import Path

import pandas as pd
from heaptape.passes import contention
from heaptape.results.schema import all_results

from tests.bench.harness import heading, row
from tests.support import HEAPTAPE, OUT, REPLAY, REPOSITORY, succeed

ALLOCATORS = (
    "glibc", "glibc:one-arena", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "reference", "magazine", "bucket",
)  # fmt: skip
CORPUS = ("mariadb", "389-ds", "gnome-terminal")
THREADS = (8, 32)
REPEATS = 5
COST_OPS = 4_000_000
COST_RUNS = 20


def workloads(folder: Path) -> dict[str, Path]:
    """Names and files: of the corpus, and mtmalloc's."""
    made = {name: REPOSITORY / "workloads" / "corpus" / f"{name}.tape" for name in CORPUS}
    for threads in THREADS:
        path = folder / f"mtmalloc-{threads}.work"
        succeed(OUT / "workloads/mtmalloc", f"--threads={threads}", "--quiet=1", f"--work={path}")
        made[path.stem] = path
    return made


def waits(path: Path, folder: Path) -> pd.DataFrame:
    """`contention.frame` of replays of the workload."""
    results = folder / "r.json"
    chosen = [word for name in ALLOCATORS for word in ("-a", name)]
    command = ["replay", path, *chosen, "-n", REPEATS, "--passes", "contention", "-o", results]
    succeed(HEAPTAPE, *map(str, command), timeout_s=3600)
    return contention.frame(all_results(results))


def cell(found: pd.DataFrame, allocator: str) -> str:
    """Waits (slept); % of thread time (from–to)."""
    one = found[(found["by"] == "all") & (found["allocator"] == allocator)].iloc[0]
    if one["waits"] == 0:
        return "none"
    ends = f"{one['percent_low']:.2f}–{one['percent_high']:.2f}"
    return f"{short(one['waits'])} ({short(one['slept'])}); {one['percent']:.2f} ({ends})"


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def longest(found: pd.DataFrame, allocator: str) -> str:
    """The lock with most waiting, and its share."""
    locks = found[(found["by"] == "lock") & (found["allocator"] == allocator)].sort_values("wait_ns", ascending=False)
    if locks.empty:
        return "–"
    share = 100 * locks.iloc[0]["wait_ns"] / locks["wait_ns"].sum()
    name = locks.iloc[0]["name"].partition(" 0x")[0].replace("heap", "a lock in mapped memory")
    return f"{name}, {share:.0f} % of {len(locks)}"


def cost(folder: Path) -> dict[str, float]:
    """Least user CPU time of an op in ns, of passes bare and contention, with the null allocator and one thread."""
    work = folder / "one.work"
    shape = (f"ops={COST_OPS}", "threads=1", "live_objects=1000")
    succeed(OUT / "test-programs/make_workload", work, *shape)
    least = dict.fromkeys(("bare", "contention"), float("inf"))
    for _ in range(COST_RUNS):
        for pass_ in least:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            command: list[str | Path] = [REPLAY, "--pass", pass_, "--null", "--engine-cycles-per-op", "0", work]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            taken = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            least[pass_] = min(least[pass_], 1e9 * taken / COST_OPS)
    return least


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {workload: waits(path, folder) for workload, path in workloads(folder).items()}
        last = list(found)[-1]
        heading("allocator", *found, f"most waited for in {last}")
        for allocator in ALLOCATORS:
            row(allocator, *(cell(frame, allocator) for frame in found.values()), longest(found[last], allocator))
        seeing = max(frame["seeing_percent"].max() for frame in found.values())
        print(f"\nObserving the waits: at most {seeing:.2f} % of thread time.")
        print("User CPU time, ns per op:", ", ".join(f"{name} {ns:.1f}" for name, ns in cost(folder).items()))


if __name__ == "__main__":
    main()
