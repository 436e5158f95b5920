# SPDX-License-Identifier: MIT
"""The corner matrix and the RSS overhead, each from one function: results in, DataFrame out; and as tables for people.

Figures of the DataFrames are as measured: cycles, bytes; NaN: missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from heaptape.common.tables import MIB, MISSING, Cell, Table, rounded
from heaptape.results.cells import in_unit
from heaptape.results.comparing.compare import ARITHMETIC, GEOMETRIC, absolute
from heaptape.results.comparing.intervals import Method
from heaptape.results.comparing.rare_calls import by_call
from heaptape.results.comparing.variants import COMPARISONS, CORNERS, Corners, four_corners
from heaptape.results.schema import Results, figures
from heaptape.show.tables.usual import legend, percent_cell

OF_A_CALL = "_mean_cycles"  # end of a call's figure
OVERHEAD_PERCENTS = ("rss_percent", "overhead_percent", "overhead_percent_of_ideal")
SHOWN: Mapping[str, tuple[str, str, float]] = {
    "total_instructions": ("Total instructions", "M", 1e6),
    "total_cycles": ("Total cycles", "M", 1e6),
    "rss_peak_bytes": ("Peak memory", "MiB", MIB),
}
MEANS = (GEOMETRIC, ARITHMETIC)


def shown(figure: str) -> tuple[str, str, float]:
    """A figure of the corner matrix: title, unit shown, divisor."""
    return SHOWN.get(figure) or (figure.removesuffix(OF_A_CALL), "mean cycles", 1)


def corner_matrix(files: Sequence[Results], corners: Corners, method: Method = "t") -> pd.DataFrame:
    """The matrix of total instructions and cycles, of the cycles of each call of `by_call` and of peak RSS: columns as
    of `variants.four_corners`, with `figure` in front.
    """
    table, calls = by_call(files)
    named = {"total_instructions": "total_instructions", "total_cycles": "total_cycles"}
    named |= {f"calls/{call}": call + OF_A_CALL for call in calls} | {"peak_rss": "rss_peak_bytes"}
    found = [
        four_corners(table, metric, corners, method).assign(figure=name).astype({"figure": object})
        for metric, name in named.items()
    ]
    frame = pd.concat([part for part in found if len(part)] or found[:1], ignore_index=True)
    return frame[["figure", *[name for name in frame.columns if name != "figure"]]]


def rss_overhead(files: Sequence[Results], variants: Mapping[str, str]) -> pd.DataFrame:
    """Peak RSS against ideal RSS: one row per (workload, variant).

    `variants`: name -> label of the results; all are relative to the first ("neither" of four corners,
    the baseline otherwise). Columns: workload, variant, ideal_bytes (the program's peak of live
    bytes), rss_bytes, overhead_bytes = rss - ideal, rss_percent and overhead_percent (of the first variant's; NaN
    where that overhead is not positive), overhead_percent_of_ideal. Then, if there are several workloads, rows of
    "geometric mean" (of rss_percent and, if all are positive, overhead_percent) and "arithmetic mean".
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
    frame = pd.DataFrame(rows, columns=columns)
    if frame["workload"].nunique() > 1:
        frame = pd.concat([frame, _overhead_means(frame, variants)], ignore_index=True)
    return frame


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


def corner_tables(files: Sequence[Results], corners: Corners, method: Method = "t") -> list[Table]:
    """One matrix per figure that the results have, then RSS overhead."""
    matrices = matrix_tables(corner_matrix(files, corners, method), corners)
    return matrices + overhead_tables(rss_overhead(files, corners.labels), corners.labels, bool(matrices))


def matrix_tables(frame: pd.DataFrame, corners: Corners) -> list[Table]:
    """`corner_matrix`, one table per figure, with a legend below the last."""
    tables = [_matrix(frame[frame["figure"] == figure], figure, corners) for figure in dict.fromkeys(frame["figure"])]
    found = [table for table in tables if table.rows]
    notes = ["A+ and B+: % of Neither; A:B+: Both in % of A; B:A+: Both in % of B.", *legend(found)]
    return [replace(table, notes=notes if table is found[-1] else []) for table in found]


def overhead_tables(
    frame: pd.DataFrame, variants: dict[str, str], named_above: bool = False, by_row: bool = False
) -> list[Table]:
    """`rss_overhead` with a row per workload: Ideal, then for each variant RSS, OH, OH % of the first
    variant's and OH % of ideal. With more than four variants, or `by_row`: a row per workload and variant.
    """
    if frame.empty:
        return []
    first = next(iter(variants))
    named = "" if named_above or list(variants) == list(variants.values()) else f": {_variants(variants)}"
    title = f"RSS overhead, MiB{named}"
    notes = [f"OH: peak memory less ideal RSS (the peak of live bytes); %: of {first}'s OH."]
    if by_row or len(variants) > len(CORNERS):
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
        cells += [_bytes(row, key) for key in ("rss_bytes", "overhead_bytes") for row in here]
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
        cells += [_bytes(row, key) for key in ("rss_bytes", "overhead_bytes")]
        cells += [_share(row[key]) for key in ("rss_percent", "overhead_percent", "overhead_percent_of_ideal")]
        rows.append(cells)
    return columns, rows


def _matrix(frame: pd.DataFrame, figure: str, corners: Corners) -> Table:
    name, unit, divisor = shown(figure)
    cells = {}
    for row in frame.rename(columns={"value": "percent"}).itertuples():
        is_value = row.column in CORNERS
        value = Cell(rounded(row.percent / divisor), row.percent)
        cells[row.workload, row.column] = value if is_value else percent_cell(row)
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


def _bytes(row: Mapping, key: str) -> Cell:
    """RSS or overhead of one row."""
    return _mib(row.get(key), row.get("workload") in MEANS)


def _share(value: float | None) -> Cell:
    return Cell(MISSING) if value is None or pd.isna(value) else Cell(f"{value:,.1f}", value)


def _blank(workload: str, column: str) -> Cell:
    return Cell("" if workload in MEANS and column in CORNERS else MISSING)


def _variants(variants: dict[str, str]) -> str:
    return ", ".join(f"{name} = {label}" for name, label in variants.items())
