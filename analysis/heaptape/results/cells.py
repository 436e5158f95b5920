# SPDX-License-Identifier: MIT
"""Figures as cells of tables: rounded, in a unit, with their margins."""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from heaptape.common.tables import MISSING, Cell, rounded
from heaptape.results import margins


def with_margin(cell: Cell, percent: float) -> Cell:
    """The figure of a workload that stands for another, followed by its margin; unchanged if the margin is 0, as of the
    whole itself.
    """
    if percent == 0 or cell.value is None:
        return cell
    mark = margins.MARK if percent == margins.NONE_KNOWN else f"±{margins.percent_text(percent)}"
    return replace(cell, text=f"{cell.text} {mark}", exact=False)


def by_workload(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Each workload, its rows, and the suffix for the titles of its tables, empty if there is one workload."""
    several = frame["workload"].nunique() > 1
    for workload, rows in frame.groupby("workload", sort=False):
        yield str(workload), rows, f" — {workload}" if several else ""


def in_unit(value: float | None, unit: float = 1.0) -> Cell:
    """A cell in that unit, `rounded`, with the unrounded value."""
    return Cell(MISSING) if value is None or pd.isna(value) else Cell(rounded(value / unit), value)


def grouped(value: float) -> Cell:
    """A count, or cycles, as a whole number."""
    return Cell(MISSING) if pd.isna(value) else Cell(f"{value:,.0f}", value)


def signed(value: float) -> str:
    """`rounded`, with a sign unless it is 0."""
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{rounded(abs(value))}"
