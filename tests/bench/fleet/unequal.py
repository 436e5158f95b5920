# SPDX-License-Identifier: MIT
"""Two "machines" of which one is really slowed by half: on its processor another process spins all the time. Compares
a candidate with the baseline with the machine as a block, and shows the result of a pooled analysis.

    .venv/bin/python -m tests.bench.fleet.unequal [TAPE] [-a NAME] [--reps 12]

TAPE: default workloads/corpus/git.tape; NAME: default jemalloc, against glibc. Each machine is a worker bound to its
own processor; a quarter of the blocks are the fast one's. The figure is the wall time of the whole stream (pass
bare): CPU time does not include other processes' use of the processor. Needs two idle processors, about two minutes.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import pandas as pd
from heaptape.fleet.matrix import against_baseline
from heaptape.fleet.store import open_store

from analysis.test.fleet.fleets import pooled
from tests.support import HEAPTAPE, REPOSITORY, succeed

FLEET = [str(HEAPTAPE), "fleet"]
SHARES = {"fast": ["0/4"], "slow": ["1/4", "2/4", "3/4"]}


def bound(processor: int, command: str) -> subprocess.Popen:
    """A shell command that may use only that processor."""
    return subprocess.Popen(["taskset", "-c", str(processor), "sh", "-c", command], stdout=subprocess.DEVNULL)


def measured(tape: Path, allocator: str, repetitions: int, scratch: Path) -> pd.DataFrame:
    os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
    store = scratch / "store"
    chosen = ["-a", "glibc", "-a", allocator, "--pass", "bare", "--reps", str(repetitions)]
    succeed(*FLEET, "replay", str(tape), *chosen, "--store", str(store), "--slurm-script", "-")
    first, second = sorted(os.sched_getaffinity(0))[:2]
    spinning = bound(second, "while :; do :; done")
    try:
        workers = []
        for machine, processor in (("fast", first), ("slow", second)):
            shares = [f"{HEAPTAPE} fleet work {store} --machine {machine} --share {share}" for share in SHARES[machine]]
            workers.append(bound(processor, " && ".join(shares)))
        ended = [worker.wait() for worker in workers]
    finally:
        spinning.kill()
        spinning.wait()
    assert ended == [0, 0]
    return open_store(str(store)).results()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tape", nargs="?", type=Path, default=REPOSITORY / "workloads" / "corpus" / "git.tape")
    parser.add_argument("-a", "--allocator", default="jemalloc")
    parser.add_argument("--reps", type=int, default=12)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        results = measured(given.tape, given.allocator, given.reps, Path(scratch))
    walls = results[results["figure"] == "bare_wall"]
    baseline = walls[walls["label"] == "glibc"].groupby("machine")["value"].agg(["median", "count"])
    print("glibc by machine, ms:", ", ".join(f"{row.median / 1e6:.0f} ({row.count})" for row in baseline.itertuples()))
    here = against_baseline(walls, "glibc").iloc[0]
    block, together = (here["low"], here["high"]), pooled(walls, given.allocator, "glibc")
    for what, (low, high) in (("the machine as a block", block), ("pooled", together)):
        print(f"{given.allocator} / glibc, {what}, 95 %: {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
