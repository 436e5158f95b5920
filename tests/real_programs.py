# SPDX-License-Identifier: MIT
"""Real programs with some small work (real_programs.toml), to be compared with their bare runs.

    python -m tests.real_programs

Runs those that are installed, and prints a line for each: exit status, and the bytes and hash of what it wrote.
"""

import hashlib
import shutil
import tomllib

from tests.support import REPOSITORY, Result, run

_GROUPS = tomllib.loads((REPOSITORY / "tests/real_programs.toml").read_text())
BASE: dict[str, list[str]] = _GROUPS["base"]
OTHERS: dict[str, list[str]] = _GROUPS["others"]


def run_here(command: list[str], preload: str | None = None) -> Result:
    """Runs a program in the repository's folder. preload: a library, instead of this process's LD_PRELOAD."""
    environment = {"LC_ALL": "C.UTF-8"} | ({} if preload is None else {"LD_PRELOAD": preload})
    return run(*command, env=environment, cwd=REPOSITORY)


def main() -> None:
    """Runs and prints."""
    installed = {name: command for name, command in (BASE | OTHERS).items() if shutil.which(command[0])}
    print(f"{len(installed)} programs", flush=True)
    for name, command in installed.items():
        done = run_here(command)
        wrote = (done.stdout + done.stderr).encode()
        print(f"{name}: exit {done.status}, {len(wrote)} bytes, {hashlib.sha256(wrote).hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
