# SPDX-License-Identifier: MIT
"""C programs that run for a command in Python: what they say is passed on as its own."""

import json
import os
import subprocess

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home


def convert_json(home: Home, *arguments: str) -> dict:
    """What heaptape-convert prints with --json. Raises HeaptapeError with its one line."""
    result: dict = json.loads(convert_output(home, *arguments, "--json"))
    return result


def convert_output(home: Home, *arguments: str) -> bytes:
    """What heaptape-convert prints. Raises HeaptapeError with its one line."""
    command = [str(home.program("convert")), *arguments]
    # Into files in memory, not pipes: to be woken for each 64 KiB costs more CPU time than decoding them.
    with os.fdopen(os.memfd_create("out"), "w+b") as out, os.fdopen(os.memfd_create("errors"), "w+b") as errors:
        status = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, close_fds=False
        ).returncode
        out.seek(0)
        errors.seek(0)
        if status == 0:
            return out.read()
        said = last_message(errors.read().decode(errors="replace"), "convert")
    raise HeaptapeError(said or f"heaptape-convert {arguments[0]} failed")


def last_message(stderr: str, program: str) -> str:
    """A program's last line, without its name, as it was not the user who called it."""
    last = (stderr.strip().splitlines() or [""])[-1]
    return last.removeprefix(f"heaptape-{program}: ").removesuffix(f" (heaptape-{program} --help)")
