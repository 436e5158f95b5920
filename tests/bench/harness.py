# SPDX-License-Identifier: MIT
"""What the measurements share: runs in turns, what a program spends, rows of Markdown."""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from heaptape.allocators import registry
from heaptape.common.home import Home
from heaptape.run.environment import without_allocator
from heaptape.run.live import settings_of
from scipy.stats import spearmanr

from tests.support import OUT

Measured = TypeVar("Measured")
# A program's peak begins with that of the process that starts it, so a small one does.
STARTS = """
import json, os, sys, time
began, silent = time.monotonic(), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
program = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, file_actions=[silent])
_, status, used = os.wait4(program, 0)
seconds = time.monotonic() - began, used.ru_utime + used.ru_stime
json.dump([*seconds, used.ru_maxrss / 1024], open(sys.argv[1], "w"))
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Spent(NamedTuple):
    """By a program: wall time, CPU time, peak RSS."""

    seconds: float
    cpu_seconds: float
    peak_rss_mib: float


def spend(
    *command: str | Path, env: dict | None = None, cwd: Path | None = None, stdin: IO | None = None, stderr: int = 2
) -> Spent:
    """Runs a program that must exit with 0."""
    with tempfile.NamedTemporaryFile() as figures:
        starter = [sys.executable, "-I", "-S", "-c", STARTS, figures.name, *map(str, command)]
        subprocess.run(starter, check=True, env=env, cwd=cwd, stdin=stdin, stderr=stderr)
        return Spent(*json.load(figures))


def on_allocator(label: str) -> dict[str, str]:
    """The environment that puts a program on the allocator, and on no other."""
    others = without_allocator(os.environ)
    return others | settings_of(registry.choose(label, registry.load(Home(OUT))), others)


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


def agreement(pairs: Iterable[tuple[float, float]], least: float = 0) -> tuple[str, str, list[tuple[float, float]]]:
    """Of changes, (theirs, ours): signs that agree where theirs is `least` or more, rank correlation; and the pairs of
    which both are known (not NaN).
    """
    known = [(x, y) for x, y in pairs if not math.isnan(x + y)]
    signed = [(x < 0) == (y < 0) for x, y in known if abs(x) >= least]
    rank = spearmanr(*zip(*known)).statistic if len(known) > 2 else math.nan
    return f"{sum(signed)} of {len(signed)}", f"{rank:.2f}", known


def heading(*columns: str) -> None:
    row(*columns)
    row(*["---"] * len(columns))


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def figure(what: str, value: float, unit: str, most: float | None = None, least: float | None = None) -> None:
    """A row of `make bench`: a figure, its target, and whether it is met."""
    target = f"<= {most:.4g}" if most is not None else f">= {least:.4g}" if least is not None else ""
    is_met = value <= most if most is not None else least is None or value >= least
    row(what, f"{value:.4g} {unit}", target, "" if not target else "met" if is_met else "**missed**")
