# SPDX-License-Identifier: MIT
"""The recording judges its replay: a replay on the recorded allocator, with the recorded settings, against the
recording's own samples of the program's memory.

The program's memory is that of malloc and the program's own, so a replay that needs less proves nothing; one that
needs more is of another program than the recorded one, and nothing may be concluded from it.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
    """Peak and mean of RssAnon in bytes, of the recorded program or of a replay of it. `noise`: of the recorded mean
    (`noise_of`).
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


def noise_of(differences: Sequence[float], weights: Sequence[float]) -> float:
    """Bytes by which a mean over samples may be off, as each shows one moment of a memory that changes between two ops:
    twice the standard error of the mean difference. `differences`: of the replay at each sample from the recorded
    bytes; a constant one is no noise. `weights`: how long each sample stands.
    """
    whole, squares = sum(weights), sum(weight * weight for weight in weights)
    if not whole or not squares:
        return 0.0
    pairs = list(zip(differences, weights, strict=False))
    mean = sum(difference * weight for difference, weight in pairs) / whole
    variance = sum(weight * (difference - mean) ** 2 for difference, weight in pairs) / whole
    return 2 * math.sqrt(variance * squares) / whole


def disproof(workload: Workload, label: str, replayed: Memory, recorded: Memory) -> str:
    """A sentence where the recording disproves its replay on the allocator `label`; empty: it does not."""
    if not replayed.beyond(recorded):
        return ""
    which = f"peaks at {size(replayed.peak)} and has {size(replayed.mean)} on average"
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
    positions = [row[0] for row in rows]
    there = [row[1] for row in rows]
    apart = [here - before for here, before in zip(least_at(runs[0], positions), there)]
    spans = [after - before for before, after in pairwise(positions)]
    recorded = Memory(max(there), _mean(positions, there), noise_of(apart, spans))
    replayed = Memory(
        max(run.rss_anon_peak_bytes or 0.0 for run in runs),
        max(_mean(positions, least_at(run, positions)) for run in runs),
    )
    return disproof(file.workload, label, replayed, recorded)


def unjudged(file: Results) -> str:
    """A sentence where the recording has samples and was compared with no replay on its own allocator; else empty."""
    about = file.workload
    runs = [run.label for run in file.measured if run.pass_ == "memory"]
    if len(about.recorded or []) < 2 or not runs or about.disproof or about.judged_on or about.recorded_on in runs:
        return ""
    own = about.allocator or "an allocator that it does not name"
    return f"Whether this replay is true is not known: it was recorded on {own}, which was not replayed."


def _reason(workload: Workload) -> str:
    lacks = workload.lacks or []
    if "settings_by_calls" in lacks:
        return "the program set its allocator up by calls (mallopt, malloc_trim) before its recording began"
    if workload.settings is None:
        return "the program's allocator had settings: this recording does not have them"
    return "it touched less of its objects than is known"


def least_at(run: Run, positions: Iterable[float]) -> list[float]:
    """RssAnon of a memory run at each position, or one row of its time line before or after, whichever is least: a
    replay touches an object at once, where the program took its time to fill it; and what is given back between two
    rows, before the program sleeps, is only in the later one.
    """
    rows = run.timeline or []
    known = [row[0] for row in rows]
    places = [max(bisect_right(known, position) - 1, 0) for position in positions]
    return [min(row[1] for row in rows[max(place - 1, 0) : place + 2]) for place in places]


def _mean(positions: Sequence[float], values: Sequence[float]) -> float:
    """Over positions, each value up to the next; where all are at one, their plain mean."""
    spans = [after - before for before, after in pairwise(positions)]
    whole = sum(spans)
    return sum(v * s for v, s in zip(values, spans, strict=False)) / whole if whole else sum(values) / len(values)
