# SPDX-License-Identifier: MIT
"""The four-corner matrix: two switches of an allocator, and the effect of each with and without the other.

It is shaped like that of the tcache benchmarks, whose switches were fast bins (A) and the per-thread cache (B):
Neither, A, B, Both; then A+ (A against neither), B+ (B against neither), A:B+ (both against A alone: what B adds to A),
B:A+ (both against B alone) and B/A.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from heaptape.common.errors import HeaptapeError, unknown
from heaptape.results import margins
from heaptape.results.comparing.compare import ARITHMETIC, GEOMETRIC, arithmetic_row, percent_row
from heaptape.results.comparing.intervals import LogRatio, Method, log_ratio, mean_of, steadied

CORNERS = ("Neither", "A", "B", "Both")
# column -> (measured, against)
COMPARISONS: dict[str, tuple[str, str]] = {
    "A+": ("A", "Neither"),
    "B+": ("B", "Neither"),
    "A:B+": ("Both", "A"),
    "B:A+": ("Both", "B"),
    "B/A": ("B", "A"),
}


@dataclass(frozen=True)
class Corners:
    """The labels of the four variants, as `schema.label` returns them."""

    neither: str
    a: str
    b: str
    both: str

    @property
    def labels(self) -> dict[str, str]:
        """Corner name -> label, in the order of CORNERS."""
        return dict(zip(CORNERS, (self.neither, self.a, self.b, self.both), strict=True))


def parse_corners(text: str, known: Sequence[str]) -> Corners:
    """`NEITHER,A,B,BOTH`, each a label that the results have. Raises HeaptapeError if it is anything else."""
    names = text.split(",")
    if len(names) != len(CORNERS) or len(set(names)) != len(CORNERS):
        raise HeaptapeError(f"four corners are four different allocators, NEITHER,A,B,BOTH; '{text}' is not")
    for name in names:
        if name not in known:
            raise unknown("allocator", name, known, "the results have")
    return Corners(*names)


def four_corners(table: pd.DataFrame, metric: str, corners: Corners, method: Method = "t") -> pd.DataFrame:
    """The matrix of one metric, in long form.

    From `schema.figures`. Columns: workload, column (of CORNERS: the mean over repetitions, in the metric's unit;
    of COMPARISONS: percent), low, high, repetitions, supported, reason, margin_percent (as in
    `compare.relative`; for CORNERS NaN, None, empty). After the workloads, the rows
    "geometric mean" and "arithmetic mean" of the percentages, over the workloads that have them. If a workload lacks a
    corner, the comparisons with it are missing.
    """
    rows: list[dict] = []
    of_figure = margins.by_figure(table)
    ratios: dict[str, list[LogRatio]] = {name: [] for name in COMPARISONS}
    carried: dict[str, list[float]] = {name: [] for name in COMPARISONS}
    here = table[table["metric"] == metric]
    for workload, group in here.groupby("workload", sort=False):
        series = {
            corner: steadied(group[group["allocator"] == label].set_index("round")["value"], metric)
            for corner, label in corners.labels.items()
        }
        margin = of_figure.get((str(workload), metric), 0.0)
        for corner, values in series.items():
            if len(values):
                rows.append(_value_row(workload, corner, values) | {"margin_percent": margin})
        for name, (measured, against) in COMPARISONS.items():
            ratio = log_ratio(series[against], series[measured])
            if ratio is not None:
                ratios[name].append(ratio)
                carried[name].append(margin)
                rows.append(_comparison_row(workload, name, percent_row(ratio, method, margin)))
    for name, found in ratios.items():
        if found:
            margin = margins.of_geometric_mean(carried[name])
            rows.append(_comparison_row(GEOMETRIC, name, percent_row(mean_of(found), method, margin)))
            rows.append(_comparison_row(ARITHMETIC, name, arithmetic_row(found, method, max(carried[name]))))
    columns = ["workload", "column", "value", "low", "high", "repetitions", "supported", "reason", "margin_percent"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"value": float, "low": float, "high": float, "supported": object, "margin_percent": float})


def _value_row(workload: str, corner: str, values: pd.Series) -> dict:
    about = {"low": float("nan"), "high": float("nan"), "repetitions": len(values), "supported": None, "reason": ""}
    return {"workload": workload, "column": corner, "value": values.mean()} | about


def _comparison_row(workload: str, name: str, row: dict) -> dict:
    row = dict(row)
    return {"workload": workload, "column": name, "value": row.pop("percent")} | row
