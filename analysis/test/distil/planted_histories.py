# SPDX-License-Identifier: MIT
"""Histories for the tests of distillates, where it is known what determines their memory, and when."""

import random
from pathlib import Path

from tests.support import compile_trace, import_text

LIVE = 200


class Program:
    """Calls of one thread, as heaptape text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.live: list[int] = []
        self._next = 0x100000

    def acquire(self, size: int) -> int:
        address, self._next = self._next, self._next + 0x100000
        self.lines.append(f"0 malloc({size}) = {address:#x}")
        self.live.append(address)
        return address

    def release(self, address: int) -> None:
        self.live.remove(address)
        self.lines.append(f"0 free({address:#x})")

    def replace(self, lowest: int, highest: int) -> None:
        """Replaces one of the live objects by another."""
        if len(self.live) >= LIVE:
            self.release(self.random.choice(self.live))
        self.acquire(self.random.randint(lowest, highest))

    def write(self, folder: Path) -> Path:
        """Writes and compiles the workload."""
        lines = [f"{1000 * number} {line}" for number, line in enumerate(self.lines, 1)]
        return compile_trace(import_text(folder, "\n".join(lines) + "\n", "clock=nanoseconds"))


def stationary(folder: Path, turns: int = 20_000) -> Path:
    """A history without any trend."""
    program = Program(1)
    for _ in range(turns):
        program.replace(16, 2000)
    return program.write(folder)


def drifting(folder: Path, turns: int = 20_000) -> Path:
    """Objects that grow from tens to thousands of bytes."""
    program = Program(2)
    for turn in range(turns):
        program.replace(16 + 2000 * turn // turns, 64 + 3000 * turn // turns)
    return program.write(folder)


def with_rare_phase(folder: Path, turns: int = 40_000, burst: int = 200) -> Path:
    """One phase of 0.5 % of the ops acquires objects of 8 KB and releases all but every tenth, which stay."""
    program = Program(3)
    for turn in range(turns):
        program.replace(16, 200)
        if turn == turns * 3 // 5:
            others = list(program.live)
            new = [program.acquire(8000) for _ in range(burst)]
            for number, address in enumerate(new):
                if number % 10:
                    program.release(address)
            program.live = others
    return program.write(folder)
