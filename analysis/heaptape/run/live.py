# SPDX-License-Identifier: MIT
"""Live runs of programs, observed from outside on an allocator; and rounds of them: the program on one allocator and on
others, alternately, until sequential.py has decided each pair or the budget is spent. Only plain figures are kept.

The data of rounds is a dictionary, which a later session continues: "app" {"name"}, "predicted" {label: ...} (whom to
run), "live" [{"cpu_ns" {label: ns}, "noise"}, ...], "looks" (numbers of rounds at which decisions were made),
"failures" {label: why}, "sittings", and "baseline" (label; the C library's if absent).
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.results.comparing.sequential import UNDECIDED, decisions, next_look
from heaptape.run import machine, recipes, registry, replay
from heaptape.run.recipes import Finished, Recipe
from heaptape.run.registry import Choice
from heaptape.run.samples import mean_over_time

Runner = Callable[[Sequence[str], Mapping[str, str], Path], Finished]


@dataclass(frozen=True)
class Place:
    """Where a recipe is run: its prepared input, and a scratch folder for the runs' files."""

    prepared: Path
    scratch: Path
    home: Home


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


def observed(recipe: Recipe, place: Place, choice: Choice, memory: bool, run: Runner) -> dict:
    """One run on an allocator: figures of the recipe's program. `run`: runs it, behind a wrapper and in an
    environment, with a file for its output; it returns status 0 where the program ended as it should.

    With `memory`: rss_anon_peak_bytes, rss_anon_mean_bytes (over its processor time: on a busy machine wall time passes
    while other programs run) and rss_anon_wall_mean_bytes, vm_size_peak_bytes, page_faults, syscalls {name: count},
    timeline [[time_ns, cpu_ns, rss_anon_bytes, vm_size_bytes], ...], peaks ("exact" or "sampled"). Always: cpu_ns, user
    and system (with `memory` about 5 us too much for each of the syscalls), and wall_s. Raises HeaptapeError where it
    fails or the program is not among those seen.
    """
    output = place.scratch / "observed.json"
    wrapper = [str(place.home.program("observe")), *([] if memory else ["--time-only"]), "-o", str(output), "--"]
    environment = dict(choice.environment) | {"LD_PRELOAD": choice.preload or c_library()}
    printed = place.scratch / "output"
    finished = run(wrapper, environment, printed)
    if finished.status:
        raise HeaptapeError(f"{recipe.name} on {choice.label}: {_ended(finished.status)}{last_words(printed)}")
    try:
        data = json.loads(output.read_bytes())
        return figures(meant(data["programs"], recipe), memory) | {"wall_s": round(finished.wall_s, 3)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HeaptapeError(f"{recipe.name} on {choice.label}: the observer's output can't be read: {error}") from None


def c_library() -> str:
    """The C library's path. Preloaded, its malloc is used even where a program is linked with its own allocator:
    Debian's redis-server is linked with jemalloc, and a run "on glibc" without this preload was a run on jemalloc.
    """
    path = registry.c_library()
    if path is None:
        raise HeaptapeError("the C library's file is not known here")
    return str(path)


def meant(programs: Sequence[dict], recipe: Recipe) -> dict:
    """The recipe's program among those that ran; of several, the one with most memory, then most processor time.
    Raises KeyError if there is none.
    """
    seen_as = [(one, (one["name"], Path(one["file"]).name)) for one in programs if one]
    named = [one for one, names in seen_as if any(map(recipe.is_meant, names))]
    if not named:
        seen = ", ".join(sorted({one["name"] for one in programs if one}))
        raise KeyError(f"no program {recipe.process} among {seen}")
    return largest(named)


def largest(programs: Sequence[dict]) -> dict:
    """The program with most memory; of equals, most processor time."""
    return max(programs, key=lambda one: (one.get("rss_anon_peak_bytes", 0), one["cpu_ns"]))


def figures(program: dict, memory: bool) -> dict:
    """The figures of one observed program, as `observe` returns them."""
    if not memory:
        return {"cpu_ns": program["cpu_ns"], "exited": program["exited"]}
    kept = ("rss_anon_peak_bytes", "vm_size_peak_bytes", "page_faults", "syscalls", "peaks", "timeline", "cpu_ns")
    found = {key: program[key] for key in kept}
    rows = np.array(program["timeline"], dtype=float).reshape(-1, 4)
    if len(rows):
        found["rss_anon_mean_bytes"] = round(mean_over_time(rows[:, 1], rows[:, 2]))
        found["rss_anon_wall_mean_bytes"] = round(mean_over_time(rows[:, 0], rows[:, 2]))
    return found


def _ended(status: int) -> str:
    return f"ended by signal {-status}" if status < 0 else f"exit status {status}"


def last_words(path: Path) -> str:
    """The last line of what a program printed, in brackets; empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - 300, 0))
            last = file.read().decode(errors="replace").strip().rpartition("\n")[2]
    except OSError:
        return ""
    return f" ({last[:200]})" if last else ""


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
            if baseline_of(data) in data["failures"]:
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
    """label -> decision (sequential.py), for the allocators that ran live."""
    return decisions([one["cpu_ns"] for one in data["live"]], data["looks"], baseline_of(data))


def baseline_of(data: dict) -> str:
    """Label of the allocator that the others are compared with: in absent: the C library's."""
    return data.get("baseline", BASELINE)


def open_pairs(data: dict) -> list[str]:
    """Labels with a prediction that are not decided, and have not failed."""
    decided = {label for label, one in found(data).items() if one.verdict != UNDECIDED}
    return [label for label in data["predicted"] if label not in decided and label not in data["failures"]]


def _round(data: dict, labels: Sequence[str], run: CpuTimer) -> list[dict]:
    """One round: "cpu_ns" by label, in the order of the runs, and the machine's other load meanwhile. Empty where the
    baseline failed.
    """
    order = [baseline_of(data), *labels]
    random.Random(f"{data['app']['name']} {len(data['live'])}").shuffle(order)
    before = machine.read_noise()
    cpu_ns = {}
    for label in order:
        try:
            cpu_ns[label] = run(label)
        except HeaptapeError as error:
            data["failures"][label] = f"{LIVE}{error}"
    if baseline_of(data) not in cpu_ns:
        return []
    return [{"cpu_ns": cpu_ns, "noise": machine.noise_between(before, machine.read_noise())}]
