# SPDX-License-Identifier: MIT
"""The parts of RSS at its peak, as a table for people."""

from collections.abc import Sequence

import pandas as pd

from heaptape.results import fragmentation
from heaptape.results.schema import Results
from heaptape.show.tables.usual import MIB, MISSING, Cell, Table

NOTES = [
    "The parts add up to RSS, at the sampled position where it is largest. Caches and bins: free bytes in OS pages "
    "with live objects; they include object headers, unless the allocator offers a heap walk (*), and rounding if it "
    "has no malloc_usable_size (?). Empty: OS pages that held objects and hold none now.",
]
MARKS = {"heap walk": " *", "OS pages, no usable size": " ?"}


def frame(files: Sequence[Results]) -> pd.DataFrame:
    """fragmentation.at_peak of the files."""
    return fragmentation.at_peak(files)


def tables(peak: pd.DataFrame) -> list[Table]:
    """One table per workload: RSS in MiB, each part in MiB and percent of RSS. peak: from `frame`."""
    columns = [
        "allocator",
        "RSS, MiB",
        *(f"{name}, MiB (%)" for name in fragmentation.PARTS.values()),
        "live, not resident, MiB",
    ]
    out = []
    for workload, rows in peak.groupby("workload", sort=False):
        title = f"What RSS consists of at its peak: {workload}"
        out.append(Table(title, columns, [_row(row) for _, row in rows.iterrows()], list(NOTES)))
    return out


def _row(row: pd.Series) -> list[Cell]:
    name = Cell(row["allocator"] + MARKS.get(row["measured_by"], ""))
    parts = [_part(row[part], row[part.replace("_bytes", "_percent")]) for part in fragmentation.PARTS]
    return [name, _mib(row["rss_anon_bytes"]), *parts, _mib(row["live_not_resident_bytes"])]


def _part(value: float, percent: float) -> Cell:
    cell = _mib(value)
    return cell if pd.isna(percent) else Cell(f"{cell.text} ({percent:.0f})", cell.value)


def _mib(value: float) -> Cell:
    return Cell(MISSING) if pd.isna(value) else Cell(f"{value / MIB:,.2f}", value)
