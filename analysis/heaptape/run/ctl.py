# SPDX-License-Identifier: MIT
"""`heaptape ctl`: starts, stops, flushes and queries a running recording.

A recorder listens on an abstract Unix socket `heaptape-PID-RANDOM`; /proc/net/unix lists them. Each is asked whether it
records the process: the environment of a recorded program does not show its recorder, as the program may have
overwritten it.
"""

import json
import re
import socket
from pathlib import Path
from typing import Any

from heaptape.common.errors import HeaptapeError
from heaptape.common.phrases import counted, size

SOCKETS = Path("/proc/net/unix")
REPLY_BYTES = 1 << 20
TIMEOUT_S = 10.0  # a recorder that is writing answers between two passes


def recorder_sockets() -> list[str]:
    """Names of the recorders' sockets in this network name space, without the leading NUL."""
    return sorted(set(re.findall(r"@(heaptape-\d+-[0-9a-f]{8})$", SOCKETS.read_text(), re.MULTILINE)))


def ask(name: str, verb: str, pid: int) -> dict[str, Any] | None:
    """The reply of one recorder; None if it belongs to another user, has ended, or does not answer in time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(b"\0" + name.encode())
            connection.send(json.dumps({"verb": verb, "pid": pid}).encode())
            reply = json.loads(connection.recv(REPLY_BYTES) or b"null")
        except (OSError, ValueError):
            return None
    return reply if isinstance(reply, dict) else None


def command(verb: str, pid: int) -> dict[str, Any]:
    """Has the recorder with number `pid`, or that records process `pid`, carry out a verb. Returns its state after
    that.

    Raises HeaptapeError if there is none, or it refuses.
    """
    refusal = ""
    for name in recorder_sockets():
        reply = ask(name, verb, pid)
        if reply and reply.get("ok"):
            return reply
        if reply and reply.get("error") != "not recorded here":
            refusal = str(reply.get("error"))
    raise HeaptapeError(f"process {pid}: {refusal or 'neither a recorder of yours nor recorded by one'}")


def in_words(reply: dict[str, Any]) -> str:
    """The state as text, one line for the recorder and one per process."""
    lines = [f"recorder {reply['recorder']}: {reply['state']}, processes recorded so far: {reply['recorded']}"]
    for process in reply["processes"]:
        line = f"  {process['pid']}: {process['state']}, {process['trace']}"
        if "events" in process:
            line += (
                f", {counted(process['events'], 'call')}, {counted(process['threads'], 'thread')}, "
                f"{process['dropped']:,} dropped, {size(process['file_bytes'])} written"
            )
        lines.append(line)
    return "\n".join(lines)
