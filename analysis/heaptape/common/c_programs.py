# SPDX-License-Identifier: MIT
"""C programs that run for a command in Python, whose errors become that command's errors."""

import json
import os
import re
import subprocess

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home


def convert_json(home: Home, *arguments: str) -> dict:
    """What heaptape-convert prints with --json, parsed. Raises HeaptapeError with its error message."""
    result: dict = json.loads(convert_output(home, *arguments, "--json"))
    return result


def convert_output(home: Home, *arguments: str) -> bytes:
    """What heaptape-convert prints. Raises HeaptapeError with its error message."""
    command = [str(home.program("convert")), *arguments]
    # Into files in memory, not pipes: a wakeup for each 64 KiB costs more CPU time than decoding them.
    with os.fdopen(os.memfd_create("out"), "w+b") as out, os.fdopen(os.memfd_create("errors"), "w+b") as errors:
        status = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, close_fds=False
        ).returncode
        out.seek(0)
        errors.seek(0)
        if status == 0:
            return out.read()
        message = last_message(errors.read().decode(errors="replace"), "convert")
    raise HeaptapeError(message or f"heaptape-convert {arguments[0]} failed")


def last_message(stderr: str, program: str) -> str:
    """A program's last line on stderr, without its name, as the user did not call it."""
    last = (stderr.strip().splitlines() or [""])[-1]
    return re.sub(r" \(heaptape[a-z -]* --help\)$", "", last.removeprefix(f"heaptape-{program}: "))
