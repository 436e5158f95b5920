# SPDX-License-Identifier: MIT
"""What resident memory consists of: the fragmentation decomposition, and occupancy of OS pages.

RSS = live requests + rounding to size classes + caches and bins + empty OS pages + metadata and other. The first four
are measured at each position of the memory map (`replay/memory/fragmentation.h`): bytes of disjoint ranges in resident
OS pages. The last is the rest of RssAnon: the allocator's tables and headers, memory that it made resident and
never handed out, data of its library, and the few OS pages by which the engine's process itself grows. So the parts add
up to the measured RSS exactly, at every position.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.tables import MIB, MISSING, Cell, Table
from heaptape.passes import PassTable
from heaptape.results.schema import Results
from heaptape.results.structs import Run
from heaptape.tape.embedded import inflated

# The parts of RSS, in the order in which they are drawn, and their names for people.
PARTS = {
    "live_bytes": "live requests",
    "rounding_bytes": "rounding to size classes",
    "caches_and_bins_bytes": "caches and bins",
    "empty_bytes": "empty, still resident",
    "metadata_and_other_bytes": "metadata and other",
}
# Classes of OS pages by how much of them live requests fill: column, and the text between its limits.
FILLS = {
    "os_pages_0": "0 %",
    **{f"os_pages_{upper}": f"to {upper} %" for upper in range(10, 100, 10)},
    "os_pages_below_100": "below 100 %",
    "os_pages_100": "100 %",
}
MEASURED = ("rss_anon_bytes", "live_bytes", "live_resident_bytes", "rounding_bytes", "beside_live_bytes", "empty_bytes")
MAX_RAW_BYTES = 1 << 26
NOTES = [
    "The parts add up to RSS, at the sampled position where it is largest. Caches and bins: free bytes in OS pages "
    "with live objects; they include object headers, unless the allocator offers a heap walk (*), and rounding if it "
    "has no malloc_usable_size (?). Empty: OS pages that held objects and hold none now.",
]
MARKS = {"heap walk": " *", "OS pages, no usable size": " ?"}


@dataclass(frozen=True)
class Fragmentation:
    """A run's "fragmentation", decoded. frame: a row per position, column `position` (ops done), other columns as
    docs/formats/RESULTS.md defines them, all int64. has_usable_size: False if the allocator has no usable size;
    rounding then counts as caches. walk_states: names, the first one for memory in use; empty if the allocator offers
    no walk.
    """

    frame: pd.DataFrame
    os_page_bytes: int
    has_usable_size: bool
    walk_states: tuple[str, ...]


def decode(run: Run) -> Fragmentation | None:
    """None if the run has none. Raises HeaptapeError if it is malformed."""
    table = run.fragmentation
    if table is None:
        return None
    try:
        positions, columns = np.array(table.positions, np.int64), table.columns or []
        if table.encoding != "zlib+base64" or positions.ndim != 1 or len(set(columns)) != len(columns):
            raise ValueError("unknown encoding, or malformed positions or columns")
        raw = inflated(table.values or "", MAX_RAW_BYTES)
        if len(raw) != 8 * len(columns) * len(positions):
            raise ValueError("not as many values as announced")
        values = np.frombuffer(raw, "<i8").reshape(len(columns), len(positions))
        states = tuple(table.walk_states or ())
        walked = [f"walk_{state}_{what}" for state in states for what in ("bytes", "beside_live_bytes", "empty_bytes")]
        missing = {*MEASURED, *FILLS, *walked} - set(columns)
        if missing:
            raise ValueError(f"no column {min(missing)}")
        frame = pd.DataFrame(dict(zip(columns, values)))
        frame.insert(0, "position", positions)
        if table.os_page_bytes is None:
            raise ValueError("no size of OS pages")
        return Fragmentation(frame, table.os_page_bytes, table.usable_size is not False, states)
    except (TypeError, ValueError, OverflowError, zlib.error) as error:
        raise HeaptapeError(f"the fragmentation of {run.allocator} can't be read: {error}") from error


def of_allocators(file: Results) -> dict[str, Fragmentation]:
    """By allocator (label), the fragmentation of its first memory run that has one, in the file's order."""
    return file.decoded("fragmentation", decode)


def decomposition(results: Results | Iterable[Results]) -> pd.DataFrame:
    """The parts of RSS at each position of each allocator's first memory run.

    Columns: workload, allocator, position (ops done), rss_anon_bytes (the allocator's, measured), the columns of PARTS,
    which add up to it exactly, live_not_resident_bytes (requested, live, but never touched: not a part of RSS),
    measured_by. That is "heap walk": the allocator's heap walk shows free bytes in lists, and headers; "OS pages": the
    bytes of an OS page that are neither live nor rounding count as caches and bins if it has live objects, as empty if
    it had some earlier; "OS pages, no usable size": the same, with rounding among caches and bins. Empty if no file has
    a fragmentation. Raises HeaptapeError if one is malformed.
    """
    files = [results] if isinstance(results, Results) else list(results)
    parts = [
        _parts(found).assign(workload=file.name, allocator=label)
        for file in files
        for label, found in of_allocators(file).items()
    ]
    columns = ["workload", "allocator", "position", "rss_anon_bytes", *PARTS, "live_not_resident_bytes", "measured_by"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _parts(found: Fragmentation) -> pd.DataFrame:
    frame = found.frame
    out = frame[["position", "rss_anon_bytes", "rounding_bytes"]].assign(live_bytes=frame["live_resident_bytes"])
    if found.walk_states:
        free = found.walk_states[1:]
        out["caches_and_bins_bytes"] = sum((frame[f"walk_{state}_beside_live_bytes"] for state in free), start=0)
        out["empty_bytes"] = sum((frame[f"walk_{state}_empty_bytes"] for state in free), start=0)
    else:
        out["caches_and_bins_bytes"] = frame["beside_live_bytes"]
        out["empty_bytes"] = frame["empty_bytes"]
    measured = [part for part in PARTS if part != "metadata_and_other_bytes"]
    out["metadata_and_other_bytes"] = out["rss_anon_bytes"] - out[measured].sum(axis=1)
    out["live_not_resident_bytes"] = frame["live_bytes"] - frame["live_resident_bytes"]
    outside = "OS pages" if found.has_usable_size else "OS pages, no usable size"
    return out.assign(measured_by="heap walk" if found.walk_states else outside)


def at_peak(results: Results | Iterable[Results]) -> pd.DataFrame:
    """The rows of `decomposition` at which each allocator's RSS was largest (the first of them), with percent columns
    beside the parts: `live_percent`, ... of rss_anon_bytes.
    """
    frame = decomposition(results)
    if frame.empty:
        return frame
    rows = frame.groupby(["workload", "allocator"], sort=False)["rss_anon_bytes"].idxmax()
    peak = frame.loc[rows].reset_index(drop=True)
    whole = peak["rss_anon_bytes"].where(peak["rss_anon_bytes"] > 0)
    return peak.assign(**{part.replace("_bytes", "_percent"): 100 * peak[part] / whole for part in PARTS})


def tables(peak: pd.DataFrame) -> list[Table]:
    """One table per workload: RSS in MiB, each part in MiB and percent of RSS. peak: from `at_peak`."""
    columns = [
        "allocator",
        "RSS, MiB",
        *(f"{name}, MiB (%)" for name in PARTS.values()),
        "live, not resident, MiB",
    ]
    out = []
    for workload, rows in peak.groupby("workload", sort=False):
        title = f"What RSS consists of at its largest sample: {workload}"
        out.append(Table(title, columns, [_row(row) for _, row in rows.iterrows()], list(NOTES)))
    return out


def _row(row: pd.Series) -> list[Cell]:
    name = Cell(row["allocator"] + MARKS.get(row["measured_by"], ""))
    parts = [_part(row[part], row[part.replace("_bytes", "_percent")]) for part in PARTS]
    return [name, _mib(row["rss_anon_bytes"]), *parts, _mib(row["live_not_resident_bytes"])]


def _part(value: float, percent: float) -> Cell:
    cell = _mib(value)
    return cell if pd.isna(percent) else Cell(f"{cell.text} ({percent:.0f})", cell.value)


def _mib(value: float) -> Cell:
    return Cell(MISSING) if pd.isna(value) else Cell(f"{value / MIB:,.2f}", value)


TABLE = PassTable(lambda files, _: at_peak(files), lambda frame, _: tables(frame))
