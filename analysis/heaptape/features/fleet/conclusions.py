# SPDX-License-Identifier: MIT
"""What follows from a store's cells: the best candidate for each workload, the best for all, the saving of each change,
and outliers among workloads. DataFrames in, DataFrames out.

Workloads count by their weight: how much of the fleet each represents.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heaptape.common.engine import PASSES
from heaptape.common.errors import HeaptapeError
from heaptape.common.phrases import MEAN_OF_ANY, size
from heaptape.decide.worth import NO_REASON, is_reason, why_not
from heaptape.features.fleet.store import is_exact
from heaptape.results.comparing.intervals import LogRatio

# The figures to decide by (less is better), each with its name in the output. Counted figures are first.
FIGURES = {
    "total_instructions": "instructions of the allocator's calls",
    "peak_rss": "peak memory",
    "mean_rss": MEAN_OF_ANY,
    "page_faults": "page faults",
    "total_cycles": "cycles in the allocator's calls",
    "bare_cpu": "CPU time of the replay",
}
FAR = 3.5  # robust standard deviations (Iglewicz and Hoaglin)
FAR_PERCENT = 2.0  # and at least this far from the candidate's median: smaller differences do not matter
MAD_TO_DEVIATION = 1.4826

TOTALS = [
    "figure", "unit", "label", "workloads", "weight", "baseline_value", "value", "saved", "ratio", "worst_ratio",
    "worst_workload",
]  # fmt: skip
BEST = ["workload", "name", "figure", "label", "ratio", "low", "high", "supported"]
SINGLE = ["figure", "label", "ratio", "saved", "unit", "worst_ratio", "worst_workload", "left_out"]
OUTLIERS = ["workload", "name", "figure", "label", "ratio", "median_ratio", "deviations"]


class NothingComparedError(HeaptapeError):
    """Nothing was measured on the same workload as the baseline."""


@dataclass(frozen=True)
class Conclusions:
    """`ratios`: rows of `against_baseline`, of FIGURES. Computed from them: `totals` (columns TOTALS), `best`
    (BEST), `single` (SINGLE), `outliers` (OUTLIERS). `worst_percent`: by how much the single choice may be worse than
    the baseline on any workload.
    """

    baseline: str
    worst_percent: float
    ratios: pd.DataFrame
    totals: pd.DataFrame
    best: pd.DataFrame
    single: pd.DataFrame
    outliers: pd.DataFrame

    def tables(self) -> dict[str, pd.DataFrame]:
        return {name: getattr(self, name) for name in ("ratios", "totals", "best", "single", "outliers")}


def conclusions(results: pd.DataFrame, baseline: str, worst_percent: float) -> Conclusions:
    """Of Store.results. Raises NothingComparedError where nothing was measured together with the baseline."""
    if results.empty:
        raise NothingComparedError("the store has no results yet")
    labels = list(dict.fromkeys(results["label"]))
    if baseline not in labels:
        raise NothingComparedError(f"the baseline '{baseline}' was not measured: there are {', '.join(sorted(labels))}")
    ratios = against_baseline(results[results["figure"].isin(FIGURES)], baseline)
    if ratios.empty:
        raise NothingComparedError(f"nothing was measured on the same workload as the baseline '{baseline}'")
    all_ = totals(ratios)
    return Conclusions(
        baseline, worst_percent, ratios, all_, best(ratios, baseline), single(all_, baseline, worst_percent),
        outliers(ratios),
    )  # fmt: skip


def totals(ratios: pd.DataFrame) -> pd.DataFrame:
    """Each label against the baseline over the fleet, on the `workloads` that both were measured on: rows of TOTALS.
    `saved`: weighted sum, baseline less label, in the figure's unit; `ratio`: of the weighted sums.
    """
    rows = []
    for (figure, unit, label), group in ratios.groupby(["figure", "unit", "label"], sort=False):
        before, after = (float((group["weight"] * group[name]).sum()) for name in ("baseline_value", "value"))
        worst = group.loc[group["ratio"].idxmax()]
        rows.append((
            figure, unit, label, len(group), float(group["weight"].sum()), before, after, before - after,
            after / before if before > 0 else math.nan, worst["ratio"], worst["name"],
        ))  # fmt: skip
    return _by_figure(pd.DataFrame(rows, columns=TOTALS), ["ratio"])


def best(ratios: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The label with the least of a figure on each workload, the baseline where none is below it: rows of BEST.
    `supported`: is it below the baseline by more than chance, on the machines that measured?
    """
    least = ratios.loc[ratios.groupby(["workload", "figure"])["ratio"].idxmin()]
    stays = least["ratio"] >= 1
    found = least.assign(
        label=least["label"].where(~stays, baseline), supported=~stays & (least["high"] < 1),
        **{name: least[name].where(~stays, 1.0) for name in ("ratio", "low", "high")},
    )  # fmt: skip
    return _by_figure(found[BEST], ["name"])


def single(all_: pd.DataFrame, baseline: str, worst_percent: float) -> pd.DataFrame:
    """The one choice for all workloads, by each figure's total over the fleet: rows of SINGLE. A label qualifies if it
    is nowhere worse than the baseline by more than `worst_percent`, and was measured on as many workloads as any other.
    `left_out`: labels that would save more, and why they do not qualify.
    """
    rows = []
    for figure, group in all_.groupby("figure", sort=False):
        whole = group["workloads"] == group["workloads"].max()
        bounded = group["worst_ratio"] <= 1 + worst_percent / 100
        fit = group[whole & bounded & (group["ratio"] < 1)]
        chosen = fit.loc[fit["ratio"].idxmin()] if len(fit) else None
        limit = chosen["ratio"] if chosen is not None else 1.0
        better = group[(group["ratio"] < limit) & ~(whole & bounded)]
        reasons = [
            f"{row.label} ({100 * (1 - row.ratio):.1f} % less): "
            + (
                f"{100 * (row.worst_ratio - 1):.1f} % more on {row.worst_workload}"
                if row.worst_ratio > 1 + worst_percent / 100
                else f"measured on {row.workloads} workloads only"
            )
            for row in better.itertuples()
        ]
        choice = (figure, baseline, 1.0, 0.0, group["unit"].iloc[0], 1.0, "")
        if chosen is not None:
            choice = (figure, *chosen[["label", "ratio", "saved", "unit", "worst_ratio", "worst_workload"]])
        rows.append((*choice, "; ".join(reasons)))
    return pd.DataFrame(rows, columns=SINGLE)


def outliers(ratios: pd.DataFrame) -> pd.DataFrame:
    """Workloads on which a label differs from its result on most, the farthest first: rows of OUTLIERS. `deviations`:
    robust deviations of the log ratio from the label's median.
    """
    rows = []
    for (figure, label), group in ratios.groupby(["figure", "label"], sort=False):
        logs = np.log(group["ratio"].to_numpy())
        median = float(np.median(logs))
        spread = max(MAD_TO_DEVIATION * float(np.median(np.abs(logs - median))), math.log1p(FAR_PERCENT / 100) / FAR)
        for (_, row), log in zip(group.iterrows(), logs):
            if abs(log - median) > FAR * spread:
                deviations = (log - median) / spread
                rows.append((row["workload"], row["name"], figure, label, row["ratio"], math.exp(median), deviations))
    found = pd.DataFrame(rows, columns=OUTLIERS)
    return found.sort_values("deviations", key=abs, ascending=False, kind="stable", ignore_index=True)


def _by_figure(frame: pd.DataFrame, then: list[str]) -> pd.DataFrame:
    order = {figure: number for number, figure in enumerate(FIGURES)}
    ranked = frame.assign(rank=frame["figure"].map(order)).sort_values(["rank", *then], kind="stable")
    return ranked.drop(columns="rank").reset_index(drop=True)


BY = ["workload", "name", "program", "weight", "figure", "unit"]
COLUMNS = [
    *BY, "label", "ratio", "low", "high", "low_elsewhere", "high_elsewhere", "exact", "machines", "blocks", "between",
    "baseline_value", "value",
]  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """Mean log ratios with their errors, `here` and `elsewhere` (variance unknown where only one machine measured).
    `between`: standard deviation of a machine's own effect, as a share (0.02: machines differ by about 2 %).
    """

    here: LogRatio
    elsewhere: LogRatio
    machines: int
    between: float


def effect(by_machine: Sequence[np.ndarray]) -> Effect:
    """The effect from the log ratios of each machine's blocks; at least one machine, each with at least one block."""
    counts = np.array([len(values) for values in by_machine], float)
    means = np.array([values.mean() for values in by_machine])
    blocks, machines = int(counts.sum()), len(counts)
    freedom = blocks - machines
    squares = sum(float(((values - mean) ** 2).sum()) for values, mean in zip(by_machine, means))
    residual = squares / freedom if freedom else math.nan
    mean = float((counts * means).sum() / blocks)
    here = LogRatio(mean, residual / blocks, freedom, blocks)
    if machines == 1:
        return Effect(here, LogRatio(mean, math.nan, math.nan, blocks), 1, math.nan)
    among = float((counts * (means - mean) ** 2).sum()) / (machines - 1)
    known = residual if freedom else 0.0  # with single blocks, all variance is the machines'
    size = (blocks - float((counts**2).sum()) / blocks) / (machines - 1)
    between = max(0.0, (among - known) / size)
    weights = 1 / np.maximum(between + known / counts, np.finfo(float).tiny)
    weights /= weights.sum()
    overall = float((weights * means).sum())
    variance = float((weights * (means - overall) ** 2).sum()) / (machines - 1)
    elsewhere = LogRatio(overall, variance, machines - 1, blocks)
    # Machines may by chance agree better than their own blocks; other machines are not known better than these.
    if freedom and elsewhere.half_width() < here.half_width():
        elsewhere = here
    return Effect(here, elsewhere, machines, math.sqrt(between))


def against_baseline(results: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Each label against the baseline, per workload and figure: rows of COLUMNS. `results`: as from Store.results.

    `ratio`: the label's figure by the baseline's; `low`, `high`: its 95 % interval here, `low_elsewhere` and
    `high_elsewhere` on machines like these; NaN where unknown; where it is `exact`, the ratio itself. `machines`,
    `blocks`: numbers compared. `between`: as in Effect. `baseline_value`, `value`: exact figures, or medians over all
    blocks, for sums over the fleet. A figure that is not positive, or that the baseline lacks in the same block, is
    left out.
    """
    exact = _exact(results[results["pass_"].map(is_exact)], baseline)
    timed = _timed(results[~results["pass_"].map(is_exact)], baseline)
    both = pd.concat([part for part in (exact, timed) if len(part)] or [exact])[COLUMNS]
    # A timed pass also yields memory figures, but less accurate than those of the pass for memory.
    both = both.drop_duplicates(["workload", "figure", "label"])
    return both.sort_values(["name", "workload", "figure", "label"], ignore_index=True)


def _pairs(results: pd.DataFrame, baseline: str, within: list[str]) -> pd.DataFrame:
    """Each row beside the baseline's of the same workload, figure and `within`."""
    kept = results[results["value"] > 0]
    own = kept.loc[kept["label"] == baseline, ["workload", "figure", *within, "value"]]
    own = own.groupby(["workload", "figure", *within], dropna=False)["value"].median().rename("baseline_value")
    return kept[kept["label"] != baseline].merge(own.reset_index(), on=["workload", "figure", *within])


def _exact(results: pd.DataFrame, baseline: str) -> pd.DataFrame:
    best = results.sort_values("pass_", key=lambda passes: passes.map(PASSES.index), kind="stable")
    best = best.drop_duplicates(["workload", "figure", "label"])
    found = _pairs(best, baseline, [])
    ratio = found["value"] / found["baseline_value"]
    ends = dict.fromkeys(("low", "high", "low_elsewhere", "high_elsewhere"), ratio)
    return found.assign(ratio=ratio, **ends, exact=True, machines=0, blocks=0, between=math.nan)


def _timed(results: pd.DataFrame, baseline: str) -> pd.DataFrame:
    pairs = _pairs(results[results["block"].notna()], baseline, ["machine", "block"])
    pairs = pairs.assign(log=np.log(pairs["value"] / pairs["baseline_value"]))
    rows = []
    for keys, group in pairs.groupby([*BY, "label"], sort=False, dropna=False):
        found = effect([own["log"].to_numpy() for _, own in group.groupby("machine")])
        rows.append((
            *keys, math.exp(found.here.mean), *found.here.interval(), *found.elsewhere.interval(), False,
            found.machines, found.here.repetitions, found.between, group["baseline_value"].median(),
            group["value"].median(), ))  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def sentences(found: Conclusions) -> list[str]:
    """For each figure, the one choice for all and its saving."""
    lines = []
    for row in found.single.itertuples():
        what = FIGURES[row.figure]
        if row.label == found.baseline:
            bound = f"{found.worst_percent:g} % more on any workload"
            sentence = f"{what}: no candidate needs less than {found.baseline} in all, and at most {bound}."
        else:
            gain = 100 * (1 - row.ratio)
            saved = size(row.saved) if row.unit == "bytes" else f"{row.saved:,.0f} {row.unit}".rstrip()
            saves = f"{row.label} for all saves {saved}, {gain:.1f} % of {found.baseline}'s"
            worst = f"{100 * (row.worst_ratio - 1):+.1f} % ({row.worst_workload})"
            sentence = (
                f"{what}: {saves}; at worst {worst}."
                if is_reason(gain)
                else f"{what}: {NO_REASON}: {saves}, {why_not(gain)}."
            )
        lines.append(sentence[0].upper() + sentence[1:] + (f" Left out: {row.left_out}." if row.left_out else ""))
    return lines
