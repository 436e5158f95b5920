# SPDX-License-Identifier: MIT
"""The tables of a comparison, each from one function: results in, DataFrame out.

Figures are as measured: cycles, bytes, calls; NaN: missing. views.py makes tables for people of these.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from heaptape.results import margins
from heaptape.results.comparing.compare import (
    ARITHMETIC,
    GEOMETRIC,
    MAIN_CALLS,
    absolute,
    allocator_order,
    relative,
    repetitions,
)
from heaptape.results.comparing.intervals import Method
from heaptape.results.comparing.variants import Corners, four_corners
from heaptape.results.schema import SYSTEM_CALLS, Results, figures

# metric -> column of `cost`, in order
COST = (
    {"total_instructions": "total_instructions", "total_cycles": "total_cycles"}
    | {f"calls/{call}": f"{call}_mean_cycles" for call in MAIN_CALLS}
    | {"peak_rss": "rss_peak_bytes"}
)
SYSTEM = (
    {f"syscalls/{name}": f"{name}_calls" for name in SYSTEM_CALLS}
    | {f"syscall_bytes/{name}": f"{name}_bytes" for name in SYSTEM_CALLS}
    | {"vm_size": "vm_size_peak_bytes", "peak_rss": "rss_peak_bytes"}
)


# Suffix of a figure's column for the column of its margin, in tables of workloads that stand for another.
MARGIN = "_margin_percent"


def cost(files: Sequence[Results]) -> pd.DataFrame:
    """What each allocator costs: one row per (workload, allocator).

    Columns: workload, allocator, total_instructions, total_cycles, malloc_mean_cycles, calloc_mean_cycles,
    realloc_mean_cycles, free_mean_cycles, rss_peak_bytes (means over the repetitions), repetitions (of the
    total; 0: there is none). If a workload stands for another: FIGURE_margin_percent for each of them as well
    (`schema.figures`).
    """
    table = figures(files)
    frame = _wide(table, COST)
    counts = repetitions(table).reindex(columns=["total_cycles"], fill_value=0)
    return _in_order(frame.assign(repetitions=counts["total_cycles"].to_numpy()), files)


def percent(files: Sequence[Results], baseline: str, method: Method = "t") -> pd.DataFrame:
    """The figures of `cost` as percentages of the baseline's, with 95 % intervals and their means over workloads.

    Columns: workload ("geometric mean" and "arithmetic mean" in the last rows), allocator, figure (a column of `cost`),
    percent, low, high, repetitions, supported, reason, margin_percent, exact: as `compare.relative`.
    """
    table = figures(files)
    found = relative(table[table["metric"].isin(COST)], baseline, method)
    found["metric"] = found["metric"].map(COST)
    return _in_order(found.rename(columns={"metric": "figure"}), files, ["allocator"])


def corner_matrix(files: Sequence[Results], corners: Corners, method: Method = "t") -> pd.DataFrame:
    """The four-corner matrix of each figure of `cost`: columns as of `corners.four_corners`, with `figure` in front."""
    table = figures(files)
    found = [
        four_corners(table, metric, corners, method).assign(figure=name).astype({"figure": object})
        for metric, name in COST.items()
    ]
    frame = pd.concat([part for part in found if len(part)] or found[:1], ignore_index=True)
    return frame[["figure", *[name for name in frame.columns if name != "figure"]]]


def rss_overhead(files: Sequence[Results], variants: Mapping[str, str]) -> pd.DataFrame:
    """Peak RSS against ideal RSS: one row per (workload, variant).

    `variants`: name -> label of the results; all are relative to the first ("neither" of four corners,
    the baseline otherwise). Columns: workload, variant, ideal_bytes (the program's peak of live
    bytes), rss_bytes, overhead_bytes = rss - ideal, rss_percent and overhead_percent (of the first variant's; NaN
    where that overhead is not positive), overhead_percent_of_ideal. Then, if there are several workloads, rows of
    "geometric mean" (of rss_percent and, if all are positive, overhead_percent) and "arithmetic mean". Margins as in
    `cost`.
    """
    table = figures(files)
    values = absolute(table).reindex(columns=["ideal_rss", "peak_rss"])
    rows = []
    for workload in dict.fromkeys(values.index.get_level_values("workload")):
        here = values.xs(workload)
        ideals = here["ideal_rss"].dropna()
        if len(ideals):
            rows += _overhead_rows(workload, float(ideals.iloc[0]), here["peak_rss"], variants)
    columns = ["workload", "variant", "ideal_bytes", "rss_bytes", "overhead_bytes", *OVERHEAD_PERCENTS]
    frame = _with_margins(pd.DataFrame(rows, columns=columns), table, {"peak_rss": "rss_bytes"})
    if frame["workload"].nunique() > 1:
        frame = pd.concat([frame, _overhead_means(frame, variants)], ignore_index=True)
    return frame


OVERHEAD_PERCENTS = ("rss_percent", "overhead_percent", "overhead_percent_of_ideal")


def system(files: Sequence[Results]) -> pd.DataFrame:
    """The allocator's system calls and its memory: one row per (workload, allocator).

    Columns: workload, allocator, then for mmap, munmap, mremap, madvise and brk: NAME_calls and NAME_bytes (of brk: by
    how much it moved, up or down); vm_size_peak_bytes, rss_peak_bytes. Means over the repetitions. Margins as in
    `cost`.
    """
    return _in_order(_wide(figures(files), SYSTEM), files)


def _in_order(
    frame: pd.DataFrame, files: Sequence[Results], by: Sequence[str] = ("workload", "allocator")
) -> pd.DataFrame:
    """Sorted by those columns: workloads in their order, allocators as they were chosen (runs are in random order)."""
    ranks = {
        "workload": {name: rank for rank, name in enumerate(dict.fromkeys(frame["workload"]))},
        "allocator": {name: rank for rank, name in enumerate(allocator_order(files))},
    }
    keys = pd.DataFrame({column: frame[column].map(ranks[column]) for column in by})
    return frame.loc[keys.sort_values(list(by), kind="stable").index].reset_index(drop=True)


def _wide(table: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    wide = absolute(table).reindex(columns=list(names)).rename(columns=dict(names)).reset_index()
    return _with_margins(wide, table, names)


def _with_margins(wide: pd.DataFrame, table: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Adds a column of margins for each column that has any. `names`: metric -> its column."""
    found = margins.by_figure(table)
    for metric, column in names.items():
        if any(name == metric for _, name in found):
            of_rows = [found.get((workload, metric), 0.0) for workload in wide["workload"]]
            wide = wide.assign(**{f"{column}{MARGIN}": of_rows})
    return wide


def _overhead_rows(workload: str, ideal: float, peaks: pd.Series, variants: Mapping[str, str]) -> list[dict]:
    first = peaks.get(next(iter(variants.values())), float("nan"))
    rows = []
    for name, label in variants.items():
        rss = peaks.get(label, float("nan"))
        if pd.isna(rss):
            continue
        row = {"workload": workload, "variant": name, "ideal_bytes": ideal, "rss_bytes": rss}
        row |= {"overhead_bytes": rss - ideal, "rss_percent": 100 * rss / first if first > 0 else float("nan")}
        row["overhead_percent"] = 100 * (rss - ideal) / (first - ideal) if first > ideal else float("nan")
        row["overhead_percent_of_ideal"] = 100 * (rss - ideal) / ideal if ideal > 0 else float("nan")
        rows.append(row)
    return rows


def _overhead_means(frame: pd.DataFrame, variants: Mapping[str, str]) -> pd.DataFrame:
    means = []
    for kind in (GEOMETRIC, ARITHMETIC):
        for name in variants:
            here = frame.loc[frame["variant"] == name, list(OVERHEAD_PERCENTS)]
            if len(here):
                row = here.mean() if kind == ARITHMETIC else here.apply(_geometric)
                means.append({"workload": kind, "variant": name} | row.to_dict())
    return pd.DataFrame(means, columns=frame.columns)


def _geometric(values: pd.Series) -> float:
    """The geometric mean; NaN unless all known values are positive."""
    known = values.dropna()
    return float(np.exp(np.log(known).mean())) if len(known) and (known > 0).all() else float("nan")
