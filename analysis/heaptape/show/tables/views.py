# SPDX-License-Identifier: MIT
"""The DataFrames of variants.py and verdicts.py as tables for people: rounded, in MiB."""

import math
from dataclasses import replace

import pandas as pd

from heaptape.common.tables import MIB, MISSING, Cell, Table
from heaptape.results.cells import in_unit, typeset
from heaptape.results.comparing.verdicts import paragraphs, wording
from heaptape.show.tables.usual import NOISY, legend, percent_cell


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


def verdict_tables(frame: pd.DataFrame) -> list[Table]:
    """`verdicts.verdicts`: the sentences, then the figures behind them."""
    rows = []
    for row in frame.to_dict("records"):
        cells = [Cell(row["workload"]), Cell(f"{row['a']} / {row['b']}"), Cell(wording(row["figure"]).name)]
        ends = MISSING if pd.isna(row["low"]) else f"{typeset(row['low'])} to {typeset(row['high'])}"
        shown = Cell(NOISY, None, True, reason=row["reason"]) if row["reason"] else None
        change = shown or Cell(typeset(row["percent"]), row["percent"], exact=row["exact"])
        cells += [change, shown or Cell("exact" if row["exact"] else ends)]
        cells += [_number(row["effect"], 1), _number(row["cliffs_delta"], 2), _p_cell(row["p_adjusted"])]
        rows.append([*cells, Cell(row["verdict"])])
    columns = ["workload", "allocators", "figure", "change, %", "95 % interval", "g", "delta", "p", "verdict"]
    notes = ["g: Hedges' g of the paired log ratios; delta: Cliff's, of the repetitions; p: adjusted after Holm."]
    behind = Table("Behind the verdicts", columns, rows, notes, 3)
    return [Table("Verdicts", [], [], paragraphs(frame)), *([behind] if rows else [])]


def _number(value: float, digits: int) -> Cell:
    return Cell(f"{value:,.{digits}f}".replace("-", "−"), value) if math.isfinite(value) else Cell(MISSING)


def _p_cell(value: float) -> Cell:
    if pd.isna(value):
        return Cell(MISSING)
    return Cell("<0.0001" if value < 1e-4 else f"{value:.4f}", value)


def _sweep_name(figure: str) -> str:
    names = {"total_instructions": "instructions, M"} | {
        "total_cycles": "Total, M cycles",
        "peak_rss": "peak memory, MiB",
        "mean_rss": "mean memory, MiB",
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
