# SPDX-License-Identifier: MIT
"""A running recording can be started, stopped, flushed, queried and limited, without a change for the program.

Long: starts, stops and flushes at random moments of a storm; other storms, and ends and limits in them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from heaptape.run.ctl import ask, recorder_sockets

from capture.test.driven import HANG_S, Driven, calling
from capture.test.trust.test_failure import STORM
from tests.support import (
    CONVERT,
    HEAPTAPE_HERE,
    OUT,
    RECORD,
    check,
    compile_c,
    info,
    proved,
    published,
    record,
    refused,
    run,
    succeed,
    workload,
)


class Recording(Driven):
    """20,000 calls each time. `pid`: the program's."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder / "t.tape", *options, program=calling(10_000, 100, status=7), status=7)
        self.work()
        self.pid = self.program_pid()


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """Starts a recording with these options."""
    started: list[Recording] = []

    def begin(*options: str) -> Recording:
        started.append(Recording(tmp_path, *options))
        return started[-1]

    yield begin
    for recording in started:
        recording.process.kill()


def ctl(pid: int, verb: str) -> dict:
    """The reply of `heaptape ctl`."""
    return published("ctl", succeed(HEAPTAPE_HERE, "ctl", str(pid), verb, "--json").stdout)


def calls_of_100_bytes(trace: Path) -> int:
    """Allocations of that size: the counted ones, and few others."""
    return succeed(CONVERT, "dump", trace).stdout.count("malloc(100)")


@pytest.mark.parametrize("whose", ["program", "recorder"])
def test_stop_and_start_leave_out_what_is_between_and_count_it(start, whose: str) -> None:
    recording = start()
    pid = recording.pid if whose == "program" else recording.process.pid
    reply = ctl(pid, "stop")
    assert [p["state"] for p in reply["processes"]] == ["stopped"]
    recording.work()
    assert [p["state"] for p in ctl(pid, "start")["processes"]] == ["recording"]
    recording.work()
    output = recording.end()
    summary = info(recording.trace)
    assert "not recorded in pauses" in " ".join(output.split())
    assert 20000 <= summary["dropped"] < 25000
    assert 20000 <= calls_of_100_bytes(recording.trace) < 20500
    assert check(recording.trace)["ok"]


# Three processes, which make 1,000 pairs of malloc and free of 100, 200 and 300 bytes for each line of the input.
TREE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
malloc, free = libc.malloc, libc.free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def work(size_bytes):
    for i in range(1000):
        free(malloc(size_bytes))
children = []
for size_bytes in (200, 300):
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(ask)
        while os.read(asked, 1):
            work(size_bytes)
            os.write(answer, b"x")
        os._exit(0)
    children.append((ask, answered))
for line in sys.stdin:
    for ask, answered in children:
        os.write(ask, b"x")
        os.read(answered, 1)
    work(100)
    print(flush=True)
"""


def test_a_request_to_the_recorder_is_for_each_process_and_one_to_a_process_for_that_alone(tmp_path: Path) -> None:
    recording = Driven(tmp_path / "t.tape", program=["/usr/bin/python3", "-c", TREE])
    recorder, sizes = recording.process.pid, (100, 200, 300)

    def counts(trace: Path) -> list[int]:
        dumped = succeed(CONVERT, "dump", trace).stdout
        return [dumped.count(f"malloc({size})") // 1000 for size in sizes]

    recording.work()
    flushed = ctl(recorder, "flush")["processes"]
    assert sorted(counts(Path(one["trace"])) for one in flushed) == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert [one["state"] for one in ctl(recorder, "stop")["processes"]] == ["stopped"] * 3
    recording.work()
    chosen = flushed[1]["pid"]
    ctl(chosen, "start")
    states = {one["pid"]: one["state"] for one in ctl(recorder, "status")["processes"]}
    assert states == {one["pid"]: "recording" if one["pid"] == chosen else "stopped" for one in flushed}
    recording.work()
    ctl(recorder, "start")
    recording.work()
    recording.end()
    assert sorted(max(counts(tape)) for tape in tmp_path.glob("*.tape")) == [2, 2, 3]


def test_a_late_start_says_that_the_beginning_is_unseen(start) -> None:
    recording = start("--start-paused")
    assert ctl(recording.pid, "status")["processes"][0]["state"] == "not started"
    ctl(recording.pid, "start")
    recording.work()
    recording.end()
    assert proved(recording.trace, "dropped")["lacks_start"]
    assert 10000 <= calls_of_100_bytes(recording.trace) < 10500


def test_a_recording_that_was_never_started_is_empty_and_whole(start) -> None:
    recording = start("--start-paused")
    recording.end()
    assert proved(recording.trace, "events", "dropped")["lacks_start"]


@pytest.mark.parametrize("name", ["SIGUSR2", "RTMIN+3", "37", "SIGRTMIN"])
def test_a_signal_to_the_recorder_starts_and_stops(start, name: str) -> None:
    numbers = {"SIGUSR2": signal.SIGUSR2, "RTMIN+3": signal.SIGRTMIN + 3, "37": 37, "SIGRTMIN": signal.SIGRTMIN}
    recording = start("--start-paused", "--signal", name)
    for state in ("recording", "stopped", "recording"):
        os.kill(recording.process.pid, numbers[name])
        until = time.monotonic() + HANG_S
        while ctl(recording.pid, "status")["processes"][0]["state"] != state:
            assert time.monotonic() < until, state
            time.sleep(0.02)
        recording.work()
    recording.end()
    assert 20000 <= calls_of_100_bytes(recording.trace) < 20500
    assert check(recording.trace)["ok"]


def test_flush_makes_the_trace_readable_up_to_now(start) -> None:
    recording = start()
    ctl(recording.pid, "flush")
    before = info(recording.trace)
    assert before["truncated"]
    assert calls_of_100_bytes(recording.trace) >= 10000
    assert check(recording.trace)["ok"]
    recording.end()
    after = info(recording.trace)
    assert not after["truncated"]
    assert after["events"] > before["events"]


@pytest.mark.parametrize("options", [(), ("--rotate", "64K")])
def test_counts_so_far_are_those_of_all_files_so_far(tmp_path: Path, start, options: tuple[str, ...]) -> None:
    recording = start(*options)
    recording.work()
    ctl(recording.pid, "flush")
    name = next(one for one in recorder_sockets() if f"-{recording.process.pid:07d}-" in one)
    process = (ask(name, "counts", recording.pid) or {})["processes"][0]
    files = [info(trace) for trace in tmp_path.glob("*.tape*")]
    assert process["calls"] == sum((Counter(file["calls"]) for file in files), Counter())
    assert process["events"] == sum(file["events"] for file in files) > 40_000
    assert (len(files) > 1) == bool(options)


def test_a_duration_ends_the_recording_and_not_the_program(start) -> None:
    """All calls made before the end are in it, which are the first ones except on a very busy machine."""
    recording = start("--duration", "1.5")
    made_in_time = ctl(recording.process.pid, "status")["state"] == "recording"
    until = time.monotonic() + HANG_S
    while ctl(recording.process.pid, "status")["state"] != "ended":
        assert time.monotonic() < until
        time.sleep(0.02)
    recording.work()
    output = recording.end()
    assert "--duration is over" in output
    summary = info(recording.trace)
    assert not summary["truncated"]
    assert summary["dropped"] == 0
    assert (10000 if made_in_time else 0) <= calls_of_100_bytes(recording.trace) < 10500
    assert check(recording.trace)["ok"]


@pytest.mark.parametrize("limit", [100_000, pytest.param(300_000, marks=pytest.mark.long)])
def test_a_size_limit_is_kept_and_leaves_a_legal_history(tmp_path: Path, limit: int) -> None:
    trace = tmp_path / "t.tape"
    command = ["/usr/bin/python3", "-c", STORM, str(limit // 2)]
    done = record(trace, *command, options=["--max-size", str(limit)], env={"PYTHONMALLOC": "malloc"})
    assert done.stdout == "done\n"
    assert "--max-size was reached" in done.stderr
    assert limit / 4 < trace.stat().st_size <= limit
    assert not proved(trace, "dropped", "unseen_frees")["truncated"]


def test_ctl_refuses_a_process_that_nobody_records() -> None:
    done = refused(HEAPTAPE_HERE, "ctl", str(os.getpid()), "stop", says="neither a recorder of yours")
    assert done.stderr == f"heaptape: process {os.getpid()}: neither a recorder of yours nor recorded by one\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can try as another user")
def test_ctl_refuses_another_user(start) -> None:
    recording = start()
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); from heaptape.run import ctl; os.setuid(65534)\n"
        "try: ctl.command('stop', int(sys.argv[1]))\n"
        "except Exception as error: print(error)"
    )
    package = str(Path(__file__).parents[3] / "analysis")
    done = run(sys.executable, "-c", code, str(recording.pid), package)
    assert "neither a recorder of yours" in done.stdout, done.stderr
    assert ctl(recording.pid, "status")["processes"][0]["state"] == "recording"
    recording.end()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a network name space")
def test_ctl_of_another_network_name_space_reaches_no_recorder(start) -> None:
    recording = start()
    done = run("unshare", "--net", OUT / "bin" / "heaptape", "ctl", str(recording.pid), "stop")
    assert (done.status, "neither a recorder of yours" in done.stderr) == (1, True), done.stderr
    assert ctl(recording.pid, "status")["processes"][0]["state"] == "recording"
    recording.end()


def test_marks_show_in_dump_and_info(tmp_path: Path) -> None:
    trace = tmp_path / "t.tape"
    marking = OUT / "test" / "capture" / "hosts" / "records" / "marks_stand_where_the_program_set_them"
    record(trace, marking, "host")
    marks = info(trace)["marks"]
    assert len(marks) == 3 * 6000 + 2
    assert [mark["time_ns"] for mark in marks] == sorted(mark["time_ns"] for mark in marks)
    dump = succeed(CONVERT, "dump", trace, "--format", "jsonl")
    events: dict[int, int] = {}
    shown = []
    for line in map(json.loads, dump.stdout.splitlines()):
        thread = line["thread"]
        if "mark" in line:
            shown.append((thread, events.get(thread, 0), line["mark"]))
        else:
            events[thread] = events.get(thread, 0) + 1
    assert sorted(shown) == sorted((mark["thread"], mark["events"], mark["text"]) for mark in marks)


@pytest.mark.long
@pytest.mark.parametrize("clock", ["auto", "counter"])
def test_starting_and_stopping_in_a_storm_leaves_a_legal_history(tmp_path: Path, clock: str) -> None:
    """Threads that free each other's objects, while recording stops, starts and flushes at random moments."""
    trace = tmp_path / "t.tape"
    recorder = subprocess.Popen(
        [RECORD, "-o", trace, "--start-paused", "--clock", clock, "--", workload("larson"), "--generations=100"],
        stdout=subprocess.DEVNULL,
        text=True,
    )
    verbs = ["start", "stop", "start", "flush", "stop", "start", "start", "stop", "flush", "stop", "start", "flush"]
    done = 0
    for verb in verbs * 6:
        if recorder.poll() is not None:
            break
        done += run(HEAPTAPE_HERE, "ctl", str(recorder.pid), verb).status == 0
        if verb == "flush" and done % 5 == 0:
            assert check(trace)["ok"]
    assert recorder.wait(timeout=HANG_S) == 0
    proof = check(trace)
    assert proof["ok"]
    assert not proof["truncated"]
    assert done > 3


def assert_legal_without_excuse(trace: Path, *, lacks_start: bool) -> None:
    """No contradiction at all, except for objects from before a late start, and what a resize under way at the end has
    released, which another thread may have taken.
    """
    proof = proved(trace, "dropped", "inversions_repaired")
    assert proof["overlapping_acquires"] <= info(trace)["footer"]["in_flight"] <= proof["threads"]
    assert not proof["truncated"]
    assert lacks_start or proof["unseen_frees"] == proof["double_frees"] == 0
    assert proof["double_frees"] <= proof["threads"], "of objects that were being handed out at the start"


STORMS = [("larson", 0.07), ("xmalloc", 0.13), ("remote_storm", 0.19)]
OTHERS = [(name, seconds) for name, _ in STORMS for _, seconds in STORMS if (name, seconds) not in STORMS]


@pytest.mark.parametrize(
    ("program", "seconds"), [*STORMS, *(pytest.param(*other, marks=pytest.mark.long) for other in OTHERS)]
)
def test_an_end_in_mid_storm_cuts_all_threads_at_one_time(tmp_path: Path, program: str, seconds: float) -> None:
    """On a busy machine the end may come before the program's first call, and there is no trace: then a later end."""
    trace = tmp_path / "t.tape"
    while not trace.exists():
        assert seconds < HANG_S
        record(trace, workload(program), options=["--duration", str(seconds)])
        seconds *= 2
    assert_legal_without_excuse(trace, lacks_start=False)


@pytest.mark.parametrize("program", ["remote_storm", pytest.param("larson", marks=pytest.mark.long)])
def test_a_start_in_mid_storm_contradicts_nothing_that_comes_after(tmp_path: Path, program: str) -> None:
    trace = tmp_path / "t.tape"
    recorder = subprocess.Popen(
        [RECORD, "-o", trace, "--start-paused", "--signal", "USR1", "--", workload(program)], stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + HANG_S
    while not trace.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.05)
    recorder.send_signal(signal.SIGUSR1)
    assert recorder.wait(timeout=HANG_S) == 0
    assert_legal_without_excuse(trace, lacks_start=True)


def test_a_connection_that_asks_nothing_is_no_process_that_was_not_recorded(start) -> None:
    recording = start("--strict")
    name = next(one for one in recorder_sockets() if f"-{recording.process.pid:07d}-" in one)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        one.connect(b"\0" + name.encode())
    recording.work()
    assert "not recorded" not in recording.end()


def test_a_recorder_lists_the_modules_of_a_process_and_knows_no_other_verb(start) -> None:
    recording = start("--stacks")
    recording.work()
    ctl(recording.pid, "flush")
    name = next(one for one in recorder_sockets() if f"-{recording.process.pid:07d}-" in one)
    modules = ask(name, "modules", recording.pid)
    assert modules
    assert (modules["ok"], modules["recorder"]) == (True, recording.process.pid)
    maps = Path(f"/proc/{recording.pid}/maps").read_text().splitlines()
    for module in modules["modules"]:
        starts = [line for line in maps if line.endswith(f" {module['path']}")]
        assert module["start"] == int(starts[0].partition("-")[0], 16), module
        assert module["end"] >= int(starts[-1].split()[0].partition("-")[2], 16), module
        assert Path(module["path"]).name == module["name"]
    assert any(module["name"].startswith("libc.so") and module["build_id"] for module in modules["modules"])
    assert ask(name, "no-verb", recording.pid) == {"ok": False, "error": "unknown verb"}
    recording.end()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="instructions can be stepped through on x86-64 alone")
def test_a_handler_that_interrupts_a_call_in_a_pause_is_counted_with_it(tmp_path: Path) -> None:
    source = Path(__file__).parent / "interrupted_pause.c"
    program = compile_c(tmp_path / "program", source, "-std=gnu11")
    calls, instructions = map(int, record(tmp_path / "t.tape", program).stdout.split())
    assert instructions > 20
    assert f"legal, {calls} calls not recorded" in succeed(CONVERT, "info", tmp_path / "t.tape").stdout
