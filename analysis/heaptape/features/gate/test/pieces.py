# SPDX-License-Identifier: MIT
"""A small history for the tests of the gate, of several threads, with every kind of call."""

import random
from pathlib import Path

from tests.support import compile_trace, import_text


def make_workload(folder: Path, events: int = 1500, threads: int = 3, seed: int = 0) -> Path:
    """A workload of objects from 1 byte to 40 KB, some of which stay to the end; threads release each other's."""
    choose = random.Random(seed)
    live: list[int] = []
    lines = []
    free_address = 0x100000
    for time in range(1, events + 1):
        thread, size = choose.randrange(threads), int(2 ** choose.uniform(0, 15.3))
        kind = choose.choice(["malloc", "malloc", "calloc", "align", "free", "free", "realloc", "touch", "null"])
        address, free_address = free_address, free_address + 0x100000
        if kind in ("free", "realloc", "touch") and live:
            old = live.pop(choose.randrange(len(live)))
            calls = {"free": f"free({old:#x}) touched={old // 0x100000 % 3}", "touch": f"malloc_usable_size({old:#x})"}
            lines.append(calls.get(kind, f"realloc({old:#x}, {size}) = {address:#x}"))
            live += {"free": [], "touch": [old], "realloc": [address]}[kind]
        elif kind == "null":
            lines.append("free(NULL)")
        else:
            calls = {"calloc": f"calloc(3, {size})", "align": f"posix_memalign(64, {size})"}
            lines.append(f"{calls.get(kind, f'malloc({size})')} = {address:#x}")
            live.append(address)
        lines[-1] = f"{1000 * time} {thread} {lines[-1]}"
    return compile_trace(import_text(folder, "\n".join(lines) + "\n", "clock=nanoseconds"))
