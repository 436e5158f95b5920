# SPDX-License-Identifier: MIT
"""An engine that is killed: from outside, as the kernel does where memory runs out, or by its parent, as it hangs."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.access_streams import STACK, file
from tests.support import compile_c

from .engine import ENGINE, PLANTED, TOOL, engine, make

# The command's clock is so fast that an hour passes in the hundredth part of a second.
FAST_CLOCK = """
int clock_gettime(clockid_t clock, struct timespec *now) {
  long result = syscall(SYS_clock_gettime, clock, now);
  long long ns = now->tv_sec * 1000000000ll + now->tv_nsec;
  if (clock == CLOCK_MONOTONIC)
    *now = (struct timespec){ns / 2500, ns % 2500 * 400000};
  return result;
}
"""
WAIT_S = 30  # less than the engine waits for an allocator that hangs


def engine_of(parent: subprocess.Popen[str]) -> int:
    """The engine, once it is the first that the kernel would kill. AssertionError: there is none within WAIT_S."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    last = time.monotonic() + WAIT_S
    while parent.poll() is None and time.monotonic() < last:
        for child in children.read_text().split():
            try:
                if Path(f"/proc/{child}/oom_score_adj").read_text().strip() == "1000":
                    return int(child)
            except OSError:  # it has ended
                continue
        time.sleep(0.005)
    raise AssertionError(f"no engine to kill; the command's status is {parent.poll()}")


def test_the_engine_is_killed_first_and_its_end_is_said_in_a_line(tmp_path):
    path = tmp_path / "w.work"
    make(path, ops=2000)
    # The one run of this command: the engine's own cost is given, so no run without an allocator comes first.
    run = ["--pass", "bare", "--engine-cycles-per-op", "0", "--env=PLANT_HANG_AT=40", "--preload", str(PLANTED)]
    with subprocess.Popen([str(ENGINE), *run, str(path)], stdout=-1, stderr=-1, text=True) as parent:
        try:
            os.kill(engine_of(parent), signal.SIGKILL)
            _, error = parent.communicate(timeout=WAIT_S)
        finally:
            parent.kill()  # else leaving this block would wait for it
    assert parent.returncode == 1
    assert error.count("\n") == 1
    assert "the engine was killed by signal 9 (SIGKILL)" in error


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--pass", "bare"), "the allocator made no progress for 60 s"),
        (("--pass", "misses", "--accesses", "w.accesses"), "the replay made no progress for 3600 s"),
    ],
)
def test_an_engine_that_hangs_is_stopped_and_said_to_have_made_no_progress_for_the_limit_of_its_pass(
    tmp_path, monkeypatch, options, says
):
    if "misses" in options and not TOOL.exists():
        pytest.skip("the Valgrind tool was not built: no headers of Valgrind's")
    monkeypatch.chdir(tmp_path)
    make(Path("w.work"), ops=2000)
    Path("w.accesses").write_bytes(file([("event", STACK)] * 2000, 0))
    clock = compile_c(tmp_path / "clock.so", FAST_CLOCK, "-shared", "-fPIC")
    hangs = engine(
        *options, "--preload", PLANTED, "w.work", HANG_AT=40, environment={**os.environ, "LD_PRELOAD": str(clock)}
    )
    assert hangs.returncode == 1
    assert f"heaptape-replay: w.work: {says}: stopped " in hangs.stderr
