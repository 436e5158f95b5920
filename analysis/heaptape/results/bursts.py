# SPDX-License-Identifier: MIT
"""Recordings in bursts (record --accesses --burst): what results say of how much of the program they are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bursts:
    """How many there were, and which share of the program's instructions they are, 0 to 1; None where it is unknown."""

    count: int
    share: float | None


def bursts_of(runs: Sequence[Mapping]) -> Bursts | None:
    """Of the runs of one workload's results; None where no run's misses are of bursts."""
    for run in runs:
        misses = run.get("misses")
        if not isinstance(misses, dict):
            continue
        told = misses.get("bursts")
        if isinstance(told, dict):
            inside, outside = misses.get("program_instructions"), told.get("outside_program_instructions")
            share = None
            if isinstance(inside, int) and isinstance(outside, int) and inside + outside > 0:
                share = inside / (inside + outside)
            return Bursts(int(told.get("count") or 0), share)
    return None


def in_words(bursts: Bursts) -> str:
    """What figures of bursts are about, as a sentence's start: "2 bursts, 3.1 % of the program's instructions"."""
    number = f"{bursts.count:,} burst{'' if bursts.count == 1 else 's'}"
    if bursts.share is None:
        return f"{number}, an unknown share of the program's instructions"
    return f"{number}, {100 * bursts.share:.3g} % of the program's instructions"
