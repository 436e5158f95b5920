# SPDX-License-Identifier: MIT
"""The oracle (tests/oracle) and the C reader: they agree on files of the C writer, and so do the library that Python
uses and the oracle; the library survives any damage. Long: more files of the writer.
"""

import gc
import io
import re
import subprocess
import sys

import pandas as pd
import pytest
from conftest import ROOT
from heaptape import tape
from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.tape import calls, library, trace
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.reader import open_trace
from tests.support import convert

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


@pytest.mark.parametrize("seed", [3, 6, 9, 12])  # 12: some nodes are the same
def test_two_readers_agree_on_stacks(seed, tmp_path, write_random_trace):
    write_random_trace(seed, 500, tmp_path / "a.tape")
    expected = pd.read_csv(tmp_path / "a.tape.nodes", dtype="uint64").set_index("node")
    with open_trace(tmp_path / "a.tape") as trace:
        found = trace.stacks()
        assert list(trace.modules()["start"]) == [1, 101, 201]
        assert trace.thread_names() == {1: "worker"}
    assert len(expected) == 300 if seed != 12 else 250 < len(expected) < 300
    assert set(expected["modules"]) == {0, 1, 2, 3}
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_index_type=False)


def test_marks_are_read(tmp_path, write_random_trace):
    write_random_trace(2, 4000, tmp_path / "a.tape")
    with open_trace(tmp_path / "a.tape") as trace:
        marks = trace.marks()
        frame = pd.concat(trace.frames())
        per_thread = frame.groupby("thread").size()
    assert list(marks["stamp"]) == [50 * i for i in (999, 1999, 2999, 3999)]
    assert list(marks["text"]) == ["mark 0", "mark 1", "mark 2", "mark 3"]
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
    """Every event of a file as a row per (thread, number), up to the first error; and that error."""
    seen = {}
    try:
        with trace.open_trace(path) as one:
            one.samples()
            for batch in one.events():
                for row in batch.to_pylist():
                    seen[row["thread"], row["event"]] = tuple(row.values())
            return seen, None, one.truncated
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
    assert truncated or error is not None


def test_the_library_names_file_and_offset(tmp_path):
    path = tmp_path / "b.tape"
    path.write_bytes(b"no trace")
    with pytest.raises(FormatError) as caught:
        trace.open_trace(path)
    assert str(caught.value) == f"{path}: not a heaptape trace (8 bytes are too few)"
    with pytest.raises(FileNotFoundError):
        trace.open_trace(tmp_path / "none.tape")


def test_without_pyarrow_one_line_says_what_is_missing(sound, tmp_path, monkeypatch):
    path = tmp_path / "b.tape"
    path.write_bytes(sound[0])
    monkeypatch.delitem(sys.modules, "heaptape.tape.batches", raising=False)
    monkeypatch.delattr(tape, "batches", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with trace.open_trace(path) as one, pytest.raises(HeaptapeError, match=r"pip install 'heaptape\[events\]'"):
        next(one.events())


def test_a_replay_needs_no_pyarrow():
    """A wheel has it only with an extra."""
    program = "import sys; sys.modules['pyarrow'] = None; import heaptape.run.replay"
    subprocess.run([sys.executable, "-c", program], check=True)


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
