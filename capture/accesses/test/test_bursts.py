# SPDX-License-Identifier: MIT
"""A recording in bursts has the data accesses of a complete recording inside bursts, and none outside.

Long: bursts that never end.
"""

import functools
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from capture.accesses.test.test_accesses import (
    SECOND,
    THIRD,
    accessed,
    events_and_rows,
    filtered_by_hand,
    planted,  # noqa: F401 (a fixture)
    pytestmark,  # noqa: F401
    requests,
)
from capture.accesses.test.test_accesses_failures import start  # noqa: F401 (a fixture)
from tests import support
from tests.oracle.reader import open_trace
from tests.support import CONVERT, HEAPTAPE_HERE, REPOSITORY, check, compile_c, info, run, succeed

OLD, NEW, SENTINEL = 1088, 1104, 1120


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bursts") / "bursts"
    return compile_c(path, Path(__file__).parent / "bursts.c", "-O1", f"-I{REPOSITORY}")


@pytest.fixture(scope="module")
def recorded(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, str]]:
    """Records this many phases, once each: (rounds, **how), as for `record`. Returns the trace and the output."""

    @functools.cache
    def made(rounds: int, **how: str | None) -> tuple[Path, str]:
        tape = tmp_path_factory.mktemp("phases") / "a.tape"
        return tape, record(tape, program, "phases", str(rounds), **how)

    return made


def record(tape: Path, *command: str | Path, bursts: str | None = "begin..end", accesses: str = "all") -> str:
    options = [f"--accesses={accesses}", *(["--burst", bursts] if bursts else [])]
    return support.record(tape, *command, options=options).stderr


def bursts_of(tape: Path) -> pd.DataFrame:
    with open_trace(tape) as trace:
        return trace.bursts()


def in_words(tape: Path) -> list[str]:
    """Rows as `dump` prints them, without stack pointers."""
    return [line.partition(" sp=")[0] for line in succeed(CONVERT, "dump", tape, "--accesses").stdout.splitlines()]


def split(tape: Path) -> tuple[list[list[str]], list[str]]:
    """Rows of each burst, and the accesses outside of bursts; checks that the two readers agree on where bursts are."""
    inside: list[list[str]] = []
    outside, open_now, row, places = [], False, 0, []
    for line in in_words(tape):
        if line.startswith("burst"):
            open_now = line == "burst begins"
            places.append(row)
            inside += [[]] * open_now
            continue
        row += 1
        if open_now:
            inside[-1].append(line)
        elif not line.startswith("call"):
            outside.append(line)
    found = bursts_of(tape)
    both = zip(found["begin"], found["end"], strict=True)
    assert [int(n) for pair in both for n in pair if pd.notna(n)] == places
    return inside, outside


def sentinel_of(tape: Path) -> int:
    events, rows = events_and_rows(tape)
    return requests(events, rows).index(SENTINEL)


def test_each_burst_has_what_a_whole_recording_has_there(recorded):
    tape, output = recorded(3)
    assert "in 3 bursts" in output
    whole, number = in_words(recorded(3, bursts=None)[0]), sentinel_of(tape)
    first, last = f"object {number} +0x10", f"object {number} +0x20"
    bursts, outside = split(tape)
    assert outside == []
    begins = [place for place, line in enumerate(whole) if line == first]
    ends = [place for place, line in enumerate(whole) if line == last]
    assert len(bursts) == len(begins) == len(ends) == 3
    for burst, begin, end in zip(bursts, begins, ends, strict=True):
        start_at, end_at = burst.index(first), burst.index(last)
        assert burst[start_at : end_at + 1] == whole[begin : end + 1]
        assert start_at < 10
        assert len(burst) - end_at < 10
        assert len(burst) > 2000
    assert check(tape)["ok"]


def test_the_filter_is_empty_where_a_burst_begins(recorded):
    """So each burst alone, filtered by hand, equals what the filter kept of it."""
    whole, filtered = recorded(2)[0], recorded(2, accesses="4096")[0]
    events, rows = events_and_rows(whole)
    _, kept = events_and_rows(filtered)
    places, kept_places = bursts_of(whole), bursts_of(filtered)
    assert len(places) == len(kept_places) == 2
    for (begin, end), (kept_begin, kept_end) in zip(places.to_numpy(), kept_places.to_numpy(), strict=True):
        before = rows["kind"][: int(begin)] == "call"
        here = pd.concat([rows[: int(begin)][before], rows[int(begin) : int(end)]])
        wanted = filtered_by_hand(events, here, 4096)
        found = kept[int(kept_begin) : int(kept_end)]
        found = found[found["kind"] != "call"]
        numbers = [-1 if pd.isna(number) else int(number) for number in found["object"]]
        assert list(zip(found["kind"], numbers, found["granule"].astype(int), strict=True)) == wanted


def test_objects_from_before_a_burst_are_known_in_it(recorded):
    events, rows = events_and_rows(recorded(2)[0])
    assert len(accessed(rows, requests(events, rows), {OLD})) > 2 * 1500
    calls = rows[rows["kind"] == "call"]
    assert len(calls) == len(events)


def test_what_was_counted_inside_and_outside_is_the_whole(recorded):
    whole, part = (info(tape)["accesses"] for tape, _ in (recorded(3, bursts=None), recorded(3)))
    assert part["bursts"] == 3
    assert "bursts" not in whole
    assert "outside_program_instructions" not in whole
    both = part["program_instructions"] + part["outside_program_instructions"]
    assert abs(both - whole["program_instructions"]) <= 0.0001 * whole["program_instructions"]
    assert 0.3 < part["program_instructions"] / both < 0.36  # one of three equal phases, of a program that does no more
    assert part["allocator_instructions"] > 0
    assert part["outside_allocator_instructions"] > part["allocator_instructions"]
    assert part["program_syscalls"] == 0


@pytest.mark.parametrize(
    ("bursts", "ended"),
    [("..end", True), ("begin..", False), pytest.param("begin..never", False, marks=pytest.mark.long)],
)
def test_a_burst_may_begin_with_the_program_or_end_with_it(recorded, bursts, ended):
    tape, output = recorded(2, bursts=bursts)
    assert ("the last one up to the end" in output) is not ended
    (end,) = bursts_of(tape)["end"]
    assert pd.notna(end) == ended
    inside, outside = split(tape)
    assert outside == []
    assert len(inside[0]) > 2000


def test_a_burst_that_never_begins_is_reported_and_leaves_the_calls(recorded, tmp_path):
    tape, output = recorded(2, bursts="nobody..end")
    assert 'no burst began, so there are no data accesses: "nobody" did not occur' in output
    assert info(tape)["accesses"]["bursts"] == 0
    inside, outside = split(tape)
    assert inside == outside == []
    events, rows = events_and_rows(tape)
    assert len(rows) == len(events) > 200
    command = [HEAPTAPE_HERE, "replay", tape, "-a", "glibc", "-n", "1", "-o", tmp_path / "r.json"]
    assert "none began" in run(*command, "--passes", "misses").stderr
    succeed(*command, "--passes", "memory")


def test_a_signal_to_the_recorder_begins_and_ends_bursts(start, tmp_path):  # noqa: F811
    recording = start("--burst", "SIGUSR1..SIGUSR2")
    for number in (None, signal.SIGUSR1, signal.SIGUSR2):
        if number:
            recording.process.send_signal(number)
            while _asked_for(recording.process.pid) != (number == signal.SIGUSR1):
                time.sleep(0.01)
        recording.work()
    assert "in 1 burst" in recording.end()
    _one_burst_of_three_asks(recording.trace)


def test_ctl_begins_and_ends_bursts(start):  # noqa: F811
    recording = start("--burst", "ctl..ctl")
    for verb in (None, "begin-burst", "end-burst"):
        if verb:
            succeed(HEAPTAPE_HERE, "ctl", str(recording.process.pid), verb)
        recording.work()
    recording.end()
    _one_burst_of_three_asks(recording.trace)


def _asked_for(pid: int) -> bool:
    return json.loads(succeed(HEAPTAPE_HERE, "ctl", str(pid), "status", "--json").stdout)["burst_asked_for"]


def _one_burst_of_three_asks(trace: Path) -> None:
    """Of the accesses of an ask, those after its first calls are recorded."""
    inside, outside = split(trace)
    assert outside == []
    assert len(inside) == 1
    events, rows = events_and_rows(trace)
    sizes = requests(events, rows)
    assert sizes.count(THIRD) == 3
    touched = accessed(rows, sizes, {SECOND})
    assert 2900 * 69 < len(touched) <= 3100 * 69  # 3,000 objects of 69 granules


def test_ctl_refuses_bursts_of_a_recording_without(start):  # noqa: F811
    recording = start()
    recording.work()
    done = run(HEAPTAPE_HERE, "ctl", str(recording.program_pid()), "begin-burst")
    assert done.status == 1
    assert "has no bursts" in done.stderr
    recording.end()


def test_a_forks_child_goes_on_in_the_burst(program, tmp_path):
    record(tmp_path / "a.tape", program, "fork")
    traces = sorted(tmp_path.glob("*.tape"))
    assert len(traces) == 2
    for trace in traces:
        _, outside = split(trace)
        assert outside == []
        events, rows = events_and_rows(trace)
        own = accessed(rows, requests(events, rows), {NEW, SENTINEL})
        assert own == ([(SENTINEL, 1)] if trace.name == "a.tape" else [(NEW, 1)])
        assert check(trace)["ok"]


def test_another_program_begins_outside_of_bursts(program, tmp_path):
    record(tmp_path / "a.tape", program, "exec")
    (other,) = set(tmp_path.glob("*.tape")) - {tmp_path / "a.tape"}
    assert [len(bursts_of(trace)) for trace in (other, tmp_path / "a.tape")] == [1, 2]  # the other is the busier one
    assert [pd.isna(bursts_of(trace)["end"].iloc[-1]) for trace in (other, tmp_path / "a.tape")] == [True, False]


def test_bursts_survive_being_rewritten(recorded, tmp_path):
    tape, _ = recorded(2, accesses="4096")
    wanted = [len(rows) for rows in split(tape)[0]]
    accesses = info(tape)["accesses"]
    for number, options in enumerate((["--archive"], ["--anonymise"])):
        made = tmp_path / f"{number}.tape"
        succeed(CONVERT, "convert", *options, tape, made)
        assert [len(rows) for rows in split(made)[0]] == wanted
        kept = info(made)["accesses"]
        assert {key: kept[key] for key in kept if key != "file_bytes"} == {
            key: accesses[key] for key in accesses if key != "file_bytes"
        }
    assert '"bursts": {}' in json.dumps(info(tmp_path / "1.tape"))
    assert '"from": "begin"' in json.dumps(info(tmp_path / "0.tape"))
    sliced = tmp_path / "sliced.tape"
    assert (
        "data accesses are left out" in succeed(CONVERT, "convert", "--slice", "progress=10%..20%", tape, sliced).stderr
    )
