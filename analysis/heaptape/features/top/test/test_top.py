# SPDX-License-Identifier: MIT
"""`heaptape top` shows the counts of a running recording, and leaves it alone.

Long: a terminal of another size.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.features.top import recording
from heaptape.features.top.recording import find
from heaptape.features.top.screen import Watch
from heaptape.features.top.test.test_lines import counts
from heaptape.run.ctl import command

from capture.test.driven import HANG_S, Driven, calling
from tests.support import HEAPTAPE, HEAPTAPE_HERE, OUT, compile_c, info, published, refused, succeed

PAIRS, BYTES = 10_000, 3000
# For each line that it reads it acquires and keeps 20,000 objects of 100 bytes, in one function, and one of 16 MiB.
KEEPING = """
#include <stdio.h>
#include <stdlib.h>
static void *last;
static void keep(void **object) {
  *object = last;
  last = object;
}
static void keep_small(void) {
  for (int i = 0; i < 20000; i++)
    keep(malloc(100));
}
static void keep_large(void) {
  keep(malloc(16 << 20));
}
int main(void) {
  while (getchar() != EOF) {
    keep_small();
    keep_large();
    putchar('\\n');
    fflush(stdout);
  }
  return 0;
}
"""


class Watched(Driven):
    """A recording of a program that works on command."""

    def watch(self) -> Watch:
        """Its process, as `heaptape top` watches it."""
        return Watch(Home(OUT), *find(str(self.program_pid())))


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """Starts a recording of pairs of malloc and free, or of another program, with these options."""
    started: list[Watched] = []

    def begin(*options: str, program: list[str] | None = None) -> Watched:
        started.append(Watched(tmp_path / "t.tape", *options, program=program or calling(PAIRS, BYTES)))
        started[-1].work()
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.wait()


@pytest.fixture
def keeping(tmp_path: Path) -> list[str]:
    """The program that keeps what it acquires."""
    return [str(compile_c(tmp_path / "keeping", KEEPING, "-O0", "-g"))]


def on_terminal(
    *arguments: str | Path, keys: bytes = b"", size: tuple[int, int] = (40, 120), then: str = "calls"
) -> tuple[int, str]:
    """`heaptape top` on a terminal of that size. Presses keys when `then` is shown. Returns exit status and output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(HEAPTAPE, [str(HEAPTAPE), "top", *map(str, arguments)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    wrote, until = "", time.monotonic() + HANG_S
    while select.select([terminal], [], [], max(0, until - time.monotonic()))[0]:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the program has ended
            break
        wrote += part.decode(errors="replace")
        if keys and then in wrote:
            os.write(terminal, keys)
            keys = b""
    else:
        os.kill(pid, 9)
        pytest.fail(f"top does not respond: {wrote[-500:]}")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", wrote)


def test_between_two_samples_every_call_is_counted(start) -> None:
    recording = start()
    watch = recording.watch()
    before = watch.read().process
    for times in (1, 3):
        for _ in range(times):
            recording.work()
        after = watch.read().process
        # python3 itself makes a few calls per line: none of them of that size
        assert PAIRS * times <= after["calls"]["malloc"] - before["calls"]["malloc"] < PAIRS * times + 100
        assert PAIRS * times <= after["calls"]["free"] - before["calls"]["free"] < PAIRS * times + 100
        assert 0 <= after["request_bytes"] - before["request_bytes"] - PAIRS * times * BYTES < 100_000
        assert sum(after["calls"].values()) == after["events"] == after["threads"][0]["events"]
        before = after
    recording.end()


def test_requests_stay_counted_when_blocks_are_written(start) -> None:
    recording = start()
    watch = recording.watch()
    for ahead in ("counted", "not counted"):
        if ahead == "counted":
            watch.read()
        before = watch.read().process
        recording.work()
        command("flush", recording.process.pid)
        after = watch.read().process
        assert after["file_bytes"] > before["file_bytes"]
        assert 0 <= after["request_bytes"] - before["request_bytes"] - PAIRS * BYTES < 100_000
    recording.end()


def test_rates_are_those_between_the_two_readings(start) -> None:
    recording = start()
    watch = recording.watch()
    first = watch.next()
    before = watch._before.process
    recording.work()
    made = watch.next()
    after = watch._before.process
    seconds = made["interval_s"]
    assert first["process"]["events_per_s"] is None
    assert made["process"]["events_per_s"] * seconds == pytest.approx(after["events"] - before["events"])
    assert made["process"]["threads"][0]["events_per_s"] == pytest.approx(made["process"]["events_per_s"])
    recording.end()


def test_live_bytes_and_sites_are_those_that_the_program_keeps(start, keeping) -> None:
    recording = start("--stacks", program=keeping)
    watch = recording.watch()
    for times in range(2, 5):
        recording.work()
        process = watch.next()["process"]
        sites = {site["name"].partition(" < ")[0]: site for site in process["sites"]}
        truth = times * (20_000 * 100 + (16 << 20))
        # four times the stated error: a miss would be one in ten thousand million
        assert abs(process["live_bytes"] - truth) <= 2 * process["live_bytes_error"] + 5000
        assert sites["keep_large"]["live_bytes"] == times * (16 << 20)
        assert sites["keep_large"]["live_bytes_error"] == 0
        small = sites["keep_small"]
        assert abs(small["live_bytes"] - times * 2_000_000) <= 2 * small["live_bytes_error"]
        assert abs(small["calls"] - times * 20_000) <= 2 * small["calls_error"]
        assert small["calls_error"] < times * 20_000
        assert process["rss_anon_bytes"] > times * 2_000_000
        assert process["beside_live_bytes"] == process["rss_anon_bytes"] - process["live_bytes"]
    recording.end()


RENAMED = """
import pathlib, sys
for number, line in enumerate(sys.stdin):
    pathlib.Path("/proc/self/comm").write_text(f"name {number}")
    print(flush=True)
"""


def test_a_thread_has_the_name_that_it_has_now(start) -> None:
    recording = start(program=["/usr/bin/python3", "-c", RENAMED])
    watch = recording.watch()
    for number in range(2):
        assert watch.next()["process"]["threads"][0]["name"] == f"name {number}"
        recording.work()
    recording.end()


def test_without_stacks_there_are_no_sites(start) -> None:
    recording = start()
    assert recording.watch().next()["process"]["sites"] is None
    recording.end()


def test_json_is_one_published_sample_or_as_many_as_requested(start) -> None:
    recording = start("--stacks")
    pid = str(recording.program_pid())
    one = published("top", succeed(HEAPTAPE_HERE, "top", pid, "--json", "--interval", "0.1").stdout)
    assert one["process"]["trace"] == str(recording.trace)
    assert one["process"]["calls"][0]["calls_per_s"] == 0
    several = succeed(
        HEAPTAPE_HERE, "top", recording.trace, "--json", "-n", "3", "--interval", "0.1"
    ).stdout.splitlines()
    assert [published("top", line)["process"]["pid"] for line in several] == [int(pid)] * 3
    recording.end()


def test_without_a_terminal_samples_are_plain_text(start) -> None:
    recording = start()
    output = succeed(HEAPTAPE_HERE, "top", str(recording.process.pid), "--once", "--interval", "0.1").stdout
    assert "\x1b" not in output
    shown = {line.split(" ")[0] for line in output.splitlines()}
    assert {"calls", "live", "RSS", "missing"} & shown == {"calls", "live", "RSS"}
    twice = succeed(HEAPTAPE_HERE, "top", str(recording.process.pid), "-n", "2", "--interval", "0.1").stdout
    assert twice.count("heaptape top") == 2
    recording.end()


def test_quitting_leaves_the_recording_alone(start) -> None:
    recording = start()
    status, shown = on_terminal(recording.trace, keys=b"q")
    assert status == 0
    assert "recording" in shown
    recording.work()
    recording.end()
    assert not info(recording.trace)["truncated"]


def test_it_ends_with_the_recording_and_shows_the_last_state(start) -> None:
    recording = start()
    watching = subprocess.Popen(
        [HEAPTAPE, "top", recording.trace, "--interval", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout.readline()
    recording.end()
    _, errors = watching.communicate(timeout=HANG_S)
    assert watching.returncode == 0
    assert errors == "heaptape: the recording has ended\n"


@pytest.mark.parametrize("size", [(24, 80), (1, 1), pytest.param((5, 20), marks=pytest.mark.long)])
def test_it_fits_into_any_terminal(start, size) -> None:
    recording = start()
    status, _ = on_terminal(recording.trace, "-n", "2", "--interval", "0.1", size=size)
    assert status == 0
    recording.end()


def test_it_redraws_when_the_terminal_gets_another_size(start) -> None:
    recording = start()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(HEAPTAPE, [str(HEAPTAPE), "top", str(recording.trace), "--interval", "3600"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    wrote = b""
    for rows, columns in ((20, 70), (3, 15)):
        while b"calls" not in wrote:  # drawn once, and then waiting: the next refresh is an hour away
            wrote += os.read(terminal, 1 << 16)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        wrote = b""
    while b"quit" not in wrote:
        wrote += os.read(terminal, 1 << 16)
    os.write(terminal, b"q")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    recording.end()


def test_a_recorder_that_is_killed_ends_it(start) -> None:
    recording = start()
    watch = recording.watch()
    assert watch.next()
    recording.process.kill()
    recording.process.wait()
    assert watch.next() is None
    assert "has no end" in succeed(HEAPTAPE_HERE, "top", recording.trace).stdout


def test_one_of_several_processes_can_be_chosen(start) -> None:
    recording = start(program=["/bin/sh", "-c", '"$@"; exit', "sh", *calling(PAIRS, BYTES)])
    found = find(str(recording.process.pid))
    reply = found and found[0].counts(found[1])
    assert reply
    pids = [process["pid"] for process in reply["processes"]]
    assert len(pids) >= 2
    assert "threads" not in reply["processes"][0]
    for pid in pids[:2]:
        sample = published("top", succeed(HEAPTAPE_HERE, "top", str(pid), "--json", "--interval", "0.1").stdout)
        assert sample["process"]["pid"] == pid
        assert [process["pid"] for process in sample["processes"]] == pids
    status, shown = on_terminal(recording.process.pid, "-n", "20", "--interval", "0.1", keys=b"n", then="process 1 of")
    assert status == 0
    assert "process 2 of" in shown
    recording.end()


def test_pauses_and_drops_are_shown(start) -> None:
    recording = start()
    command("stop", recording.process.pid)
    recording.work()
    process = recording.watch().next()["process"]
    assert process["paused"]
    assert process["skipped"] >= 2 * PAIRS
    recording.end()


def test_a_finished_trace_is_reported_as_such(start) -> None:
    recording = start()
    recording.end()
    assert "is not being recorded here (exit)" in succeed(HEAPTAPE_HERE, "top", recording.trace).stdout
    sample = published("top", succeed(HEAPTAPE_HERE, "top", recording.trace, "--json").stdout)
    assert sample["ended"]
    assert sample["events"] == info(recording.trace)["events"]


def test_what_cannot_be_watched_is_refused_in_one_line(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.tape"
    foreign.write_text("no trace")
    refused(HEAPTAPE_HERE, "top", foreign, says="foreign.tape")
    refused(HEAPTAPE_HERE, "top", tmp_path / "missing.tape", says="missing.tape")
    refused(HEAPTAPE_HERE, "top", str(os.getpid()), says="heaptape record")
    refused(HEAPTAPE_HERE, "top", "1", "--interval", "0", status=2, says="0.1 to 3600")
    refused(HEAPTAPE_HERE, "top", "1", "-n", "0", status=2, says="from 1 on")


def test_a_process_that_is_gone_is_reported_as_such() -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    refused(HEAPTAPE_HERE, "top", str(ended.pid), says=f"there is no process {ended.pid}")


@pytest.mark.parametrize("reply", [{"error": "unknown verb"}, {"ok": True}])
def test_a_recorder_of_another_version_hides_no_other_recording(reply: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [("heaptape-1-00000000", reply), ("heaptape-2-00000000", {"ok": True, **counts(1, 1), "time_ns": 1})]
    monkeypatch.setattr(recording, "asked", lambda *_: iter(replies))
    assert find("7") == (recording.Recording("heaptape-2-00000000", 2), 7)
    del replies[1]
    with pytest.raises(HeaptapeError, match="heaptape-1-00000000|recorder 1 is of another version"):
        find("7")


NEGATIVE = counts(1, 1, live_objects_variance=-1.0)["processes"]


@pytest.mark.parametrize(
    "change", [{"time_ns": "x"}, {"processes": [{"pid": 1}]}, {"ended": None}, {"processes": NEGATIVE}]
)
def test_counts_of_another_shape_are_an_error(change: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    valid = {"ok": True, "recorder": 1, "processes": [], "time_ns": 1, "recorded": 0, "running": 0, "ended": False}
    monkeypatch.setattr(recording, "ask", lambda *_: valid)
    assert recording.Recording("heaptape-1-00000000", 1).counts(1) == valid
    monkeypatch.setattr(recording, "ask", lambda *_: valid | change)
    with pytest.raises(HeaptapeError, match="the recorder at @heaptape-1-00000000: "):
        recording.Recording("heaptape-1-00000000", 1).counts(1)
