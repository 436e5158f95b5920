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


class Driven:
    """`process`: the recorder. The program answers each byte by a byte when it has made its calls. It ends
    with this status after the last byte."""

    def __init__(self, trace: Path, *options: str, program: list[str], status: int = 0) -> None:
        self.trace, self.status = trace, status
        self.process = subprocess.Popen(
            [RECORD, "--all-processes", "-o", self.trace, *options, "--", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def request(self) -> None:
        """Requests the calls; does not wait."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self) -> None:
        """Waits until the calls requested first are made."""
        assert select.select([self.process.stdout], [], [], HANG_S)[0], "the program stands still"
        assert os.read(self.process.stdout.fileno(), 1) == b"\n"

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
        return output
