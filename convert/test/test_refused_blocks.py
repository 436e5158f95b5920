# SPDX-License-Identifier: MIT
"""Each rule of core/trace/FORMAT.md that a block can break: both readers, the product's and the oracle, refuse the file
there. What keeps the rules narrowly both read the same.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from heaptape.common.errors import FormatError
from heaptape.tape import trace

from convert.test.models.tape_maker import (
    ACCESSES,
    BURSTS,
    EVENTS,
    INFO,
    MARKS,
    MAX_ROWS,
    MODULES,
    STACKS,
    THREADS,
    Block,
    Column,
)
from tests.leb import leb
from tests.oracle.reader import open_trace

NO_SIZE = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(b"\0")
HEADER = struct.pack("<8sHH", b"HEAPTAPE", 1, 0)
ABOUT = Block(INFO, [Column(1, b'{"clock":{"kind":"tsc","hz":1e9},"accesses":{"granule_bytes":16}}')])
MALLOC, FREE = {1: "00", 2: "10", 7: "00", 8: "00"}, {1: "01", 4: "00", 6: "20"}


def block(kind: int, columns: dict[int, str | bytes | Column], **fields: Any) -> Block:  # noqa: ANN401
    """columns: by id, hexadecimal, raw or whole."""
    made = [
        raw if isinstance(raw, Column) else Column(number, bytes.fromhex(raw) if isinstance(raw, str) else raw)
        for number, raw in columns.items()
    ]
    return Block(kind, made, **{"rows": 1} | fields)


def events(columns: dict[int, Any], **fields: int) -> list[Block]:
    return [block(EVENTS, columns, **{"steps": 1} | fields)]


def rows_of(kind: int, text: bytes) -> list[Block]:
    """A block of JSON rows, before an event."""
    return [block(kind, {1: text}), *events(MALLOC)]


def stacks(parents: str, instructions: str, rows: int = 1) -> list[Block]:
    return [block(STACKS, {1: parents, 2: instructions}, rows=rows), *events(MALLOC)]


def accesses(columns: dict[int, Any], rows: int = 1, before: int = 9, last: int | None = None) -> list[Block]:
    """A block of accesses after one of `before` calls that acquire; last: the number of such calls at its end."""
    calls = block(ACCESSES, {1: b"\1" * before, 2: bytes(before), 3: bytes(before)}, rows=before, last_stamp=before)
    last = before if last is None else last
    return [*([calls] if before else []), block(ACCESSES, columns, rows=rows, first_stamp=before, last_stamp=last)]


OTHER = {1: "03", 6: "02", 10: "00"}  # an access to other memory


def others(rows: int) -> Block:
    return block(ACCESSES, {1: b"\3" + b"\x80" * (rows - 1), 6: b"\2", 10: bytes(rows)}, rows=rows)


def switches(*rows: int, first: int = 0, count: int | None = None) -> Block:
    """A BURSTS block whose beginnings and ends come before those rows."""
    number = len(rows) if count is None else count
    steps = b"".join(leb(b - a) for a, b in zip((0, *rows), rows))
    return block(BURSTS, {1: steps}, rows=number, first_stamp=first, last_stamp=first + number)


CALL = {1: "00", 2: "00", 3: "00"}
# The blocks, of which the last one (of EVENTS, STACKS and JSON rows: the first) breaks a rule; what the product says.
REFUSED: list[tuple[list[Block], str]] = [
    ([block(14, {}, rows=0)], "block type 14 must be understood"),
    (events(MALLOC | {40: ""}), "column 40, encoding 1, must be understood"),
    (events(MALLOC | {11: Column(11, b"", encoding=2)}), "column 11, encoding 2, must be understood"),
    (events({1: Column(1, b"\0", frame=NO_SIZE)}), "column 1 is not one zstd frame"),
    (events({1: Column(1, b"\0", frame=b"abc")}), "column 1 is not one zstd frame"),
    (events({1: bytes(75)}), "column 1 is larger than its block allows"),
    (events(MALLOC, rows=2), "fewer steps than rows"),
    (events(MALLOC | {2: "0101"}), "more entries than events that use it"),
    (events({1: "3e"}), "unknown call"),
    (events({1: "40"}), "impossible flags"),
    (events({1: "81"}), "impossible flags"),
    (events({1: "01", 4: "01"}), "distance reaches before the block"),
    (events(MALLOC | {7: "01", 8: ""}), "acquire hit on an empty stack"),
    (events({1: "00", 2: "80808001", 7: "01"}), "acquire hit on an empty stack"),
    (events(MALLOC | {7: "02"}), "unused bits"),
    (events(MALLOC | {2: "80"}), "size column is too short"),
    (events(FREE, steps=2), "fewer steps than the header says"),
    (events(FREE | {9: "00", 10: "ff" * 9 + "01"}, first_stamp=5, last_stamp=4), "stamp"),
    (events(FREE | {9: "01", 10: "01"}), "past the block's end"),
    (events(FREE, first_stamp=5, last_stamp=6), "last stamp differs"),
    (events(FREE | {11: "0101"}), "touched column reaches past"),
    (events(MALLOC | {12: "0101"}), "more entries than events that use it"),
    (events(FREE | {13: "01"}), "more entries than events that use it"),
    (events(MALLOC | {13: "8080808010"}), "slack column"),
    (events(MALLOC | {14: "02"}), "stack that no STACKS block before this one has"),
    (events(MALLOC, sequence=1), "out of sequence"),
    (stacks("02", "02"), "parent is not before its child"),
    (stacks("00", "02"), "parent is not before its child"),
    (stacks("0101", "02", rows=2), "STACKS column is too short"),
    (rows_of(MODULES, b"{}"), "not a JSON array of 1 values"),
    (rows_of(MARKS, b"[]"), "not a JSON array of 1 values"),
    (rows_of(MODULES, b'[{"name": "a", "start": 2, "end": 2, "bias": 0}]'), "row 0 is not a module"),
    (rows_of(MODULES, b'[{"name": "a", "start": 1, "end": 2}]'), "row 0 is not a module"),
    (rows_of(MARKS, b'[{"stamp": 1, "thread": 0, "events": 0}]'), "row 0 is not a mark"),
    (rows_of(MARKS, b'[{"stamp": -1, "thread": 0, "events": 0, "text": ""}]'), "row 0 is not a mark"),
    (rows_of(THREADS, b'[{"thread": 16777216, "name": "a"}]'), "row 0 is not the name of a thread"),
    (rows_of(THREADS, b'[{"thread": 0, "name": "a\\u0000"}]'), "not a JSON array"),
    (accesses({1: "04"}), "unknown code"),
    (accesses({1: "3f"}), "unknown code"),
    (accesses(CALL, rows=2), "another length"),
    (accesses({}), "another length"),
    (accesses({1: "00"}, rows=MAX_ROWS), "another length"),
    (accesses(CALL | {40: ""}), "must be understood"),
    (accesses(CALL | {2: bytes(75)}), "larger than its block allows"),
    (accesses(CALL, last=8), "does not follow the one before"),
    (accesses(CALL | {1: "01"}, last=11), "more calls that acquired"),
    (accesses(CALL, last=10), "not those of the header"),
    (accesses(CALL | {1: "01"}), "not those of the header"),
    ([block(ACCESSES, CALL, first_stamp=5, last_stamp=5)], ""),
    (accesses({1: "00", 3: "00"}), "threads or stack pointers"),
    (accesses({1: "00", 2: "00"}), "threads or stack pointers"),
    (accesses(CALL | {3: "80" * 9 + "02"}), "threads or stack pointers"),
    (accesses(CALL | {2: "80808008"}), "thread number or stack pointer"),
    (accesses(CALL | {3: "01"}), "thread number or stack pointer"),
    (accesses(CALL | {2: "0000"}), "left over"),
    (accesses(CALL | {9: "00"}), "left over"),
    (accesses(CALL | {10: "00"}), "left over"),
    (accesses({1: "40", 9: "00"}), "place beyond the list of objects"),
    (accesses({1: "0241", 4: "01", 9: "0000"}, rows=2), "place beyond the list of objects"),
    (accesses({1: "80", 10: "00"}), "OS page that the block"),
    (accesses({1: "0381", 6: "02", 10: "0000"}, rows=2), "OS page that the block"),
    (accesses({1: "03ff", 6: "02", 8: "00", 10: "0000"}, rows=2), "OS page that the block"),
    (accesses({1: "03ff", 6: "02", 8: "81" + "ff" * 8 + "01", 10: "0000"}, rows=2), "OS page that the block"),
    (accesses({1: "03ff", 6: "02", 10: "0000"}, rows=2), "far OS pages"),
    (accesses({1: "02", 4: "00", 9: "00"}), "no call before has acquired"),
    (accesses({1: "02", 4: "0a", 9: "00"}), "no call before has acquired"),
    (accesses({1: "02", 9: "00"}), "column of objects"),
    (accesses({1: "02", 4: "01"}), "column of offsets"),
    (accesses({1: "02", 4: "01", 9: "ff" * 9 + "02"}), "column of offsets"),
    (accesses({1: "0202", 4: "0101", 9: "00"}, rows=2), "column of offsets"),
    (accesses({1: "0202", 4: "0101", 9: "0080"}, rows=2), "column of offsets"),
    (accesses({1: "02", 4: "01", 9: "0000"}), "left over"),
    (accesses({1: "02", 4: "01", 9: "ff" * 9 + "01"}), "granule of an object"),
    (accesses({1: "02", 4: "01", 9: "80" * 8 + "10"}), "granule of an object"),  # 2^59
    (accesses(OTHER | {6: ""}), "column of OS pages"),
    (accesses(OTHER | {6: "80" * 10 + "01"}), "column of OS pages"),
    (accesses(OTHER | {6: "01"}), "number of an OS page"),
    (accesses(OTHER | {6: "80" * 7 + "10"}), "number of an OS page"),  # 2^52
    (accesses({1: "03", 6: "02"}), "places in OS pages"),
    (accesses({1: "0380", 6: "02", 10: "00"}, rows=2), "places in OS pages"),
    (accesses(OTHER | {10: "0000"}), "left over"),
    ([switches(1), others(30)], "outside"),
    ([switches(0, 3), others(30)], "outside"),
    ([switches(0, first=2)], ""),
    ([switches(0), others(30), switches(5, first=1)], ""),
    ([switches(0, count=2)], ""),
    ([switches(0, 3, 3, count=1)], ""),
    ([switches(0, (1 << 64) - 1, (1 << 64) + 5)], ""),
    ([block(BURSTS, {1: bytes(1 << 20)}, last_stamp=1)], "larger"),
]
READ: list[list[Block]] = [
    accesses({1: "020240", 4: "0901", 9: "ffffffffffffffff0f0202"}, rows=3),  # -2^59, 1 and 2
    accesses({1: "030381", 6: "0202", 10: "ff01ff"}, rows=3),
    accesses({1: "0240", 4: "09", 9: "ffffffffffffffff0f02"}, rows=2),  # -2^59, then one more
    accesses({1: "0380", 6: "feffffffffffff0f", 10: "ff00"}, rows=2),  # 2^52 - 1, twice
    accesses({1: "0102", 2: "ffffff07", 3: "00", 4: "0a", 9: "00"}, rows=2, last=10),
    # Offsets and steps are sorted by entry and page.
    accesses({1: "0202410303808140", 4: "0901", 6: "0204", 9: "0a070902", 10: "101008ff"}, rows=8),
    # malloc(16), free, free, malloc(16), malloc(16), in both forms: another thread got the address between the frees.
    events({1: "0001010000", 2: "101010", 4: "0101", 7: "06", 8: "20"}, rows=5, steps=5),
    events({18: "00100101012900100010", 17: "00600000", 19: "00"}, rows=5, steps=5),
    [block(14, {1: "00"}, critical=False), *events(MALLOC)],
    events(MALLOC | {40: Column(40, b"x", critical=False), 12: Column(12, b"y", critical=False, encoding=7)}),
]


def contents(file: Any) -> Iterator[object]:  # noqa: ANN401
    """All that a reader finds in an open file."""
    yield from (batch.to_pylist() for batch in file.events())
    yield file.samples().to_dict("list")
    for part in ("stacks", "modules", "marks"):
        yield getattr(file, part)().to_dict("list")
    yield file.thread_names()
    yield [row for frame in file.accesses() for row in frame.astype(object).fillna(-1).to_numpy().tolist()]
    yield file.bursts().astype(object).fillna(-1).to_numpy().tolist()


def read(reader: Any, path: Path) -> list:  # noqa: ANN401
    with reader(path) as file:
        return list(contents(file))


def offset_refused(reader: Any, path: Path, says: str = "") -> int:  # noqa: ANN401
    with pytest.raises(FormatError) as caught:
        read(reader, path)
    assert says in caught.value.what
    return caught.value.offset


def write(path: Path, *blocks: Block, header: bytes = HEADER) -> list[int]:
    """A trace without an end; the offset of each block."""
    data, offsets = header + struct.pack("<I", zlib.crc32(header)), []
    for one in blocks:
        offsets.append(len(data))
        data += one.packed()
    path.write_bytes(data)
    return offsets


@pytest.mark.parametrize(("blocks", "says"), REFUSED, ids=range(len(REFUSED)))
def test_both_readers_refuse_a_block_that_breaks_a_rule_where_it_is(blocks, says, tmp_path):
    _, *offsets = write(tmp_path / "b.tape", ABOUT, *blocks)
    broken = offsets[0 if blocks[-1].type == EVENTS else -1]
    assert offset_refused(open_trace, tmp_path / "b.tape") == broken
    assert broken <= offset_refused(trace.open_trace, tmp_path / "b.tape", says) < broken + 500


@pytest.mark.parametrize(
    ("header", "about", "offset", "says"),
    [
        (struct.pack("<8sHH", b"HEAPTAPE", 2, 0), ABOUT, 8, "version 2"),
        (struct.pack("<8sHH", b"HEAPTAPE", 1, 4), ABOUT, 10, "unknown flags"),
        (HEADER, events(MALLOC)[0], 16, "first block is not INFO"),
        (HEADER, Block(INFO, [Column(1, b"{}")]), 16, "no clock"),
        (HEADER, Block(INFO, [Column(1, b"[]")]), 16, "not a JSON object"),
    ],
)
def test_both_readers_refuse_another_beginning(header, about, offset, says, tmp_path):
    write(tmp_path / "b.tape", about, header=header)
    assert offset_refused(open_trace, tmp_path / "b.tape") == offset
    assert offset_refused(trace.open_trace, tmp_path / "b.tape", says) == offset


@pytest.mark.parametrize("blocks", READ, ids=range(len(READ)))
def test_both_readers_read_what_is_just_allowed_the_same(blocks: list[Block], tmp_path: Path) -> None:
    write(tmp_path / "b.tape", ABOUT, *blocks)
    assert read(trace.open_trace, tmp_path / "b.tape") == read(open_trace, tmp_path / "b.tape")
