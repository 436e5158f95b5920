# SPDX-License-Identifier: MIT
"""Data accesses are recorded correctly: their objects, places and surrounding calls; none of the allocator's.

Long: filters of other sizes.
"""

import shutil
import signal
from pathlib import Path

import pandas as pd
import pytest

from tests import support
from tests.oracle.reader import open_trace
from tests.support import CONVERT, OUT, compile_c, succeed

pytestmark = [
    pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind here"),
    pytest.mark.skipif(
        not (OUT / "libexec" / "valgrind" / "heaptape-amd64-linux").exists(), reason="the Valgrind tool was not built"
    ),
]
FIRST, SECOND, THIRD, MANY = 1088, 1104, 1120, 8192


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accesses") / "planted"
    source = Path(__file__).parent / "planted.c"
    return compile_c(path, source, "-O1", "-lpthread")


def record(tape: Path, *command: str | Path, accesses: str = "all", status: int = 0) -> str:
    return support.record(tape, *command, options=[f"--accesses={accesses}"], status=status).stderr


def events_and_rows(tape: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Events of all threads, and the rows of accesses; both in the file's order."""
    with open_trace(tape) as trace:
        return pd.concat(trace.frames(), ignore_index=True), pd.concat(trace.accesses(), ignore_index=True)


def requests(events: pd.DataFrame, rows: pd.DataFrame) -> list[int]:
    """Request in bytes by number of the object. Checks that each thread's call rows are its events."""
    calls = rows[rows["kind"] == "call"]
    assert len(calls) == len(events)
    acquires = calls["acquires"].astype(bool)
    asked = pd.Series(0, index=calls.index)
    for thread, of_thread in acquires.groupby(calls["thread"]):
        own = events[events["thread"] == thread]
        assert list(own["acquired_address"].notna()) == list(of_thread)
        asked[of_thread.index] = own["request_bytes"].fillna(0).astype("int64").to_numpy()
    return asked[acquires].tolist()


def accessed(rows: pd.DataFrame, sizes: list[int], wanted: set[int]) -> list[tuple[int, int]]:
    """(request of the object, granule) of the accesses to objects of these requests, in order."""
    objects = rows[rows["kind"] == "object"]
    asked = pd.Series(sizes, dtype="int64").loc[objects["object"].astype("int64")].to_numpy()
    here = pd.Series(asked).isin(wanted).to_numpy()
    return list(zip(asked[here].tolist(), objects["granule"][here].astype("int64").tolist(), strict=True))


def test_each_access_belongs_to_its_object_also_past_its_end(planted, tmp_path):
    record(tmp_path / "a.tape", planted, "objects")
    events, rows = events_and_rows(tmp_path / "a.tape")
    sizes = requests(events, rows)
    seen = accessed(rows, sizes, {FIRST, SECOND, THIRD})
    first = [(FIRST, 0), (SECOND, 0), (FIRST, 2), (FIRST, 67), (FIRST, 68), (FIRST, 0)]
    assert seen == [*first, (THIRD, 1), (THIRD, 2)]


def test_accesses_stand_between_the_calls_that_acquire_and_release_their_object(planted, tmp_path):
    record(tmp_path / "a.tape", planted, "objects")
    events, rows = events_and_rows(tmp_path / "a.tape")
    sizes = requests(events, rows)
    acquires = rows["acquires"].fillna(False).astype(bool).cumsum()
    objects = rows[rows["kind"] == "object"]
    assert (objects["object"].astype(int) < acquires[objects.index]).all()
    calls = rows[rows["kind"] == "call"]
    third = int(calls.index[acquires[calls.index] == sizes.index(THIRD) + 1][0])
    assert (objects.index[objects["object"] == sizes.index(THIRD)] > third).all()
    assert (objects.index[objects["object"] == sizes.index(FIRST)] < third).all()
    stacks = calls["stack_pointer"].astype("int64")
    assert (stacks % 8 == 0).all()


def test_what_the_allocator_does_in_its_calls_is_left_out(planted, tmp_path):
    record(tmp_path / "a.tape", planted, "untouched")
    events, rows = events_and_rows(tmp_path / "a.tape")
    sizes = requests(events, rows)
    first = sizes.index(24)
    assert not (rows["object"].dropna().astype(int) >= first).any()
    addresses = events["acquired_address"].dropna().astype("int64")
    heap = addresses[addresses < addresses.min() + (1 << 24)]
    other = rows.loc[rows["kind"] == "other", "granule"].astype("int64") * 16
    begins = rows.index[rows["kind"] == "call"][list(events["request_bytes"]).index(24)]
    assert len(heap) > 1000
    assert not other[begins:].between(heap.min(), heap.max() + 300).any()


@pytest.mark.parametrize(("filtered", "kept"), [("all", 1024), ("4096", 1024), ("16K", 512)])
def test_a_filter_keeps_what_misses_it(planted, tmp_path, filtered, kept):
    """512 granules in sequence, twice: more than 256 fit in no cache that replaces the least recently used."""
    record(tmp_path / "a.tape", planted, "cycles", accesses=filtered)
    events, rows = events_and_rows(tmp_path / "a.tape")
    seen = accessed(rows, requests(events, rows), {MANY})
    assert seen == [(MANY, granule) for granule in range(512)] * (kept // 512)


class Filter:
    """The filter as FORMAT.md has it: 4 ways of one granule, the least recently used is replaced."""

    def __init__(self, size_bytes: int) -> None:
        self.sets: list[list[int]] = [[] for _ in range(size_bytes // 64)]

    def holds(self, granule: int) -> bool:
        ways = self.sets[granule % len(self.sets)]
        held = granule in ways
        if held:
            ways.remove(granule)
        ways.insert(0, granule)
        del ways[4:]
        return held

    def forget(self, address: int, size_bytes: int) -> None:
        for granule in range(address // 16, (address + size_bytes + 15) // 16):
            ways = self.sets[granule % len(self.sets)]
            if granule in ways:
                ways.remove(granule)


def filtered_by_hand(events: pd.DataFrame, rows: pd.DataFrame, size_bytes: int) -> list[tuple[str, int, int]]:
    """(kind, object or -1, granule) of the rows of an unfiltered recording of one thread that the filter keeps."""
    calls = events.to_dict("records")
    model, starts, sizes, kept = Filter(size_bytes), list[int](), dict[int, int](), []
    for kind, number, granule in zip(rows["kind"], rows["object"], rows["granule"], strict=True):
        if kind == "call":
            call = calls.pop(0)
            if pd.notna(call["released_address"]):
                model.forget(int(call["released_address"]), sizes.pop(int(call["released_address"]), 0))
            if pd.notna(call["acquired_address"]):
                starts.append(int(call["acquired_address"]))
                sizes[starts[-1]] = max(int(call["request_bytes"]), 1)
        else:
            where = starts[int(number)] // 16 if kind == "object" else 0
            if not model.holds(where + int(granule)):
                kept.append((kind, int(number) if kind == "object" else -1, int(granule)))
    return kept


@pytest.mark.parametrize("size_bytes", [64, *(pytest.param(n, marks=pytest.mark.long) for n in (256, 4096, 32768))])
def test_a_filtered_recording_is_the_unfiltered_one_filtered_by_hand(planted, tmp_path, size_bytes):
    """Two recordings of one program, whose addresses are the same, as paths and environment are."""
    record(tmp_path / "a.tape", planted, "mixed")
    whole = events_and_rows(tmp_path / "a.tape")
    record(tmp_path / "a.tape", planted, "mixed", accesses=str(size_bytes))
    events, rows = events_and_rows(tmp_path / "a.tape")
    assert list(events["acquired_address"].dropna()) == list(whole[0]["acquired_address"].dropna())
    of_accesses = rows[rows["kind"] != "call"]
    numbers = [-1 if pd.isna(number) else int(number) for number in of_accesses["object"]]
    seen = list(zip(of_accesses["kind"], numbers, of_accesses["granule"].astype(int), strict=True))
    assert len(seen) > 2000
    assert seen == filtered_by_hand(*whole, size_bytes)


@pytest.mark.parametrize("filtered", ["all", "4096", "256"])
def test_the_filter_forgets_an_object_that_is_released(planted, tmp_path, filtered):
    """256: a filter of 16 granules, fewer than the object has."""
    record(tmp_path / "a.tape", planted, "reused", accesses=filtered)
    events, rows = events_and_rows(tmp_path / "a.tape")
    reused = events[events["request_bytes"] == FIRST]["acquired_address"]
    assert len(reused) == 100 > reused.nunique()
    assert accessed(rows, requests(events, rows), {FIRST}) == [(FIRST, 0)] * 100


def test_totals_count_each_access_and_each_instruction(planted, tmp_path):
    footers = []
    for times in ("1000", "5000"):
        record(tmp_path / "a.tape", planted, "counted", times, accesses="4096")
        with open_trace(tmp_path / "a.tape") as trace:
            footers.append(trace.footer["accesses"])
            assert trace.info["accesses"] == {"granule_bytes": 16, "filter_bytes": 4096}
            assert trace.info["order"] == "every"
            assert trace.info["program"] == "planted"
            assert trace.differences == []
    assert footers[1]["program_accesses"] - footers[0]["program_accesses"] == 4000
    added = footers[1]["program_instructions"] - footers[0]["program_instructions"]
    assert added in (3 * 4000, 4 * 4000)
    assert footers[0]["allocator_instructions"] > 0


@pytest.mark.parametrize("mode", ["threads", "signals"])
def test_call_rows_are_the_events_of_their_threads(planted, tmp_path, mode):
    """Successive threads take over rings, and events of handlers that interrupt the recording of a call are put aside:
    rows and events must nevertheless be in the same order."""
    record(tmp_path / "a.tape", planted, mode)
    events, rows = events_and_rows(tmp_path / "a.tape")
    sizes = requests(events, rows)
    seen = accessed(rows, sizes, set(range(FIRST, FIRST + 24 * 16, 16)))
    assert len(seen) >= (24 * 40 if mode == "threads" else 90)
    assert events["thread"].nunique() == (25 if mode == "threads" else 1)


def test_a_forked_child_has_accesses_of_its_own(planted, tmp_path):
    record(tmp_path / "a.tape", planted, "forks")
    (child,) = tmp_path.glob("a.*.tape")
    events, rows = events_and_rows(tmp_path / "a.tape")
    seen = accessed(rows, requests(events, rows), {FIRST, SECOND, THIRD})
    assert seen == [(FIRST, 0), (FIRST, 4), (SECOND, 1)]
    events, rows = events_and_rows(child)
    assert accessed(rows, requests(events, rows), {FIRST, SECOND, THIRD}) == [(THIRD, 2)]


def test_a_program_that_another_becomes_has_accesses_of_its_own(planted, tmp_path):
    record(tmp_path / "a.tape", planted, "exec")
    (first,) = tmp_path.glob("a.*.tape")  # the second is the busier one
    events, rows = events_and_rows(tmp_path / "a.tape")
    assert len(accessed(rows, requests(events, rows), {FIRST, SECOND, THIRD})) == 8
    with open_trace(first) as trace:
        assert trace.footer["accesses"]["program_instructions"] > 0


def test_in_a_pause_calls_have_rows_and_accesses_have_none(planted, tmp_path):
    record(tmp_path / "a.tape", planted, "pauses")
    with open_trace(tmp_path / "a.tape") as trace:
        missing = trace.dropped
    events, rows = events_and_rows(tmp_path / "a.tape")
    calls = rows[rows["kind"] == "call"]
    assert missing >= 40
    assert len(calls) == len(events) + missing
    sizes = [int(size) for size in events["request_bytes"][events["acquired_address"].notna()]]
    assert accessed(rows, sizes, {FIRST, SECOND}) == [(FIRST, 1), (FIRST, 4), (SECOND, 5)]


def test_a_killed_program_leaves_what_it_did_before(planted, tmp_path):
    record(tmp_path / "a.tape", planted, "killed", status=128 + signal.SIGKILL)
    with open_trace(tmp_path / "a.tape") as trace:
        assert trace.footer["end"] == "killed"
        assert trace.differences == []
        rows = pd.concat(trace.accesses(), ignore_index=True)
    assert "program_instructions" not in trace.footer["accesses"]
    assert 1000 < (rows["kind"] == "call").sum() <= trace.event_count
    assert (rows["kind"] == "object").sum() >= 1024


def test_readers_take_a_trace_with_accesses(planted, tmp_path):
    record(tmp_path / "a.tape", planted, "threads", accesses="4096")
    for command in ("check", "info", "compile"):
        succeed(CONVERT, command, tmp_path / "a.tape")


def test_no_valgrind_of_the_machine_is_needed(planted, tmp_path):
    """The one that our tool was built for is in every installation, and is the only one used."""
    support.record(tmp_path / "a.tape", planted, "objects", options=["--accesses"], env={"PATH": str(tmp_path)})
    assert support.info(tmp_path / "a.tape")["accesses"]["objects"] > 0


def test_a_program_that_valgrind_cannot_run_is_one_line(tmp_path):
    """Whatever the length of TMPDIR, where Valgrind's messages go."""
    folder = tmp_path / ("a-long-name" * 10)
    folder.mkdir()
    program, options = OUT / "test-programs" / "unknown_instruction", ["--accesses=all"]
    done = support.record(tmp_path / "a.tape", program, options=options, env={"TMPDIR": str(folder)}, status=1)
    assert "Valgrind can't run it: Unrecognised instruction" in done.stderr
    assert not list(folder.iterdir())
