# SPDX-License-Identifier: MIT
"""Calls that hardly occur, as one: a table of calls has a column for each that matters."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from heaptape.results.comparing.compare import MAIN_CALLS
from heaptape.results.schema import Results, figures, number, unique_name

OTHER = "other"
RARE = 0.01  # of all calls
KINDS = ("calls", "instructions")  # of metrics: KIND/CALL, means per call


def rare_calls(files: Sequence[Results]) -> dict[str, dict[str, float]]:
    """Workload -> the calls that each make up less than RARE of all its calls, with their counts. Only of workloads
    with two or more such calls: one alone keeps its name.
    """
    names: dict[tuple, str] = {}
    counts = {unique_name(file, names): _counts(file) for file in files}
    found = {
        workload: {call: count for call, count in here.items() if 0 < count < RARE * sum(here.values())}
        for workload, here in counts.items()
    }
    return {workload: rare for workload, rare in found.items() if len(rare) > 1}


def often_called(file: Results) -> list[str]:
    """The other calls, the most frequent first."""
    counts = _counts(file)
    least = RARE * sum(counts.values())
    return sorted((call for call, count in counts.items() if count >= least), key=lambda call: -counts[call])


def _counts(file: Results) -> dict[str, float]:
    counts: dict[str, float] = {}
    for run in file.measured:
        for call, detail in (run.calls or {}).items():
            counts[call] = max(counts.get(call, 0.0), number(detail.count) or 0.0)
    return counts


def by_call(files: Sequence[Results], kind: str = "calls") -> tuple[pd.DataFrame, list[str]]:
    """`schema.figures`, and the calls of which it has means of that kind (KINDS): MAIN_CALLS, always; then others (C++
    operators, aligned calls), the rare ones of which are OTHER.
    """
    rare = {
        workload: {call: count for call, count in here.items() if call not in MAIN_CALLS}
        for workload, here in rare_calls(files).items()
    }
    table = together(figures(files), {workload: here for workload, here in rare.items() if len(here) > 1})
    metrics = [str(one).partition("/") for one in table["metric"]]
    found = dict.fromkeys(call for of, _, call in metrics if of == kind)
    rest = sorted((call for call in found if call not in MAIN_CALLS), key=lambda call: call == OTHER)
    return table, [*MAIN_CALLS, *rest]


def together(figures: pd.DataFrame, rare: dict[str, dict[str, float]]) -> pd.DataFrame:
    """`schema.figures` with one metric KIND/other in place of those of `rare_calls`: the mean over all these calls."""
    weights = {
        (workload, f"{kind}/{call}"): count
        for workload, counts in rare.items()
        for call, count in counts.items()
        for kind in KINDS
    }
    weight = pd.Series(
        [weights.get(key, np.nan) for key in zip(figures["workload"], figures["metric"])], figures.index, float
    )
    if weight.isna().all():
        return figures
    few = figures[weight.notna()].assign(weight=weight.dropna())
    few = few.assign(metric=few["metric"].str.partition("/")[0] + f"/{OTHER}", value=few["value"] * few["weight"])
    keys = ["workload", "allocator", "round", "metric", "unit"]
    sums = few.groupby(keys, sort=False).agg({"value": "sum", "weight": "sum"}).reset_index()
    one = sums.assign(value=sums["value"] / sums["weight"])[list(figures.columns)]
    return pd.concat([figures[weight.isna()], one], ignore_index=True)
