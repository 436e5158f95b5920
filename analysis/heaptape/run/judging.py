# SPDX-License-Identifier: MIT
"""The recording judges its replay (results/judged.py): what it has of the program's memory, and the replay on its own
allocator. Of every command that says what an allocator or a setting brings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heaptape.allocators import registry
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.results import judged as judged_by
from heaptape.results.structs import Run, Workload, workload_of
from heaptape.run import replay
from heaptape.run.exact import Bench, RunError
from heaptape.run.recorded import recorded_on
from heaptape.run.samples import Samples, read_samples, spread_times
from heaptape.tape.trace import open_trace
from heaptape.tape.workload_format import read_workload


@dataclass(frozen=True)
class Recorded:
    """A recording's samples of the program's memory. `samples`: when it was sampled, `rss`: its RssAnon in bytes then;
    None: there are none. Where it has no times, calls stand for them. `peak_bytes`: of RssAnon, also between samples.
    """

    samples: Samples | None = None
    rss: np.ndarray | None = None
    peak_bytes: float = 0.0


def read_recorded(source: Path, workload: Path) -> Recorded:
    """`source`: the trace, or the workload itself."""
    compiled = read_workload(workload)
    rows = np.array([row[:3] for row in compiled.info.get("recorded") or ()], dtype=float).reshape(-1, 3)
    if len(rows) < 2:
        return Recorded()
    peak = float(rows[:, 1].max())
    if source != workload and _has_samples(source):
        return Recorded(*read_samples(source, workload), peak)
    times = spread_times(rows[:, 0], compiled.timeline())
    return Recorded(Samples(times, rows[:, 0], rows[:, 0], compiled.ops), rows[:, 1], peak)


def _has_samples(source: Path) -> bool:
    """Was the program's memory sampled while it ran, with times?"""
    try:
        with open_trace(source) as trace:
            return "times" not in trace.info.get("lacks", ()) and "user_ns" in trace.samples()
    except (HeaptapeError, OSError):
        return False  # another format, which could be compiled


def disproved(run: Run, recorded: Recorded, about: Workload) -> str:
    """A sentence where the recording disproves this memory run on the allocator that it was made on; empty: it does
    not.
    """
    if recorded.samples is None or recorded.rss is None:
        return ""
    samples = recorded.samples
    there = judged_by.Samples(samples.position, recorded.rss, samples.time_ns, recorded.peak_bytes, True)
    return judged_by.disproved(about, [run], there)


def judge(about: dict, source: Path, workload: Path, home: Home) -> None:
    """Adds to what results say of the workload how the recording judges its replay on its own allocator, where that is
    not among these results: `disproof`, `judged_on`.
    """
    if about.get("recorded_on"):
        return
    own = recorded_on(read_workload(workload).info, registry.load(home))
    if own is None or len(about.get("recorded") or ()) < 2:
        return
    if wrong := judged(source, workload, home):
        about["disproof"] = wrong
    about["judged_on"] = own.label


def judged(source: Path, workload: Path, home: Home, made: Mapping[str, Run] | None = None) -> str:
    """`disproved` of one replay on the allocator that the recording was made on, with its settings. Empty also where
    the recording has no samples, or names no allocator that is here. `made`: memory runs that there are, by label.
    """
    recorded, info = read_recorded(source, workload), read_workload(workload).info
    own = recorded_on(info, registry.load(home)) if recorded.samples else None
    if own is None:
        return ""
    try:
        run = (made or {}).get(own.label) or Bench(workload, home).run(own, "memory")
    except RunError:
        return ""  # whoever needs this replay fails, too, and says why
    return disproved(run, recorded, workload_of(replay.describe_workload(workload, "")))
