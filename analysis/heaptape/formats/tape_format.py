"""An independent reader of trace files, written from trace/FORMAT.md alone and not from the C reader: two readers that
agree prove that the document says enough.

Memory is bounded by one block: `Trace.events` yields one Arrow record batch per block.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import zstandard

from heaptape.common.errors import FormatError
from heaptape.formats import calls, tape_annotations
from heaptape.formats.tape_columns import Events, Malformed, decode_events, exactly, leb, zigzag

if TYPE_CHECKING:
    from heaptape.profile.data import Profile

FILE_HEADER, TRAILER = struct.Struct("<8sHHI"), struct.Struct("<Q8s")
BLOCK_HEADER, COLUMN = struct.Struct("<4sBBHIIIIQQII"), struct.Struct("<BBBBIII")
INFO, EVENTS, SAMPLES, GAP, TOUCHED, STACKS, MODULES, MARKS, THREADS, FOOTER = 1, 2, 3, 4, 5, 6, 7, 8, 9, 15
CRITICAL = 1
MAX_COLUMNS, MAX_PAYLOAD, MAX_THREAD, MAX_ROWS, MAX_WINDOW = 64, 1 << 30, 1 << 24, 1 << 20, 8 << 20
MAX_RAW, MAX_INFO, MAX_STACK_NODES = 1 << 26, 1 << 20, 1 << 28
KNOWN_COLUMNS = {
    INFO: {1},
    EVENTS: {1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17},
    SAMPLES: set(range(1, 11)),
    GAP: {1},
    TOUCHED: {1, 2},
    STACKS: {1, 2},
    MODULES: {1},
    MARKS: {1},
    THREADS: {1},
    FOOTER: {1, 2},
}
SAMPLE_NAMES = (
    "stamp", "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "vm_size_bytes", "vm_hwm_bytes",
    "minor_faults", "major_faults", "user_ns", "system_ns",
)  # fmt: skip

SCHEMA = pa.schema(
    [
        ("thread", pa.uint32()),
        ("event", pa.uint64()),  # number of the event in its thread, from 0
        ("call", pa.dictionary(pa.int8(), pa.string())),
        ("failed", pa.bool_()),  # handed out nothing though it could have
        ("null", pa.bool_()),  # was given NULL where it takes an object
        ("request_bytes", pa.uint64()),  # null: the call has no size
        ("size", pa.uint64()),
        ("param", pa.uint64()),  # element count or alignment in bytes
        ("released_address", pa.uint64()),  # address passed in
        ("acquired_address", pa.uint64()),
        ("release_stamp", pa.uint64()),
        ("acquire_stamp", pa.uint64()),
        ("releases", pa.bool_()),  # the object passed in died
        ("touched_os_pages", pa.uint32()),
        ("latency", pa.uint64()),  # of the real call, in units of the trace's clock
        ("usable_bytes", pa.uint64()),  # of the object handed out
        ("stack", pa.uint32()),  # node of Trace.stacks(); these last four are null where not known
    ]
)


@dataclass(frozen=True)
class Column:
    """A directory entry. `offset` is that of its bytes in the file."""

    id: int
    encoding: int
    shift: int
    critical: bool
    raw_bytes: int
    stored_bytes: int
    offset: int


@dataclass(frozen=True)
class Block:
    """A block's header and directory. `offset` is that of the block in the file."""

    offset: int
    type: int
    critical: bool
    thread: int
    rows: int
    steps: int
    first_stamp: int
    last_stamp: int
    sequence: int
    columns: tuple[Column, ...]
    end: int
    stack_nodes: int  # in the STACKS blocks before it


@dataclass
class Trace:
    """An open trace. `info` and `footer` are the JSON objects of those blocks; `footer` is None in a truncated file.

    `differences`: where the footer's totals are not what the blocks say, in words. `dropped`: events lost, from the GAP
    blocks.
    """

    path: str
    info: dict = field(default_factory=dict)
    footer: dict | None = None
    truncated: bool = False
    dropped: int = 0
    differences: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    _fd: int = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; blocks can't be read any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return max((b.thread + 1 for b in self.blocks if b.type in (EVENTS, GAP)), default=0)

    @property
    def event_count(self) -> int:
        """Events in the file."""
        return sum(b.rows for b in self.blocks if b.type == EVENTS)

    def events(self, thread: int | None = None) -> Iterator[pa.RecordBatch]:
        """One record batch (SCHEMA) per EVENTS block in file order, of all threads or one. Raises FormatError."""
        seen: dict[int, int] = {}
        for block in self.blocks:
            if block.type != EVENTS:
                continue
            begin = seen.get(block.thread, 0)
            seen[block.thread] = begin + block.rows
            if thread is None or thread == block.thread:
                yield _batch(block, begin, self._decode(block))

    def frames(self, thread: int | None = None) -> Iterator[pd.DataFrame]:
        """`events` as DataFrames. Numbers keep pandas' nullable types: 64-bit addresses don't survive being floats."""
        nullable = {pa.uint64(): pd.UInt64Dtype(), pa.uint32(): pd.UInt32Dtype()}
        for batch in self.events(thread):
            yield batch.to_pandas(types_mapper=nullable.get)

    def profile(self) -> "Profile":
        """What the whole trace asks of an allocator, counted by the C program: `heaptape.profile`."""
        from heaptape.profile.data import profile

        return profile(self.path)

    def samples(self) -> pd.DataFrame:
        """Memory of the recorded process over time: columns of SAMPLE_NAMES, those that could not be had left out."""
        parts = [self._samples(block) for block in self.blocks if block.type == SAMPLES]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["stamp"])

    def touched_at_end(self) -> pd.DataFrame:
        """Large objects alive at the end: address, os_pages (resident). Raises FormatError."""
        return tape_annotations.touched(self)

    def stacks(self) -> pd.DataFrame:
        """The tree of call stacks, indexed by node from 1: parent (0: the outermost frame), instruction, modules (how
        many rows of `modules` stand before it). Raises FormatError.
        """
        return tape_annotations.stacks(self)

    def modules(self) -> pd.DataFrame:
        """What was mapped where, in file order: name, path, build_id (None where not stored), start, end, bias."""
        return tape_annotations.modules(self)

    def marks(self) -> pd.DataFrame:
        """What the program said of itself: stamp, thread, events (of that thread, before it), text."""
        return tape_annotations.marks(self)

    def thread_names(self) -> dict[int, str]:
        """Names of the threads that have one."""
        return tape_annotations.thread_names(self)

    def _decode(self, block: Block) -> Events:
        raw = self.raw_columns(block)
        shifts = {c.id: c.shift for c in block.columns}
        try:
            return decode_events(
                block.rows, block.steps, block.first_stamp, block.last_stamp, raw, shifts, block.stack_nodes
            )
        except Malformed as error:
            raise FormatError(self.path, block.offset, str(error)) from error

    def _samples(self, block: Block) -> pd.DataFrame:
        out = {}
        try:
            for column in _usable(block):
                name = SAMPLE_NAMES[column.id - 1]
                values = exactly(leb(self._column(block, column), name), block.rows, name)
                out[name] = np.cumsum(zigzag(values), dtype=np.uint64)
        except Malformed as error:
            raise FormatError(self.path, block.offset, str(error)) from error
        return pd.DataFrame(out)

    def _column(self, block: Block, column: Column) -> bytes:
        return _decompress(self.path, block, column, _pread(self._fd, column.stored_bytes, column.offset))

    def _json(self, block: Block, limit: int = MAX_RAW) -> dict:
        value = self.json_value(block, limit)
        if not isinstance(value, dict):
            raise FormatError(self.path, block.offset, "its JSON is not an object")
        return value

    def json_value(self, block: Block, limit: int = MAX_RAW) -> object:
        """Column 1 of a block as JSON. Raises FormatError."""
        column = next((c for c in _usable(block) if c.id == 1), None)
        if column is None or column.raw_bytes > limit:
            raise FormatError(self.path, block.offset, "its JSON is missing or too long")
        try:
            return json.loads(self._column(block, column).decode())
        except (ValueError, RecursionError) as error:
            raise FormatError(self.path, block.offset, f"its JSON can't be read: {error}") from error

    def raw_columns(self, block: Block) -> dict[int, bytes]:
        """The columns of a block that are known, by id, decompressed. Raises FormatError."""
        return {c.id: self._column(block, c) for c in _usable(block)}


def open_trace(path: str | Path) -> Trace:
    """Opens a trace: walks and checks all block headers, reads info and footer. Events are only decoded when asked for.

    Raises FormatError (path, offset, what) for a malformed file, OSError if it can't be read.

    >>> import heaptape
    >>> with heaptape.open("small.tape") as trace:
    ...     print(trace.threads, trace.event_count, sum(batch.num_rows for batch in trace.events()))
    ...     frame = next(trace.frames(thread=0))
    2 6666 6666
    >>> frame["call"].iloc[0], int(frame["request_bytes"].iloc[0])
    ('malloc', 16)
    """
    trace = Trace(str(path), _fd=os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    try:
        size = os.fstat(trace._fd).st_size
        _check_file_header(trace, size)
        complete = _walk(trace, size)
        trace.truncated = not complete
        _read_metadata(trace)
    except BaseException:
        trace.close()
        raise
    return trace


def _pread(fd: int, count: int, offset: int) -> bytes:
    parts = []
    while count:
        part = os.pread(fd, count, offset)
        if not part:
            break
        parts.append(part)
        count, offset = count - len(part), offset + len(part)
    return b"".join(parts)


def _check_file_header(trace: Trace, size: int) -> None:
    header = _pread(trace._fd, FILE_HEADER.size, 0)
    if len(header) < FILE_HEADER.size:
        raise FormatError(trace.path, 0, "not a trace: shorter than its header")
    magic, version, flags, crc = FILE_HEADER.unpack(header)
    if magic != b"HEAPTAPE":
        raise FormatError(trace.path, 0, "not a trace: wrong magic")
    if zlib.crc32(header[:12]) != crc:
        raise FormatError(trace.path, 12, "the header's CRC is wrong")
    if version != 1:
        raise FormatError(trace.path, 8, f"version {version} is not known")
    if flags:
        raise FormatError(trace.path, 10, f"flags {flags:#x} are not known")


def _walk(trace: Trace, size: int) -> bool:
    """Reads all block headers. True if the file is complete, False if it is truncated."""
    offset = FILE_HEADER.size
    while block := _read_block(trace, offset, size):
        if not trace.blocks and block.type != INFO:
            raise FormatError(trace.path, offset, "the first block is not INFO")
        if block.type not in KNOWN_COLUMNS and block.critical:
            raise FormatError(trace.path, offset, f"block type {block.type} is critical and not known")
        trace.blocks.append(block)
        offset = block.end
        if block.type == FOOTER:
            rest = _pread(trace._fd, TRAILER.size + 1, offset)
            return rest == TRAILER.pack(block.offset, b"HEAPTEND")
    return False


def _read_block(trace: Trace, offset: int, size: int) -> Block | None:
    """The block there; None if the file ends before the block does."""
    header = _pread(trace._fd, BLOCK_HEADER.size, offset)
    if len(header) < BLOCK_HEADER.size:
        return None
    magic, kind, flags, columns, payload, thread, rows, steps, first, last, sequence, crc = BLOCK_HEADER.unpack(header)
    if magic != b"HTBK":
        raise FormatError(trace.path, offset, "not a block: wrong magic")
    directory = _pread(trace._fd, columns * COLUMN.size, offset + BLOCK_HEADER.size)
    if len(directory) < columns * COLUMN.size:
        return None
    if zlib.crc32(directory, zlib.crc32(header[:44])) != crc:
        raise FormatError(trace.path, offset, "the block's CRC is wrong")
    if columns > MAX_COLUMNS or payload > MAX_PAYLOAD or thread >= MAX_THREAD or rows > MAX_ROWS:
        raise FormatError(trace.path, offset, "the block's columns, bytes, thread or rows are above the limit")
    entries, begin = [], offset + BLOCK_HEADER.size + len(directory)
    for number, encoding, shift, column_flags, raw, stored, _ in COLUMN.iter_unpack(directory):
        entries.append(Column(number, encoding, shift, bool(column_flags & CRITICAL), raw, stored, begin))
        begin += stored
    end = offset + BLOCK_HEADER.size + payload
    if begin != end:
        raise FormatError(trace.path, offset, "the columns' bytes do not add up to the payload")
    if end > size:
        return None
    before = trace.blocks[-1] if trace.blocks else None
    nodes = before.stack_nodes + before.rows * (before.type == STACKS) if before else 0
    if nodes > MAX_STACK_NODES:
        raise FormatError(trace.path, offset, "more stack nodes than a trace can have")
    block = Block(
        offset, kind, bool(flags & CRITICAL), thread, rows, steps, first, last, sequence, tuple(entries), end, nodes
    )
    _check_columns(trace.path, block)
    return block


def _check_columns(path: str, block: Block) -> None:
    known = KNOWN_COLUMNS.get(block.type)
    if known is None:
        return
    seen: set[int] = set()
    for column in block.columns:
        usable = column.id in known and column.encoding == 1
        if not usable and column.critical:
            raise FormatError(path, block.offset, f"column {column.id} is critical and not known")
        if usable and column.id in seen:
            raise FormatError(path, block.offset, f"column {column.id} is there twice")
        seen.add(column.id)
        limit = MAX_RAW
        if block.type == EVENTS:
            limit = (10 * block.rows + 64) * {9: 2, 10: 2, 11: 2, 16: 4}.get(column.id, 1)
        if usable and column.raw_bytes > limit:
            raise FormatError(
                path, block.offset, f"column {column.id} has {column.raw_bytes} raw bytes, at most {limit} can be"
            )


def _usable(block: Block) -> list[Column]:
    return [c for c in block.columns if c.id in KNOWN_COLUMNS[block.type] and c.encoding == 1]


def _decompress(path: str, block: Block, column: Column, stored: bytes) -> bytes:
    def bad(what: str) -> FormatError:
        return FormatError(path, block.offset, f"column {column.id}: {what}")

    if len(stored) != column.stored_bytes:
        raise bad("the file has become shorter")
    try:
        frame = zstandard.get_frame_parameters(stored)
        if frame.content_size != column.raw_bytes:
            raise bad("the frame's content size is not the column's raw bytes")
        if not frame.has_checksum or frame.dict_id or frame.window_size > MAX_WINDOW:
            raise bad("the frame has no checksum, or a dictionary, or too large a window")
        raw = zstandard.ZstdDecompressor().decompress(stored, max_output_size=column.raw_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise bad(f"not a sound zstd frame: {error}") from error
    if len(raw) != column.raw_bytes:
        raise bad("the frame's content size is not the column's raw bytes")
    return raw


def _read_metadata(trace: Trace) -> None:
    """Info, gaps, footer; and what must hold between blocks of one thread."""
    following: dict[int, tuple[int, int]] = {}
    for block in trace.blocks:
        if block.type == INFO and not trace.info:
            trace.info = trace._json(block, MAX_INFO)
            if not isinstance(trace.info.get("clock"), dict):
                raise FormatError(trace.path, block.offset, "the info has no clock")
        elif block.type in (EVENTS, GAP):
            sequence, stamp = following.get(block.thread, (0, 0))
            if block.sequence != sequence:
                raise FormatError(trace.path, block.offset, f"block {sequence} of thread {block.thread} is missing")
            if block.type == EVENTS and block.first_stamp < stamp:
                raise FormatError(trace.path, block.offset, f"the stamps of thread {block.thread} go back")
            following[block.thread] = (sequence + 1, block.last_stamp if block.type == EVENTS else stamp)
        if block.type == GAP:
            dropped = trace._json(block).get("dropped")
            if block.rows or not isinstance(dropped, int) or isinstance(dropped, bool) or dropped < 0:
                raise FormatError(trace.path, block.offset, "a gap that does not say how many events it dropped")
            trace.dropped += dropped
        elif block.type == FOOTER:
            trace.footer = trace._json(block)
            trace.differences = _differences(trace, block)
    if trace.truncated:
        trace.footer = None


def _differences(trace: Trace, block: Block) -> list[str]:
    footer, out = trace.footer or {}, []
    for key, found in (("events", trace.event_count), ("dropped", trace.dropped), ("threads", trace.threads)):
        if key in footer and footer[key] != found:
            out.append(f"{key}: the footer says {footer[key]}, the blocks have {found}")
    index = next((c for c in _usable(block) if c.id == 2), None)
    expected = b"".join(
        struct.pack("<QQQ", b.offset, b.first_stamp, b.thread << 32 | b.rows) for b in trace.blocks if b.type == EVENTS
    )
    if index is not None and trace._column(block, index) != expected:
        out.append("the footer's index is not that of the blocks")
    return out


def _batch(block: Block, begin: int, events: Events) -> pa.RecordBatch:
    number = events.call & calls.ID_MASK
    has_size, has_param = calls.HAS_SIZE[number], calls.PARAM_KIND[number] != calls.NO_PARAM
    names = pa.DictionaryArray.from_arrays(pa.array(calls.PLACE[number]), pa.array(calls.NAMES))
    single = events.takes & ~(events.releases & events.acquires)
    arrays = [
        pa.array(np.full(block.rows, block.thread, np.uint32)),
        pa.array(np.arange(begin, begin + block.rows, dtype=np.uint64)),
        names,
        pa.array((events.call & calls.NULL_OUT) != 0),
        pa.array((events.call & calls.NULL_IN) != 0),
        pa.array(events.request_bytes, mask=~has_size),
        pa.array(events.size, mask=~has_size),
        pa.array(events.param, mask=~has_param),
        pa.array(events.released, mask=~events.takes),
        pa.array(events.acquired, mask=~events.acquires),
        pa.array(events.release_stamp, mask=~events.takes),
        pa.array(events.acquire_stamp, mask=single),
        pa.array(events.releases),
        pa.array(events.touched, mask=~events.touched_known),
        pa.array(events.latency - np.uint64(1), mask=events.latency == 0),
        pa.array(events.request_bytes + events.slack - np.uint64(1), mask=events.slack == 0),
        pa.array(events.stack, mask=events.stack == 0),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
