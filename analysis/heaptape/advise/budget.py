# SPDX-License-Identifier: MIT
"""What a budget of wall time is spent on, after the calls were replayed on every candidate: a race of live runs, or the
program's data accesses. A function of times alone: it reads no clock.

Live runs decide, so they come first, of as many candidates as the budget has time for. Data accesses, which take longer
than a race of all, are recorded where live runs are not made or left the pick open, and where they are asked for: of
the whole program where that fits, else in bursts.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heaptape.common.console import SECONDS, duration
from heaptape.common.errors import UsageError

LEAST_S, PROGRAMS = 60.0, 20.0  # the default budget: the longer of this, and of so many runs of the program
# Of a budget that was given: recording ends after RECORDED of it, as compiling and a replay take about as long each,
# and the program after ENDED, as there is no time to race it. By default recording needs no end: it makes a program a
# few times slower, not PROGRAMS times.
RECORDED, ENDED = 0.25, 0.35
RECORDING_RUNS = 3.0  # what is recorded takes so many times longer
# Replays end after half of what the recording leaves, and earlier where a race of RACE_RUNS needs the rest, but
# LEAST_REPLAYS of it is theirs. What is counted ends before what is timed. All ends with ENDING of the budget left.
REPLAYS, LEAST_REPLAYS, COUNTED, ENDING = 0.5, 0.2, 0.7, 0.05
RACE_RUNS = 17.0  # three rounds of five allocators, and a run of two for their memory
ACCESSES, LIVE = "data accesses", "live runs"
START_S = 3.0  # of Valgrind, the recorder and the replays of accesses, whatever the program
# In runs of the program: recording accesses, compiling them and simulating the misses of three allocators on two
# processors; the same outside of bursts; and the live runs that are made if any are (docs/measurements/advice.md).
WHOLE_RUNS, OUTSIDE_RUNS, LIVE_RUNS = 60.0, 8.0, 9.0
SHORTEST_S = 1e-3  # no program ends sooner
LEAST_SHARE = 0.1  # of the program in bursts; with less, most lines of a burst are first accesses


@dataclass(frozen=True)
class Plan:
    """`accesses`: the share of the program whose data accesses are recorded: 0 none, 1 all. `live_s`: for live runs.
    `left_out`: (what, the seconds that it would take after the calls).
    """

    accesses: float = 0.0
    live_s: float = 0.0
    left_out: tuple[tuple[str, float], ...] = ()


def parse(text: str) -> float:
    """Seconds.

    >>> parse("90"), parse("1.5m"), parse("0")
    (90.0, 90.0, 0.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip(), re.ASCII)
    if not found:
        raise UsageError(f"--budget '{text}': not a time: 90, 90s, 5m or 1h")
    return float(found[1]) * SECONDS[found[2] or "s"]


def default_s(run_s: float) -> float:
    return max(LEAST_S, PROGRAMS * run_s)


class Ends(NamedTuple):
    """In seconds from the beginning, when these end: replays that count; memory replays of allocators alone, without
    which they can't race; all replays; all.
    """

    counted_s: float
    alone_s: float
    replays_s: float
    last_s: float


def ends(total_s: float, spent_s: float, run_s: float) -> Ends:
    """`total_s`: the budget; `spent_s`: of it, until now; `run_s`: wall time of one run of the program, unrecorded."""
    last_s = (1 - ENDING) * total_s
    left_s = max(last_s - spent_s, 0.0)
    half_s = spent_s + REPLAYS * left_s
    if (1 - LEAST_REPLAYS) * left_s + SHORTEST_S < LIVE_RUNS * run_s:  # no race fits, so nothing is kept for it
        return Ends(half_s, spent_s + COUNTED * left_s, half_s, last_s)
    replays_s = max(min(half_s, last_s - RACE_RUNS * run_s), spent_s + LEAST_REPLAYS * left_s)
    counted_s = spent_s + COUNTED * (replays_s - spent_s)
    alone_s = max(min(half_s, last_s - (LIVE_RUNS + 1) * run_s), counted_s)
    return Ends(counted_s, alone_s, replays_s, last_s)


def rest_s(recorded_s: float, wall_s: float) -> float:
    """What a budget has to have beyond `wall_s`, so that all of a program is recorded; `recorded_s` of that was."""
    return (recorded_s + RECORDING_RUNS * max(wall_s - recorded_s, 0.0)) / RECORDED - wall_s


def must_be_timed(total_s: float, recorded_s: float) -> bool:
    """Has a run to show how long the program takes? `recorded_s`: with the recorder, so some times that."""
    return RACE_RUNS * recorded_s > (1 - REPLAYS) * total_s


def with_room(spent_s: float, needed_s: float, total_s: float) -> float:
    """A budget with room for what was left out of one of `total_s`, in seconds: whole minutes. `spent_s`: of it, before
    what was left out.
    """
    enough = (spent_s + needed_s) / (1 - LEAST_REPLAYS) / (1 - ENDING)
    return 60.0 * max(math.ceil(enough / 60), math.floor(total_s / 60) + 1)


def plan(left_s: float, run_s: float, wanted: Collection[str], forced: Collection[str] = ()) -> Plan:
    """`left_s`: of the budget; `run_s`: wall time of one run of the program; `wanted`: the steps that could change the
    answer; `forced`: those of them that are made whatever is left.
    """
    needed = {ACCESSES: START_S + WHOLE_RUNS * run_s, LIVE: LIVE_RUNS * run_s}
    lives = LIVE in wanted and (LIVE in forced or left_s >= needed[LIVE])
    whole = ACCESSES in wanted and ACCESSES in forced
    share = 1.0 if whole else _share(left_s, run_s) if ACCESSES in wanted and not lives else 0.0
    spent_s = START_S + run_s * (OUTSIDE_RUNS + share * (WHOLE_RUNS - OUTSIDE_RUNS)) if share else 0.0
    live_s = max(left_s - spent_s, needed[LIVE]) if lives else 0.0
    made = {ACCESSES: share > 0 or lives, LIVE: lives}
    left_out = [(step, needed[step]) for step in (ACCESSES, LIVE) if step in wanted and not made[step]]
    return Plan(share, live_s, tuple(left_out))


def _share(free_s: float, run_s: float) -> float:
    """The share of the program whose accesses can be recorded in `free_s`; 0: too little."""
    if free_s >= START_S + WHOLE_RUNS * run_s:
        return 1.0
    share = ((free_s - START_S) / run_s - OUTSIDE_RUNS) / (WHOLE_RUNS - OUTSIDE_RUNS)
    return share if share >= LEAST_SHARE else 0.0


def not_repeatable(status: int | None, input_is: str, wall_s: float, cpu_s: float | None) -> str:
    """Why a program is not run again; empty: it can be. `status`: its exit status; `input_is`: what its standard input
    is: "file", "terminal" or "pipe"; `cpu_s`: None: not known.
    """
    if status is not None and (status < 0 or status > 128):
        return "it does not end by itself"
    if input_is == "pipe":
        return "its standard input is a pipe, which can't be read twice: use a file"
    if input_is == "terminal" and cpu_s is not None and wall_s > 2 and cpu_s < wall_s / 2:
        return "it waited most of the time, and its standard input is a terminal: use a file, or </dev/null"
    return ""


def not_done(left_out: Sequence[tuple[str, float]], budget_s: float, why: str = "") -> str:
    """What was left out, in a line, and what it would take; empty: nothing was. `budget_s`: one that has room for it;
    `why`: the program is not run again.
    """
    if not left_out:
        return ""
    if why:
        return f"Not done: {' and '.join(step for step, _ in left_out)}, as {why}."
    parts = [f"{step} (about {duration(needed_s)})" for step, needed_s in left_out]
    return f"Not done: {', '.join(parts)}: --budget {budget_s / 60:.0f}m."
