# SPDX-License-Identifier: MIT
"""Arithmetic of a prediction: a program's memory on an allocator that it did not run on.

A program's memory is its allocator's memory plus its own part: data, stacks, mappings made without malloc. The own
part is one number for each figure: the live run on the recording's own allocator less that allocator's replay. It is
held fixed, and another allocator's replay replaces the first. An own part that changes over the run was tried and was
no better at peaks; means are the same in both ways.

A mean over time needs two things: how much memory the program holds at each point of its run, and how long it stays
there. A replay yields the first. Processor time differs from one run to the next by more than the memory does. So the
aligned mean takes every run's memory at the same points of the program, and the time between them from the recording
that is replayed.

Time lines are arrays of equal length. Positions are ops of the workload, times nanoseconds, sizes bytes.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from heaptape.results.judged import mean_over_time
from heaptape.results.structs import Run
from heaptape.run.samples import Samples, rss_at

# An allocator's library makes some calls itself before the program's first: tbbmalloc 14, tcmalloc 3, jemalloc 1. The
# calls of runs that differ by at most this many are counted from the end: with few calls, shares would not match.
STARTUP_CALLS = 64


def replayed(run: Run, samples: Samples) -> dict[str, float]:
    """Figures of a memory run of a result: its peaks, and its means over the recorded run's processor and wall time."""
    rss = rss_at(run, samples.position)
    wall = run.rss_anon_wall_mean_bytes  # rows of the time line are too far apart where calls are rare
    mean = mean_over_time(samples.cpu_ns, rss)
    return {
        "rss_anon_peak_bytes": run.rss_anon_peak_bytes or 0.0,
        "vm_size_peak_bytes": run.vm_size_peak_bytes or 0.0,
        "rss_anon_mean_bytes": mean,
        "rss_anon_wall_mean_bytes": mean_over_time(samples.time_ns, rss) if wall is None else float(wall),
        "rss_anon_aligned_mean_bytes": mean,
    }


def aligned_mean(own: Samples, rss: np.ndarray, clock: Samples) -> float:
    """Mean of a recorded live run's RssAnon, given at its own samples. `clock`: samples of the recording that is
    replayed; the mean is over its points of the program, weighted with its processor time between them.
    """
    extra = own.ops - clock.ops
    if 0 < extra <= STARTUP_CALLS:
        own = Samples(own.time_ns, own.cpu_ns, np.maximum(own.position - extra, -1), clock.ops)
    return mean_over_time(clock.cpu_ns, np.interp(clock.share, own.share, rss))


def predict(replays: Mapping[str, Sequence[Mapping]], lived: Sequence[Mapping], baseline: str) -> dict[str, dict]:
    """label -> predicted figures and own parts, from each allocator's `replayed` figures (their mean where they differ)
    and the live runs on the recording's allocator, bare or recorded. For that allocator the predicted figures equal the
    live ones by construction. A mean that a live run or a replay lacks is left out.
    """
    bare = [run for run in lived if run["allocator"] == baseline]
    out: dict[str, dict] = {label: {} for label in replays}
    for key, own_key, kind in (
        ("rss_anon_peak_bytes", "own_at_peak_bytes", "memory"),
        ("vm_size_peak_bytes", None, "memory"),
        ("rss_anon_mean_bytes", "own_mean_bytes", "memory"),
        ("rss_anon_wall_mean_bytes", None, "memory"),
        ("rss_anon_aligned_mean_bytes", "own_aligned_mean_bytes", "recorded"),
    ):
        runs = [run for run in bare if run["kind"] == kind]
        everywhere = (*runs, *(figures for all_of_one in replays.values() for figures in all_of_one))
        if not runs or any(key not in figures for figures in everywhere):
            continue
        held = {label: float(np.mean([figures[key] for figures in replays[label]])) for label in replays}
        own = float(np.median([run[key] for run in runs])) - held[baseline]
        for label, figures in out.items():
            figures[key] = round(held[label] + own)
            if own_key:
                figures[own_key] = round(own)
    return out
