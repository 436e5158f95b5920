"""Arithmetic of a prediction: a program's memory on an allocator that it never ran on.

A program's memory is what its allocator holds plus what is its own: data, stacks, mappings that it makes without
malloc. The own part is one number for each figure: what a live run on the recording's own allocator had above that
allocator's replay. It is held fixed, and another allocator's replay is put in the place of the first. An own part that
changes over the run was tried and was no better at peaks (docs/FIDELITY-CAUSES.md); means are the same by either.

Time lines are arrays of equal length. Positions are ops of the workload, times nanoseconds, sizes bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Samples:
    """When a recorded run was looked at: by the clock, by the process's processor time, and in ops done by then."""

    time_ns: np.ndarray
    cpu_ns: np.ndarray
    position: np.ndarray


def replayed(run: Mapping, samples: Samples) -> dict[str, float]:
    """Figures of a memory run of a result: its peaks; its means over the recorded run's processor time, and clock."""
    rss = rss_at(run, samples.position)
    return {
        "rss_anon_peak_bytes": run["rss_anon_peak_bytes"],
        "vm_size_peak_bytes": run["vm_size_peak_bytes"],
        "rss_anon_mean_bytes": mean_over_time(samples.cpu_ns, rss),
        "rss_anon_wall_mean_bytes": mean_over_time(samples.time_ns, rss),
    }


def rss_at(run: Mapping, position: np.ndarray) -> np.ndarray:
    """RssAnon of a memory run that stood at each position: that of the last row at or before it. The exact peak
    (`rss_anon_peak_position`) is a row of its own.
    """
    rows, rss = np.array([row[:2] for row in run["timeline"]], dtype=float).reshape(-1, 2).T
    at, peak = float(run.get("rss_anon_peak_position", -1)), float(run["rss_anon_peak_bytes"])
    if at >= 0 and len(rows) and peak > rss.max():
        place = int(np.searchsorted(rows, at, "right"))
        rows, rss = np.insert(rows, place, at), np.insert(rss, place, peak)
    return rss[np.clip(np.searchsorted(rows, position, "right") - 1, 0, len(rss) - 1)]


def predict(replays: Mapping[str, Sequence[Mapping]], lived: Sequence[Mapping], baseline: str) -> dict[str, dict]:
    """label -> predicted figures and own parts, from each allocator's `replayed` figures (their mean where they differ)
    and the live runs on the recording's allocator. On that allocator they are the live ones by construction. A mean
    that a live run lacks is left out.
    """
    bare = [run for run in lived if run["allocator"] == baseline and run["kind"] == "memory"]
    out: dict[str, dict] = {label: {} for label in replays}
    for key, own_key in (
        ("rss_anon_peak_bytes", "own_at_peak_bytes"),
        ("vm_size_peak_bytes", None),
        ("rss_anon_mean_bytes", "own_mean_bytes"),
        ("rss_anon_wall_mean_bytes", None),
    ):
        if any(key not in run for run in bare):
            continue
        held = {label: float(np.mean([figures[key] for figures in replays[label]])) for label in replays}
        own = float(np.median([run[key] for run in bare])) - held[baseline]
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
    """Each value stands until the next time. The values' plain mean where no time passes."""
    spans = np.diff(time)
    total = float(spans.sum())
    return float((values[:-1] * spans).sum() / total) if total > 0 else float(np.mean(values))


def thinned(time: np.ndarray, values: np.ndarray, points: int) -> list[list[float]]:
    """At most so many [share of the time, value] for a figure: the largest value of each equal span of time."""
    if len(time) == 0 or time[-1] <= time[0]:
        return []
    share = (time - time[0]) / (time[-1] - time[0])
    span = np.minimum((share * points).astype(int), points - 1)
    return [[round((number + 0.5) / points, 4), int(values[span == number].max())] for number in np.unique(span)]
