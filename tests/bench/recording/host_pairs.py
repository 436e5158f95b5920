# SPDX-License-Identifier: MIT
"""Two comparisons as in host_cpu.py with more pairs, each in a few minutes:
python -m tests.bench.recording.host_pairs WHAT [PAIRS].

remote: every free is remote (xmalloc); the program's CPU time by ownership tags over that by `--stamp every`, in
alternating runs, whole and less a bare run's.
redis: wall time of its load, recorded over bare, with the server alone on one CPU, and recorder and load on another.
"""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.bench.harness import spread
from tests.bench.recording.host_cpu import CPU_AT_EXIT, record_once, run_once, subjects
from tests.support import workload

EVERY = ("--stamp", "every")


def remote(folder: Path, pairs: int) -> None:
    """Prints the two ratios of CPU time."""
    found = next(subject for subject in subjects(folder) if subject.name == "xmalloc")
    subject = replace(found, command=(str(workload("xmalloc")), "--batches=1500", "--quiet=1"))
    bare = {"LD_PRELOAD": str(CPU_AT_EXIT)}
    whole, over_bare = [], []
    for pair in range(pairs):
        without = run_once(subject.command, folder, None, bare).host_ns
        order = (EVERY, ()) if pair % 2 else ((), EVERY)
        spent = {options: record_once(subject, folder, options).host_ns for options in order}
        whole.append(spent[()] / spent[EVERY])
        over_bare.append((spent[()] - without) / (spent[EVERY] - without))
    print("tags / --stamp every, the program's CPU time:", spread(whole, 3))
    print("the same, of what recording adds:", spread(over_bare, 3))


def redis(folder: Path, pairs: int) -> None:
    """Prints the ratio of wall times. This process is bound to the last CPU, as are recorder and load."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("needs two CPUs")
    found = next(subject for subject in subjects(folder) if subject.name == "redis-server")
    subject = replace(found, command=("taskset", "-c", str(cpus[0]), *found.command))
    os.sched_setaffinity(0, {cpus[-1]})
    ratios = []
    for _ in range(pairs):
        bare = run_once(subject.command, folder, subject.port, {"LD_PRELOAD": str(CPU_AT_EXIT)})
        ratios.append(record_once(subject, folder, ()).wall_ns / bare.wall_ns)
    print("redis, wall time of its load, recorded / bare:", spread(ratios, 3))


def main() -> None:
    what = {"remote": (remote, 20), "redis": (redis, 7)}
    if len(sys.argv) < 2 or sys.argv[1] not in what:
        sys.exit(f"usage: python -m tests.bench.recording.host_pairs {'|'.join(what)} [PAIRS]")
    measure, pairs = what[sys.argv[1]]
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), int(sys.argv[2]) if len(sys.argv) > 2 else pairs)


if __name__ == "__main__":
    main()
