# SPDX-License-Identifier: MIT
"""The oracle (tests/oracle) and the C reader: they agree on files of the C writer, and so do the library that Python
uses and the oracle; the oracle survives any damage. Long: more files of the writer.
"""

import gc
import io
import re
import struct
import subprocess
import sys
import zlib

import numpy as np
import pandas as pd
import pytest
import zstandard
from conftest import ROOT
from heaptape import tape
from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.tape import calls, library, trace
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.leb import leb, zigzag
from tests.oracle import numbers as tape_numbers
from tests.oracle.accesses import decode_accesses
from tests.oracle.blocks import BLOCK_HEADER, COLUMN, EVENTS, FILE_HEADER, INFO
from tests.oracle.reader import open_trace
from tests.support import convert

INFO_JSON = b'{"clock":{"kind":"tsc","hz":1e9}}'
relaxed = examples(150)


def as_c_reader_prints(path):
    """The events as rows of the C reader's CSV."""
    with open_trace(path) as trace:
        assert not trace.truncated
        assert trace.differences == []
        frames = list(trace.frames())
    frame = pd.concat(frames).sort_values(["thread", "event"], kind="stable")
    number = frame["call"].astype(str).map({row[0]: n for n, row in calls.CALLS.items()}).astype("uint64")
    byte = number + calls.NULL_IN * frame["null"].astype("uint64") + calls.NULL_OUT * frame["failed"].astype("uint64")
    # The C reader prints both stamps for every event; here a missing step has none.
    release = frame["release_stamp"].fillna(frame["acquire_stamp"])
    acquire = frame["acquire_stamp"].fillna(frame["release_stamp"])
    touched = (frame["touched_os_pages"] + 1).fillna(0)
    columns = {
        "thread": frame["thread"],
        "call": byte,
        "size": frame["size"].fillna(0),
        "param": frame["param"].fillna(0),
    }
    columns |= {"released": frame["released_address"].fillna(0), "acquired": frame["acquired_address"].fillna(0)}
    columns |= {"release_stamp": release, "acquire_stamp": acquire, "touched": touched}
    columns |= {"latency": (frame["latency"] + 1).fillna(0), "usable": frame["usable_bytes"].fillna(0)}
    columns |= {"stack": frame["stack"].fillna(0)}
    return pd.DataFrame({name: column.astype("uint64") for name, column in columns.items()}).reset_index(drop=True)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 12))])
def test_two_readers_agree(seed, tmp_path, write_random_trace):
    events = 4000 if seed else 300  # with seed 0, each is a separate block
    expected = pd.read_csv(io.StringIO(write_random_trace(seed, events, tmp_path / "a.tape")), dtype="uint64")
    pd.testing.assert_frame_equal(as_c_reader_prints(tmp_path / "a.tape"), expected)
    convert("--archive", tmp_path / "a.tape", tmp_path / "b.tape")
    pd.testing.assert_frame_equal(as_c_reader_prints(tmp_path / "b.tape"), expected)


def assert_same(path):
    """All that heaptape.tape.trace finds in a file is what the oracle finds."""
    with trace.open_trace(path) as one, open_trace(path) as other:
        for name in ("info", "footer", "truncated", "threads", "event_count", "dropped", "access_rows", "in_bursts"):
            assert getattr(one, name) == getattr(other, name), name
        for found, expected in zip(one.events(), other.events(), strict=True):
            found.validate(full=True)
            assert found.to_pylist() == expected.to_pylist()
        for part in ("samples", "stacks", "modules", "marks", "bursts"):
            found, expected = getattr(one, part)(), getattr(other, part)()
            pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_index_type=False)
        assert one.thread_names() == other.thread_names()


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6])
def test_the_library_and_the_oracle_agree(seed, tmp_path, write_random_trace):
    write_random_trace(seed, 2000 if seed else 300, tmp_path / "a.tape")
    assert_same(tmp_path / "a.tape")
    convert("--archive", tmp_path / "a.tape", tmp_path / "b.tape")
    assert_same(tmp_path / "b.tape")
    (tmp_path / "c.tape").write_bytes((tmp_path / "b.tape").read_bytes()[:-100])
    assert_same(tmp_path / "c.tape")


def test_the_library_names_file_and_offset(tmp_path):
    path = tmp_path / "b.tape"
    path.write_bytes(blocks(events_of(*MALLOC_16[:2], column(7, b"\1"))))
    with trace.open_trace(path) as one, pytest.raises(FormatError) as caught:
        list(one.events())
    assert (caught.value.path, caught.value.offset) == (str(path), 16 + len(GOOD_INFO))
    assert caught.value.what == "row 0: acquire hit on an empty stack"
    path.write_bytes(b"no trace")
    with pytest.raises(FormatError) as caught:
        trace.open_trace(path)
    assert str(caught.value) == f"{path}: not a heaptape trace (8 bytes are too few)"
    with pytest.raises(FileNotFoundError):
        trace.open_trace(tmp_path / "none.tape")


@pytest.mark.parametrize("seed", [3, 6, 9])
def test_two_readers_agree_on_stacks(seed, tmp_path, write_random_trace):
    write_random_trace(seed, 500, tmp_path / "a.tape")
    expected = pd.read_csv(tmp_path / "a.tape.nodes", dtype="uint64").set_index("node")
    with open_trace(tmp_path / "a.tape") as trace:
        found = trace.stacks()
        assert list(trace.modules()["start"]) == [1, 101, 201]
        assert trace.thread_names() == {1: "worker"}
    assert len(expected) == 300
    assert set(expected["modules"]) == {0, 1, 2, 3}
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_index_type=False)


def test_marks_are_read(tmp_path, write_random_trace):
    write_random_trace(2, 4000, tmp_path / "a.tape")
    with open_trace(tmp_path / "a.tape") as trace:
        marks = trace.marks()
        frame = pd.concat(trace.frames())
        per_thread = frame.groupby("thread").size()
    assert list(marks["stamp"]) == [999, 1999, 2999, 3999]
    assert (marks["text"] == "mark").all()
    assert (marks["events"] <= marks["thread"].map(per_thread)).all()
    assert (marks["events"] > 0).all()


def test_samples_and_gaps_are_read(tmp_path, write_random_trace):
    write_random_trace(1, 4000, tmp_path / "a.tape")
    with open_trace(tmp_path / "a.tape") as trace:
        samples = trace.samples()
        assert trace.dropped == 12
    assert list(samples["stamp"]) == [i * 1000 for i in range(10)]
    assert list(samples["rss_anon_bytes"]) == [4096 * (20 - i) for i in range(10)]
    assert "user_ns" not in samples


def test_call_table_is_that_of_calls_def():
    text = (ROOT / "core" / "trace" / "calls.def").read_text()
    rows = re.findall(r'^CALL\((\d+), \w+, "(.*?)", (\d), (\w+), (\d), (\w+)\)$', text, re.MULTILINE)
    kinds, params = ("NOTHING", "RELEASES", "TOUCHES"), ("NONE", "COUNT", "ALIGN", "OPTION")
    table = {int(n): (name, a == "1", kinds.index(r), s == "1", params.index(p)) for n, name, a, r, s, p in rows}
    assert table == calls.CALLS


def read_all(path):
    """Every event of a file as bytes per (thread, number), up to the first error; and that error."""
    seen = {}
    try:
        with open_trace(path) as trace:
            trace.samples()
            for batch in trace.events():
                for row in batch.to_pylist():
                    seen[row["thread"], row["event"]] = tuple(row.values())
            return seen, None, trace.truncated
    except FormatError as error:
        return seen, error, False


@pytest.fixture(scope="module")
def sound(tmp_path_factory, write_random_trace):
    path = tmp_path_factory.mktemp("sound") / "a.tape"
    write_random_trace(3, 1200, path)
    return path.read_bytes(), read_all(path)[0]


@relaxed
@given(where=st.integers(0), flip=st.integers(1, 255))
def test_a_flipped_byte_gives_one_error_or_the_same_events(sound, tmp_path, where, flip):
    data, events = sound
    damaged = bytearray(data)
    damaged[where % len(data)] ^= flip
    path = tmp_path / "b.tape"
    path.write_bytes(damaged)
    seen, error, truncated = read_all(path)
    assert seen.items() <= events.items()
    assert error or truncated or seen == events
    if error:
        assert str(error).startswith(f"{path}: offset ")


@relaxed
@given(cut=st.integers(0))
@example(cut=0)
@example(cut=15)
@example(cut=16)
def test_a_cut_file_is_truncated_and_gives_a_prefix(sound, tmp_path, cut):
    data, events = sound
    path = tmp_path / "b.tape"
    path.write_bytes(data[: cut % len(data)])
    seen, error, truncated = read_all(path)
    assert seen.items() <= events.items()
    if cut % len(data) < FILE_HEADER.size:
        assert "shorter than its header" in str(error)
    else:
        assert error is None
        assert truncated


def column(number, raw, flags=0, encoding=1, shift=0, stored=None):
    """A directory entry and its bytes."""
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(raw) if stored is None else stored
    return COLUMN.pack(number, encoding, shift, flags, len(raw), len(frame), 0), frame


def block(kind, columns, *, rows=0, steps=0, first=0, last=0, thread=0, sequence=0, flags=1, payload=None):
    directory = b"".join(entry for entry, _ in columns)
    body = b"".join(frame for _, frame in columns)
    count = len(directory) + len(body) if payload is None else payload
    fields = [b"HTBK", kind, flags, len(columns), count, thread, rows, steps, first, last, sequence]
    head = struct.pack("<4sBBHIIIIQQI", *fields)
    return head + struct.pack("<I", zlib.crc32(head + directory)) + directory + body


def trace_file(*blocks, header=None):
    head = struct.pack("<8sHH", b"HEAPTAPE", 1, 0) if header is None else header
    return head + struct.pack("<I", zlib.crc32(head)) + b"".join(blocks)


GOOD_INFO = block(INFO, [column(1, INFO_JSON)])


def blocks(*others):
    """A file with an INFO block and these."""
    return trace_file(GOOD_INFO, *others)


NO_SUM = zstandard.ZstdCompressor(write_checksum=False).compress(b"\0")
NO_SIZE = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(b"\0")


def events_of(*columns, rows=1, steps=1, **others):
    return block(EVENTS, list(columns), rows=rows, steps=steps, **others)


MALLOC_16 = [column(1, b"\0"), column(2, b"\x10"), column(7, b"\0"), column(8, b"\0")]
FREE_FAR = [column(1, b"\x01"), column(4, b"\0"), column(6, b"\x20")]
MUST_REJECT = {
    "another version": (trace_file(header=struct.pack("<8sHH", b"HEAPTAPE", 2, 0)), 8, "version 2"),
    "unknown file flags": (trace_file(header=struct.pack("<8sHH", b"HEAPTAPE", 1, 4)), 10, "flags 0x4"),
    "first block not INFO": (trace_file(events_of(*MALLOC_16)), 16, "first block"),
    "info without clock": (trace_file(block(INFO, [column(1, b"{}")])), 16, "clock"),
    "info not an object": (trace_file(block(INFO, [column(1, b"[]")])), 16, "not an object"),
    "unknown critical block": (blocks(block(14, [])), None, "block type 14"),
    "unknown critical column": (blocks(events_of(*MALLOC_16, column(40, b"", flags=1))), None, "column 40"),
    "unknown critical encoding": (
        blocks(events_of(*MALLOC_16, column(11, b"", flags=1, encoding=2))), None, "column 11",
    ),
    "payload not the columns": (blocks(events_of(*MALLOC_16, payload=1000)), None, "add up"),
    "frame without checksum": (blocks(events_of(column(1, b"\0", stored=NO_SUM))), None, "no checksum"),
    "frame without size": (blocks(events_of(column(1, b"\0", stored=NO_SIZE))), None, "content size"),
    "not a frame": (blocks(events_of(column(1, b"\0", stored=b"abc"))), None, "zstd"),
    "too many raw bytes": (blocks(events_of(column(1, b"\0" * 75))), None, "75 raw bytes"),
    "too few calls": (blocks(events_of(*MALLOC_16, rows=2)), None, "column call"),
    "too many sizes": (
        blocks(events_of(*MALLOC_16[:1], column(2, b"\1\1"), *MALLOC_16[2:])), None, "column size",
    ),
    "unknown call": (blocks(events_of(column(1, b"\x3e"))), None, "call byte 0x3e"),
    "malloc given NULL": (blocks(events_of(column(1, b"\x40"))), None, "call byte 0x40"),
    "free that failed": (blocks(events_of(column(1, b"\x81"))), None, "call byte 0x81"),
    "distance before the block": (blocks(events_of(column(1, b"\x01"), column(4, b"\1"))), None, "distance"),
    "hit on an empty stack": (
        blocks(events_of(*MALLOC_16[:2], column(7, b"\1"))), None, "stack empty",
    ),
    "hit of a large request": (
        blocks(events_of(*MALLOC_16[:1], column(2, b"\x80\x80\x80\x01"), column(7, b"\1"))), None, "too large",
    ),
    "unused hit bit": (blocks(events_of(*MALLOC_16[:2], column(7, b"\2"), MALLOC_16[3])), None, "unused bit"),
    "number cut off": (blocks(events_of(MALLOC_16[0], column(2, b"\x80"), *MALLOC_16[2:])), None, "cut off"),
    "steps": (blocks(events_of(*FREE_FAR, steps=2)), None, "1 steps"),
    "stamps decrease": (
        blocks(events_of(*FREE_FAR, column(9, b"\0"), column(10, b"\xff" * 9 + b"\1"), first=5, last=4)),
        None, "lower",
    ),
    "stamp beyond the steps": (
        blocks(events_of(*FREE_FAR, column(9, b"\1"), column(10, b"\1"))), None, "beyond the last step",
    ),
    "another last stamp": (blocks(events_of(*FREE_FAR, first=5, last=6)), None, "last stamp"),
    "touched too far": (blocks(events_of(*FREE_FAR, column(11, b"\1\1"))), None, "touched"),
    "latencies too few": (blocks(events_of(*MALLOC_16, column(12, b"\1\1"))), None, "latency"),
    "slack of nothing": (blocks(events_of(*FREE_FAR, column(13, b"\1"))), None, "slack"),
    "slack too large": (blocks(events_of(*MALLOC_16, column(13, b"\x80\x80\x80\x80\x10"))), None, "slack"),
    "stack that is not there": (blocks(events_of(*MALLOC_16, column(14, b"\2"))), None, "stack"),
    "lost block": (blocks(events_of(*MALLOC_16, sequence=1)), None, "block 0 of thread 0 is missing"),
}  # fmt: skip


@pytest.mark.parametrize("case", MUST_REJECT)
def test_must_reject(case, tmp_path):
    data, offset, what = MUST_REJECT[case]
    path = tmp_path / "b.tape"
    path.write_bytes(data)
    _, error, _ = read_all(path)
    expected = 16 + len(GOOD_INFO) if offset is None else offset
    assert error is not None
    assert str(error).startswith(f"{path}: offset {expected}: ")
    assert what in str(error)


def text(rows):
    return [column(1, rows)]


MUST_REJECT_ANNOTATIONS = {
    "parent after its child": (block(6, [column(1, b"\2"), column(2, b"\2")], rows=1), "parent"),
    "parent is itself": (block(6, [column(1, b"\0"), column(2, b"\2")], rows=1), "parent"),
    "instructions too few": (block(6, [column(1, b"\1\1"), column(2, b"\2")], rows=2), "instruction"),
    "modules not an array": (block(7, text(b"{}"), rows=1), "array"),
    "fewer rows than announced": (block(8, text(b"[]"), rows=1), "array"),
    "module that ends first": (
        block(7, text(b'[{"name": "a", "start": 2, "end": 2, "bias": 0}]'), rows=1), "row 0",
    ),
    "module without bias": (block(7, text(b'[{"name": "a", "start": 1, "end": 2}]'), rows=1), "row 0"),
    "mark without text": (block(8, text(b'[{"stamp": 1, "thread": 0, "events": 0}]'), rows=1), "row 0"),
    "mark before time": (
        block(8, text(b'[{"stamp": -1, "thread": 0, "events": 0, "text": ""}]'), rows=1), "row 0",
    ),
    "thread number too high": (block(9, text(b'[{"thread": 16777216, "name": "a"}]'), rows=1), "row 0"),
    "name with a zero": (block(9, text(b'[{"thread": 0, "name": "a\\u0000"}]'), rows=1), None),
}  # fmt: skip


@pytest.mark.parametrize("case", MUST_REJECT_ANNOTATIONS)
def test_must_reject_annotations(case, tmp_path):
    data, what = MUST_REJECT_ANNOTATIONS[case]
    path = tmp_path / "b.tape"
    path.write_bytes(blocks(data, events_of(*MALLOC_16)))
    with open_trace(path) as trace, pytest.raises(FormatError) as caught:
        (trace.stacks(), trace.modules(), trace.marks(), trace.thread_names())
    assert str(caught.value).startswith(f"{path}: offset {16 + len(GOOD_INFO)}: ")
    assert what is None or what in str(caught.value)


@pytest.mark.parametrize(
    "extra",
    [block(14, [column(1, b"x")], flags=0), events_of(*MALLOC_16, column(40, b"x"), column(12, b"y", encoding=7))],
    ids=["block", "column"],
)
def test_unknown_but_not_critical_is_skipped(extra, tmp_path):
    path = tmp_path / "b.tape"
    path.write_bytes(blocks(extra, events_of(*FREE_FAR, sequence=int(b"\x10" in extra and extra[4] == 2))))
    seen, error, _ = read_all(path)
    assert error is None
    assert len(seen) in (1, 2)


def test_footer_that_differs_is_reported(tmp_path):
    footer = column(1, b'{"events":7,"dropped":0,"threads":1}')
    head = blocks(events_of(*MALLOC_16))
    end = block(15, [footer])
    path = tmp_path / "b.tape"
    path.write_bytes(head + end + struct.pack("<Q8s", len(head), b"HEAPTEND"))
    with open_trace(path) as trace:
        assert not trace.truncated
        assert trace.differences == ["events: the footer says 7, the blocks have 1"]


# malloc(16), free, free, malloc(16), malloc(16): between the two frees another thread got the address.
PUSHED_TWICE = {
    "plain": [
        column(1, b"\0\1\1\0\0"), column(2, b"\x10" * 3), column(4, b"\1\1"), column(7, b"\6"), column(8, b"\x20"),
    ],
    "rows by live object": [column(18, b"\0\x10\1\1\1\x29\0\x10\0\x10"), column(17, b"\0\x60\0\0"), column(19, b"\0")],
}  # fmt: skip


@pytest.mark.parametrize("form", PUSHED_TWICE)
def test_an_acquire_that_is_released_twice_is_twice_in_its_stack(form, tmp_path):
    path = tmp_path / "b.tape"
    path.write_bytes(blocks(events_of(*PUSHED_TWICE[form], rows=5, steps=5)))
    with open_trace(path) as trace:
        (batch,) = trace.events()
    assert batch.column("acquired_address").to_pylist() == [16, None, None, 16, 16]
    assert batch.column("released_address").to_pylist() == [None, 16, 16, None, None]


def test_without_pyarrow_one_line_says_what_is_missing(tmp_path, monkeypatch):
    path = tmp_path / "b.tape"
    path.write_bytes(blocks(events_of(*MALLOC_16)))
    monkeypatch.delitem(sys.modules, "heaptape.tape.batches", raising=False)
    monkeypatch.delattr(tape, "batches", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with trace.open_trace(path) as one, pytest.raises(HeaptapeError, match=r"pip install 'heaptape\[events\]'"):
        next(one.events())


def test_a_replay_needs_no_pyarrow():
    """A wheel has it only with an extra."""
    program = "import sys; sys.modules['pyarrow'] = None; import heaptape.run.replay"
    subprocess.run([sys.executable, "-c", program], check=True)


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_leb_numbers_are_found_by_their_ends(values):
    assert tape_numbers.leb(b"".join(map(leb, values)), "x").tolist() == values


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_zigzag_is_undone(values):
    coded = np.array([zigzag(v) for v in values], np.uint64)
    assert tape_numbers.zigzag(coded).view(np.int64).tolist() == values


def test_header_sizes_are_those_of_the_document():
    assert (FILE_HEADER.size, BLOCK_HEADER.size, COLUMN.size) == (16, 48, 16)


@pytest.mark.parametrize("program", [pytest.param("random_mix", marks=pytest.mark.long), "remote_storm"])
def test_two_readers_agree_on_a_recorded_program(program, tmp_path, out, heaptape):
    done = heaptape("record", "-o", tmp_path / "a.tape", "--", out / "workloads" / program, "--rounds=1500")
    assert done.returncode == 0, done.stderr
    names = ["thread", "call", "size_bytes", "param", "released", "acquired", "failed"]
    dumped = pd.read_csv(io.StringIO(heaptape("dump", tmp_path / "a.tape", "--format", "csv").stdout), dtype=str)
    dumped = dumped[names].fillna("").sort_values("thread", key=lambda c: c.astype(int), kind="stable")
    with open_trace(tmp_path / "a.tape") as trace:
        assert trace.differences == []
        assert trace.footer["events"] == len(dumped)
        frame = pd.concat(trace.frames()).sort_values(["thread", "event"], kind="stable")
    hexadecimal = {"released": "released_address", "acquired": "acquired_address"}
    columns = {"thread": frame["thread"].astype(str), "call": frame["call"].astype(str)}
    columns |= {"size_bytes": frame["size"].astype("string"), "param": frame["param"].astype("string")}
    columns |= {name: frame[column].map(hex, na_action="ignore") for name, column in hexadecimal.items()}
    columns["failed"] = frame["failed"].astype(int).astype(str)
    found = pd.DataFrame({name: column.astype(object).where(column.notna(), "") for name, column in columns.items()})
    assert found.to_numpy().tolist() == dumped.to_numpy().tolist()


def test_offsets_and_steps_of_accesses_are_sorted_by_entry_and_page():
    """The rows are those of core/test's test of this name."""
    digits = {1: "0202410303808140", 4: "0901", 6: "0204", 9: "0a070902", 10: "101008ff"}
    rows = decode_accesses(8, 9, 9, {column: bytes.fromhex(text) for column, text in digits.items()})
    assert rows["object"].dropna().tolist() == [0, 8, 0, 0]
    assert rows["granule"].astype(int).tolist() == [5, 1, 1, 0x110, 0x308, 0x120, 0x307, -4]


def test_a_missing_library_is_one_error_and_nothing_else(monkeypatch):
    """An object whose opening failed is closed, too: no AttributeError in its `__del__`."""

    def missing():
        raise HeaptapeError("is missing")

    monkeypatch.setattr(library, "_library", missing)
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with pytest.raises(HeaptapeError, match="is missing"):
        library.OpenTrace("a.tape")
    gc.collect()
    assert unraisable == []
