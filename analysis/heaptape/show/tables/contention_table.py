# SPDX-License-Identifier: MIT
"""The table `contention`: waits of threads inside calls, by allocator, lock and call."""

from collections.abc import Sequence

import pandas as pd

from heaptape.results import contention
from heaptape.results.schema import Results
from heaptape.show.tables.usual import MISSING, Cell, Table, by_workload, in_unit, rounded

LOCKS_SHOWN = 5  # of each allocator
CALLS_SHOWN = 5
NOTES = [
    "Waits that threads begin within a call: for a lock (futex), or by sched_yield and sleeping. Slept: without waits "
    "that the kernel refused, as the lock had just been released. From–to: least and most of the repetitions. "
    "Switches: voluntary context switches within calls; those beyond slept are waits in the kernel (page faults, the "
    "lock of the address space). Locks: those that threads waited for.",
    "Waits of threads that spin without a system call are not seen: that time is in the calls themselves (ns per call, "
    "of the pass time), and our own allocators count contended acquisitions.",
]


def tables(found: pd.DataFrame) -> list[Table]:
    """From `contention.frame`, per workload: allocators, their locks with most waiting, their calls. Empty if no run
    had the pass.
    """
    return [table for _, here, suffix in by_workload(found) for table in (_whole(here, suffix), *_parts(here, suffix))]


def usual(files: Sequence[Results]) -> list[Table]:
    """Only the first table of each workload."""
    return [_whole(here, suffix) for _, here, suffix in by_workload(contention.frame(files))]


def words(sentences: Sequence[str]) -> list[Table]:
    """Only the sentences; no table if there are none."""
    return [Table("Waits inside calls, in words", [], [], list(sentences))] if sentences else []


def _whole(here: pd.DataFrame, suffix: str) -> Table:
    whole = here[here["by"] == "all"]
    locks = here[here["by"] == "lock"]["allocator"].value_counts()
    counted, timed = bool(whole["locks_taken"].notna().any()), bool(whole["call_ns"].notna().any())
    columns = ["allocator", "waits", "slept", "ms", "% of thread time", "from–to", "switches"]
    columns += ["locks taken", "contended"] * counted + ["ns per call"] * timed + ["locks"]
    rows = []
    for row in whole.to_dict("records"):
        cells = [Cell(row["allocator"]), _number(row["waits"]), _number(row["slept"]), _number(row["wait_ns"], 1e6)]
        cells += [_number(row["percent"]), _ends(row), _number(row["voluntary_switches"])]
        cells += [_number(row[key]) for key in ("locks_taken", "locks_contended")] * counted
        cells += [_number(row["call_ns"])] * timed
        rows.append([*cells, _number(int(locks.get(row["allocator"], 0)))])
    seeing = whole["seeing_percent"].max()
    cost = f" Seeing them took up to {rounded(seeing)} % of thread time." if seeing > 0 else ""
    often = int(whole["repetitions"].max())
    means = f" Means of {often} repetitions." if often > 1 else ""
    notes = [f"{NOTES[0]}{cost}{means}", *NOTES[1:]]
    return Table(f"Waits inside calls{suffix}", columns, rows, [*contention.sentences_of(here), *notes])


def _ends(row: dict) -> Cell:
    once = row["repetitions"] < 2 or pd.isna(row["percent"])
    return Cell(MISSING if once else f"{rounded(row['percent_low'])}–{rounded(row['percent_high'])}")


def _parts(here: pd.DataFrame, suffix: str) -> list[Table]:
    columns = ["waits", "slept", "ms", "longest, ms"]
    locks, calls = [], []
    for label in dict.fromkeys(here["allocator"]):
        mine = here[here["allocator"] == label].sort_values("wait_ns", ascending=False, kind="stable")
        locks += [_part(row, [row["name"]]) for row in _records(mine, "lock", LOCKS_SHOWN)]
        for row in _records(mine, "call", CALLS_SHOWN):
            calls.append(_part(row, [row["name"], "all"]))
            sizes = mine[mine["call"] == row["name"]]
            calls += [_part(size, [row["name"], size["name"]]) for size in _records(sizes, "size", CALLS_SHOWN)]
    out = []
    if locks:
        note = f"For each allocator the {LOCKS_SHOWN} with most waiting; a lock without a symbol is named by its place."
        out.append(Table(f"Locks waited for{suffix}", ["allocator", "lock", *columns], locks, [note], 2))
    if calls:
        note = f"For each allocator the {CALLS_SHOWN} calls with most waiting, and as many size classes of each."
        table = Table(f"Calls that wait{suffix}", ["allocator", "call", "bytes up to", *columns], calls, [note], 3)
        out.append(table)
    return out


def _records(frame: pd.DataFrame, by: str, most: int) -> list[dict]:
    return frame[frame["by"] == by].head(most).to_dict("records")


def _part(row: dict, names: list[str]) -> list[Cell]:
    cells = [_number(row[key]) for key in ("waits", "slept")]
    cells += [_number(row[key], 1e6) for key in ("wait_ns", "max_ns")]
    return [Cell(row["allocator"]), *map(Cell, names), *cells]


def _number(value: float, unit: float = 1.0) -> Cell:
    whole = unit == 1.0 and value is not None and float(value).is_integer()
    return Cell(f"{value:,.0f}", value) if whole else in_unit(value, unit)
