# SPDX-License-Identifier: MIT
"""Libraries that the recorded program loads whatever its allocator, and that some allocator needs.

A replay's start-up is counted, and jemalloc loads the C++ library. But a program written in C++ has that library
anyway, and one linked with jemalloc has jemalloc. So the engine loads these libraries on every allocator.
"""

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from heaptape.run.registry import Choice

LINKER = "/lib64/ld-linux-x86-64.so.2"
TIMEOUT_S = 20
NOBODYS = re.compile(r"(libc\.so|ld-linux|linux-vdso|libheaptape\.so|vgpreload_)")  # in every process, or ours


def also_loaded(info: dict, choices: Iterable[Choice]) -> list[str]:
    """Paths to preload after each allocator. `info`: of the workload; without "libraries" (older recordings, imports)
    there are none. The allocator that the program was recorded on is not among them.
    """
    names = info.get("libraries")
    if not isinstance(names, list):
        return []
    mapped = {name for name in names if isinstance(name, str) and not NOBODYS.match(name)} - {info.get("allocator")}
    needed = {path for choice in choices if choice.preload for path in needs(choice.preload)}
    return sorted(path for path in needed if Path(path).resolve().name in mapped)


def needs(library: str) -> list[str]:
    """The paths of the library and of all libraries that the dynamic linker loads for it; only its own if it can't be
    loaded.
    """
    command = [LINKER, "--list", library]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return [library]
    return [library, *re.findall(r"=> (/\S+) \(", done.stdout)]


def preloads(choice: Choice, also: Sequence[str]) -> list[str]:
    """The libraries to preload for `choice`, in order. If it preloads none, the C library comes first, as one of `also`
    may be an allocator.
    """
    first = [choice.preload or str(choice.path)] if choice.preload or also else []
    there = {Path(path).resolve() for path in first}
    return [*first, *(path for path in also if Path(path).resolve() not in there)]
