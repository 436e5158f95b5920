# SPDX-License-Identifier: MIT
"""heaptape-convert without starting a program for each command: convert/test/convert_server.c forks it. On for
the tests of convert/ (its conftest.py), where most processes are.
"""

import atexit
import os
import select
import signal
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

Answer = tuple[int, str, str]


class Server:
    """One for each worker. Started at its first command."""

    def __init__(self, program: Path) -> None:
        self.environment = surroundings()
        self.out, self.err = (os.memfd_create(name, 0) for name in ("out", "err"))
        self.process = subprocess.Popen(
            [program, str(self.out), str(self.err)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(self.out, self.err),
            start_new_session=True,
            env=self.environment,
        )
        atexit.register(self.process.communicate)  # ends its input, and waits

    def run(self, command: Sequence[str], folder: Path, timeout_s: float, most_bytes: int) -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for file in (self.out, self.err):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
        request = b"".join(os.fsencode(word) + b"\0" for word in (str(folder), *command))
        self.process.stdin.write(struct.pack("<IQ", len(request), most_bytes) + request)
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(command), timeout_s)
        (status,) = struct.unpack("<I", os.read(self.process.stdout.fileno(), 4))
        return os.waitstatus_to_exitcode(status), content(self.out), content(self.err)


def content(file: int) -> str:
    data = os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")
    return data.replace("\r\n", "\n")


def surroundings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


enabled = False
_server: Server | None = None


def run(
    program: Path, command: Sequence[str | Path], folder: Path | None, timeout_s: float, most_bytes: int
) -> Answer | None:
    """Exit status (negative: the signal) and output; None: the command needs a process of its own, because this is off,
    not built, or a variable was set after the server's start.
    """
    global _server
    if not enabled or not program.exists():
        return None
    if _server is None or _server.process.poll() is not None:
        _server = Server(program)
    if _server.environment != surroundings():
        return None
    return _server.run([str(word) for word in command], folder or Path.cwd(), timeout_s, most_bytes)
