# SPDX-License-Identifier: MIT
"""Workloads that stand for another: a distillate of a trace, or one drawn from a profile.

What is concluded from their figures is about the whole that they stand for. Each figure carries a margin: by how many
percent the whole's may be off, as half of a 95 % interval for an allocator that was not measured when the stand-in was
made (docs/use/DISTILLATION.md). A figure whose error was never measured has no margin: it is told, and nothing is
ranked by it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from heaptape.results import distilled

NONE_KNOWN = math.inf
# metric of `schema.figures` -> its name among margins, where that is another (measure/exact.py names those)
FIGURES = {
    "total_instructions": "instructions",
    "peak_rss": "rss-peak",
    "mean_rss": "rss-mean",
    "vm_size": "vmsize-peak",
    "page_faults": "faults",
}
# What is said of the whole itself, not estimated.
KNOWN = ("ideal_rss",)
# Key of R.json's workload -> what such a workload is called.
KINDS = {"distilled": "distillate", "synthetic": "synthetic workload"}
# By so much more two figures may differ than each of them is off: two errors that have nothing to do with each other.
OF_TWO = math.sqrt(2)
MARK = "†"  # of a figure without a margin


@dataclass(frozen=True)
class StandIn:
    """`kind`: as of KINDS; `made_of`: in words; `expected`: figure -> percent; `manifest`: of a distillate."""

    kind: str
    made_of: str
    expected: Mapping[str, float]
    manifest: Mapping | None = None

    def margin(self, metric: str) -> float:
        """Percent by which the whole's figure may be off; NONE_KNOWN if that was not measured."""
        return 0.0 if metric in KNOWN else self.expected.get(FIGURES.get(metric, metric), NONE_KNOWN)

    def of_whole(self, metric: str, run: Mapping, value: float | None) -> tuple[float | None, float]:
        """The whole's figure by the run's, and its margin; NONE_KNOWN where it is the run's own."""
        if self.manifest is None or self.margin(metric) == NONE_KNOWN:
            return value, self.margin(metric)
        if metric in KNOWN:
            return (self.manifest.get("whole") or {}).get("peak_live_bytes") or value, 0.0
        estimated = distilled.estimate(FIGURES.get(metric, metric), run, self.manifest)
        return (value, NONE_KNOWN) if estimated is None else (estimated, self.margin(metric))

    def as_json(self) -> dict:
        """For other programs; percent."""
        return {"kind": self.kind, "expected": dict(self.expected)}

    def of_itself(self, name: str) -> str:
        """What to say where nothing that is shown is an estimate of the whole. `name`: the workload's."""
        return f"{self._what(name)}: what is shown is of the {self.kind} itself, and no estimate of the whole's."

    def _what(self, name: str) -> str:
        return f"{name} is a {self.kind}, {self.made_of}"

    def sentence(self, name: str) -> str:
        """What to say of its figures, once. `name`: the workload's."""
        plain = {figure: percent for figure, percent in self.expected.items() if "/" not in figure}
        known = ", ".join(f"{figure} ±{percent_text(percent)}" for figure, percent in plain.items())
        what = self._what(name)
        if not known:
            return f"{what}: how far its figures are from the whole's is not known, and nothing is ranked by them."
        return (
            f"{what}: its figures are expected to be within {known} of the whole's (95 %); a ratio of two has both "
            f"margins, and nothing is ranked within them. Figures with {MARK} or no margin are of the {self.kind} "
            "itself."
        )


def stand_in(workload: Mapping) -> StandIn | None:
    """Of R.json's "workload"; None where it is the whole itself."""
    for key, kind in KINDS.items():
        about = workload.get(key)
        if isinstance(about, Mapping):
            made_of = _distilled_of(about) if key == "distilled" else _drawn_from(about)
            manifest = about if key == "distilled" else None
            return StandIn(kind, made_of, dict(about.get("expected") or {}), manifest)
    return None


def _distilled_of(about: Mapping) -> str:
    whole = about.get("whole") or {}
    name, ops, ratio = whole.get("name"), whole.get("ops"), about.get("ratio")
    share = f"{_digits(100 * ratio)} % of " if ratio else "of "
    return f"{share}the {ops:,} ops of {name or 'its whole'}" if ops else f"{share}{name or 'its whole'}"


def _drawn_from(about: Mapping) -> str:
    profile = about.get("profile") or {}
    return f"drawn from the profile of {profile.get('program') or 'a program'}, not recorded"


def sentences(files: Iterable) -> list[str]:
    """`StandIn.sentence` of each of the results that is one (`schema.Results`)."""
    return [one.sentence(file.name) for file in files if (one := stand_in(file.workload))]


def by_figure(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """(workload, metric) -> margin in percent, of those that have one. `table`: of `schema.figures`."""
    if "margin_percent" not in table.columns:
        return {}
    found = table[table["margin_percent"] > 0].groupby(["workload", "metric"], sort=False)["margin_percent"].max()
    return {(str(workload), str(metric)): float(value) for (workload, metric), value in found.items()}


def widened(low: float, high: float, margin: float) -> tuple[float, float]:
    """The ends of a ratio's interval with the margin of a ratio (percent) around it; NaN where none is known."""
    if margin == NONE_KNOWN:
        return math.nan, math.nan
    return low / (1 + margin / 100), high * (1 + margin / 100)


def percent_text(percent: float) -> str:
    """As it stands behind a figure and ±."""
    return f"{_digits(percent)} %"


def _digits(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}" if percent >= 0.1 else f"{percent:.2g}"
