# SPDX-License-Identifier: MIT
"""The DataFrames of frames.py, latency.py, variants.py and verdicts.py as tables for people: rounded, in MiB."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd

from heaptape.common.tables import MIB, MISSING, Cell, Table
from heaptape.results.cells import grouped, in_unit, with_margin
from heaptape.results.comparing.compare import ARITHMETIC, GEOMETRIC, MAIN_CALLS
from heaptape.results.comparing.verdicts import paragraphs, wording
from heaptape.results.schema import SYSTEM_CALLS
from heaptape.show.tables.frames import MARGIN
from heaptape.show.tables.usual import NOISY, legend, percent_cell

COST_NAMES = (
    {"total_instructions": "instructions", "total_cycles": "Total"}
    | {f"{call}_mean_cycles": call for call in MAIN_CALLS}
    | {"rss_peak_bytes": "peak RSS"}
)


def cost_table(frame: pd.DataFrame) -> list[Table]:
    """`frames.cost`: cycles in millions, means of calls in cycles, RSS in MiB."""
    units = {
        "total_instructions": "instructions, M",
        "total_cycles": "Total, M cycles",
        "rss_peak_bytes": "peak RSS, MiB",
    }
    columns = {key: (units.get(key, name), _cost_cell(key)) for key, name in COST_NAMES.items()}
    counts = sorted(set(frame["repetitions"])) or [0]
    often = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    note = f"malloc, calloc, realloc, free: mean cycles per call. Means of {often} repetitions."
    return _by_workload("Cost of each allocator", frame, columns, [note])


def percent_table(frame: pd.DataFrame, baseline: str) -> list[Table]:
    """`frames.percent`: allocator by allocator, a row per workload, then the means."""
    cells = {(row.workload, row.allocator, row.figure): percent_cell(row) for row in frame.itertuples()}
    present = [figure for figure in COST_NAMES if figure in set(frame["figure"])]
    workloads = list(dict.fromkeys(frame["workload"]))
    if len(workloads) == 3:  # one workload and two means of it
        workloads = [name for name in workloads if name not in (GEOMETRIC, ARITHMETIC)]
    rows = []
    for allocator in dict.fromkeys(frame["allocator"]):
        for workload in workloads:
            found = [cells.get((workload, allocator, figure), Cell(MISSING)) for figure in present]
            rows.append([Cell(allocator), Cell(workload), *found])
    columns = ["allocator", "workload", *[COST_NAMES[figure] for figure in present]]
    table = Table(f"Percent of {baseline}", columns, rows, [], 2)
    return [replace(table, notes=legend([table]))] if rows else []


def system_table(frame: pd.DataFrame) -> list[Table]:
    """`frames.system`: calls, then MiB."""
    columns: dict[str, tuple[str, Callable]] = {f"{call}_calls": (call, grouped) for call in SYSTEM_CALLS}
    columns |= {f"{call}_bytes": (f"{call}, MiB", _mib) for call in SYSTEM_CALLS}
    columns |= {"vm_size_peak_bytes": ("VmSize, MiB", _mib), "rss_peak_bytes": ("RSS, MiB", _mib)}
    note = "Bytes of brk: by how much the break moved, up or down. VmSize and RSS: peaks."
    return _by_workload("System calls and bytes, virtual and resident size", frame, columns, [note])


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
        ends = MISSING if pd.isna(row["low"]) else f"{_signed(row['low'])} to {_signed(row['high'])}"
        shown = Cell(NOISY, None, True, reason=row["reason"]) if row["reason"] else None
        change = shown or Cell(_signed(row["percent"]), row["percent"], exact=row["exact"])
        cells += [change, shown or Cell("exact" if row["exact"] else ends)]
        cells += [_number(row["effect"], 1), _number(row["cliffs_delta"], 2), _p_cell(row["p_adjusted"])]
        rows.append([*cells, Cell(row["verdict"])])
    columns = ["workload", "allocators", "figure", "change, %", "95 % interval", "g", "delta", "p", "verdict"]
    notes = ["g: Hedges' g of the paired log ratios; delta: Cliff's, of the repetitions; p: adjusted after Holm."]
    behind = Table("Behind the verdicts", columns, rows, notes, 3)
    return [Table("Verdicts", [], [], paragraphs(frame)), *([behind] if rows else [])]


def _by_workload(
    title: str, frame: pd.DataFrame, columns: dict[str, tuple[str, Callable]], notes: Sequence[str]
) -> list[Table]:
    """One table, a row per workload and allocator, without empty columns."""
    present = {key: shown for key, shown in columns.items() if frame[key].notna().any()}
    several = frame["workload"].nunique() > 1
    rows = []
    for row in frame.to_dict("records"):
        about = [Cell(row["workload"])] * several + [Cell(row["allocator"])]
        cells = [with_margin(cell(row[key]), row.get(f"{key}{MARGIN}", 0.0)) for key, (_, cell) in present.items()]
        rows.append(about + cells)
    names = ["workload"] * several + ["allocator", *[name for name, _ in present.values()]]
    return [Table(title, names, rows, list(notes), 1 + several)] if rows and present else []


def _cost_cell(key: str) -> Callable[[float], Cell]:
    if key == "rss_peak_bytes":
        return _mib
    unit = 1e6 if key in ("total_instructions", "total_cycles") else 1.0
    return lambda value: in_unit(value, unit)


def _mib(value: float) -> Cell:
    return in_unit(value, MIB)


def _number(value: float, digits: int) -> Cell:
    return Cell(f"{value:,.{digits}f}".replace("-", "−"), value) if math.isfinite(value) else Cell(MISSING)


def _p_cell(value: float) -> Cell:
    if pd.isna(value):
        return Cell(MISSING)
    return Cell("<0.0001" if value < 1e-4 else f"{value:.4f}", value)


def _signed(value: float) -> str:
    return MISSING if pd.isna(value) else f"{value:+,.1f}".replace("-", "−")


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
    mean = with_margin(in_unit(row["mean"], divisor), row["margin_percent"])
    if pd.isna(row["percent"]) and not row["reason"]:
        return [mean, Cell(MISSING)]
    percent = Cell("100", 100.0) if pd.isna(row["low"]) and row["percent"] == 100 else percent_cell(row)
    return [mean, percent]
