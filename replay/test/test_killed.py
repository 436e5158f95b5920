# SPDX-License-Identifier: MIT
"""An engine that is killed from outside, as the kernel does where memory runs out."""

import os
import signal
import subprocess
import time
from pathlib import Path

from .engine import ENGINE, PLANTED, make


def test_the_engine_is_killed_first_and_its_end_is_said_in_a_line(tmp_path):
    path = tmp_path / "w.work"  # verify has no run before its own
    make(path, ops=2000)
    command = [str(ENGINE), "--pass", "verify", "--preload", str(PLANTED), str(path)]
    environment = {**os.environ, "PLANT_HANG_AT": "40"}
    with subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        while (
            not (engine := children.read_text().split())
            or "1000" not in Path(f"/proc/{engine[0]}/oom_score_adj").read_text()
        ):
            time.sleep(0.005)
        os.kill(int(engine[0]), signal.SIGKILL)
        _, error = parent.communicate()
    assert parent.returncode == 1
    assert error.count("\n") == 1
    assert "the engine was killed by signal 9 (SIGKILL)" in error
