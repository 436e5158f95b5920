# SPDX-License-Identifier: MIT
"""Recordings in bursts (record --accesses --burst): how much of the program their results are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bursts:
    """The number of bursts, and their share of the program's instructions, 0 to 1; None if unknown."""

    count: int
    share: float | None


def bursts_of(runs: Sequence[Mapping]) -> Bursts | None:
    """The bursts of one workload's results; None if no run's misses are of bursts."""
    for run in runs:
        misses = run.get("misses")
        if not isinstance(misses, dict):
            continue
        about = misses.get("bursts")
        if isinstance(about, dict):
            inside, outside = misses.get("program_instructions"), about.get("outside_program_instructions")
            share = None
            if isinstance(inside, int) and isinstance(outside, int) and inside + outside > 0:
                share = inside / (inside + outside)
            return Bursts(int(about.get("count") or 0), share)
    return None


def in_words(bursts: Bursts) -> str:
    """The start of a sentence about figures of bursts: "2 bursts, 3.1 % of the program's instructions"."""
    number = f"{bursts.count:,} burst{'' if bursts.count == 1 else 's'}"
    if bursts.share is None:
        return f"{number}, an unknown share of the program's instructions"
    return f"{number}, {100 * bursts.share:.3g} % of the program's instructions"
