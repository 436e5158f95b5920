# SPDX-License-Identifier: MIT
"""An engine that is killed from outside, as the kernel does where memory runs out."""

import os
import signal
import subprocess
import time
from pathlib import Path

from .engine import ENGINE, PLANTED, make

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
