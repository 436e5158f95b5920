# SPDX-License-Identifier: MIT
"""Which files a recorder writes: one recorder writes a file, and no link of another user is followed."""

import os
import signal
from pathlib import Path

import pytest

from capture.test.driven import Driven, calling
from tests.support import RECORD, check, run

CALLS = calling(5_000, 5000)


@pytest.mark.parametrize("options", [(), ("--rotate", "64K", "--keep", "1")])
def test_of_two_recorders_with_one_file_the_second_starts_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "link.tape").symlink_to("t.tape")
    first = Driven(tmp_path / "t.tape", *options, program=CALLS)
    for _ in range(3):
        first.work()
        for name in ("t.tape", "link.tape") if not options else ("t.tape",):
            second = run(RECORD, "-o", tmp_path / name, *options, "--", "touch", tmp_path / "started")
            assert second.status == 1
            assert second.stderr.endswith(": another recorder is writing it\n"), second.stderr
            assert second.stderr.count("\n") == 1
    first.end()
    assert not (tmp_path / "started").exists()
    for trace in tmp_path.glob("t*.tape"):
        assert check(trace)["ok"]


def test_a_file_whose_recorder_was_killed_can_be_written_again(tmp_path: Path) -> None:
    first = Driven(tmp_path / "t.tape", program=CALLS)
    first.work()
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert run(RECORD, "-o", tmp_path / "t.tape", "--", "true").status == 0
    assert check(tmp_path / "t.tape")["ok"]
