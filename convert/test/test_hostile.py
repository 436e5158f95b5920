# SPDX-License-Identifier: MIT
"""Harmful files: valid checksums and headers, and claims that would make a naive reader exhaust its memory or never
end.

Each is a small real file with some of its numbers replaced (core/trace/FORMAT.md, core/workload/WORKLOAD.md) and its
checksums corrected. A reader has 512 MiB of address space and prints one line that names the file and an offset.
"""

import random
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from heaptape.common.errors import FormatError

from convert.test.models.history_maker import legal
from convert.test.models.history_model import text
from convert.test.models.tape_maker import (
    ACCESSES,
    EVENTS,
    FAR,
    FOOTER,
    GAP,
    MARKS,
    MAX_ROWS,
    PLACES,
    ROWS,
    SAMPLES,
    STACKS,
    Block,
    Column,
    Tape,
)
from tests.leb import leb
from tests.oracle.reader import open_trace
from tests.support import CONVERT, Result, compile_trace, import_text, run, succeed

ADDRESS_SPACE_BYTES = 512 << 20


def small(folder: Path, suffix: str, *options: str) -> Path:
    tape = import_text(folder, text(legal(7, 3, 80, 6), 3))
    if options:
        plain = tape.rename(folder / "plain.tape")
        succeed(CONVERT, "convert", *options, plain, tape)
    return compile_trace(tape) if suffix == "work" else tape


def bounded(*command: str | Path) -> Result:
    return run(CONVERT, *command, most_bytes=ADDRESS_SPACE_BYTES)


def names_place(result: Result, path: Path) -> bool:
    """Is there an offset? Errors that only the whole history shows have a thread and a call instead."""
    return (
        re.match(rf"heaptape-convert: {re.escape(str(path))}: (offset \d+|thread \d+: \w+): ", result.stderr)
        is not None
    )


def assert_refused(path: Path, *commands: str) -> None:
    for command in commands:
        out = ["-o", path.with_suffix(".out")] if command == "compile" else []
        result = bounded(command, path, *out)
        assert result.status == 1, (command, result)
        assert result.stderr.count("\n") == 1, (command, result.stderr)
        assert names_place(result, path), (command, result.stderr)
        assert not path.with_suffix(".out").exists()


def frame_that_lies(tape: Tape) -> None:
    """The frame claims 2^40 bytes, the directory an allowed size."""
    column = tape.first(EVENTS).columns[0]
    column.raw_bytes = len(column.raw)
    column.frame = b"\x28\xb5\x2f\xfd\xe4" + struct.pack("<Q", 1 << 40) + b"\x01\x00\x00" + bytes(4)


def frame_that_holds_more(tape: Tape) -> None:
    """Frame and directory claim 4 bytes; its only block repeats a byte 2^17 times."""
    column = tape.first(EVENTS).columns[0]
    column.raw_bytes = 4
    column.frame = b"\x28\xb5\x2f\xfd\x24\x04" + ((1 << 17) << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"x" + bytes(4)


def columns_at_their_limit(tape: Tape) -> None:
    """Every column of 2^20 rows has its largest size; in the file it is a hundred thousand times smaller."""
    limit = 10 * MAX_ROWS + 64
    columns = [Column(i, bytes(limit)) for i in range(1, 16) if i != 5]
    columns[0] = Column(1, bytes(MAX_ROWS))
    tape.before_footer(Block(EVENTS, columns, thread=9, rows=MAX_ROWS, steps=MAX_ROWS))


def accesses_of_nothing(tape: Tape) -> None:
    tape.before_footer(Block(ACCESSES, [Column(1, b"\0")], rows=MAX_ROWS))


def accesses_at_their_limit(tape: Tape) -> None:
    columns = [Column(1, b"\xff" * MAX_ROWS), *(Column(i, bytes(10 * MAX_ROWS)) for i in (2, 3, 4, 6, 8, 9, 10))]
    tape.before_footer(Block(ACCESSES, columns, rows=MAX_ROWS))


def archive_of_nothing(tape: Tape) -> None:
    block = tape.first(EVENTS)
    block.columns, block.rows, block.steps = [Column(ROWS, b"\0\0"), Column(PLACES, b"\0")], MAX_ROWS, MAX_ROWS


def far_reference(tape: Tape) -> None:
    """A release of an acquire 2^63 back."""
    column = next(c for c in tape.first(EVENTS).columns if c.id == 4)
    column.raw = b"\x80" * 9 + b"\x01" + column.raw[1:]


def json_of_many_values(tape: Tape) -> None:
    tape.before_footer(Block(MARKS, [Column(1, b"[" + b"[]," * ((1 << 26) // 3 - 2) + b"[]]")], rows=1))


def json_of_many_values_in_a_gap(tape: Tape) -> None:
    values = b"[" + b"{}," * ((1 << 26) // 3 - 20) + b"{}]"
    tape.before_footer(Block(GAP, [Column(1, b'{"dropped":0,"x":' + values + b"}")], thread=9))


def json_of_great_depth(tape: Tape) -> None:
    tape.before_footer(Block(MARKS, [Column(1, b"[" * (1 << 19))], rows=1))


def stack_nodes_below_themselves(tape: Tape) -> None:
    tape.before_footer(Block(STACKS, [Column(1, b"\x00\x01"), Column(2, b"\x00\x00")], rows=2))


def stack_nodes_that_overflow(tape: Tape) -> None:
    tape.before_footer(*(Block(STACKS, [Column(1, b"\x01")], rows=MAX_ROWS) for _ in range(257)))


def dropped_events_that_overflow(tape: Tape) -> None:
    tape.before_footer(
        *(Block(GAP, [Column(1, b'{"dropped":9223372036854775807}')], thread=9, sequence=i) for i in range(3))
    )


def highest_thread(tape: Tape) -> None:
    tape.first(EVENTS).thread = (1 << 24) - 1


def samples_of_nothing(tape: Tape) -> None:
    tape.before_footer(Block(SAMPLES, [Column(1, b"\0")], rows=MAX_ROWS))


def payload_beyond_itself(tape: Tape) -> None:
    tape.first(EVENTS).payload_bytes = 0xFFFFFFFF


def footer_that_counts_2_63(tape: Tape) -> None:
    tape.first(FOOTER).columns[0].raw = b'{"events":9223372036854775808,"dropped":0}'


TAPES: list[tuple[Callable[[Tape], None], str]] = [
    (frame_that_lies, "compile"),
    (frame_that_holds_more, "compile"),
    (columns_at_their_limit, "check"),
    (accesses_of_nothing, "dump --accesses"),
    (accesses_at_their_limit, "dump --accesses"),
    (archive_of_nothing, "check"),
    (far_reference, "check"),
    (json_of_many_values, "dump"),
    (json_of_many_values_in_a_gap, "check"),
    (json_of_great_depth, "dump"),
    (stack_nodes_below_themselves, "dump --stacks"),
    (stack_nodes_that_overflow, "check"),
    (dropped_events_that_overflow, "check"),
    (highest_thread, "check"),
    (samples_of_nothing, "info"),
    (payload_beyond_itself, "check"),
    (footer_that_counts_2_63, "check"),
]


@pytest.mark.parametrize(("harm", "command"), TAPES, ids=lambda value: getattr(value, "__name__", ""))
def test_harmful_trace_is_refused_in_bounded_memory(tmp_path, harm, command):
    path = small(tmp_path, "tape")
    tape = Tape.read(path)
    harm(tape)
    tape.write(path, count=harm is not footer_that_counts_2_63)
    result = bounded(*command.split(), path)
    assert result.status == 1, result
    assert result.stderr.count("\n") == 1, result.stderr
    assert names_place(result, path), result.stderr


def test_rewritten_trace_is_the_one_that_was_read(tmp_path):
    """The tests above change only what they intend to change."""
    for options in [(), ("--archive",)]:
        path = small(tmp_path, "tape", *options)
        before = succeed(CONVERT, "dump", path).stdout
        Tape.read(path).write(path)
        assert succeed(CONVERT, "dump", path).stdout == before


IMPOSSIBLE, SUM = "impossible block header", "columns do not add up to the block"
# Of a block of one row and one column of 4,000 bytes: offset in its header, form, the least value that is refused
# with this error; the one before is not (after, where the limit is a least).
BLOCK_FIELDS = [
    (6, "<H", 65, IMPOSSIBLE),
    (8, "<I", (1 << 30) + 1, IMPOSSIBLE),
    (12, "<I", 1 << 24, IMPOSSIBLE),
    (16, "<I", MAX_ROWS + 1, IMPOSSIBLE),
    (20, "<I", 3, IMPOSSIBLE),
    (8, "<I", 15, IMPOSSIBLE),
    (0, "<B", ord("H") + 1, "no block starts here (bad magic)"),
    (48 + 8, "<I", "stored + 1", SUM),
    (48 + 8, "<I", "stored - 1", SUM),
]


@pytest.mark.parametrize(("at", "form", "value", "error"), BLOCK_FIELDS)
def test_fields_of_a_block_are_refused_beyond_their_limits_and_not_at_them(tmp_path, at, form, value, error):
    path = small(tmp_path, "tape")
    tape = Tape.read(path)
    tape.before_footer(Block(MARKS, [Column(1, random.Random(1).randbytes(4000))], rows=1))
    tape.write(path)
    whole = path.read_bytes()
    offset = whole.rindex(b"HTBK\x08")
    before = struct.unpack_from(form, whole, offset + at)[0]
    beyond = before + int(value.split()[1] + value.split()[2]) if isinstance(value, str) else value
    for put, refused in (
        (beyond, True),
        (before if isinstance(value, str) else value + (1 if value == 15 else -1), False),
    ):
        data = bytearray(whole)
        struct.pack_into(form, data, offset + at, put)
        columns = struct.unpack_from("<H", data, offset + 6)[0]
        covered = data[offset : offset + 44] + data[offset + 48 : offset + 48 + 16 * columns]
        struct.pack_into("<I", data, offset + 44, zlib.crc32(covered))
        path.write_bytes(data)
        assert (f"{path}: offset {offset}: {error}\n" in bounded("check", path).stderr) == refused, put


@pytest.mark.parametrize("footer_offset", [0, 16, (1 << 63), (1 << 64) - 8])
def test_footer_elsewhere_is_refused(tmp_path, footer_offset):
    path = small(tmp_path, "tape")
    Tape.read(path).write(path, footer_offset)
    assert_refused(path, "check", "dump", "compile", "info")


@pytest.mark.parametrize("entry", [0, 16, 1 << 63, (1 << 64) - 1])
def test_index_that_points_back_or_outside_changes_nothing(tmp_path, entry):
    """The C reader walks the blocks: an index that is wrong, cyclic or backward has no effect."""
    path = small(tmp_path, "tape")
    tape = Tape.read(path)
    before = bounded("dump", path).stdout
    index = tape.first(FOOTER).columns[1]
    index.raw = struct.pack("<Q", entry) * (len(index.raw) // 8)
    tape.write(path)
    after = bounded("dump", path)
    assert after.status == 0
    assert after.stdout == before


def archive_block(rows: bytes, far: bytes = b"", more: tuple[Column, ...] = ()) -> Block:
    """A block of malloc(16), malloc(16) and one more event, given by `rows`."""
    columns = [Column(ROWS, b"\0\x10\0\x10" + rows), Column(FAR, far), Column(PLACES, b"\0\x80\1\x40"), *more]
    return Block(EVENTS, [column for column in columns if column.raw], rows=3, steps=3)


FREE, FAR_CODE = 1, 41
ARCHIVE_BLOCKS: list[tuple[Block, str]] = [
    (archive_block(bytes([FREE, 1])), ""),
    (archive_block(bytes([FREE, 2])), ""),
    (archive_block(bytes([FREE, 3])), "release names no acquire"),  # the third newest of two
    (archive_block(bytes([FREE, 9])), "release names no acquire"),  # newer than the newest
    (archive_block(bytes([FREE, 12])), ""),  # the second older than cursor 0
    (archive_block(bytes([FREE, 14])), "release names no acquire"),
    (archive_block(bytes([FREE, FAR_CODE]), b"\x08"), ""),  # one after the acquire of cursor 0
    (archive_block(bytes([FREE, FAR_CODE]), b"\x04"), "release names no acquire"),  # one before
    (archive_block(bytes([FREE, FAR_CODE]), b"\x10"), "release names no acquire"),  # two after
    (archive_block(bytes([FREE, FAR_CODE])), "far column is too short"),
    (archive_block(bytes([FREE, 1]), b"\0"), "more entries"),
    (archive_block(bytes([FREE, FAR_CODE + 1]), b"\0"), "release names no acquire"),
    (archive_block(bytes([FREE, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F])), "release names no acquire"),
    (archive_block(bytes([FREE])), "row column is too short"),
    (archive_block(bytes([FREE, 1]), more=(Column(16, b"\0\0"),)), "column 16, encoding 1, must be understood"),
    (archive_block(bytes([FREE, 1]), more=(Column(1, b"\0\0\0"),)), "one entry per row"),
]


@pytest.mark.parametrize("number", range(len(ARCHIVE_BLOCKS)))
def test_references_to_live_objects_are_refused_by_both_readers(tmp_path, number):
    block, says = ARCHIVE_BLOCKS[number]
    path = small(tmp_path, "tape")
    tape = Tape.read(path)
    tape.blocks[1:-1] = [block]
    tape.write(path, count=True)
    result = bounded("dump", path)
    if says:
        assert result.status == 1
        assert names_place(result, path), result.stderr
        assert says in result.stderr
        with pytest.raises(FormatError), open_trace(path) as trace:
            list(trace.events())
    else:
        assert result.status == 0, result.stderr
        with open_trace(path) as trace:
            released = next(trace.events()).to_pandas()["released_address"]
        assert f"free({int(released.iloc[2]):#x})" in result.stdout


# Workload header: offset and type of each field that counts or points, and values that overflow something. All but
# slots and info bytes are exact: one more or less is refused, too.
HUGE = [1 << 31, (1 << 32) - 2, (1 << 32) - 1]
VAST = [1 << 32, 1 << 40, 1 << 59, 1 << 60, 1 << 61, 1 << 63, (1 << 64) - 8, (1 << 64) - 1]
FIELDS = [
    ("version", 8, "<I", [0]),
    ("header bytes", 12, "<I", HUGE),
    ("live peak", 48, "<Q", VAST),
    ("most objects", 64, "<Q", VAST),
    ("objects at the end", 72, "<Q", VAST),
    ("threads", 40, "<I", [1 << 21, *HUGE]),
    ("slots", 44, "<I", HUGE),
    ("file bytes", 16, "<Q", VAST),
    ("ops", 24, "<Q", VAST),
    ("words", 32, "<Q", VAST),
    ("extent table", 88, "<Q", VAST),
    ("extents", 96, "<Q", VAST),
    ("info", 104, "<Q", VAST),
    ("info bytes", 112, "<Q", VAST),
    ("op counts", 120, "<Q", VAST),
]


def patched(data: bytes, *changes: tuple[int, str, int]) -> bytes:
    out = bytearray(data)
    for offset, form, value in changes:
        struct.pack_into(form, out, offset, value)
    struct.pack_into("<I", out, 252, zlib.crc32(out[:252]))
    return bytes(out)


@pytest.mark.parametrize(("name", "offset", "form", "values"), FIELDS, ids=[f[0] for f in FIELDS])
def test_wrong_number_in_a_workloads_header_is_refused(tmp_path, name, offset, form, values):
    work = small(tmp_path, "work")
    original = work.read_bytes()
    (right,) = struct.unpack_from(form, original, offset)
    near = [] if name in ("slots", "info bytes") else [right - 1, right + 1]
    for value in [*values, *near]:
        work.write_bytes(patched(original, (offset, form, value)))
        assert_refused(work, "check")


def test_workload_extents_that_overlap_or_lead_back_are_refused(tmp_path):
    work = small(tmp_path, "work")
    original = work.read_bytes()
    table, count = struct.unpack_from("<QQ", original, 88)
    first = struct.unpack_from("<IIQ", original, table)
    for number in range(min(count, 4)):
        place = table + 16 * number
        offsets = [0, 8, 252, table, table - 8, len(original), (1 << 63), (1 << 64) - 8]
        changes = [(place + 8, "<Q", value) for value in offsets + ([first[2]] if number else [])]
        changes += [(place + 4, "<I", value) for value in (0, (1 << 32) - 1)]
        changes += [(place, "<I", value) for value in (5, (1 << 32) - 1)]
        for change in changes:
            work.write_bytes(patched(original, change))
            assert_refused(work, "check")


def test_any_two_parts_of_a_workload_in_one_place_are_refused(tmp_path):
    """Extents of 40 threads, their table, the op counts and the info, in any order in the file."""
    lines = [f"{i} {i} malloc({i}) = {4096 * i + 4096:#x}\n" for i in range(40)]
    work = compile_trace(import_text(tmp_path, "".join(lines)))
    original = work.read_bytes()
    table, count, info, info_bytes, counts = struct.unpack_from("<5Q", original, 88)
    rows = [(table + 16 * i, *struct.unpack_from("<IIQ", original, table + 16 * i)) for i in range(count)]
    parts = [(at + 8, 8 * words, place) for at, _, words, place in rows]  # where its offset is, bytes, offset
    parts += [(120, 8 * 40, counts), (104, info_bytes, info), (88, 16 * count, table)]
    assert bounded("check", work).status == 0
    for field_at, size, _ in parts[:-3:9] + parts[-3:]:
        for other_at, other_size, place in parts[::3]:
            for offset in (place, place + other_size - 8):
                if other_at != field_at and offset % 8 == 0 and field_at != 88 and offset + size <= len(original):
                    work.write_bytes(patched(original, (field_at, "<Q", offset)))
                    result = bounded("check", work)
                    assert result.status == 1, (field_at, other_at)
                    assert "sections overlap" in result.stderr, result.stderr


def test_workload_op_counts_that_overflow_are_refused(tmp_path):
    work = small(tmp_path, "work")
    original = work.read_bytes()
    counts = struct.unpack_from("<Q", original, 120)[0]
    for value in (0, 1 << 63, (1 << 64) - 1):
        work.write_bytes(patched(original, (counts, "<Q", value)))
        assert_refused(work, "check")


def test_workload_sizes_of_2_63_are_refused(tmp_path):
    """SIZE_HIGH, PARAM and the schedule's run lengths at their highest."""
    work = compile_trace(import_text(tmp_path, "1 0 calloc(1000, 4294967296) = 0x1000\n2 0 free(0x1000)\n"))
    original = work.read_bytes()
    words = range(256, len(original) - 7, 8)
    codes = {code: next(at for at in words if original[at] == code and at >= 256) for code in (0xF0, 0xF1)}
    for at in codes.values():
        work.write_bytes(patched(original, (at + 1, "<I", 0xFFFFFFFF), (at + 4, "<I", 0xFFFFFFFF)))
        assert_refused(work, "check")
    table, count = struct.unpack_from("<QQ", original, 88)
    extents = [struct.unpack_from("<IIQ", original, table + 16 * i) for i in range(count)]
    schedule = next(offset for stream, _, offset in extents if stream == 1)
    work.write_bytes(patched(original, (schedule + 4, "<I", 0xFFFFFFFF)))
    assert_refused(work, "check")


@pytest.mark.parametrize("size", [1 << 63, (1 << 64) - 1])
def test_objects_of_2_63_bytes_are_refused(tmp_path, size):
    """Failed calls may request any size; a live object may not."""
    lines = f"1 0 calloc(18446744073709551615, {size}) = NULL\n2 0 malloc(64) = 0x1000\n"
    tape_path = import_text(tmp_path, lines)
    assert run(CONVERT, "check", tape_path).status == 0
    tape = Tape.read(tape_path)
    column = next(c for c in tape.first(EVENTS).columns if c.id == 2)
    assert column.raw.endswith(b"\x40")
    column.raw = column.raw[:-1] + leb(size)
    tape.write(tape_path)
    assert_refused(tape_path, "check", "compile", "profile")


@pytest.mark.long
def test_workload_whose_words_are_damaged_is_refused_or_legal(tmp_path):
    """Words have no checksum: check must find what is wrong by their meaning."""
    work = compile_trace(import_text(tmp_path, text(legal(7, 3, 60, 6), 3)))
    original = work.read_bytes()
    statuses, source = [], random.Random(5)
    for _ in range(150):
        data = bytearray(original)
        data[source.randrange(256, 256 + 512)] ^= 1 << source.randrange(8)
        work.write_bytes(data)
        statuses.append(run(CONVERT, "check", work).status)
    assert set(statuses) == {0, 1}
    assert sum(statuses) > 15
