# SPDX-License-Identifier: MIT
"""The DataFrames of variants.py as tables for people: rounded, in MiB."""

from dataclasses import replace

import pandas as pd

from heaptape.common.tables import MIB, MISSING, Cell, Table
from heaptape.results.cells import in_unit
from heaptape.show.tables.usual import legend, percent_cell


def sweep_tables(frame: pd.DataFrame) -> list[Table]:
    """`sweeps.sweep`: one table per workload and curve; a row per value of the tunable."""
    tables = []
    several = frame["workload"].nunique() > 1
    for (workload, allocator), here in frame.groupby(["workload", "allocator"], sort=False):
        present = list(dict.fromkeys(here["figure"]))
        tunable = here["tunable"].iloc[0]
        rows = []
        for value in dict.fromkeys(here["value"].astype(object).where(here["value"].notna(), None)):
            at = here[here["value"].isna() if value is None else here["value"] == value].set_index("figure")
            cells = [Cell("default" if value is None else f"{value:g}", value)]
            for figure in present:
                cells += _point_cells(at, figure)
            rows.append(cells)
        names = [name for figure in present for name in (_sweep_name(figure), "%")]
        title = f"{allocator}: {tunable}{f' — {workload}' if several else ''}"
        tables.append(Table(title, ["value", *names], rows))
    if tables:
        lowest = "%: of the figure at the lowest value. "
        first, *more = legend(tables) or [""]
        tables[-1] = replace(tables[-1], notes=[(lowest + first).strip(), *more])
    return tables


def _sweep_name(figure: str) -> str:
    names = {"total_instructions": "instructions, M"} | {
        "total_cycles": "Total, M cycles",
        "peak_rss": "peak RSS, MiB",
        "mean_rss": "mean RSS, MiB",
    }
    return names.get(figure, figure.removeprefix("calls/"))


def _point_cells(at: pd.DataFrame, figure: str) -> list[Cell]:
    if figure not in at.index:
        return [Cell(MISSING), Cell(MISSING)]
    row = at.loc[figure]
    divisor = 1e6 if figure.startswith("total_") else MIB if figure.endswith("_rss") else 1
    mean = in_unit(row["mean"], divisor)
    if pd.isna(row["percent"]) and not row["reason"]:
        return [mean, Cell(MISSING)]
    percent = Cell("100", 100.0) if pd.isna(row["low"]) and row["percent"] == 100 else percent_cell(row)
    return [mean, percent]
