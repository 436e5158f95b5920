"""The four-corner matrix and the RSS overhead as tables for people."""

from collections.abc import Sequence

import pandas as pd

from heaptape.compare import ARITHMETIC, GEOMETRIC
from heaptape.corners import COMPARISONS, CORNERS, Corners, four_corners, overhead
from heaptape.results_file import Results, figures
from heaptape.tables import LEGEND, MIB, MISSING, Cell, Table, percent_cell, rounded

# metric -> (title, unit shown, divisor)
METRICS = {
    "total_cycles": ("Total cycles", "M", 1e6),
    "calls/malloc": ("malloc", "mean cycles", 1),
    "calls/calloc": ("calloc", "mean cycles", 1),
    "calls/realloc": ("realloc", "mean cycles", 1),
    "calls/free": ("free", "mean cycles", 1),
    "peak_rss": ("Peak RSS", "MiB", MIB),
}


def corner_tables(files: Sequence[Results], corners: Corners) -> list[Table]:
    """One matrix per metric of METRICS that the results have, then RSS overhead."""
    table = figures(files)
    found = [_matrix(four_corners(table, metric, corners), metric, corners) for metric in METRICS]
    tables = [t for t in [*found, _overhead(overhead(table, corners), corners)] if t.rows]
    return [Table(t.title, t.columns, t.rows, t.notes if t is tables[-1] else []) for t in tables]


def _matrix(frame: pd.DataFrame, metric: str, corners: Corners) -> Table:
    name, unit, divisor = METRICS[metric]
    cells = {}
    for row in frame.rename(columns={"value": "percent"}).itertuples():
        is_value = row.column in CORNERS
        cell = Cell(rounded(row.percent / divisor), row.percent) if is_value else percent_cell(row)
        cells[row.workload, row.column] = cell
    columns = [*CORNERS, *COMPARISONS]
    rows = []
    for workload in dict.fromkeys(frame["workload"]):
        if workload in (GEOMETRIC, ARITHMETIC) and frame["workload"].nunique() == 3:
            continue  # the mean of one workload is itself
        rows.append([Cell(workload), *[cells.get((workload, column), _blank(workload, column)) for column in columns]])
    return Table(f"{name}, {unit}: {_named(corners)}", ["workload", *columns], rows, [_legend(), LEGEND])


def _overhead(frame: pd.DataFrame, corners: Corners) -> Table:
    rows = []
    for workload, values in frame.iterrows():
        rows.append([Cell(str(workload)), *[_overhead_cell(name, value) for name, value in values.items()]])
    return Table(f"RSS overhead, MiB: {_named(corners)}", ["workload", *frame.columns], rows, [_legend(), LEGEND])


def _overhead_cell(name: str, value: float) -> Cell:
    if pd.isna(value):
        return Cell(MISSING)
    return Cell(f"{value:,.1f}" if "%" in name else rounded(value / MIB), value)


def _blank(workload: str, column: str) -> Cell:
    return Cell("" if workload in (GEOMETRIC, ARITHMETIC) and column in CORNERS else MISSING)


def _named(corners: Corners) -> str:
    return f"A = {corners.a}, B = {corners.b}"


def _legend() -> str:
    return "A+ and B+: % of Neither; A:B+: Both in % of A; B:A+: Both in % of B; OH = RSS - ideal, in % of Neither's."
