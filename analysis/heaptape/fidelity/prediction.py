# SPDX-License-Identifier: MIT
"""Arithmetic of a prediction: a program's memory on an allocator that it did not run on.

A program's memory is its allocator's memory plus its own part: data, stacks, mappings made without malloc. The own
part is one number for each figure: the live run on the recording's own allocator less that allocator's replay. It is
held fixed, and another allocator's replay replaces the first. An own part that changes over the run was tried and was
no better at peaks (docs/measurements/fidelity-causes.md); means are the same in both ways.

A mean over time needs two things: how much memory the program holds at each point of its run, and how long it stays
there. A replay yields the first. Processor time differs from one run to the next by more than the memory does. So the
aligned mean takes every run's memory at the same points of the program, and the time between them from the recording
that is replayed.

Time lines are arrays of equal length. Positions are ops of the workload, times nanoseconds, sizes bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# An allocator's library makes some calls itself before the program's first: tbbmalloc 14, tcmalloc 3, jemalloc 1. The
# calls of runs that differ by at most this many are counted from the end: with few calls, shares would not match.
STARTUP_CALLS = 64


@dataclass(frozen=True)
class Samples:
    """When a recorded run was sampled: in wall time, in the process's processor time, and in ops done by then."""

    time_ns: np.ndarray
    cpu_ns: np.ndarray
    position: np.ndarray
    ops: int = 0

    @property
    def share(self) -> np.ndarray:
        """Progress of the program, 0 to 1. Runs that make different numbers of calls are compared by it."""
        return (self.position + 1) / (self.ops + 2)


def samples_at(
    time_ns: np.ndarray, cpu_ns: np.ndarray, line_ns: np.ndarray, line_position: np.ndarray, ops: int
) -> Samples:
    """Samples from their times and processor times (in ticks). `line_ns`, `line_position`: how many ops of the
    recording were done when. Between two ops the position rises with time. The time before the first op is position -1
    to 0, the time after the last op is `ops` to `ops` + 1, so that a comparison by position includes both.
    """
    if len(time_ns) and len(line_ns):
        if time_ns[0] < line_ns[0]:
            line_ns, line_position = np.insert(line_ns, 0, time_ns[0]), np.insert(line_position, 0, -1.0)
        if time_ns[-1] > line_ns[-1]:
            line_ns, line_position = np.append(line_ns, time_ns[-1]), np.append(line_position, ops + 1.0)
    return Samples(time_ns, smooth(time_ns, cpu_ns), np.interp(time_ns, line_ns, line_position), ops)


def aligned_mean(own: Samples, rss: np.ndarray, clock: Samples) -> float:
    """Mean of a recorded live run's RssAnon, given at its own samples. `clock`: samples of the recording that is
    replayed; the mean is over its points of the program, weighted with its processor time between them.
    """
    extra = own.ops - clock.ops
    if 0 < extra <= STARTUP_CALLS:
        own = Samples(own.time_ns, own.cpu_ns, np.maximum(own.position - extra, -1), clock.ops)
    return mean_over_time(clock.cpu_ns, np.interp(clock.share, own.share, rss))


def replayed(run: Mapping, samples: Samples) -> dict[str, float]:
    """Figures of a memory run of a result: its peaks, and its means over the recorded run's processor and wall time."""
    rss = rss_at(run, samples.position)
    mean = mean_over_time(samples.cpu_ns, rss)
    return {
        "rss_anon_peak_bytes": run["rss_anon_peak_bytes"],
        "vm_size_peak_bytes": run["vm_size_peak_bytes"],
        "rss_anon_mean_bytes": mean,
        "rss_anon_wall_mean_bytes": mean_over_time(samples.time_ns, rss),
        "rss_anon_aligned_mean_bytes": mean,
    }


def rss_at(run: Mapping, position: np.ndarray) -> np.ndarray:
    """RssAnon of a memory run at each position: from the last row at or before it. The exact peak
    (`rss_anon_peak_position`) is a separate row.
    """
    rows, rss = np.array([row[:2] for row in run["timeline"]], dtype=float).reshape(-1, 2).T
    at, peak = float(run.get("rss_anon_peak_position", -1)), float(run["rss_anon_peak_bytes"])
    if at >= 0 and len(rows) and peak > rss.max():
        place = int(np.searchsorted(rows, at, "right"))
        rows, rss = np.insert(rows, place, at), np.insert(rss, place, peak)
    return rss[np.clip(np.searchsorted(rows, position, "right") - 1, 0, len(rss) - 1)]


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


def smooth(time_ns: np.ndarray, cpu_ns: np.ndarray) -> np.ndarray:
    """Processor time that was read in whole ticks (10 ms): straight lines between the moments at which it changed."""
    if len(cpu_ns) == 0:
        return cpu_ns
    changed = np.append(True, np.diff(cpu_ns) > 0)
    return np.interp(time_ns, time_ns[changed], cpu_ns[changed])


def mean_over_time(time: np.ndarray, values: np.ndarray) -> float:
    """Mean of values that each hold until the next time. The values' plain mean where no time passes."""
    spans = np.diff(time)
    total = float(spans.sum())
    return float((values[:-1] * spans).sum() / total) if total > 0 else float(np.mean(values))


def thinned(time: np.ndarray, values: np.ndarray, points: int) -> list[list[float]]:
    """At most `points` [share of the time, value] for a figure: the largest value of each equal span of time."""
    if len(time) == 0 or time[-1] <= time[0]:
        return []
    share = (time - time[0]) / (time[-1] - time[0])
    span = np.minimum((share * points).astype(int), points - 1)
    return [[round((number + 0.5) / points, 4), int(values[span == number].max())] for number in np.unique(span)]
