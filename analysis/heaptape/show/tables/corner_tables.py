# SPDX-License-Identifier: MIT
"""The four-corner matrix and the RSS overhead as tables for people."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from heaptape.common.tables import MIB, MISSING, Cell, Table, rounded
from heaptape.results.cells import in_unit, with_margin
from heaptape.results.comparing.compare import ARITHMETIC, GEOMETRIC
from heaptape.results.comparing.intervals import Method
from heaptape.results.comparing.variants import COMPARISONS, CORNERS, Corners
from heaptape.results.schema import Results
from heaptape.show.tables.frames import MARGIN, corner_matrix, rss_overhead
from heaptape.show.tables.usual import legend, percent_cell

# figure -> (title, unit shown, divisor)
SHOWN = {
    "total_instructions": ("Total instructions", "M", 1e6),
    "total_cycles": ("Total cycles", "M", 1e6),
    "malloc_mean_cycles": ("malloc", "mean cycles", 1),
    "calloc_mean_cycles": ("calloc", "mean cycles", 1),
    "realloc_mean_cycles": ("realloc", "mean cycles", 1),
    "free_mean_cycles": ("free", "mean cycles", 1),
    "rss_peak_bytes": ("Peak RSS", "MiB", MIB),
}
MEANS = (GEOMETRIC, ARITHMETIC)


def corner_tables(files: Sequence[Results], corners: Corners, method: Method = "t") -> list[Table]:
    """One matrix per figure of SHOWN that the results have, then RSS overhead."""
    matrices = matrix_tables(corner_matrix(files, corners, method), corners)
    return matrices + overhead_tables(rss_overhead(files, corners.labels), corners.labels, bool(matrices))


def matrix_tables(frame: pd.DataFrame, corners: Corners) -> list[Table]:
    """`frames.corner_matrix`, one table per figure, with a legend below the last."""
    tables = [_matrix(frame[frame["figure"] == figure], figure, corners) for figure in SHOWN]
    found = [table for table in tables if table.rows]
    notes = ["A+ and B+: % of Neither; A:B+: Both in % of A; B:A+: Both in % of B.", *legend(found)]
    return [replace(table, notes=notes if table is found[-1] else []) for table in found]


def overhead_tables(frame: pd.DataFrame, variants: dict[str, str], named_above: bool = False) -> list[Table]:
    """`frames.rss_overhead` with a row per workload: Ideal, then for each variant RSS, OH, OH % of the first
    variant's and OH % of ideal. With more than four variants: a row per workload and variant.
    """
    if frame.empty:
        return []
    first = next(iter(variants))
    named = "" if named_above or list(variants) == list(variants.values()) else f": {_variants(variants)}"
    title = f"RSS overhead, MiB{named}"
    notes = [f"OH: peak RSS less ideal RSS (the peak of live bytes); %: of {first}'s OH."]
    if len(variants) > len(CORNERS):
        return [Table(title, *_overhead_long(frame, first), notes, 2)]
    return [Table(title, *_overhead_wide(frame, list(variants)), notes)]


def _overhead_wide(frame: pd.DataFrame, names: list[str]) -> tuple[list[str], list[list[Cell]]]:
    seen = {(row["workload"], row["variant"]): row for row in frame.to_dict("records")}
    columns = ["workload", "Ideal", *[f"RSS {n}" for n in names], *[f"OH {n}" for n in names]]
    columns += [*[f"OH {n} %" for n in names[1:]], *[f"OH {n} % of ideal" for n in names]]
    rows = []
    for workload in dict.fromkeys(frame["workload"]):
        here = [seen.get((workload, name), {}) for name in names]
        is_mean = workload in MEANS
        ideal = next((row["ideal_bytes"] for row in here if row), float("nan"))
        cells = [Cell(workload), _mib(ideal, is_mean)]
        cells += [_with_margin(row, key) for key in ("rss_bytes", "overhead_bytes") for row in here]
        cells += [_share(row.get("overhead_percent")) for row in here[1:]]
        cells += [_share(row.get("overhead_percent_of_ideal")) for row in here]
        rows.append(cells)
    return columns, rows


def _overhead_long(frame: pd.DataFrame, first: str) -> tuple[list[str], list[list[Cell]]]:
    columns = ["workload", "variant", "Ideal", "RSS", "OH", f"RSS, % of {first}", f"OH, % of {first}", "OH, % of ideal"]
    rows = []
    for row in frame.to_dict("records"):
        cells = [Cell(row["workload"]), Cell(row["variant"])]
        cells += [_mib(row["ideal_bytes"], row["workload"] in MEANS)]
        cells += [_with_margin(row, key) for key in ("rss_bytes", "overhead_bytes")]
        cells += [_share(row[key]) for key in ("rss_percent", "overhead_percent", "overhead_percent_of_ideal")]
        rows.append(cells)
    return columns, rows


def _matrix(frame: pd.DataFrame, figure: str, corners: Corners) -> Table:
    name, unit, divisor = SHOWN[figure]
    cells = {}
    for row in frame.rename(columns={"value": "percent"}).itertuples():
        is_value = row.column in CORNERS
        value = with_margin(Cell(rounded(row.percent / divisor), row.percent), row.margin_percent)
        cell = value if is_value else percent_cell(row)
        cells[row.workload, row.column] = cell
    columns = [*CORNERS, *COMPARISONS]
    rows = []
    for workload in dict.fromkeys(frame["workload"]):
        if workload in MEANS and frame["workload"].nunique() == 3:
            continue  # the mean of one workload is itself
        rows.append([Cell(workload), *[cells.get((workload, column), _blank(workload, column)) for column in columns]])
    return Table(f"{name}, {unit}: A = {corners.a}, B = {corners.b}", ["workload", *columns], rows)


def _mib(value: float | None, is_mean: bool) -> Cell:
    cell = in_unit(value, MIB)
    return Cell("") if is_mean and cell.value is None else cell


def _with_margin(row: Mapping, key: str) -> Cell:
    """RSS or overhead of one row, with the margin of its RSS if the workload stands for another."""
    value = row.get(key)
    cell = _mib(value, row.get("workload") in MEANS)
    percent = row.get(f"rss_bytes{MARGIN}", 0.0)
    return with_margin(cell, percent * row["rss_bytes"] / abs(value)) if percent and value else cell


def _share(value: float | None) -> Cell:
    return Cell(MISSING) if value is None or pd.isna(value) else Cell(f"{value:,.1f}", value)


def _blank(workload: str, column: str) -> Cell:
    return Cell("" if workload in MEANS and column in CORNERS else MISSING)


def _variants(variants: dict[str, str]) -> str:
    return ", ".join(f"{name} = {label}" for name, label in variants.items())
