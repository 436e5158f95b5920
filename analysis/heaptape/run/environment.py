# SPDX-License-Identifier: MIT
"""What of an environment selects an allocator or sets one up. A program that runs live on a chosen allocator gets none
of it but the choice's own; the engine's environment is built by its parent (replay/parent/environment.h).
"""

import fnmatch
from collections.abc import Mapping
from pathlib import Path

from heaptape.allocators.elf_files import exported_names
from heaptape.allocators.registry import files_of
from heaptape.common.engine import ALLOCATOR_VARIABLES

PRELOAD, TUNABLES = "LD_PRELOAD", "GLIBC_TUNABLES"
OF_MALLOC = "glibc.malloc."
RECORDERS = ("libheaptape.so", "libheaptape-unwind.so")  # their malloc passes all calls on


def without_allocator(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without allocators and their settings; other preloads and tunables remain."""
    kept = {name: value for name, value in environment.items() if not _is_setting(name) and name != PRELOAD}
    tunables = [one for one in environment.get(TUNABLES, "").split(":") if one and not one.startswith(OF_MALLOC)]
    folders = [Path(one) for one in environment.get("LD_LIBRARY_PATH", "").split(":") if one]
    words = environment.get(PRELOAD, "").replace(":", " ").split()
    preloads = [one for one in words if _is_no_allocator(one, folders)]
    parts = {TUNABLES: ":".join(tunables), PRELOAD: ":".join(preloads)}
    return kept | {name: text for name, text in parts.items() if text}


def left_out(environment: Mapping[str, str]) -> list[str]:
    """Names of the variables that `without_allocator` removes or shortens."""
    kept = without_allocator(environment)
    return [name for name, value in environment.items() if len(kept.get(name, "")) < len(value)]


def _is_setting(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in ALLOCATOR_VARIABLES)


def _is_no_allocator(library: str, folders: list[Path]) -> bool:
    """False also for a library that is not found: what it would do is not known."""
    path = Path(library)
    if path.name in RECORDERS:
        return True
    found = [path] if "/" in library else files_of([library], folders)[library]
    try:
        return "malloc" not in exported_names(found[0].read_bytes())
    except (OSError, IndexError):
        return False
