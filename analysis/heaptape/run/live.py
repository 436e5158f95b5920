# SPDX-License-Identifier: MIT
"""Live runs of programs, observed from outside on an allocator."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heaptape.allocators import registry
from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.results.judged import mean_over_time
from heaptape.run import machine
from heaptape.run.environment import PRELOAD, TUNABLES, without_allocator
from heaptape.run.recipes import Finished, Recipe

Runner = Callable[[Sequence[str], Mapping[str, str], Path], Finished]


@dataclass(frozen=True)
class Place:
    """Where a recipe is run: its prepared input, and a scratch folder for the runs' files."""

    prepared: Path
    scratch: Path
    home: Home


@dataclass(frozen=True)
class Subject:
    """A program, by its name in errors, and how it is found among those that ran."""

    name: str
    find: Callable[[Sequence[dict]], dict]


def observed(recipe: Recipe, place: Place, choice: Choice, memory: bool, run: Runner) -> dict:
    """`observe`: figures of the recipe's program."""
    return observe(Subject(recipe.name, lambda programs: meant(programs, recipe)), place, choice, memory, run)


def observe(subject: Subject, place: Place, choice: Choice, memory: bool, run: Runner) -> dict:
    """One run on an allocator: figures of the subject. `run`: runs it, behind a wrapper, with variables that are added
    to its environment (`without_allocator`), and a file for its output; it returns status 0 where the program ended as
    it should.

    With `memory`: rss_anon_peak_bytes, rss_anon_mean_bytes (over its processor time: on a busy machine wall time passes
    while other programs run) and rss_anon_wall_mean_bytes, vm_size_peak_bytes, page_faults, syscalls {name: count},
    timeline [[time_ns, cpu_ns, rss_anon_bytes, vm_size_bytes], ...], peaks ("exact" or "sampled"). Always: cpu_ns, user
    and system (with `memory` about 5 us too much for each of the syscalls), and wall_s. Without `memory`, of all
    processes: system_ns and counters {name: count} of the processor in user space, as far as it has them; noise of the
    machine meanwhile (`machine.noise_between`; empty: not known). Raises HeaptapeError where it fails or the program is
    not among those seen.
    """
    output = place.scratch / "observed.json"
    wrapper = [str(place.home.program("observe")), *([] if memory else ["--time-only"]), "-o", str(output), "--"]
    environment = settings_of(choice, without_allocator(os.environ))
    printed = place.scratch / "output"
    before = machine.read_noise()
    finished = run(wrapper, environment, printed)
    noise = machine.noise_between(before, machine.read_noise()) or {}
    if finished.status:
        raise HeaptapeError(f"{subject.name} on {choice.label}: {_ended(finished.status)}{last_words(printed)}")
    try:
        data = json.loads(output.read_bytes())
        of_all = {} if memory else {key: data[key] for key in ("system_ns", "counters")} | {"noise": noise}
        return figures(subject.find(data["programs"]), memory) | {"wall_s": round(finished.wall_s, 3)} | of_all
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HeaptapeError(f"{subject.name} on {choice.label}: the observer's output can't be read: {error}") from None


def settings_of(choice: Choice, others: Mapping[str, str]) -> dict[str, str]:
    """The variables that put a program on the allocator. `others`: its environment without any allocator. Raises
    HeaptapeError for another glibc than this system's.
    """
    if choice.c_library:
        raise HeaptapeError(f"{choice.label} can't be preloaded: a program that runs now runs on this system's glibc")
    preloads = (choice.preload or c_library(), others.get(PRELOAD))
    tunables = (others.get(TUNABLES), choice.environment.get(TUNABLES))
    parts = {PRELOAD: ":".join(filter(None, preloads)), TUNABLES: ":".join(filter(None, tunables))}
    return dict(choice.environment) | {name: text for name, text in parts.items() if text}


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
    return largest(named(programs, recipe))


def named(programs: Sequence[dict], recipe: Recipe) -> list[dict]:
    """Those that are the recipe's by name. Raises KeyError if there is none."""
    seen_as = [(one, (one["name"], Path(one["file"]).name)) for one in programs if one]
    found = [one for one, names in seen_as if any(map(recipe.is_meant, names))]
    if not found:
        seen = ", ".join(sorted({one["name"] for one in programs if one}))
        raise KeyError(f"no program {recipe.process} among {seen}")
    return found


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
