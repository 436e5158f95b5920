# SPDX-License-Identifier: MIT
"""Candidates with made-up figures."""

from collections.abc import Callable

from heaptape.decide.verdict import Candidate
from heaptape.results.model.counts import INSTRUCTIONS, Counts, Term
from heaptape.results.model.penalties import Penalty

NS = Penalty(0.1, 0.2, 0.3)  # of an instruction
NOW = "glibc"


def row(label: str, peak_mib: float, instructions: float | None = None, mean_mib: float | None = None) -> Candidate:
    """`instructions`: millions of the allocator's calls; None: not counted."""
    counts = None
    if instructions is not None:
        count = instructions * 1e6
        term = Term("allocator_instructions", INSTRUCTIONS, count, NS)
        counts = {"": [Counts((term,), False, {"instructions in malloc and free": (count, NS.middle)})]}
    return Candidate(label, peak_mib * 2**20, (peak_mib if mean_mib is None else mean_mib) * 2**20, counts)


def no_error(figure: str, a: str, b: str) -> float:
    """Replays are exact."""
    return 0.0


def error_of(percent: float) -> Callable[[str, str, str], float]:
    """The same error for any two candidates."""
    return lambda figure, a, b: percent if a != b else 0.0
