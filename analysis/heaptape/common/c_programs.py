# SPDX-License-Identifier: MIT
"""C programs that run for a command in Python: what they say is passed on as its own."""

import json
import subprocess

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home


def convert_json(home: Home, *arguments: str) -> dict:
    """What heaptape-convert prints with --json. Raises HeaptapeError with its one line."""
    command = [str(home.program("convert")), *arguments, "--json"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise HeaptapeError(last_message(done.stderr, "convert") or f"heaptape-convert {arguments[0]} failed")
    result: dict = json.loads(done.stdout)
    return result


def last_message(stderr: str, program: str) -> str:
    """A program's last line, without its name, as it was not the user who called it."""
    last = (stderr.strip().splitlines() or [""])[-1]
    return last.removeprefix(f"heaptape-{program}: ").removesuffix(f" (heaptape-{program} --help)")
