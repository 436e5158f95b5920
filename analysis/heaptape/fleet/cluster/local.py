# SPDX-License-Identifier: MIT
"""A scheduler and workers on this machine, for one command: its own processes, which end with it however it ends.

They communicate over the loopback interface by TLS, with private keys, so that other users of the machine can't submit
work.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.scratch import scratch_folder
from heaptape.fleet.cluster import keys

RESTARTS = 20  # of one worker: a single death is no reason to stop, but a worker that always dies is
# A worker that repeatedly dies soon after its start may lack something that comes later, such as room on a disk.
SOON_S = 30.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0


@contextlib.contextmanager
def cluster(
    home: Home, store: str, workers: int, options: Sequence[str], tell: Callable[[str], None]
) -> Iterator[tuple[str, str]]:
    """(address, folder of keys) of a cluster that runs within the context. `options`: of `heaptape fleet worker`."""
    with scratch_folder() as scratch, contextlib.ExitStack() as ends:
        folder = str(scratch / "keys")
        keys.make(Path(folder))
        command = [*home.command(), "fleet"]
        scheduler = _Child([*command, "scheduler", "tls://127.0.0.1:0", "--keys", folder], piped=True)
        ends.callback(scheduler.end)
        address = scheduler.first_line()
        arguments = [*command, "worker", address, "--keys", folder, "--store", store, *options]
        kept: list[_Kept] = []

        def given_up() -> None:
            if all(worker.is_given_up for worker in kept):
                scheduler.end()  # so the command does not wait for workers that nobody starts

        kept += [_Kept(arguments, number, tell, given_up) for number in range(workers)]
        for worker in kept:
            worker.start()
            ends.callback(worker.end)
        yield address, folder


class _Child:
    """A process that ends when its standard input does, and so when this process ends in any way."""

    def __init__(self, command: Sequence[str], piped: bool) -> None:
        self._process = subprocess.Popen(
            [*command, "--until-input-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if piped else subprocess.DEVNULL,
            text=True,
        )

    def first_line(self) -> str:
        """The line that it prints when it is ready. Raises HeaptapeError if it ends before."""
        assert self._process.stdout
        line = self._process.stdout.readline().strip()
        if not line:
            raise HeaptapeError("the scheduler on this machine did not start")
        return line

    def wait(self) -> int:
        return self._process.wait()

    def end(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


class _Kept:
    """A worker that is started again when it dies. `given_up`: called when it is not started again any more."""

    def __init__(
        self, command: Sequence[str], number: int, tell: Callable[[str], None], given_up: Callable[[], None]
    ) -> None:
        self._command, self._number, self._tell, self._given_up = command, number, tell, given_up
        self._ending, self.is_given_up = threading.Event(), False
        self._lock = threading.Lock()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        self._child = _Child(self._command, piped=False)
        self._keeper.start()

    def end(self) -> None:
        with self._lock:
            self._ending.set()
            child = self._child
        child.end()
        self._keeper.join()

    def _keep(self) -> None:
        wait_s = 0.0
        for _ in range(RESTARTS):
            begun = time.monotonic()
            status = self._child.wait()
            if self._ending.is_set():
                return
            self._tell(f"worker {self._number} died ({_status(status)}): started again")
            if time.monotonic() - begun > SOON_S:
                wait_s = 0.0
            self._ending.wait(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S) or FIRST_WAIT_S
            with self._lock:
                if self._ending.is_set():
                    return
                self._child = _Child(self._command, piped=False)
        self._child.wait()
        if not self._ending.is_set():
            self._tell(f"worker {self._number} died {RESTARTS + 1} times: not started again")
            self.is_given_up = True
            self._given_up()


def _status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def end_with_input(end: Callable[[], None]) -> None:
    """Calls `end` when standard input ends, from a thread: whoever started this process has ended."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        end()

    threading.Thread(target=wait, daemon=True).start()
