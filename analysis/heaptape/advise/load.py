# SPDX-License-Identifier: MIT
"""A load for a server: when the server listens, a command that makes requests is run to its end; then the server is
asked to end. So each run of the server does the same work, recorded or live.
"""

import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.process import InProc, adopt_orphans, descendants, processes, send_signal
from heaptape.run.environment import without_allocator

PATIENCE_S = 60.0  # how long to wait until the server listens, or has ended; Valgrind makes it 50 times slower
LOOK_S = 0.05
ENDED = ("Z", "X")
ENDED_EARLY = "the server ended before it listened on TCP or a Unix socket"
LAST_REQUESTS_S = 10.0  # how long the load may go on when the server has ended
LISTENING = "0A"  # the state in /proc/net/tcp
ACCEPTING = "00010000"  # the flag in /proc/net/unix
OF_A_RECORDER = ("@heaptape-", "/tmp/heaptape-")  # names of sockets (capture/recorder/connections.c)


class Load:
    """`command`: as a shell splits it; it gets this environment without any allocator, and its output is not shown, but
    kept: `printed`, of its last run.
    """

    def __init__(self, command: str) -> None:
        self.printed = ""
        self._words, self._thread, self._failed = shlex.split(command), threading.Thread(), ""
        self._client: subprocess.Popen | None = None
        self._wrapper, self._since = 0, 0  # and when it began
        adopt_orphans(True)  # a server that goes to the background, and workers that it leaves there

    def begin(self, wrapper: int) -> None:
        """Waits, in another thread, until the process `wrapper` or a descendant listens."""
        self._failed, self.printed, self._client = "", "", None
        self._wrapper, self._since = wrapper, processes()[wrapper].began
        self._thread = threading.Thread(target=self._run, args=(wrapper,), daemon=True)
        self._thread.start()

    def end(self, status: int = 0, said: str = "") -> None:
        """To be called when the server has ended, with this status (negative, or less 128: by a signal) and last line.
        Raises HeaptapeError where it never listened, or the load failed.
        """
        self._thread.join(LAST_REQUESTS_S)
        if self._thread.is_alive() and self._client:
            self._client.kill()
        self._thread.join()
        for pid, seen in self._orphans().items():
            _end(pid, seen)
        number = max(-status, status - 128, 0)
        is_killed = number in signal.valid_signals() and number != signal.SIGTERM
        killed = f"; the server was ended by {signal.Signals(number).name}" if is_killed else ""
        if self._failed:
            words = f" ({said})" if said and self._failed == ENDED_EARLY else ""
            raise HeaptapeError(f"--load: {self._failed}{words}{killed}")

    def _run(self, wrapper: int) -> None:
        server, until = None, time.monotonic() + PATIENCE_S
        while server is None and time.monotonic() < until and _runs(wrapper):
            time.sleep(LOOK_S)
            server = listening(wrapper)
        if server:
            self._make_requests()
        elif _runs(wrapper):
            self._failed = f"the server did not listen on TCP or a Unix socket within {PATIENCE_S:.0f} s"
        else:
            self._failed = ENDED_EARLY
        if not _runs(wrapper) and self._orphans() and (server is None or _runs(server[0])):
            self._failed = "the server went to the background: it has to stay in the foreground"
        for pid, seen in [server] if server else _family(wrapper).items():
            _end(pid, seen)

    def _orphans(self) -> dict[int, InProc]:
        """Of the wrapper, when that has ended."""
        ours = descendants(os.getpid()).items()
        later = {pid: seen for pid, seen in ours if pid != self._wrapper and seen.began >= self._since}
        return {pid: seen for pid, seen in later.items() if seen.state not in ENDED}

    def _make_requests(self) -> None:
        try:
            self._client = subprocess.Popen(
                self._words,
                env=without_allocator(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            self._failed = f"{self._words[0]}: {error.strerror}"
            return
        self.printed, errors = self._client.communicate()
        if status := self._client.returncode:
            said = (errors.strip().splitlines() or [""])[-1][:200]
            self._failed = f"{self._words[0]}: exit status {status}{f' ({said})' if said else ''}"


def listening(ancestor: int) -> tuple[int, InProc] | None:
    """The process that listens on a TCP or Unix socket: this one or its first descendant, by depth; None: none does."""
    for pid, seen in _family(ancestor).items():
        sockets = {f"socket:[{inode}]" for inode in _listening_inodes(pid)}
        try:
            links = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
        except OSError:
            continue
        if links & sockets:
            return pid, seen
    return None


def _runs(pid: int) -> bool:
    found = processes().get(pid)
    return found is not None and found.state not in ENDED


def _end(pid: int, seen: InProc) -> None:
    """By SIGTERM, or SIGKILL where that is ignored."""
    until = time.monotonic() + PATIENCE_S
    send_signal(pid, seen, signal.SIGTERM)
    while _runs(pid) and time.monotonic() < until:
        time.sleep(LOOK_S)
    send_signal(pid, seen, signal.SIGKILL)


def _family(ancestor: int) -> dict[int, InProc]:
    """The process, if it has not ended, and its descendants."""
    itself = processes().get(ancestor)
    return ({ancestor: itself} if itself else {}) | descendants(ancestor)


def _listening_inodes(pid: int) -> set[str]:
    """Of the process's network name space."""
    found = set()
    for name, column, wanted, inode in (("tcp", 3, LISTENING, 9), ("tcp6", 3, LISTENING, 9), ("unix", 3, ACCEPTING, 6)):
        try:
            rows = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        cells = (row.split() for row in rows)
        listening = (row for row in cells if len(row) > inode and row[column] == wanted)
        found |= {row[inode] for row in listening if not row[-1].startswith(OF_A_RECORDER)}
    return found
