# SPDX-License-Identifier: MIT
"""The corner matrix and the RSS overhead, each from one function: results in, DataFrame out.

Figures are as measured: cycles, bytes; NaN: missing. corner_tables.py makes tables for people of these.
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
)
from heaptape.results.comparing.intervals import Method
from heaptape.results.comparing.variants import Corners, four_corners
from heaptape.results.schema import Results, figures

# metric -> name in the corner matrix, in order
CORNER_FIGURES = (
    {"total_instructions": "total_instructions", "total_cycles": "total_cycles"}
    | {f"calls/{call}": f"{call}_mean_cycles" for call in MAIN_CALLS}
    | {"peak_rss": "rss_peak_bytes"}
)
# Suffix of a figure's column for the column of its margin, in tables of workloads that stand for another.
MARGIN = "_margin_percent"


def corner_matrix(files: Sequence[Results], corners: Corners, method: Method = "t") -> pd.DataFrame:
    """The matrix of each of CORNER_FIGURES: columns as of `variants.four_corners`, with `figure` in front."""
    table = figures(files)
    found = [
        four_corners(table, metric, corners, method).assign(figure=name).astype({"figure": object})
        for metric, name in CORNER_FIGURES.items()
    ]
    frame = pd.concat([part for part in found if len(part)] or found[:1], ignore_index=True)
    return frame[["figure", *[name for name in frame.columns if name != "figure"]]]


def rss_overhead(files: Sequence[Results], variants: Mapping[str, str]) -> pd.DataFrame:
    """Peak RSS against ideal RSS: one row per (workload, variant).

    `variants`: name -> label of the results; all are relative to the first ("neither" of four corners,
    the baseline otherwise). Columns: workload, variant, ideal_bytes (the program's peak of live
    bytes), rss_bytes, overhead_bytes = rss - ideal, rss_percent and overhead_percent (of the first variant's; NaN
    where that overhead is not positive), overhead_percent_of_ideal. Then, if there are several workloads, rows of
    "geometric mean" (of rss_percent and, if all are positive, overhead_percent) and "arithmetic mean". Where a
    workload stands for another: rss_bytes_margin_percent as well (`schema.figures`).
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
