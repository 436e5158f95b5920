# SPDX-License-Identifier: MIT
"""The table `time`: the predicted change of the program's CPU time, and its parts."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from heaptape.common.tables import MISSING, Cell, Table
from heaptape.results.cells import by_workload, signed
from heaptape.results.model.counts import PARTS
from heaptape.results.model.time_model import ALL

CALLS_ALONE = "Cycles per call: measured without the program, whose data would evict the allocator's from the caches."
HOW = (
    "instructions, misses by level, page faults and system calls, each times what it costs on the measured machine. "
    "Ends: all loads independent of each other, or all dependent (docs/methods/TIME_MODEL.md). ~: no difference can be "
    "predicted."
)
NOTE = f"Predicted from counts, in percent of the program's CPU time: {HOW}"
NOTE_BURSTS = (
    f"Predicted from counts, in percent of the CPU time of the recorded bursts, not of the program's: {HOW} The first "
    "access of a burst to a line may have missed or not: the interval includes both."
)
NOTE_NS = "In ms of CPU time, as the program's own instructions were not counted; caches and TLBs are left out."


def frame(predicted: pd.DataFrame) -> pd.DataFrame:
    """`time_model.prediction`'s frame, with the counts of the baseline and of each allocator as separate rows:
    columns workload, allocator, part, percent, low, high, ns, ns_low, ns_high, counted_before, counted_after,
    repetitions, missing, of_bursts. Rows of counts have the count's name as part, and of the percentages only
    `percent`: the change of the count.
    """
    rows = []
    for row in predicted.to_dict("records"):
        counted = row.pop("counted")
        rows.append(row | {"counted_before": math.nan, "counted_after": math.nan})
        for name, change in counted.items():
            same = {key: row[key] for key in ("workload", "allocator", "repetitions", "missing", "of_bursts")}
            rows.append(
                same
                | {"part": f"count of {name}", "percent": change.percent}
                | {"counted_before": change.before, "counted_after": change.after}
            )
    columns = ["workload", "allocator", "part", "percent", "low", "high", "ns", "ns_low", "ns_high"]
    return pd.DataFrame(
        rows, columns=[*columns, "counted_before", "counted_after", "repetitions", "missing", "of_bursts"]
    )


def tables(found: pd.DataFrame, baseline: str, sentences: Sequence[str] = ()) -> list[Table]:
    """Per workload a row for each allocator: the change with its interval, then its parts. `sentences`: below."""
    out = []
    for _, here, suffix in by_workload(found):
        whole = here[here["part"] == ALL]
        in_percent = not whole["percent"].isna().any()
        parts = [part for part in PARTS if part in set(here["part"])]
        rows = []
        for label in dict.fromkeys(here["allocator"]):
            mine = here[here["allocator"] == label].set_index("part")
            rows.append([Cell(str(label)), *(_cell(mine, part, in_percent) for part in (ALL, *parts))])
        unit = f"% of {baseline}'s" if in_percent else f"ms, against {baseline}"
        of_bursts = bool(here["of_bursts"].any())
        what, all_of_it = ("recorded bursts", "bursts") if of_bursts else ("program", "whole program")
        title = f"CPU time of the {what}: predicted change, {unit}{suffix}"
        note = (NOTE_BURSTS if of_bursts else NOTE) if in_percent else NOTE_NS
        out.append(Table(title, ["allocator", all_of_it, *parts], rows, [note]))
    return [*out, *words(sentences)]


def words(sentences: Sequence[str]) -> list[Table]:
    """Only the sentences; no table if there are none."""
    return [Table("CPU time of the program, in words", [], [], list(sentences))] if sentences else []


def usual(predicted: pd.DataFrame, baseline: str, sentences: Sequence[str]) -> list[Table]:
    """Table and sentences for the beginning of the usual comparison; none if nothing was counted. `predicted`: from
    `time_model.prediction`.
    """
    found = tables(frame(predicted), baseline, sentences)
    if not found:
        return []
    return [*found[:-1], replace(found[-1], notes=[*found[-1].notes, CALLS_ALONE])]


def _cell(rows: pd.DataFrame, part: str, in_percent: bool) -> Cell:
    if part not in rows.index:
        return Cell(MISSING)
    row = rows.loc[part]
    value, low, high = (row[key] for key in ("percent", "low", "high"))
    if not in_percent:
        value, low, high = (row[key] / 1e6 for key in ("ns", "ns_low", "ns_high"))
    if low == high == 0:
        return Cell("0", 0.0)
    unsure = bool(low <= 0 <= high)
    return Cell(f"{'~' if unsure else ''}{signed(value)} ({signed(low)} to {signed(high)})", float(value), unsure)
