# SPDX-License-Identifier: MIT
"""What of this machine determines exact figures: its engine and C library, as one hash; and the machine's id."""

import functools
import hashlib
import platform
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.fleet.store.cell import digest
from heaptape.run.registry import c_library, sha256_of

VALGRIND_TOOL = "valgrind/heaptape-amd64-linux"  # beside the engine, where it is built


@functools.cache
def engine_hash(home: Home) -> str:
    """Hash of the engine, of the Valgrind tool under which it counts, and of the C library on which both run. And of
    the engine's path, which affects start-up and the stack: the same engine at another path differs by about 0.3 % in
    misses.
    """
    engine = home.program("replay").resolve()
    tool = engine.parent / VALGRIND_TOOL
    files = [sha256_of(engine), sha256_of(tool) if tool.is_file() else "", sha256_of(here_c_library())]
    return digest([*files, str(engine)])


def here_c_library() -> Path:
    """Path of the C library. Raises HeaptapeError where it can't be found."""
    path = c_library()
    if path is None:
        raise HeaptapeError("the C library of this process can't be found")
    return path


def machine_id(name: str = "") -> str:
    """Id of this machine: the same at each start, without revealing its name. `name`: of a part that is to count as a
    separate machine.
    """
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    return hashlib.sha256(f"heaptape fleet {machine} {platform.node()} {name}".encode()).hexdigest()[:16]
