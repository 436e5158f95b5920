# SPDX-License-Identifier: MIT
"""Rounds of live runs: a recipe's program on one allocator and on others, alternately, until looks.py has decided
each pair or the budget is spent. Only plain figures are kept.

The data of rounds is a dictionary, which a later session continues: "app" {"name"}, "predicted" {label: ...} (whom to
run), "live" [{"cpu_ns" {label: ns}, "noise"}, ...], "looks" (numbers of rounds at which decisions were made),
"failures" {label: why}, "sittings".
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.results.comparing.race import UNDECIDED
from heaptape.run import machine, recipes, replay
from heaptape.run.live import Place, observed
from heaptape.run.recipes import Finished, Recipe

from tests.bench.fidelity.looks import decisions, next_look


@contextmanager
def place_for(recipe: Recipe, home: Home, cache: Path) -> Iterator[Place]:
    """Prepares the recipe's input. The scratch folder lasts as long as the context. Raises HeaptapeError where the
    program can't run here.
    """
    missing = recipe.missing()
    if missing:
        raise HeaptapeError(f"{recipe.name}: {missing}")
    prepared = recipes.prepare(recipe, cache)
    with recipes.scratch_directory() as scratch:
        yield Place(prepared, scratch, home)


def observe(recipe: Recipe, place: Place, choice: Choice, memory: bool) -> dict:
    """`observed`, for a recipe in its prepared folder."""

    def run(wrapper: Sequence[str], environment: Mapping[str, str], printed: Path) -> Finished:
        finished = recipes.run(recipe, place.prepared, place.scratch / "run", wrapper, environment, printed)
        return replace(finished, status=0) if recipe.ended_well(finished.status) else finished

    return observed(recipe, place, choice, memory, run)


@dataclass(frozen=True)
class Program:
    """What is judged, and where: a recipe on allocators, one of which is the C library's."""

    recipe: Recipe
    choices: Sequence[Choice]
    home: Home
    cache: Path
    tell: Callable[[str], None] = lambda text: None


BASELINE = "glibc"
LIVE = "live: "  # begins the failures of live runs
CpuTimer = Callable[[str], float]  # the CPU time in ns of one run on the allocator of that label


@dataclass(frozen=True)
class Session:
    """Limits: `budget_s` of CPU time for the program, including earlier sessions; `until`, by time.monotonic()."""

    budget_s: float
    until: float = float("inf")


def add_rounds(
    data: dict,
    run: CpuTimer,
    session: Session,
    tell: Callable[[str], None] = lambda text: None,
    save: Callable[[], None] = lambda: None,
) -> None:
    """Adds rounds until each pair is decided, the budget is spent or the time is up. `save`: called after each look and
    at the end, also after an error. An allocator that fails has the reason in "failures" and runs no more; if the
    baseline fails, the rounds end.
    """
    about = {"created_unix_s": round(time.time()), "commit": replay.commit(), "load_before": list(os.getloadavg())}
    began, rounds_before = time.monotonic(), len(data["live"])
    undecided = open_pairs(data)
    try:
        while not is_done(data, session.budget_s, undecided) and time.monotonic() < session.until:
            data["live"] += _round(data, undecided, run)
            undecided = [label for label in undecided if label not in data["failures"]]
            if BASELINE in data["failures"]:
                break
            if len(data["live"]) == next_look(data["looks"]) or spent_s(data) >= session.budget_s:
                data["looks"].append(len(data["live"]))
                undecided = open_pairs(data)
                spent = f"{len(data['live'])} rounds, {spent_s(data):.0f} s of CPU time"
                tell(f"{spent}; undecided: {', '.join(undecided) or 'none'}")
                save()
    finally:
        rounds = len(data["live"]) - rounds_before
        data["sittings"].append(about | {"rounds": rounds, "elapsed_s": round(time.monotonic() - began, 1)})
        save()


def is_done(data: dict, budget_s: float, undecided: Sequence[str] | None = None) -> bool:
    """Nothing undecided (determined here unless given), no look left, or no budget."""
    if next_look(data["looks"]) is None or spent_s(data) >= budget_s:
        return True
    return not (open_pairs(data) if undecided is None else undecided)


def spent_s(data: dict) -> float:
    """CPU time of all live runs."""
    return sum(sum(one["cpu_ns"].values()) for one in data["live"]) / 1e9


def found(data: dict) -> dict:
    """label -> decision (looks.py), for the allocators that ran live."""
    return decisions([one["cpu_ns"] for one in data["live"]], data["looks"], BASELINE)


def open_pairs(data: dict) -> list[str]:
    """Labels with a prediction that are not decided, and have not failed."""
    decided = {label for label, one in found(data).items() if one.verdict != UNDECIDED}
    return [label for label in data["predicted"] if label not in decided and label not in data["failures"]]


def _round(data: dict, labels: Sequence[str], run: CpuTimer) -> list[dict]:
    """One round: "cpu_ns" by label, in the order of the runs, and the machine's other load meanwhile. Empty where the
    baseline failed.
    """
    order = [BASELINE, *labels]
    random.Random(f"{data['app']['name']} {len(data['live'])}").shuffle(order)
    before = machine.read_noise()
    cpu_ns = {}
    for label in order:
        try:
            cpu_ns[label] = run(label)
        except HeaptapeError as error:
            data["failures"][label] = f"{LIVE}{error}"
    if BASELINE not in cpu_ns:
        return []
    return [{"cpu_ns": cpu_ns, "noise": machine.noise_between(before, machine.read_noise())}]
