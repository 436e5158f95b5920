# SPDX-License-Identifier: MIT
"""The pass `misses`: simulated misses, page faults and instructions, in all, the program's, the allocator's; of
recordings in bursts (record --accesses --burst), how much of the program they are about.
"""

from collections.abc import Sequence

import pandas as pd

from heaptape.common.phrases import capacity
from heaptape.common.tables import MISSING, Cell, Table
from heaptape.passes import PassTable
from heaptape.results.cells import by_workload, in_unit
from heaptape.results.comparing.compare import allocator_order
from heaptape.results.model.counts import bursts_in_words
from heaptape.results.schema import Results, figures

NOTE = (
    "The program's recorded data accesses and the allocator's own, simulated: each outer cache as if it were the only "
    "one behind the first. Counts: other processes don't disturb them. First-level misses also depend on where the "
    "program's stack and globals are."
)
BURSTS_NOTE = (
    "Only of {}, and without a burst's first access to each line and OS page: whether these missed is not known, as "
    "earlier accesses were not recorded. Page faults: of OS pages that were mapped in the burst."
)
SIDES = ("all", "program", "allocator")
PAGE_FAULTS = "page_faults"
SHARES_NOTE = "program, allocator: their shares of the same whole, so that they add up to the allocator's first row."


def frame(files: Sequence[Results], baseline: str) -> pd.DataFrame:
    """Columns workload, allocator (label), side (all, program, allocator), count (`Misses.figures`), value (mean over
    the repetitions), percent (of the baseline's value of side `all`; NaN if it has none)
    and bursts (the part of the program that was counted, in words; empty if it is the whole program).
    """
    table = figures(files)
    found = table[table["metric"].str.startswith("misses/")]
    parts = found["metric"].str.split("/", expand=True).reindex(columns=range(3))
    found = found.assign(side=parts[1], count=parts[2])
    keys = ["workload", "allocator", "side", "count"]
    rank = {label: number for number, label in enumerate(allocator_order(files))}
    found = found.sort_values("allocator", key=lambda labels: labels.map(rank), kind="stable")
    means = found.groupby(keys, sort=False)["value"].mean().reset_index()
    whole = means[(means["allocator"] == baseline) & (means["side"] == "all")]
    whole = whole.rename(columns={"value": "whole"})[["workload", "count", "whole"]]
    joined = means.merge(whole, on=["workload", "count"], how="left")
    percent = 100 * joined["value"] / joined["whole"].where(joined["whole"] > 0)
    part = joined["workload"].map(bursts_in_words(files)).astype(object).fillna("").astype(str)
    return joined.assign(percent=percent, bursts=part)[[*keys, "value", "percent", "bursts"]]


def tables(found: pd.DataFrame, baseline: str) -> list[Table]:
    """From `frame`, per workload: counts in thousands, and percentages of the baseline if there is something to
    compare. Empty if no run had the pass.
    """
    out = []
    for _, here, suffix in by_workload(found):
        counts = sorted(here["count"].unique(), key=place)
        columns = ["allocator", *map(heading, counts)]
        cells = here.set_index(["allocator", "side", "count"])
        labels = list(dict.fromkeys(here["allocator"]))
        rows = [[Cell(label), *(_thousands(cells, (label, "all", count)) for count in counts)] for label in labels]
        part = str(here["bursts"].iloc[0])
        notes = [NOTE, BURSTS_NOTE.format(part)] if part else [NOTE]
        out.append(Table(f"Simulated misses, thousands{suffix}", columns, rows, notes))
        if len(labels) > 1 and baseline in labels:
            shares = [_share(cells, label, side, counts) for label in labels for side in SIDES]
            out.append(Table(f"Simulated misses, % of {baseline}{suffix}", columns, shares, [SHARES_NOTE]))
    return out


def _thousands(cells: pd.DataFrame, key: tuple[str, str, str]) -> Cell:
    return in_unit(_value(cells, key, "value"), 1000)


def _share(cells: pd.DataFrame, label: str, side: str, counts: list[str]) -> list[Cell]:
    row = [Cell(label if side == "all" else f"  {side}")]
    for count in counts:
        percent = _value(cells, (label, side, count), "percent")
        row.append(Cell(MISSING) if percent is None else Cell(f"{percent:,.1f}", percent, side != "all"))
    return row


def _value(cells: pd.DataFrame, key: tuple[str, str, str], column: str) -> float | None:
    if key not in cells.index:
        return None
    value = float(cells.at[key, column])
    return None if pd.isna(value) else value


def place(count: str) -> tuple[int, int]:
    """Sort key of a count: caches and TLBs by size, page faults, instructions."""
    kind, _, size = count.rpartition("_")
    order = ("cache", "tlb")
    return (order.index(kind), int(size)) if kind in order else (2 + (count != PAGE_FAULTS), 0)


def heading(count: str) -> str:
    """The heading of a table's column: "256 KiB", "TLB 64", "page faults"."""
    kind, _, size = count.rpartition("_")
    if kind == "tlb":
        return f"TLB {int(size):,}"
    if kind != "cache":
        return count.replace("_", " ")
    return capacity(int(size))


TABLE = PassTable(frame, tables, lambda files, baseline: tables(frame(files, baseline), baseline), counted=True)
