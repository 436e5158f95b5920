# SPDX-License-Identifier: MIT
"""`heaptape ctl`: starts, stops, flushes and asks a recording that runs.

A recorder listens on an abstract Unix socket `heaptape-PID-RANDOM`; /proc/net/unix lists them. Each is asked whether it
knows the process: a recorded program may have overwritten its environment, so that it can't tell who records it.
"""

import json
import re
import socket
from pathlib import Path
from typing import Any

from heaptape.common.errors import HeaptapeError

SOCKETS = Path("/proc/net/unix")
REPLY_BYTES = 1 << 20
TIMEOUT_S = 10.0  # a recorder that is busy writing answers between two passes


def recorder_sockets() -> list[str]:
    """Names of the recorders' sockets that this network name space shows, without the leading NUL."""
    return sorted(set(re.findall(r"@(heaptape-\d+-[0-9a-f]{8})$", SOCKETS.read_text(), re.MULTILINE)))


def ask(name: str, verb: str, pid: int) -> dict[str, Any] | None:
    """The reply of one recorder; None if it is another user's, has ended, or does not answer in time."""
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
    """Has the recorder that PID is, or that records PID, carry out a verb. Returns its state after that.

    Raises HeaptapeError where there is none, or where it refuses.
    """
    refusal = ""
    for name in recorder_sockets():
        reply = ask(name, verb, pid)
        if reply and reply.get("ok"):
            return reply
        if reply and reply.get("error") != "not recorded here":
            refusal = str(reply.get("error"))
    raise HeaptapeError(f"process {pid}: {refusal or 'no recorder of yours is or records it'}")


def in_words(reply: dict[str, Any]) -> str:
    """The state as text, one line for the recorder and one per process."""
    lines = [f"recorder {reply['recorder']}: {reply['state']}, {reply['recorded']} processes recorded so far"]
    for process in reply["processes"]:
        line = f"  {process['pid']}: {process['state']}, {process['trace']}"
        if "events" in process:
            line += (
                f", {process['events']:,} events, {process['threads']} threads, {process['dropped']:,} dropped, "
                f"{process['file_bytes']:,} bytes written"
            )
        lines.append(line)
    return "\n".join(lines)
