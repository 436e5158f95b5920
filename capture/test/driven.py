"""A recorder and a program under it that makes calls when it is told to."""

import select
import subprocess
from pathlib import Path

from tests.support import RECORD

HANG_S = 120  # bounds a hang, and is no claim

# For each line that it reads: so often a malloc of so many bytes and its free, then "1\n". Ends with that exit status.
PROGRAM = """
import ctypes, sys
calls, size_bytes, status = map(int, sys.argv[1:])
libc = ctypes.CDLL(None)
malloc, free = libc.malloc, libc.free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
for line in sys.stdin:
    for i in range(calls):
        free(malloc(size_bytes))
    print(1, flush=True)
sys.exit(status)
"""


class Driven:
    """`process`: the recorder; `calls`: pairs of malloc and free that the program makes each time it is asked."""

    def __init__(self, folder: Path, *options: str, calls: int, size_bytes: int, status: int = 0) -> None:
        self.trace, self.status = folder / "t.tape", status
        program = ["/usr/bin/python3", "-c", PROGRAM, *map(str, (calls, size_bytes, status))]
        self.process = subprocess.Popen(
            [RECORD, "-o", self.trace, *options, "--", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self) -> None:
        """Has the calls made; does not wait."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self) -> None:
        """Waits until they are."""
        assert self.process.stdout
        assert select.select([self.process.stdout], [], [], HANG_S)[0], "the program stands still"
        assert self.process.stdout.readline() == "1\n"

    def work(self) -> None:
        """Has the calls made, and waits."""
        self.ask()
        self.answer()

    def end(self) -> str:
        """Lets the program end; what the recorder printed."""
        _, told = self.process.communicate(timeout=HANG_S)
        assert self.process.returncode == self.status, told
        return told
