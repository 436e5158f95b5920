# SPDX-License-Identifier: MIT
"""The parent's half: starts the same command again under `heaptape record`, and prints remaining messages after it."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType

import pytest

from heaptape.common.console import printable
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.common.phrases import size
from heaptape.features.pytest_plugin import CRASHED, RECORDED, RECORDER_SAYS, STANDARD_ERROR
from heaptape.features.pytest_plugin.spans import read_spans

# How pytest is called; Debian adds Python's version.
COMMAND = re.compile(r"py\.?test(-?3(\.\d+)?)?|__main__\.py")
# Each event with a stamp: otherwise objects that different threads hold within one tick could seem to live one after
# the other, and a peak would be too low. Paused: measuring processes start their own recordings, imports need none.
# All processes: a worker that crashed early has few calls. Quiet: the recorder then prints warnings and errors only.
OPTIONS = ("--stamp", "every", "--start-paused", "--all-processes", "--quiet")


def run(config: pytest.Config) -> int:
    """Runs pytest recorded, with this process's arguments. Returns its exit status."""
    command = _command(config)
    folder = Path(tempfile.mkdtemp(prefix="heaptape-pytest-"))
    try:
        tape = Path(config.getoption("heaptape_tape") or folder / "run.tape").resolve()
        try:
            recorder = [str(default_home().program("record")), *OPTIONS, "-o", str(tape)]
        except HeaptapeError as error:
            raise pytest.UsageError(f"--heaptape: {error}") from None
        if config.getoption("heaptape_sites") == "stacks":
            recorder.append("--stacks")
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture:
            capture.suspend_global_capture(in_=True)
        status = _wait([*recorder, "--", *command], folder)
        _print_remaining(status, tape, folder)
        return status
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(config: pytest.Config) -> list[str]:
    """This process's command. Raises UsageError where a program called pytest, as that program can't be run again."""
    arguments = [str(argument) for argument in config.invocation_params.args]
    started = sys.orig_argv[1:]
    ours = started[-len(arguments) :] if arguments else []
    if ours != arguments or not COMMAND.fullmatch(Path(sys.argv[0]).name):
        raise pytest.UsageError("--heaptape: start pytest by its command or as python -m pytest: it is rerun recorded")
    return [sys.executable, *started]


def _environment(folder: Path, standard_error: int) -> dict[str, str]:
    """The recorded run's environment. All objects are from malloc: Python's own allocator would hide them in arenas."""
    allocator = os.environ.get("PYTHONMALLOC", "")
    return {
        **os.environ,
        "PYTHONMALLOC": allocator if allocator.startswith("malloc") else "malloc",
        RECORDED: str(folder),
        STANDARD_ERROR: str(standard_error),
    }


def _wait(command: list[str], folder: Path) -> int:
    """Returns the command's exit status, 128 + n for a signal. An interrupt is left to pytest, which gets it too."""

    def leave_to_pytest(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            process.terminate()

    user = os.dup(2)
    try:
        with (folder / RECORDER_SAYS).open("wb") as says:
            process = subprocess.Popen(command, stderr=says, pass_fds=(user,), env=_environment(folder, user))
        before = {number: signal.signal(number, leave_to_pytest) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            status = process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    finally:
        os.close(user)
    return status if status >= 0 else 128 - status


def _print_remaining(status: int, tape: Path, folder: Path) -> None:
    """Prints the recorder's messages and, after a crash, the figures of the test that was running."""
    for line in (folder / RECORDER_SAYS).read_text(errors="replace").splitlines():
        if line:
            print(line, file=sys.stderr)
    if status <= 128 and not (folder / CRASHED).exists():
        return
    for path in sorted(tape.parent.glob(f"{glob.escape(tape.stem)}*{glob.escape(tape.suffix)}")):
        try:
            found, dropped = read_spans(path)
        except HeaptapeError as error:
            print(printable(f"heaptape: {error}"), file=sys.stderr)
            continue
        if dropped:
            print(printable(f"heaptape: {dropped:,} calls are missing from {path.name}"), file=sys.stderr)
        for span in found:
            if not span.ended:
                print(
                    f"heaptape: the process ended in {printable(span.name)}: until then peak {size(span.peak_bytes)}, "
                    f"{size(span.growth_bytes)} live in {span.growth_objects:,} objects",
                    file=sys.stderr,
                )
