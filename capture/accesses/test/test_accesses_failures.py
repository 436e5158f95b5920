# SPDX-License-Identifier: MIT
"""Where a recording of data accesses is limited, ends early, or can't be made: the existing part can be read, and the
program continues.

Long: a recorder that stands still, where the program waits for it anyway.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from capture.accesses.test.test_accesses import THIRD, accessed, events_and_rows, planted, pytestmark, requests  # noqa: F401 (a fixture)
from capture.test.driven import HANG_S, Driven
from tests.oracle.reader import open_trace
from tests.support import (
    CONVERT,
    HEAPTAPE_HERE,
    OUT,
    RECORD,
    check,
    compile_c,
    info,
    proved,
    refused,
    run,
    small_disk,
    succeed,
)

STATUS = 9  # of planted, mode asked


@pytest.fixture
def start(planted: Path, tmp_path: Path) -> Iterator:  # noqa: F811
    """Starts a recording of planted, mode asked, into tmp_path/a.tape with these options."""
    started: list[Driven] = []

    def begin(*options: str, trace: Path = tmp_path / "a.tape") -> Driven:
        started.append(Driven(trace, "--accesses=all", *options, program=[str(planted), "asked"], status=STATUS))
        return started[-1]

    yield begin
    for recording in started:
        recording.process.kill()


def compile_trace(trace: Path) -> str:
    """The complaints of the workload compiler."""
    folder = trace.parent
    done = run(CONVERT, "compile", trace, "-o", folder / "a.work", "--accesses", folder / "a.accesses")
    assert done.status == 0, done.stderr
    return "\n".join(line for line in done.stderr.splitlines() if line.startswith("heaptape-convert:"))


def calls_of(trace: Path) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Events, call rows, and how many calls the trace reports as missing."""
    with open_trace(trace) as opened:
        assert opened.differences == []
        missing = opened.dropped
    events, rows = events_and_rows(trace)
    return events, rows[rows["kind"] == "call"], missing


def test_accesses_of_a_late_start_begin_with_it(start):
    recording = start("--start-paused")
    recording.work()
    succeed(HEAPTAPE_HERE, "ctl", str(recording.program_pid()), "start")
    for _ in range(2):
        recording.work()
    recording.end()
    assert proved(recording.trace)["lacks_start"]
    events, rows = events_and_rows(recording.trace)
    sizes = requests(events, rows)
    # The first call after the start may be the one that notices the start.
    assert sizes.count(THIRD) in (1, 2)
    assert accessed(rows, sizes, {THIRD}) == [(THIRD, 2)] * sizes.count(THIRD)
    assert compile_trace(recording.trace) == ""


def test_a_recording_never_started_has_no_accesses(start):
    recording = start("--start-paused")
    recording.work()
    recording.end()
    assert check(recording.trace)["ok"]
    with open_trace(recording.trace) as trace:
        counts = trace.footer["accesses"]
    assert {counts[key] for key in ("calls", "objects", "other", "program_accesses", "program_instructions")} == {0}
    complaints = compile_trace(recording.trace).splitlines()
    assert len(complaints) == 1
    assert "has no calls" in complaints[0]


def test_a_size_limit_holds_for_accesses_too(start):
    limit = 100_000
    recording = start("--max-size", str(limit))
    for _ in range(8):
        recording.work()
    output = recording.end()
    assert "--max-size was reached" in output
    assert recording.trace.stat().st_size <= limit
    assert check(recording.trace)["ok"]
    events, calls, missing = calls_of(recording.trace)
    assert 0 < len(calls) <= len(events) + missing
    output = compile_trace(recording.trace)
    assert ("accesses end" in output) == (len(calls) < len(events) + missing), output


@pytest.mark.parametrize("on_full", ["drop", pytest.param("wait", marks=pytest.mark.long)])
def test_while_the_recorder_stands_still_no_access_is_lost(start, on_full):
    """Accesses are never dropped: the program waits under drop, too. Dropped calls keep their rows, but the objects
    that they handed out are not known: accesses to them are to other memory."""
    asks = 12
    recording = start("--on-full", on_full)
    recording.work()
    recording.process.send_signal(signal.SIGSTOP)
    for _ in range(asks - 1):
        recording.request()
    time.sleep(1)
    recording.process.send_signal(signal.SIGCONT)
    for _ in range(asks - 1):
        recording.answer()
    recording.end()
    assert check(recording.trace)["ok"]
    events, calls, missing = calls_of(recording.trace)
    assert len(calls) == len(events) + missing > asks * 6000
    assert missing == 0 or on_full == "drop"
    with open_trace(recording.trace) as trace:
        accesses = trace.footer["accesses"]
    assert accesses["objects"] > (asks * 3000 - missing) * 69
    assert "lost" not in accesses
    assert compile_trace(recording.trace) == "" or missing


def test_when_the_recorder_is_killed_the_program_goes_on(start):
    recording = start()
    for _ in range(8):  # more than a block and the buffers hold
        recording.work()
    program = recording.program_pid()
    recording.process.kill()
    recording.process.wait()
    for _ in range(3):
        recording.work()
    recording.process.stdin.close()
    ends = time.monotonic() + HANG_S
    while Path(f"/proc/{program}/exe").exists() and time.monotonic() < ends:
        time.sleep(0.05)
    assert not Path(f"/proc/{program}/exe").exists()
    summary = info(recording.trace)
    assert summary["truncated"]
    assert summary["accesses"]["rows"] >= 1 << 20
    work = recording.trace.with_suffix(".work")  # its events are fewer than a block: none was written
    refused(CONVERT, "compile", recording.trace, "-o", work, says="truncated before its first event")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root for a file system of its own")
def test_a_full_disk_ends_the_trace_and_not_the_program(start, tmp_path):
    with small_disk(tmp_path / "small", "64k") as small:
        recording = start(trace=small / "a.tape")
        for _ in range(60):
            recording.work()
        output = recording.end()
        assert len(output.splitlines()) == 1, output
        assert "No space left on device" in output
        assert str(recording.trace) in output
        summary = info(recording.trace)
        assert not summary["truncated"]
        assert summary["dropped"] > 0
        with open_trace(recording.trace) as trace:
            assert trace.differences == []
            assert trace.footer["accesses"]["lost"] > 0


def program_of(trace: Path) -> str:
    with open_trace(trace) as opened:
        return opened.info["program"]


def test_a_child_that_valgrind_cannot_run_is_named_and_the_others_are_recorded(planted, tmp_path):  # noqa: F811
    script = '"$1"; echo $?; "$2" objects; echo $?'
    program = OUT / "test-programs" / "unknown_instruction"
    options = ("--all-processes", "--accesses", "-o", tmp_path / "a.tape")
    done = run(RECORD, *options, "--", "sh", "-c", script, "sh", program, planted)
    assert done.status == 0, done.stderr
    assert done.stdout.split() == [str(128 + signal.SIGILL), "0"]
    complaints = [line for line in done.stderr.splitlines() if "Valgrind can't run it" in line]
    assert len(complaints) == 1
    assert "Unrecognised instruction" in complaints[0]
    with_objects = [trace for trace in tmp_path.glob("*.tape") if program_of(trace) == "planted"]
    assert len(with_objects) == 1
    events, rows = events_and_rows(with_objects[0])
    assert accessed(rows, requests(events, rows), {THIRD}) == [(THIRD, 1), (THIRD, 2)]


def test_a_static_child_runs_unrecorded(tmp_path):
    static = compile_c(tmp_path / "static", "int main(void) { return 0; }", "-static")
    done = run(RECORD, "-o", tmp_path / "a.tape", "--accesses", "--", "sh", "-c", '"$1"; echo $?', "sh", static)
    assert done.status == 0, done.stderr
    assert done.stdout.split() == ["0"]
    assert all(program_of(trace) != "static" for trace in tmp_path.glob("*.tape"))


def test_a_setuid_child_is_not_permitted(tmp_path):
    child = compile_c(tmp_path / "child", "int main(void) { return 0; }")
    child.chmod(0o4755)
    done = run(RECORD, "-o", tmp_path / "a.tape", "--accesses", "--", "sh", "-c", '"$1"; echo $?', "sh", child)
    assert (done.status, done.stdout) == (0, "126\n")
    assert "child: Permission denied" in done.stderr


def test_an_allocator_in_the_executable_is_not_redirected(tmp_path):
    own = """
    #include <stddef.h>
    static char arena[1 << 20] __attribute__((aligned(16)));
    static volatile size_t used, freed;
    void *malloc(size_t bytes) { used += (bytes + 15) & ~(size_t)15; return arena + used % (1 << 19); }
    void free(void *object) { freed += object != NULL; freed ^= (size_t)object >> 4; }
    int main(void) { for (int i = 0; i < 50; i++) free(malloc(777)); return 0; }
    """
    program = compile_c(tmp_path / "own", own, "-O1", "-fno-builtin")
    for options, calls in (((), 50), (("--accesses",), 0)):
        done = run(RECORD, "-o", tmp_path / "a.tape", *options, "--", program)
        assert done.status == 0, done.stderr
        assert info(tmp_path / "a.tape")["calls"].get("malloc", 0) == calls
        assert ("calls" in info(tmp_path / "a.tape")["info"]["lacks"]) == (calls == 0)


def test_a_recording_without_any_data_access_has_failed(planted, tmp_path):  # noqa: F811
    """The tool is told of bursts that never begin, of which the recorder knows nothing: it counts no access."""
    shutil.copytree(OUT / "libexec", tmp_path / "libexec", symlinks=True)
    (tmp_path / "lib").symlink_to(OUT / "lib")
    tool = tmp_path / "libexec" / "valgrind" / "heaptape-amd64-linux"
    tool.unlink()
    tool.write_text(f'#!/bin/sh\nexec {OUT / "libexec" / "valgrind" / tool.name} --bursts=out --burst-from=x "$@"\n')
    tool.chmod(0o755)
    tape = tmp_path / "a.tape"
    record = tmp_path / "libexec" / "heaptape-record"
    refused(record, "-o", tape, "--accesses", "--", planted, "objects", says=f"{tape}: 0 data accesses for ")
    assert check(tape)["ok"]  # the calls are there
