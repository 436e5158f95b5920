"""The memory map of a memory pass: how many live bytes each region of the address space held, at some 256 positions.

Addresses are folded for drawing: stretches in which no region was ever used are cut out, so that the y axis is the
memory that the allocator laid hands on, in address order.
"""

import base64
import zlib
from dataclasses import dataclass

import numpy as np

from heaptape.errors import HeaptapeError

CELL = np.dtype([("region", "<u8"), ("live_bytes", "<u4")])
# A hole of fewer regions than this is drawn, a larger one is folded.
DRAWN_HOLE_REGIONS = 4
MAX_RAW_BYTES = 1 << 30


@dataclass(frozen=True)
class MemoryMap:
    """Decoded. One row per cell that isn't empty, ordered by position, then region.

    position_index: into `positions`; region: address / region_bytes; live_bytes.
    """

    region_bytes: int
    positions: np.ndarray
    position_index: np.ndarray
    region: np.ndarray
    live_bytes: np.ndarray


@dataclass(frozen=True)
class Folded:
    """Ready to draw: `fullness` has one row per region kept (ascending address) and one column per position.

    fullness: 0 to 1; -1: empty now, used before; NaN: not yet used. `starts`: rows at which a stretch begins after a
    fold; `addresses`: the address of each of them.
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


def decode(run: dict) -> MemoryMap | None:
    """run["memory_map"]; None if the run has none. Raises HeaptapeError if it is malformed."""
    table = run.get("memory_map")
    if table is None:
        return None
    try:
        region_bytes, positions = int(table["region_bytes"]), np.array(table["positions"], np.int64)
        if table["encoding"] != "zlib+base64" or region_bytes <= 0:
            raise ValueError("unknown encoding or region size")
        decoder = zlib.decompressobj()
        raw = decoder.decompress(base64.b64decode(table["cells"], validate=True), MAX_RAW_BYTES)
        if not decoder.eof:
            raise ValueError("cut off, or too large")
        return _cells(region_bytes, positions, raw)
    except (KeyError, TypeError, ValueError, OverflowError, zlib.error) as error:
        raise HeaptapeError(f"the memory map of {run.get('allocator')} can't be read: {error}") from error


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
    return MemoryMap(region_bytes, positions, index, cells["region"].copy(), cells["live_bytes"].copy())


def fold(memory: MemoryMap) -> Folded:
    """Cuts out what was never used, and lays the cells out as a matrix."""
    used = np.unique(memory.region)
    if len(used) == 0:
        empty = np.empty((0, len(memory.positions)))
        return Folded(memory.region_bytes, memory.positions, empty, np.empty(0, int), np.empty(0, np.uint64))
    hole = np.diff(used.astype(np.uint64)) - np.uint64(1)
    folded = hole >= DRAWN_HOLE_REGIONS
    row = np.concatenate(([0], np.cumsum(1 + np.where(folded, 0, hole).astype(np.int64))))
    matrix = np.zeros((row[-1] + 1, len(memory.positions)))
    rows = row[np.searchsorted(used, memory.region)]
    matrix[rows, memory.position_index] = np.minimum(memory.live_bytes / memory.region_bytes, 1.0)
    seen = np.logical_or.accumulate(matrix > 0, axis=1)
    matrix = np.where(matrix > 0, matrix, np.where(seen, -1.0, np.nan))
    first = np.concatenate(([True], folded))
    return Folded(
        memory.region_bytes, memory.positions, matrix, row[first], used[first] * np.uint64(memory.region_bytes)
    )
