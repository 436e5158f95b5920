# SPDX-License-Identifier: MIT
"""Figures as cells of tables: rounded, in a unit."""

from collections.abc import Callable, Iterator

import pandas as pd

from heaptape.common.tables import MISSING, Cell, rounded


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


def signed(value: float, text: Callable[[float], str] = rounded) -> str:
    """`text` of its size, with a sign unless it is 0."""
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{text(abs(value))}"


def typeset(percent: float) -> str:
    """A change with its sign, "+1.2" or "−1.2"."""
    return MISSING if pd.isna(percent) else f"{percent:+,.1f}".replace("-", "−")
