# SPDX-License-Identifier: MIT
"""Splits a trace file into blocks and writes it again, with its checksums (core/trace/FORMAT.md): for tests that change
a number in a valid file, or add blocks to it.
"""

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

BLOCK = struct.Struct("<4sBBHIIIIQQII")
COLUMN = struct.Struct("<BBBBIII")
INFO, EVENTS, SAMPLES, GAP, STACKS, MODULES, MARKS, THREADS, ACCESSES, BURSTS, FOOTER = (
    1,
    2,
    3,
    4,
    *range(6, 11),
    12,
    15,
)
PLACES, ROWS, FAR = 17, 18, 19
MAX_ROWS = 1 << 20


@dataclass
class Column:
    id: int
    raw: bytes
    shift: int = 0
    raw_bytes: int | None = None  # None: unchanged
    frame: bytes | None = None
    critical: bool = True
    encoding: int = 1


@dataclass
class Block:
    type: int
    columns: list[Column]
    thread: int = 0
    rows: int = 0
    steps: int = 0
    first_stamp: int = 0
    last_stamp: int = 0
    sequence: int = 0
    payload_bytes: int | None = None
    critical: bool = True

    def packed(self) -> bytes:
        frames = [
            column.frame or zstandard.ZstdCompressor(write_checksum=True).compress(column.raw)
            for column in self.columns
        ]
        directory = b"".join(
            COLUMN.pack(
                c.id, c.encoding, c.shift, c.critical, len(c.raw) if c.raw_bytes is None else c.raw_bytes, len(frame), 0
            )
            for c, frame in zip(self.columns, frames, strict=True)
        )
        payload = directory + b"".join(frames)
        header = BLOCK.pack(
            b"HTBK", self.type, self.critical, len(self.columns), self.payload_bytes or len(payload), self.thread,
            self.rows, self.steps, self.first_stamp, self.last_stamp, self.sequence, 0,
        )[:44]  # fmt: skip
        return header + struct.pack("<I", zlib.crc32(header + directory)) + payload


@dataclass
class Tape:
    header: bytes
    blocks: list[Block] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Tape":
        data, at = path.read_bytes(), 16
        tape = cls(data[:16])
        while at < len(data) - 16:
            _, kind, _, columns, payload, *numbers, _ = BLOCK.unpack_from(data, at)
            place = at + 48 + 16 * columns
            block = Block(kind, [], *numbers)
            for i in range(columns):
                identity, _, shift, _, raw_bytes, stored, _ = COLUMN.unpack_from(data, at + 48 + 16 * i)
                raw = zstandard.ZstdDecompressor().decompress(data[place : place + stored]) if raw_bytes else b""
                block.columns.append(Column(identity, raw, shift))
                place += stored
            tape.blocks.append(block)
            at += 48 + payload
        return tape

    def first(self, kind: int) -> Block:
        return next(block for block in self.blocks if block.type == kind)

    def before_footer(self, *blocks: Block) -> None:
        self.blocks[-1:-1] = blocks

    def write(self, path: Path, footer_offset: int | None = None, count: bool = False) -> None:
        data = self.header
        last = 0
        if count:
            events, calls = (
                sum(block.rows for block in self.blocks if block.type == kind) for kind in (EVENTS, ACCESSES)
            )
            self.blocks[-1].columns[0].raw = b'{"events":%d,"dropped":0,"accesses":{"calls":%d}}' % (events, calls)
        for block in self.blocks:
            last = len(data)
            data += block.packed()
        path.write_bytes(data + struct.pack("<Q8s", last if footer_offset is None else footer_offset, b"HEAPTEND"))
