# SPDX-License-Identifier: MIT
"""Variants of one allocator: the four-corner matrix, where a figure's parts are explained by two mechanisms, and sweeps
of a tunable's values.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy

from heaptape.common.errors import HeaptapeError, unknown
from heaptape.results.comparing.compare import ARITHMETIC, GEOMETRIC, allocator_order, arithmetic_row, percent_row
from heaptape.results.comparing.intervals import LEVEL, LogRatio, Method, log_ratio, mean_of, steadied
from heaptape.results.schema import Results, figures

CORNERS = ("Neither", "A", "B", "Both")
# column -> (measured, against)
COMPARISONS: dict[str, tuple[str, str]] = {
    "A+": ("A", "Neither"),
    "B+": ("B", "Neither"),
    "A:B+": ("Both", "A"),
    "B:A+": ("Both", "B"),
    "B/A": ("B", "A"),
}


# The four-corner matrix: two switches of an allocator, and the effect of each with and without the other.
#
# It is shaped like that of the tcache benchmarks, whose switches were fast bins (A) and the per-thread cache (B):
# Neither, A, B, Both; then A+ (A against neither), B+ (B against neither), A:B+ (both against A alone: what B adds to
# A), B:A+ (both against B alone) and B/A.
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
    of COMPARISONS: percent), low, high, repetitions, supported, reason (as in `compare.relative`; for
    CORNERS NaN, None, empty). After the workloads, the rows
    "geometric mean" and "arithmetic mean" of the percentages, over the workloads that have them. If a workload lacks a
    corner, the comparisons with it are missing.
    """
    rows: list[dict] = []
    ratios: dict[str, list[LogRatio]] = {name: [] for name in COMPARISONS}
    here = table[table["metric"] == metric]
    for workload, group in here.groupby("workload", sort=False):
        series = {
            corner: steadied(group[group["allocator"] == label].set_index("round")["value"], metric)
            for corner, label in corners.labels.items()
        }
        for corner, values in series.items():
            if len(values):
                rows.append(_value_row(workload, corner, values))
        for name, (measured, against) in COMPARISONS.items():
            ratio = log_ratio(series[against], series[measured])
            if ratio is not None:
                ratios[name].append(ratio)
                rows.append(_comparison_row(workload, name, percent_row(ratio, method)))
    for name, found in ratios.items():
        if found:
            rows.append(_comparison_row(GEOMETRIC, name, percent_row(mean_of(found), method)))
            rows.append(_comparison_row(ARITHMETIC, name, arithmetic_row(found, method)))
    columns = ["workload", "column", "value", "low", "high", "repetitions", "supported", "reason"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"value": float, "low": float, "high": float, "supported": object})


def _value_row(workload: str, corner: str, values: pd.Series) -> dict:
    about = {"low": float("nan"), "high": float("nan"), "repetitions": len(values), "supported": None, "reason": ""}
    return {"workload": workload, "column": corner, "value": values.mean()} | about


def _comparison_row(workload: str, name: str, row: dict) -> dict:
    row = dict(row)
    return {"workload": workload, "column": name, "value": row.pop("percent")} | row


METRICS = (
    "total_instructions", "total_cycles", "calls/malloc", "calls/calloc", "calls/realloc", "calls/free", "peak_rss",
    "mean_rss",
)  # fmt: skip
COLUMNS = (
    "workload", "allocator", "tunable", "value", "figure", "unit", "mean", "mean_low", "mean_high", "percent", "low",
    "high", "repetitions", "supported", "reason",
)  # fmt: skip
_SETTING = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)[=:](-?[0-9]+(?:\.[0-9]+)?)(?![\w.])")


def settings_of(label: str) -> dict[str, float]:
    """The numbers that `name:variant` sets, by the tunable's name.

    `glibc:tcache_count=4` and `glibc:GLIBC_TUNABLES=glibc.malloc.tcache_count=4` both set tcache_count to 4.
    """
    return {name.rpartition(".")[2]: float(value) for name, value in _SETTING.findall(label.partition(":")[2])}


def tunables_in(files: Sequence[Results]) -> list[str]:
    """The tunables that have at least two values on one curve, in the order of the results."""
    values: dict[tuple[str, str], set[float]] = {}
    for file in files:
        for label in file.labels:
            for name, value in settings_of(label).items():
                values.setdefault((name, curve(label, name)), set()).add(value)
    return list(dict.fromkeys(name for (name, _), found in values.items() if len(found) > 1))


def curve(label: str, tunable: str) -> str:
    """The label without this tunable's setting: what all points of one curve share."""
    base, _, variant = label.partition(":")
    pattern = re.compile(rf"(?<![\w.])(?:[\w.]+\.)?{re.escape(tunable)}[=:]-?[0-9]+(?:\.[0-9]+)?(?![\w.])")
    rest = re.sub(r"^[ :,]+|[ :,]+$", "", pattern.sub("", variant))
    rest = "" if re.fullmatch(r"[A-Z_][A-Z0-9_]*=", rest) else rest  # a variable whose only setting it was
    return f"{base}:{rest}" if rest else base


def choose_tunable(files: Sequence[Results], wanted: str | None) -> str:
    """`wanted`, or the only tunable that was swept. Raises HeaptapeError if there is no such tunable."""
    known = tunables_in(files)
    if not known:
        raise HeaptapeError(
            "no tunable was swept: needs at least two runs that differ in one, such as 'reference:tcache_count=0..16/4'"
        )
    if wanted is None and len(known) > 1:
        raise HeaptapeError(f"several tunables were swept, which one? --tunable {' or --tunable '.join(known)}")
    if wanted is not None and wanted not in known:
        raise HeaptapeError(f"tunable '{wanted}' was not swept: the results have {', '.join(known)}")
    return wanted or known[0]


def sweep(
    files: Sequence[Results], tunable: str, metrics: Sequence[str] = METRICS, method: Method = "t"
) -> pd.DataFrame:
    """One row per point: (workload, curve, value of the tunable, figure), in order of value.

    Columns: workload; allocator: the curve's label, without the tunable; tunable; value; figure: a metric of
    `schema.figures`; unit; mean over the repetitions, mean_low and mean_high: its 95 % interval (Student's t of
    the plain values; the mean itself where all are the same, NaN with one repetition); percent, low, high, repetitions,
    supported, reason: against the curve's lowest value, as `compare.relative` (100 and NaN at that
    value itself). A run
    of the curve's label that doesn't set the tunable has value NaN, and comes first.
    """
    table = figures(files)
    table = table[table["metric"].isin(metrics)]
    points = {label: (curve(label, tunable), settings_of(label).get(tunable)) for label in allocator_order(files)}
    swept = {name for name, value in points.values() if value is not None}
    rows = []
    for (workload, metric, unit), group in table.groupby(["workload", "metric", "unit"], sort=False):
        series = {
            label: steadied(values.set_index("round")["value"], metric)
            for label, values in group.groupby("allocator", sort=False)
        }
        for name in dict.fromkeys(points[label][0] for label in points if label in series):
            if name in swept:
                about = {"workload": workload, "allocator": name, "tunable": tunable, "figure": metric, "unit": unit}
                here = {points[label][1]: values for label, values in series.items() if points[label][0] == name}
                rows += [about | row for row in _curve_rows(here, method)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"value": float, "supported": object})


def _curve_rows(points: dict[float | None, pd.Series], method: Method) -> list[dict]:
    known = sorted(value for value in points if value is not None)
    if not known:
        return []
    first = points[known[0]]
    rows = []
    for value in [*([None] if None in points else []), *known]:
        values = points[value]
        row: dict[str, Any] = {"value": float("nan") if value is None else value} | _mean(values.to_numpy(float))
        ratio = log_ratio(first, values)
        if value == known[0] or ratio is None:
            percent = 100.0 if value == known[0] else float("nan")
            row |= {"percent": percent, "low": float("nan"), "high": float("nan"), "supported": None}
            row |= {"reason": ""}
        else:
            row |= percent_row(ratio, method)
        rows.append(row | {"repetitions": len(values)})
    return rows


def _mean(values: np.ndarray) -> dict[str, float]:
    mean = float(values.mean())
    if len(values) < 2:
        return {"mean": mean, "mean_low": float("nan"), "mean_high": float("nan")}
    half = 0.0
    if np.ptp(values) > 0:
        student = scipy.special.stdtrit(len(values) - 1, (1 + LEVEL) / 2)
        half = float(student * values.std(ddof=1) / np.sqrt(len(values)))
    return {"mean": mean, "mean_low": mean - half, "mean_high": mean + half}
