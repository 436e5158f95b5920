# SPDX-License-Identifier: MIT
"""The memory map of a memory pass: how many bytes of each region of the address space were live, and how many resident,
at about 256 positions.

Gaps, stretches in which no region was ever used, are left out for drawing, so that the y axis
is the memory that the allocator used, in address order.
"""

import zlib
from dataclasses import dataclass, replace

import numpy as np

from heaptape.common.errors import HeaptapeError
from heaptape.results import structs
from heaptape.tape.embedded import inflated

CELL = np.dtype([("region", "<u8"), ("live_bytes", "<u4"), ("resident_bytes", "<u4")])
# A gap of fewer regions than this is drawn, a larger one is left out.
DRAWN_GAP_REGIONS = 4
MAX_RAW_BYTES = 1 << 30


@dataclass(frozen=True)
class MemoryMap:
    """A decoded memory map. One row per cell that isn't empty, ordered by position, then region.

    position_index: into `positions`; region: address / region_bytes; live_bytes; resident_bytes: of resident OS pages,
    None where that was not measured.
    """

    region_bytes: int
    positions: np.ndarray
    position_index: np.ndarray
    region: np.ndarray
    live_bytes: np.ndarray
    resident_bytes: np.ndarray | None = None


@dataclass(frozen=True)
class CompactMap:
    """A map ready to draw: `fullness` has one row per region kept (ascending address) and one column per position.

    fullness: 0 to 1; -1: resident but empty (where residency was not measured: empty now, used before); NaN: neither
    live nor resident. `starts`: rows at which a stretch begins after a
    gap left out; `addresses`: the address of each of these rows.
    """

    region_bytes: int
    positions: np.ndarray
    fullness: np.ndarray
    starts: np.ndarray
    addresses: np.ndarray

    @property
    def height_bytes(self) -> int:
        """Bytes that the y axis spans."""
        return len(self.fullness) * self.region_bytes


def decode(table: structs.MemoryMap, allocator: str) -> MemoryMap:
    """A run's memory map. Raises HeaptapeError, naming the allocator, if it is malformed."""
    try:
        region_bytes, positions = table.region_bytes or 0, np.array(table.positions, np.int64)
        if table.encoding != "zlib+base64" or region_bytes <= 0:
            raise ValueError("unknown encoding or region size")
        raw = inflated(table.cells or "", MAX_RAW_BYTES)
        if tuple(table.columns or ()) != CELL.names:
            raise ValueError(f"unknown columns {table.columns}")
        memory = _cells(region_bytes, positions, raw)
        return replace(memory, resident_bytes=None) if table.residency == "none" else memory
    except (TypeError, ValueError, OverflowError, zlib.error) as error:
        raise HeaptapeError(f"the memory map of {allocator} can't be read: {error}") from error


def _cells(region_bytes: int, positions: np.ndarray, raw: bytes) -> MemoryMap:
    parts, counts, offset = [], [], 0
    for _ in positions:
        if offset + 4 > len(raw):
            raise ValueError("fewer positions than announced")
        count = int.from_bytes(raw[offset : offset + 4], "little")
        if offset + 4 + count * CELL.itemsize > len(raw):
            raise ValueError("a position is cut off")
        parts.append(np.frombuffer(raw, CELL, count, offset + 4))
        counts.append(count)
        offset += 4 + count * CELL.itemsize
    if offset != len(raw):
        raise ValueError("bytes behind the last position")
    cells = np.concatenate(parts) if parts else np.empty(0, CELL)
    index = np.repeat(np.arange(len(positions)), counts)
    return MemoryMap(region_bytes, positions, index, *(cells[name].copy() for name in CELL.names or ()))


def without_gaps(memory: MemoryMap) -> CompactMap:
    """Leaves out gaps, and arranges the cells as a matrix."""
    used = np.unique(memory.region)
    if len(used) == 0:
        nothing = np.empty((0, len(memory.positions)))
        return CompactMap(memory.region_bytes, memory.positions, nothing, np.empty(0, int), np.empty(0, np.uint64))
    gap = np.diff(used.astype(np.uint64)) - np.uint64(1)
    left_out = gap >= DRAWN_GAP_REGIONS
    row = np.concatenate(([0], np.cumsum(1 + np.where(left_out, 0, gap).astype(np.int64))))
    matrix = np.zeros((row[-1] + 1, len(memory.positions)))
    rows = row[np.searchsorted(used, memory.region)]
    matrix[rows, memory.position_index] = np.minimum(memory.live_bytes / memory.region_bytes, 1.0)
    if memory.resident_bytes is None:
        empty = np.logical_or.accumulate(matrix > 0, axis=1)
    else:
        empty = np.zeros(matrix.shape, bool)
        empty[rows, memory.position_index] = memory.resident_bytes > 0
    matrix = np.where(matrix > 0, matrix, np.where(empty, -1.0, np.nan))
    first = np.concatenate(([True], left_out))
    return CompactMap(
        memory.region_bytes, memory.positions, matrix, row[first], used[first] * np.uint64(memory.region_bytes)
    )


def gap_bytes(compact: CompactMap) -> np.ndarray:
    """The size in bytes of each gap left out, from low addresses to high."""
    rows = np.append(compact.starts[1:], len(compact.fullness)) - compact.starts
    ends = compact.addresses + rows.astype(np.uint64) * np.uint64(compact.region_bytes)
    return compact.addresses[1:] - ends[:-1]
