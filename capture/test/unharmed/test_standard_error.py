# SPDX-License-Identifier: MIT
"""What the recorder and a recorded program say never holds a program up: nobody may read standard error."""

import os
import select
import subprocess
import time
from pathlib import Path

import pytest

from capture.test.driven import HANG_S, calling
from tests.support import RECORD, compile_c, info

SOON_S = 20  # bounds what may take as long as nobody reads, and is not a claim


class Unread:
    """A pipe that is full, whose writing end is `write`."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.write, False)
        try:
            while True:
                os.write(self.write, b"-" * 4096)
        except BlockingIOError:
            os.set_blocking(self.write, True)

    def text(self) -> str:
        """What came after what filled it. The last writer must have ended."""
        os.close(self.write)
        with os.fdopen(self.read, "rb") as read:
            return read.read().decode().lstrip("-")


@pytest.fixture
def unread() -> Unread:
    return Unread()


def begin(stderr: int, trace: Path, *program: str) -> subprocess.Popen[str]:
    command: list[str | Path] = [RECORD, "--all-processes", "-o", trace, "--", *program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)


def answers(process: subprocess.Popen[str]) -> str:
    assert select.select([process.stdout], [], [], SOON_S)[0], "the program is held up"
    return process.stdout.readline()


# Each process after the first is one error of the recorder, while it serves the others.
REMOVES = 'rm -r "$1"; /bin/true; /bin/true; echo served; read go'


def test_a_recorder_whose_errors_nobody_reads_serves_on(tmp_path: Path, unread: Unread) -> None:
    (tmp_path / "gone").mkdir()
    process = begin(unread.write, tmp_path / "gone" / "t.tape", "sh", "-c", REMOVES, "sh", str(tmp_path / "gone"))
    assert answers(process) == "served\n"
    process.kill()


@pytest.mark.long
def test_what_nobody_reads_is_not_waited_for_without_end(tmp_path: Path, unread: Unread) -> None:
    process = begin(unread.write, tmp_path / "t.tape", "true")
    assert process.wait(SOON_S) == 0
    assert info(tmp_path / "t.tape")["footer"]["end"] == "exit"


def test_what_the_recorder_says_waits_for_its_reader(tmp_path: Path, unread: Unread) -> None:
    process = begin(unread.write, tmp_path / "t.tape", *calling(100, 77))
    process.stdin.write("\n")
    process.stdin.flush()
    assert answers(process) == "\n"
    process.stdin.close()
    while not (tmp_path / "t.tape").stat().st_size:
        time.sleep(0.01)
    said = unread.text()
    assert process.wait(HANG_S) == 0
    assert "heaptape replay" in said
    assert info(tmp_path / "t.tape")["events"] >= 200


# For each byte that it reads: calls, and a byte. It does not ignore SIGPIPE, as Python does.
CALLS = """
int main(void) {
  for (char byte; read(0, &byte, 1) == 1; write(1, "\\n", 1))
    for (int i = 0; i < 30000; i++)
      free(malloc(77));
}
"""


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_program_whose_recorder_was_killed_goes_on_though_nobody_reads_its_errors(tmp_path, unread, is_closed):
    """It would say there that the recording is over."""
    process = begin(unread.write, tmp_path / "t.tape", str(compile_c(tmp_path / "calls", CALLS)))
    if is_closed:
        os.close(unread.read)
    for killed in (False, True):
        if killed:
            process.kill()
            process.wait()
        process.stdin.write("\n")
        process.stdin.flush()
        assert answers(process) == "\n"
    process.stdin.close()
