# SPDX-License-Identifier: MIT
"""The container of core/trace/FORMAT.md: headers of file and blocks, directories, columns decompressed. The
columns are decoded by the modules beside.
"""

import json
import os
import struct
import zlib
from dataclasses import dataclass, field
from typing import Self

import zstandard
from heaptape.common.errors import FormatError

FILE_HEADER, TRAILER = struct.Struct("<8sHHI"), struct.Struct("<Q8s")
BLOCK_HEADER, COLUMN = struct.Struct("<4sBBHIIIIQQII"), struct.Struct("<BBBBIII")
INFO, EVENTS, SAMPLES, GAP, TOUCHED, STACKS, MODULES, MARKS, THREADS, ACCESSES, BURSTS, FOOTER = *range(1, 11), 12, 15
CRITICAL = 1
MAX_COLUMNS, MAX_PAYLOAD, MAX_THREAD, MAX_ROWS, MAX_WINDOW = 64, 1 << 30, 1 << 24, 1 << 20, 8 << 20
MAX_RAW, MAX_INFO, MAX_STACK_NODES = 1 << 26, 1 << 20, 1 << 28
KNOWN_COLUMNS = {
    **dict.fromkeys((INFO, GAP, MODULES, MARKS, THREADS, BURSTS), {1}),
    **dict.fromkeys((STACKS, FOOTER), {1, 2}),
    TOUCHED: {1, 2, 3},
    SAMPLES: set(range(1, 17)),
    ACCESSES: set(range(1, 11)) - {5, 7},
    EVENTS: set(range(1, 21)) - {5, 16},
}


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
class BlockFile:
    """An open file of blocks; `blocks` are those whose headers were read."""

    path: str
    blocks: list[Block] = field(default_factory=list)
    descriptor: int = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; blocks can't be read any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()

    def column(self, block: Block, column: Column) -> bytes:
        """A column's bytes, decompressed. Raises FormatError."""
        return _decompress(self.path, block, column, _pread(self.descriptor, column.stored_bytes, column.offset))

    def json_object(self, block: Block, limit: int = MAX_RAW) -> dict:
        """Column 1 of a block as a JSON object. Raises FormatError."""
        value = self.json_value(block, limit)
        if not isinstance(value, dict):
            raise FormatError(self.path, block.offset, "its JSON is not an object")
        return value

    def json_value(self, block: Block, limit: int = MAX_RAW) -> object:
        """Column 1 of a block as JSON. Raises FormatError."""
        column = next((c for c in usable_columns(block) if c.id == 1), None)
        if column is None or column.raw_bytes > limit:
            raise FormatError(self.path, block.offset, "its JSON is missing or too long")
        try:
            return json.loads(self.column(block, column).decode())
        except (ValueError, RecursionError) as error:
            raise FormatError(self.path, block.offset, f"its JSON can't be read: {error}") from error

    def raw_columns(self, block: Block) -> dict[int, bytes]:
        """The known columns of a block, by id, decompressed. Raises FormatError."""
        return {c.id: self.column(block, c) for c in usable_columns(block)}


def _pread(fd: int, count: int, offset: int) -> bytes:
    parts = []
    while count:
        part = os.pread(fd, count, offset)
        if not part:
            break
        parts.append(part)
        count, offset = count - len(part), offset + len(part)
    return b"".join(parts)


def check_file_header(file: BlockFile) -> None:
    """Raises FormatError if the file is not a trace, or of an unknown version."""
    header = _pread(file.descriptor, FILE_HEADER.size, 0)
    if len(header) < FILE_HEADER.size:
        raise FormatError(file.path, 0, "not a trace: shorter than its header")
    magic, version, flags, crc = FILE_HEADER.unpack(header)
    if magic != b"HEAPTAPE":
        raise FormatError(file.path, 0, "not a trace: wrong magic")
    if zlib.crc32(header[:12]) != crc:
        raise FormatError(file.path, 12, "the header's CRC is wrong")
    if version != 1:
        raise FormatError(file.path, 8, f"version {version} is not known")
    if flags:
        raise FormatError(file.path, 10, f"flags {flags:#x} are not known")


def walk(file: BlockFile, size: int) -> bool:
    """Reads all block headers. True if the file is complete, False if it is truncated."""
    offset = FILE_HEADER.size
    while block := _read_block(file, offset, size):
        if not file.blocks and block.type != INFO:
            raise FormatError(file.path, offset, "the first block is not INFO")
        if block.type not in KNOWN_COLUMNS and block.critical:
            raise FormatError(file.path, offset, f"block type {block.type} is critical and not known")
        file.blocks.append(block)
        offset = block.end
        if block.type == FOOTER:
            rest = _pread(file.descriptor, TRAILER.size + 1, offset)
            return rest == TRAILER.pack(block.offset, b"HEAPTEND")
    return False


def _read_block(file: BlockFile, offset: int, size: int) -> Block | None:
    """The block at `offset`; None if the file ends before the block does."""
    header = _pread(file.descriptor, BLOCK_HEADER.size, offset)
    if len(header) < BLOCK_HEADER.size:
        return None
    magic, kind, flags, columns, payload, thread, rows, steps, first, last, sequence, crc = BLOCK_HEADER.unpack(header)
    if magic != b"HTBK":
        raise FormatError(file.path, offset, "not a block: wrong magic")
    directory = _pread(file.descriptor, columns * COLUMN.size, offset + BLOCK_HEADER.size)
    if len(directory) < columns * COLUMN.size:
        return None
    if zlib.crc32(directory, zlib.crc32(header[:44])) != crc:
        raise FormatError(file.path, offset, "the block's CRC is wrong")
    if columns > MAX_COLUMNS or payload > MAX_PAYLOAD or thread >= MAX_THREAD or rows > MAX_ROWS:
        raise FormatError(file.path, offset, "the block's columns, bytes, thread or rows are above the limit")
    entries, begin = [], offset + BLOCK_HEADER.size + len(directory)
    for number, encoding, shift, column_flags, raw, stored, _ in COLUMN.iter_unpack(directory):
        entries.append(Column(number, encoding, shift, bool(column_flags & CRITICAL), raw, stored, begin))
        begin += stored
    end = offset + BLOCK_HEADER.size + payload
    if begin != end:
        raise FormatError(file.path, offset, "the columns' bytes do not add up to the payload")
    if end > size:
        return None
    before = file.blocks[-1] if file.blocks else None
    nodes = before.stack_nodes + before.rows * (before.type == STACKS) if before else 0
    if nodes > MAX_STACK_NODES:
        raise FormatError(file.path, offset, "more stack nodes than a trace can have")
    block = Block(
        offset, kind, bool(flags & CRITICAL), thread, rows, steps, first, last, sequence, tuple(entries), end, nodes
    )
    _check_columns(file.path, block)
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
        if block.type in (ACCESSES, BURSTS):
            limit = 10 * block.rows + 64
        elif block.type == EVENTS:
            limit = (10 * block.rows + 64) * {9: 2, 10: 2, 11: 2, 18: 4}.get(column.id, 1)
        if usable and column.raw_bytes > limit:
            raise FormatError(
                path, block.offset, f"column {column.id} has {column.raw_bytes} raw bytes, at most {limit} can be"
            )


def usable_columns(block: Block) -> list[Column]:
    """The known columns of a block in a known encoding."""
    return [c for c in block.columns if c.id in KNOWN_COLUMNS[block.type] and c.encoding == 1]


_zstd = zstandard.ZstdDecompressor()


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
        raw = _zstd.decompress(stored, max_output_size=column.raw_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise bad(f"not a sound zstd frame: {error}") from error
    if len(raw) != column.raw_bytes:
        raise bad("the frame's content size is not the column's raw bytes")
    return raw
