# SPDX-License-Identifier: MIT
"""Workloads that stand for another: a distillate of a trace.

Conclusions from their figures are about the whole that they stand for. Each figure carries a margin: by how many
percent of the whole's figure it may be off, up or down, as half of a 95 % interval for an allocator that was not
measured when the stand-in was made (docs/use/DISTILLATION.md). So the whole's figure is within `bounds`, which have no
upper end from 100 % on. A figure whose error was never measured has no margin: it is shown, nothing is ranked by it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from heaptape.results import distilled
from heaptape.results.structs import Distilled, Run, WholeTrace, Workload

NONE_KNOWN = math.inf
# metric of `schema.figures` -> its name among margins, if that differs (run/exact.py names those)
FIGURES = {
    "total_instructions": "instructions",
    "peak_rss": "rss-peak",
    "mean_rss": "rss-mean",
    "vm_size": "vmsize-peak",
    "page_faults": "faults",
}
# Figures of the workload, the same for all allocators: known of the whole, not estimated.
KNOWN = ("ideal_rss", "achievable_rss")
UNBOUNDED = 100.0  # from this margin on, the whole's figure may be any number of times as large
MARK = "†"  # of a figure without a margin
FORBIDDEN = "‡"  # of a ratio of two figures with UNBOUNDED or more


@dataclass(frozen=True)
class StandIn:
    """`made_of`: in words; `expected`: figure -> percent; `manifest`: R.json's workload.distilled."""

    made_of: str
    expected: Mapping[str, float]
    manifest: Distilled

    def margin(self, metric: str) -> float:
        """Percent of the whole's figure by which its estimate may be off; NONE_KNOWN if that was not measured."""
        return 0.0 if metric in KNOWN else self.expected.get(FIGURES.get(metric, metric), NONE_KNOWN)

    def of_whole(self, metric: str, run: Run, value: float | None) -> tuple[float | None, float]:
        """The whole's figure, estimated from the run's, and its margin. NONE_KNOWN: the figure is the run's own."""
        if self.margin(metric) == NONE_KNOWN:
            return value, self.margin(metric)
        if metric in KNOWN:
            return (self.manifest.whole or WholeTrace()).peak_live_bytes or value, 0.0
        estimated = distilled.estimate(FIGURES.get(metric, metric), run, self.manifest)
        return (value, NONE_KNOWN) if estimated is None else (estimated, self.margin(metric))

    def as_json(self) -> dict:
        """For other programs; percent."""
        return {"kind": "distillate", "expected": dict(self.expected)}

    def of_itself(self, name: str) -> str:
        """The sentence for figures none of which is an estimate of the whole. `name`: the workload's."""
        return f"{self._what(name)}: the figures are of the distillate itself, not estimates of the whole's."

    def _what(self, name: str) -> str:
        return f"{name} is a distillate, {self.made_of}"

    def sentence(self, name: str) -> str:
        """The sentence about its figures, to be shown once. `name`: the workload's."""
        plain = {figure: percent for figure, percent in self.expected.items() if "/" not in figure}
        known = ", ".join(f"{figure} ±{percent_text(percent)}" for figure, percent in plain.items())
        what = self._what(name)
        if not known:
            return f"{what}: how far its figures are from the whole's is not known, and nothing is ranked by them."
        wide = ", ".join(figure for figure, percent in self.expected.items() if percent >= UNBOUNDED)
        return (
            f"{what}: its figures are expected to be within {known} of the whole's (95 %); a ratio of two has both "
            f"margins, and nothing is ranked within them{f', nor at all by {wide} (100 % or more)' if wide else ''}. "
            f"Figures with {MARK} or no margin are of the distillate itself."
        )


def stand_in(workload: Workload) -> StandIn | None:
    """The stand-in that it is; None if it is the whole itself."""
    about = workload.distilled
    return None if about is None else StandIn(_distilled_of(about), about.expected or {}, about)


def _distilled_of(about: Distilled) -> str:
    whole, ratio = about.whole or WholeTrace(), about.ratio
    name, ops = whole.name, whole.ops
    share = f"{_digits(100 * ratio)} % of " if ratio else "of "
    return f"{share}the {ops:,} ops of {name or 'its whole'}" if ops else f"{share}{name or 'its whole'}"


def sentences(files: Iterable) -> list[str]:
    """`StandIn.sentence` for each of the results (`schema.Results`) that is a stand-in."""
    return [one.sentence(file.name) for file in files if (one := stand_in(file.workload))]


def by_figure(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """(workload, metric) -> margin in percent, for figures that have one. `table`: of `schema.figures`."""
    if "margin_percent" not in table.columns:
        return {}
    found = table[table["margin_percent"] > 0].groupby(["workload", "metric"], sort=False)["margin_percent"].max()
    return {(str(workload), str(metric)): float(value) for (workload, metric), value in found.items()}


def bounds(estimate: float, margin: float) -> tuple[float, float]:
    """The ends of the whole's figure: of all values from which the estimate is at most the margin (percent) off."""
    high = estimate / (1 - margin / 100) if margin < UNBOUNDED else math.inf
    return estimate / (1 + margin / 100), high


def widened(low: float, high: float, margin: float) -> tuple[float, float]:
    """The ends of a ratio's interval, where each of the two figures has the margin: of all ratios that are possible for
    the whole. Independent errors would need less, the root of the sum of their squares, but errors of one fit are not
    independent.
    """
    factor = (100 + margin) / (100 - margin) if margin < UNBOUNDED else math.inf
    return low / factor, high * factor


def of_geometric_mean(ratios: Sequence[float]) -> float:
    """The margin of the geometric mean of ratios with these margins: it widens by the mean of their factors."""
    if max(ratios) >= UNBOUNDED:
        return max(ratios)
    return 100 * math.tanh(sum(math.atanh(margin / 100) for margin in ratios) / len(ratios))


def percent_text(percent: float) -> str:
    """A margin as shown after a figure and ±."""
    return f"{_digits(percent)} %"


def _digits(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}" if percent >= 0.1 else f"{percent:.2g}"
