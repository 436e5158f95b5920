# SPDX-License-Identifier: MIT
"""Tables of the latency of single calls."""

import math
from dataclasses import replace

import pandas as pd

from heaptape.common.phrases import capacity
from heaptape.common.tables import Cell, Table
from heaptape.passes import PassTable
from heaptape.results.cells import grouped
from heaptape.results.schema import latencies

NAMES = {
    "count": "calls", "mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9", "max": "max",
}  # fmt: skip


def tables(frame: pd.DataFrame) -> list[Table]:
    """`latencies`: one table per workload and call type; a row per size class and allocator."""
    tables = []
    several = frame["workload"].nunique() > 1
    calls = frame[frame["up_to_bytes"].isna()].groupby(["workload", "call"], sort=False)["count"].max()
    order = calls.sort_values(ascending=False, kind="stable").index
    groups = dict(list(frame.groupby(["workload", "call"], sort=False)))
    for workload in dict.fromkeys(frame["workload"]):
        for key in [key for key in order if key[0] == workload]:
            here = groups[key].assign(_rank=groups[key]["up_to_bytes"].fillna(-1.0))
            rows = []
            for row in here.sort_values("_rank", kind="stable").to_dict("records"):
                figures = [grouped(row[figure]) for figure in NAMES]
                rows.append([Cell(size_class(row["up_to_bytes"])), Cell(row["allocator"]), *figures])
            title = f"Latency of {key[1]}, cycles{f' — {workload}' if several else ''}"
            tables.append(Table(title, ["request", "allocator", *NAMES.values()], rows, [], 2))
    if tables:
        note = "Percentiles are medians over the repetitions; max: the largest seen. A release has its request's size."
        tables[-1] = replace(tables[-1], notes=[note])
    return tables


def size_class(up_to_bytes: float) -> str:
    if math.isnan(up_to_bytes):
        return "all sizes"
    if math.isinf(up_to_bytes):
        return "larger"
    return "0 bytes" if up_to_bytes == 0 else f"up to {capacity(int(up_to_bytes))}"


TABLE = PassTable(lambda files, _: latencies(files), lambda frame, _: tables(frame))
