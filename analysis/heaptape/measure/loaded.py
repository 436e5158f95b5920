# SPDX-License-Identifier: MIT
"""Libraries that the recorded program loads whatever its allocator, and that some allocator needs.

A replay's start-up counts: loading jemalloc brings the C++ library with it. A program that is written in C++ has that
library anyway, and one that is linked with jemalloc has jemalloc. So the engine loads these on every allocator.
"""

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from heaptape.measure.registry import Choice

LINKER = "/lib64/ld-linux-x86-64.so.2"
TIMEOUT_S = 20
NOBODYS = re.compile(r"(libc\.so|ld-linux|linux-vdso|libheaptape\.so|vgpreload_)")  # in every process, or ours


def also_loaded(info: dict, choices: Iterable[Choice]) -> list[str]:
    """Paths to preload behind each allocator. `info`: of the workload; without "libraries" (older recordings, imports)
    there are none. What the program was recorded on is not among them.
    """
    names = info.get("libraries")
    if not isinstance(names, list):
        return []
    mapped = {name for name in names if isinstance(name, str) and not NOBODYS.match(name)} - {info.get("allocator")}
    needed = {path for choice in choices if choice.preload for path in needs(choice.preload)}
    return sorted(path for path in needed if Path(path).resolve().name in mapped)


def needs(library: str) -> list[str]:
    """The library's path and those of all that the dynamic linker loads for it; of one that it can't load just that."""
    command = [LINKER, "--list", library]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return [library]
    return [library, *re.findall(r"=> (/\S+) \(", done.stdout)]


def preloads(choice: Choice, also: Sequence[str]) -> list[str]:
    """What to preload for it, in order. Behind the C library where nothing else is preloaded: one of `also` may be an
    allocator.
    """
    first = [choice.preload or str(choice.path)] if choice.preload or also else []
    there = {Path(path).resolve() for path in first}
    return [*first, *(path for path in also if Path(path).resolve() not in there)]
