# SPDX-License-Identifier: MIT
"""`heaptape ctl`: starts, stops, flushes and queries a running recording.

A recorder listens on an abstract Unix socket `heaptape-PID-RANDOM`; /proc/net/unix lists them. Each is asked whether it
records the process: the environment of a recorded program does not show its recorder, as the program may have
overwritten it. Any user can bind such a name, so nothing is asked of, and nothing believed from, a socket of another
user than this one, root, and, for root, the user of the process in question.
"""

import contextlib
import os
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from heaptape.common.checked import checked
from heaptape.common.console import printable
from heaptape.common.errors import HeaptapeError
from heaptape.common.phrases import counted, size

SOCKETS = Path("/proc/net/unix")
REPLY_BYTES = 1 << 20
TIMEOUT_S = 10.0  # a recorder that is writing answers between two passes
CROWDED_S, AGAIN_S = 1.0, 0.01
HIDDEN_USER = 65534
CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: pid, uid, gid


class _Process(TypedDict):
    pid: int
    state: str
    trace: str


class ProcessState(_Process, total=False):
    """A process in a recorder's reply; what only some have may be missing."""

    events: int
    threads: int
    dropped: int
    file_bytes: int


class State(TypedDict):
    """A recorder's reply to a verb that it carried out."""

    ok: bool
    recorder: int
    state: str
    recorded: int
    processes: list[ProcessState]


def recorder_sockets() -> list[str]:
    """Names of the recorders' sockets in this network name space, without the leading NUL."""
    return sorted(set(re.findall(r"@(heaptape-\d+-[0-9a-f]{8})$", SOCKETS.read_text(), re.MULTILINE)))


def ask(name: str, verb: str, pid: int) -> dict[str, Any] | None:
    """The reply of one recorder; None if it belongs to another user, has ended, or does not answer in time. Its texts
    are those of recorded programs: they are escaped where they are shown.
    """
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return _ask_now(name, verb, pid, until)
        except BlockingIOError:
            if time.monotonic() > until:
                return None
            time.sleep(AGAIN_S)


def asked(verb: str, pid: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Asks one recorder after the other, and gives its socket's name and its reply. pid None: of each its own number.
    Sockets at which too many connections wait come last: together they get a second, as they may be anybody's. Those of
    other users, of whom root asks some, together get the time of one.
    """
    names, until, others_until = recorder_sockets(), time.monotonic() + CROWDED_S, time.monotonic() + TIMEOUT_S
    while names:
        crowded = []
        for name in names:
            try:
                reply = _ask_now(name, verb, int(name.split("-")[1]) if pid is None else pid, others_until)
            except BlockingIOError:
                crowded.append(name)
            else:
                if reply:
                    yield name, reply
        names = crowded if time.monotonic() < until else []
        time.sleep(AGAIN_S if names else 0)


def _ask_now(name: str, verb: str, pid: int, others_until: float) -> dict[str, Any] | None:
    """As `ask`; waits for another user's reply until that time. Raises BlockingIOError where too many connections wait
    there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.setblocking(False)
        try:
            connection.connect(b"\0" + name.encode())
            listener, uid, _ = CREDENTIALS.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            )
            wait_s = TIMEOUT_S if uid in {os.geteuid(), 0} else others_until - time.monotonic()
            if uid not in _trusted(pid) or not _is_known(uid, listener) or wait_s <= 0:
                return None
        except BlockingIOError:
            raise
        except OSError:
            return None
        connection.settimeout(wait_s)
        try:
            connection.send(msgspec.json.encode({"verb": verb, "pid": pid}))
            reply = msgspec.json.decode(connection.recv(REPLY_BYTES) or b"null")
        except (OSError, ValueError, RecursionError):
            return None
    return reply if isinstance(reply, dict) else None


def _trusted(pid: int) -> set[int]:
    """The users whose recorder may speak for process `pid`."""
    trusted = {os.geteuid(), 0}
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # it is gone: only root's own recorder may still know it
            trusted.add(Path(f"/proc/{pid}").stat().st_uid)
    return trusted


def _is_known(uid: int, process: int) -> bool:
    """Is that one user? A user name space gives all users that it lacks the same number: there, only of processes in
    it.
    """
    if uid != HIDDEN_USER or Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(2**32 - 1)]:
        return True
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/ns/user").samefile("/proc/self/ns/user")
    return False


def command(verb: str, pid: int) -> dict[str, Any]:
    """Has the recorder with number `pid`, or that records process `pid`, carry out a verb. Returns its state after
    that.

    Raises HeaptapeError if there is none, or it refuses.
    """
    refusal = ""
    for name, reply in asked(verb, pid):
        if reply.get("ok"):
            checked(f"the recorder at @{name}", reply, State)
            return reply
        if reply.get("error") != "not recorded here":
            refusal = str(reply.get("error"))
    raise HeaptapeError(f"process {pid}: {refusal or 'neither a recorder of yours nor recorded by one'}")


def in_words(reply: dict[str, Any]) -> str:
    """The state as text, one line for the recorder and one per process."""
    lines = [
        f"recorder {reply['recorder']}: {printable(reply['state'])}, processes recorded so far: {reply['recorded']}"
    ]
    for process in reply["processes"]:
        line = f"  {process['pid']}: {printable(process['state'])}, {printable(process['trace'])}"
        if {"events", "threads", "dropped", "file_bytes"} <= process.keys():
            line += (
                f", {counted(process['events'], 'call')}, {counted(process['threads'], 'thread')}, "
                f"{process['dropped']:,} dropped, {size(process['file_bytes'])} written"
            )
        lines.append(line)
    return "\n".join(lines)
