# SPDX-License-Identifier: MIT
"""Reader of workload files, from core/workload/WORKLOAD.md alone: header, info, and words as numpy arrays."""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heaptape.common.errors import FormatError
from heaptape.tape.info import WorkloadInfo, checked

if TYPE_CHECKING:
    import pandas as pd  # its import takes half a second, which a replay does not need

MAGIC = b"HEAPWORK"
HEADER = struct.Struct("<8sIIQQQII10QI120sI")
INFO_LIMIT = 16 << 20
THREAD_LIMIT = 1 << 20

# Codes of words that are not ops.
REGION, SIZE_HIGH, PARAM, TOUCHED, WAIT, MARK, START, TIME, END = 0xEF, 0xF0, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xFF
NO_SLOT = 0xFFFFFFFF

_EXTENT = np.dtype([("stream", "<u4"), ("words", "<u4"), ("offset", "<u8")])


@dataclass(frozen=True)
class Workload:
    """A workload file, mapped. Sizes in bytes; the fields are as in the header in WORKLOAD.md."""

    path: Path
    ops: int
    words: int
    threads: int
    slots: int
    peak_live_bytes: int
    peak_live_os_page_bytes: int
    peak_live_objects: int
    live_at_end: int
    peak_position: int
    info: dict
    op_counts: np.ndarray
    _extents: np.ndarray
    _bytes: np.ndarray

    def stream(self, number: int) -> Iterator[np.ndarray]:
        """The words (uint64) of a stream, extent by extent. Streams 0 to threads - 1 are the threads'."""
        for extent in self._extents[self._extents["stream"] == number]:
            begin = int(extent["offset"])
            yield self._bytes[begin : begin + 8 * int(extent["words"])].view("<u8")

    def ops_of(self, thread: int) -> "pd.DataFrame":
        """A thread's ops, one row each: call (call byte), size (as given to the call), param (0: none given), slot,
        apart (number of the memory apart that serves it, 0: the allocator).

        Raises FormatError for a stream that does not end with END or has words after it.
        """
        import pandas as pd

        parts = list(self.stream(thread))
        words = np.concatenate(parts) if parts else np.empty(0, np.uint64)
        code = (words & 0xFF).astype(np.uint8)
        ends = np.flatnonzero(code == END)
        if len(ends) != 1 or ends[0] != len(words) - 1:
            raise FormatError(str(self.path), None, f"stream of thread {thread} does not end with END")
        is_op = code < REGION
        op_words = words[is_op]
        number: np.ndarray = np.cumsum(is_op) - is_op
        high, param, apart = (np.zeros(len(op_words), np.uint64) for _ in range(3))
        for wanted, column in ((SIZE_HIGH, high), (PARAM, param), (REGION, apart)):
            at = np.flatnonzero(code == wanted)
            if len(at) and number[at[-1]] >= len(op_words):
                raise FormatError(str(self.path), None, f"stream of thread {thread}: a modifier without an op")
            column[number[at]] = words[at] >> 8
        return pd.DataFrame(
            {
                "call": (op_words & 0xFF).astype(np.uint8),
                "size": (high << np.uint64(24)) | ((op_words >> np.uint64(8)) & np.uint64(0xFFFFFF)),
                "param": param,
                "slot": (op_words >> np.uint64(32)).astype(np.uint32),
                "apart": apart.astype(np.uint8),
            }
        )

    def ops_in_order(self) -> "pd.DataFrame":
        """All threads' ops in the total order, as `ops_of` has them, with a column `thread`."""
        import pandas as pd

        schedule = self.schedule()
        runs = schedule["ops"].to_numpy().astype(np.int64)
        thread = np.repeat(schedule["thread"].to_numpy().astype(np.int64), runs)
        ops = pd.concat([self.ops_of(number) for number in range(self.threads)], ignore_index=True)
        # The k-th op of all threads' streams, concatenated, belongs at the place of the k-th smallest thread.
        place: np.ndarray = np.empty(len(thread), np.int64)
        place[np.argsort(thread, kind="stable")] = np.arange(len(thread))
        return ops.iloc[place].reset_index(drop=True).assign(thread=thread)

    def schedule(self) -> "pd.DataFrame":
        """The recorded total order: columns thread and ops, one row per run of one thread."""
        import pandas as pd

        words = np.concatenate([*self.stream(self.threads), np.empty(0, np.uint64)])
        return pd.DataFrame({"thread": words & 0xFFFFFFFF, "ops": words >> np.uint64(32)})

    def timeline(self) -> "pd.DataFrame":
        """position (ops), time_ns since the recording began, live_bytes, live_objects, in order of position."""
        import pandas as pd

        words = np.concatenate([*self.stream(self.threads + 1), np.empty(0, np.uint64)])
        if len(words) % 4:
            raise FormatError(str(self.path), None, "the time line is not whole groups of four words")
        return pd.DataFrame(words.reshape(-1, 4), columns=["position", "time_ns", "live_bytes", "live_objects"])

    @property
    def mean_over_calls(self) -> bool:
        """Is a replay's mean of memory over calls, as there are no times, not over wall time?"""
        return not self.timeline()["time_ns"].any()

    @property
    def program_clock(self) -> np.ndarray | None:
        """Rows of recorded ns since the recording began, and ns until then: that are not the program's; in which it
        slept (not in older files). None: the recording does not tell.
        """
        points = self.info.get("program_clock")
        if not points:
            return None
        columns = min(len(point) for point in points)
        return np.array([point[:columns] for point in points], float)

    def program_time_ns(self, recorded_ns: np.ndarray) -> np.ndarray:
        """The time line's time of recorded times: less what is not the program's, as far as that is known."""
        points = self.program_clock
        return recorded_ns if points is None else recorded_ns - np.interp(recorded_ns, points[:, 0], points[:, 1])


def is_workload(path: Path) -> bool:
    """By content: does the file begin with the workload's magic?"""
    with path.open("rb") as file:
        return file.read(8) == MAGIC


def read_workload(path: str | Path) -> Workload:
    """Maps a workload and checks its header, extents and info. Raises FormatError, or OSError if it can't be read."""
    path = Path(path)
    size = path.stat().st_size
    if size < HEADER.size:
        raise FormatError(str(path), 0, "not a workload: shorter than its header")
    data = np.memmap(path, np.uint8, "r")
    header = bytes(data[: HEADER.size])
    magic, version, header_bytes, file_bytes, ops, words, threads, slots, *rest = HEADER.unpack(header)
    if magic != MAGIC:
        raise FormatError(str(path), 0, "not a workload: wrong magic")
    if version != 1:
        raise FormatError(str(path), 8, f"version {version} is not known")
    if header_bytes != HEADER.size:
        raise FormatError(str(path), 12, f"header of {header_bytes} bytes")
    if zlib.crc32(header[:252]) != rest[-1]:
        raise FormatError(str(path), 252, "the header's CRC is wrong")
    if file_bytes != size:
        raise FormatError(str(path), 16, f"the file has {size} bytes, its header says {file_bytes}")
    if threads > THREAD_LIMIT:
        raise FormatError(str(path), 40, f"{threads} threads")
    peak, peak_rounded, peak_objects, live_at_end, peak_position = rest[:5]
    extents_offset, extents, info_offset, info_bytes, counts_offset = rest[5:10]
    table = _section(path, data, 88, extents_offset, extents * _EXTENT.itemsize).view(_EXTENT)
    _check_extents(path, table, size, threads, extents_offset)
    counts = _section(path, data, 120, counts_offset, 8 * threads).view("<u8")
    if int(counts.sum()) != ops:
        raise FormatError(str(path), 120, "the op counts do not add up to the header's ops")
    return Workload(
        path, ops, words, threads, slots, peak, peak_rounded, peak_objects, live_at_end, peak_position,
        _info(path, data, info_offset, info_bytes), counts, table, data,
    )  # fmt: skip


def _section(path: Path, data: np.ndarray, field: int, offset: int, count: int) -> np.ndarray:
    if offset % 8 or offset < HEADER.size or offset + count > len(data):
        raise FormatError(str(path), field, f"a section at {offset} of {count} bytes is not within the file")
    return np.asarray(data[offset : offset + count])


def _check_extents(path: Path, table: np.ndarray, size: int, threads: int, offset: int) -> None:
    end = table["offset"].astype(np.uint64) + table["words"].astype(np.uint64) * np.uint64(8)
    bad = (table["stream"] > threads + 1) | (table["offset"] % 8 != 0) | (table["offset"] >= size) | (end > size)
    if bad.any():
        at = offset + int(np.flatnonzero(bad)[0]) * _EXTENT.itemsize
        raise FormatError(str(path), at, "an extent is not within the file")


def _info(path: Path, data: np.ndarray, offset: int, count: int) -> dict:
    if count > INFO_LIMIT:
        raise FormatError(str(path), 112, f"info of {count} bytes")
    if count == 0:
        return {}
    if offset < HEADER.size or offset + count > len(data):
        raise FormatError(str(path), 104, "the info is not within the file")
    try:
        info = json.loads(bytes(data[offset : offset + count]))
    except (ValueError, RecursionError) as error:
        raise FormatError(str(path), offset, f"the info is not JSON: {error}") from error
    if not isinstance(info, dict):
        raise FormatError(str(path), offset, "the info is not a JSON object")
    return checked(info, WorkloadInfo, str(path), offset)
