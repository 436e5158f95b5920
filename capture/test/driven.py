# SPDX-License-Identifier: MIT
"""A recorder and a program under it that makes calls on request."""

import os
import select
import subprocess
from pathlib import Path

from tests.support import RECORD

HANG_S = 120  # bounds a hang, and is not a claim

# For each line that it reads: `calls` mallocs of `size_bytes` and their frees, then "\n". Its exit status is `status`.
CALLS = """
import ctypes, sys
calls, size_bytes, status = map(int, sys.argv[1:])
libc = ctypes.CDLL(None)
malloc, free = libc.malloc, libc.free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
for line in sys.stdin:
    for i in range(calls):
        free(malloc(size_bytes))
    print(flush=True)
sys.exit(status)
"""


def calling(calls: int, size_bytes: int, status: int = 0) -> list[str]:
    """A program that makes `calls` pairs of malloc and free each time that is requested."""
    return ["/usr/bin/python3", "-c", CALLS, *map(str, (calls, size_bytes, status))]


class Commanded(subprocess.Popen):
    """A program that answers each command on its standard input by a line. A `with` kills it at its end."""

    def __init__(self, *command: str | Path, **options: int) -> None:
        pipe = subprocess.PIPE
        super().__init__([str(word) for word in command], stdin=pipe, stdout=pipe, bufsize=0, **options)

    def request(self, command: str) -> None:
        """Gives it a command; does not wait."""
        self.stdin.write(command.encode())

    def answers(self, within_s: float) -> bool:
        if not select.select([self.stdout], [], [], within_s)[0]:
            return False
        assert os.read(self.stdout.fileno(), 1) == b"\n"
        return True

    def answer(self) -> None:
        """Waits until a command has been carried out."""
        assert self.answers(HANG_S), "the program stands still"

    def obey(self, command: str) -> None:
        """Gives it a command, and waits."""
        self.request(command)
        self.answer()

    def end(self) -> int:
        """Lets it end; returns its exit status."""
        self.stdin.close()
        return self.wait(timeout=HANG_S)

    def __exit__(self, *raised: object) -> None:
        self.kill()
        super().__exit__(*raised)


class Driven:
    """`process`: the recorder. The program answers each byte by a byte when it has made its calls. It ends
    with this status after the last byte."""

    def __init__(self, trace: Path, *options: str, program: list[str], status: int = 0) -> None:
        self.trace, self.status = trace, status
        command = (RECORD, "--all-processes", "-o", self.trace, *options, "--", *program)
        self.process = Commanded(*command, stderr=subprocess.PIPE)
        self.answer = self.process.answer

    def request(self) -> None:
        """Requests the calls; does not wait."""
        self.process.request("\n")

    def work(self) -> None:
        """Requests the calls, and waits."""
        self.request()
        self.answer()

    def program_pid(self) -> int:
        """The id of the recorder's first child."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def end(self) -> str:
        """Lets the program end; returns what the recorder printed."""
        _, output = self.process.communicate(timeout=HANG_S)
        assert self.process.returncode == self.status, output
        return output.decode()
