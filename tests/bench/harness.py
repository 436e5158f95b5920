# SPDX-License-Identifier: MIT
"""What the measurements share: runs in turns, a figure with its range, rows of Markdown."""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import TypeVar

Measured = TypeVar("Measured")


def in_turns(ways: Mapping[str, Callable[[], Measured]], rounds: int) -> dict[str, list[Measured]]:
    """way -> what it measured in each round. Every other round has them in reverse order, so that slow changes of the
    machine affect all alike.
    """
    found: dict[str, list[Measured]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways)[:: 1 if number % 2 == 0 else -1]:
            found[way].append(ways[way]())
    return found


def before_others(priority: int, processors: str = "") -> list[str]:
    """The start of a command that runs before all other work, where that is permitted (a replay of 25 ms is a few turns
    of the scheduler), on those processors, as taskset takes them; empty: all.
    """
    first = ["chrt", "-f", str(priority)]
    permitted = subprocess.run([*first, "true"], capture_output=True, check=False).returncode == 0
    return [*(first if permitted else []), *(["taskset", "-c", processors] if processors else [])]


def spread(values: Iterable[float], digits: int = 1) -> str:
    """The median with the range."""
    known = sorted(values)
    return f"{median(known):.{digits}f} ({known[0]:.{digits}f} to {known[-1]:.{digits}f})"


def heading(*columns: str) -> None:
    row(*columns)
    row(*["---"] * len(columns))


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
