# SPDX-License-Identifier: MIT
"""The recording judges its replay: a replay on the recorded allocator, with the recorded settings, against the
recording's own samples of the program's memory.

The program's memory is that of malloc and the program's own, so a replay that needs less proves nothing; one that
needs more is of another program than the recorded one, and nothing may be concluded from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heaptape.common.phrases import size
from heaptape.common.tables import MIB
from heaptape.results import replay_errors
from heaptape.results.schema import Results
from heaptape.results.structs import Run, Workload

LEAST_BYTES = MIB  # a smaller difference disproves nothing
ERRORS = 2  # nor does one below that many times the error of nine in ten programs: a tenth of them are beyond it once
PEAK, MEAN = "peak_rss", "mean_rss"


@dataclass(frozen=True)
class Memory:
    """Peak and mean of RssAnon in bytes, of the recorded program or of a replay of it. `noise`: by what a true
    replay's mean may be more than the recorded one (`noise_of`, `filled_later`).
    """

    peak: float
    mean: float
    noise: float = 0.0

    def beyond(self, recorded: "Memory") -> bool:
        """Does this replay need more than the program had, by more than replays' error explains?"""
        pairs = ((PEAK, self.peak, recorded.peak, 0.0), (MEAN, self.mean, recorded.mean, recorded.noise))
        return any(
            replayed - there > max(LEAST_BYTES, there * ERRORS * replay_errors.error_of_all(figure) / 100) + noise
            for figure, replayed, there, noise in pairs
        )


@dataclass(frozen=True)
class Samples:
    """What a recording has of its program's memory: RssAnon in bytes at each position (ops done by then), and a clock
    that means are over: time, or calls. `wall`: it is wall time. `peak_bytes`: of RssAnon, also between samples.
    """

    position: np.ndarray
    rss: np.ndarray
    clock: np.ndarray
    peak_bytes: float
    wall: bool = False


def noise_of(differences: np.ndarray, weights: np.ndarray) -> float:
    """Bytes by which a mean over samples may be off, as each shows one moment of a memory that changes between two ops:
    twice the standard error of the mean difference. `differences`: of the replay at each sample from the recorded
    bytes; a constant one is no noise. `weights`: how long each sample stands.
    """
    whole, squares = weights.sum(), (weights * weights).sum()
    if not whole or not squares:
        return 0.0
    apart = differences[: len(weights)]
    variance = (weights * (apart - (apart * weights).sum() / whole) ** 2).sum() / whole
    return float(2 * math.sqrt(variance * squares) / whole)


def disproof(workload: Workload, label: str, replayed: Memory, recorded: Memory) -> str:
    """A sentence where the recording disproves its replay on the allocator `label`; empty: it does not."""
    if not replayed.beyond(recorded):
        return ""
    which = f"peaks at {size(replayed.peak)} and has at least {size(replayed.mean)} on average"
    there = f"{size(recorded.peak)} and {size(recorded.mean)}"
    return (
        f"The recording disproves its replay: on {label}, on which the program was recorded, it {which}, where the "
        f"program had {there}. Likely {_reason(workload)}. So no advice follows from these replays."
    )


def disproof_of(file: Results) -> str:
    """`disproof` of results with the pass memory. Empty also where the recording has no samples, or was not replayed on
    its own allocator.
    """
    if file.workload.disproof:
        return file.workload.disproof
    label, rows = file.workload.recorded_on, file.workload.recorded or []
    runs = [run for run in file.measured if run.label == label and run.pass_ == "memory" and run.timeline]
    if not label or len(rows) < 2 or not runs:
        return ""
    position, rss = np.array([row[:2] for row in rows], dtype=float).T
    return disproved(file.workload, runs, Samples(position, rss, position, float(rss.max())))


def disproved(workload: Workload, runs: Sequence[Run], there: Samples) -> str:
    """`disproof` of memory runs on the allocator that the recording was made on; empty also where it has no samples."""
    if len(there.position) < 2:
        return ""
    least, mean = least_at(runs[0], there.position), mean_over_time(there.clock, there.rss)
    filled = np.maximum(there.rss, np.minimum(least, filled_later(there.rss, _live_at(runs[0], there.position))))
    noise = noise_of(least - filled, np.diff(there.clock)) + mean_over_time(there.clock, filled) - mean
    recorded = Memory(there.peak_bytes, mean, noise)
    peak = max(run.rss_anon_peak_bytes or 0.0 for run in runs)
    return disproof(workload, runs[0].label, Memory(peak, max(_mean(run, there) for run in runs)), recorded)


def _mean(run: Run, there: Samples) -> float:
    least = mean_over_time(there.clock, least_at(run, there.position))
    wall = run.rss_anon_wall_mean_bytes if there.wall else None
    return least if wall is None else min(wall, least)


def unjudged(file: Results) -> str:
    """A sentence where the recording has samples and was compared with no replay on its own allocator; else empty."""
    about = file.workload
    runs = [run.label for run in file.measured if run.pass_ == "memory"]
    if len(about.recorded or []) < 2 or not runs or about.disproof or about.judged_on or about.recorded_on in runs:
        return ""
    own = about.linked or about.allocator or "an allocator that it does not name"
    return f"Whether this replay is true is not known: it was recorded on {own}, which was not replayed."


def _reason(workload: Workload) -> str:
    lacks = workload.lacks or []
    if "settings_by_calls" in lacks:
        return "the program may have set its allocator up by calls (mallopt, malloc_trim) before this recording, unseen"
    if workload.settings is None:
        return "the program's allocator had settings: this recording does not have them"
    return "it touched less of its objects than is known"


def least_at(run: Run, position: np.ndarray) -> np.ndarray:
    """RssAnon of a memory run at each position, or one row of its time line before or after, whichever is least: a
    replay touches an object at once, where the program took its time to fill it; and what is given back between two
    rows, before the program sleeps, is only in the later one.
    """
    known, rss = np.array([row[:2] for row in run.timeline or []], dtype=float).reshape(-1, 2).T
    places = np.maximum(np.searchsorted(known, position, "right") - 1, 0)
    around = np.clip(places + [[-1], [0], [1]], 0, len(rss) - 1)
    least: np.ndarray = rss[around].min(axis=0)
    return least


def filled_later(rss: np.ndarray, live_bytes: np.ndarray) -> np.ndarray:
    """The most that `rss` becomes while what is live at each sample remains so: a program may take that long to fill an
    object, which a replay touches at once.
    """
    most, later = np.array(rss, float), list[tuple[int, float]]()
    for at in reversed(range(len(most))):
        level = int(live_bytes[at] // LEAST_BYTES)
        while later and later[-1][0] >= level:
            most[at] = max(most[at], later.pop()[1])
        later.append((level, most[at]))
    return most


def _live_at(run: Run, position: np.ndarray) -> np.ndarray:
    """Live bytes of a memory run at each position."""
    known, live = np.array([(row[0], row[3]) for row in run.timeline or []], dtype=float).reshape(-1, 2).T
    found: np.ndarray = live[np.maximum(np.searchsorted(known, position, "right") - 1, 0)]
    return found


def mean_over_time(time: np.ndarray, values: np.ndarray) -> float:
    """Mean of values that each hold until the next time. The values' plain mean where no time passes."""
    spans = np.diff(time)
    total = float(spans.sum())
    return float((values[:-1] * spans).sum() / total) if total > 0 else float(np.mean(values))
