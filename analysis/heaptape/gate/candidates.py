# SPDX-License-Identifier: MIT
"""Pieces of a workload's history: some of its objects, up to a position, on fewer threads. Each is a legal history."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from heaptape.common.c_programs import convert_json
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.gate.objects import Objects


@dataclass(frozen=True, eq=False)
class Candidate:
    """`keep`: for each object, does it stay? `end`: position of the first op that is left out, with all later ones.
    `joined`: threads whose calls thread 0 makes.
    """

    keep: np.ndarray
    end: int
    joined: frozenset[int] = frozenset()

    def key(self) -> tuple:
        """Equal for equal candidates."""
        return (hashlib.sha256(np.packbits(self.keep).tobytes()).digest(), self.end, self.joined)

    def without(self, objects: np.ndarray) -> "Candidate":
        """The same without `objects` (a mask, or numbers)."""
        keep = self.keep.copy()
        keep[objects] = False
        return replace(self, keep=keep)

    def only(self, objects: np.ndarray) -> "Candidate":
        """The same, restricted to `objects` (a mask)."""
        return replace(self, keep=self.keep & objects)


def whole(objects: Objects) -> Candidate:
    return Candidate(np.ones(len(objects.table), bool), objects.ops)


def write(workload: Path, candidate: Candidate, tape: Path, home: Home) -> int:
    """Writes the candidate as a trace, and returns its number of events. Raises HeaptapeError."""
    kept = tape.with_suffix(".kept")
    arguments = ["--keep", str(kept), "--end", str(candidate.end)]
    arguments += [word for thread in sorted(candidate.joined) for word in ("--join", str(thread))]
    try:
        born = candidate.keep.astype(np.uint8)
        try:
            kept.write_bytes(born.tobytes())
        except OSError as error:
            raise HeaptapeError(f"{kept}: can't be written: {error.strerror}") from error
        done = convert_json(home, "reduce", str(workload), "-o", str(tape), *arguments)
    finally:
        kept.unlink(missing_ok=True)
    return int(done["events"])
