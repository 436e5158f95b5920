# SPDX-License-Identifier: MIT
"""Verification without noise: programs live under the simulation of heaptape-observe, against replays' predictions.

A simulated run counts instructions, page faults, system calls, misses of caches and TLBs, separately for allocator and
program. A program of one thread gives the same counts each time, unless addresses differ, as misses depend on them.
Where the stack begins depends on the length of the environment. Where libraries and the allocators' mappings begin
depends on what was mapped before. So each program runs in several layouts, and the preloaded libraries have paths
of one length, as these are in the environment too. A live run has as many variables as a recorded one, in the same
order and of the same lengths: an interpreter copies them to its heap. Evaluation of the counts: judged.py.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import SHARED, Home
from heaptape.run import engine_process, live, recipes, replay
from heaptape.run.recipes import Recipe
from heaptape.run.rounds import Run, Settings
from heaptape.tape.workload_format import read_workload

from tests.bench.fidelity import raw
from tests.bench.fidelity.live_rounds import Program, place_for

DIRECTORIES = (SHARED / "workloads" / "counted",)
# By how many bytes the environment is longer, and by how many OS pages mappings are higher. Thirds of an OS page, and
# multiples of 16, as the stack is aligned to that. The first layout is that of the recording.
LAYOUTS = ((0, 0), (1360, 5), (2720, 11))
PADDING_VARIABLE = "HEAPTAPE_PADDING"
RECORDERS_VARIABLE, RECORDERS_BYTES = "HEAPTAPE_SOCKET", 48  # what heaptape-record --accesses puts there
PASSES = ("memory", "instructions")
PASS_WITH_ACCESSES = "misses"
KEPT_OF_SIDES = ("allocator", "program")
KEPT_OF_COUNTS = ("instructions", "data_accesses", "page_faults", "syscalls", "syscalls_by_kind", "caches", "tlbs")
KEPT_OF_REPLAYS = (
    "pass", "order", "instructions_total", "startup_instructions",
    "startup_process_instructions", "op_limit", "page_faults", "startup_page_faults", "syscalls", "misses",
)  # fmt: skip


def count(program: Program, layouts: int, accesses: bool = False) -> dict:
    """All counts of one program: the content of a raw results file of kind "counted".

    `layouts`: in how many of LAYOUTS each allocator runs. `accesses`: record the data accesses too, and replay them
    (pass misses). An allocator that fails has the reason in "failures". Raises HeaptapeError where the program can't
    run here, or fails on the C library's allocator.
    """
    began = time.time()
    with place_for(program.recipe, program.home, program.cache) as place:
        lived, failures = _live(program, place, LAYOUTS[:layouts])
        kept = raw.that_ran(program.recipe, program.choices, lived, failures)
        results = _replay(program, place, kept)
        if accesses:
            results["runs"] += _replay_accesses(program, place, kept)
    failures |= raw.replay_failures(results)
    data = raw.about_run(program.recipe, began, layouts, "counted")
    made = sorted({(run["padding_bytes"], run["shift_os_pages"]) for run in lived})
    data["settings"] = {
        "paddings_bytes": [padding for padding, _ in made],
        "shifts_os_pages": [shift for _, shift in made],
        "accesses": accesses,
    }
    return raw.with_runs(data, results, lived, failures, KEPT_OF_REPLAYS)


def _live(program: Program, place: live.Place, layouts: Sequence[tuple[int, int]]) -> tuple[list[dict], dict[str, str]]:
    paths = libraries(program.choices, place.scratch / "libraries", len(recorded_preload(place.home)))
    runs: list[dict] = []
    failures: dict[str, str] = {}
    for (padding, shift), choice in product(layouts, program.choices):
        if choice.label in failures:
            continue
        program.tell(f"live, environment longer by {padding}, mappings higher by {shift}, {choice.label}")
        try:
            counts = simulate(program.recipe, place, surroundings(choice, paths[choice.label], padding), shift)
        except HeaptapeError as error:
            failures[choice.label] = f"live: {error}"
            continue
        about = {"allocator": choice.label, "padding_bytes": padding, "shift_os_pages": shift}
        runs.append(about | {"commit": replay.commit(), "counts": counts})
    return runs, failures


def surroundings(choice: Choice, library: Path, padding: int) -> dict[str, str]:
    """The variables added to a live run's environment, with the lengths and order of the recorder's own."""
    settings = dict(choice.environment) | {PADDING_VARIABLE: "x" * padding}
    recorders = {RECORDERS_VARIABLE: "x" * RECORDERS_BYTES, "LD_PRELOAD": str(library)}
    return settings | recorders | {"ASAN_OPTIONS": "verify_asan_link_order=0"}


def recorded_preload(home: Home) -> str:
    places = [folder / "libheaptape.so" for folder in home.library_directories()]
    found = next((place for place in places if place.is_file()), places[0])
    return f"{found.resolve()}:{live.c_library()}"


def libraries(choices: Sequence[Choice], folder: Path, length: int = 0) -> dict[str, Path]:
    """label -> a link to the library that is preloaded for it. All links have paths of one length: `length`, or as
    short as the folder allows. The C library's own allocator has a link to the C library.
    """
    folder.mkdir(exist_ok=True)
    paths = {}
    digits = max(4, length - len(f"{folder}/.so"))
    for number, choice in enumerate(choices):
        path = folder / f"{number:0{digits}}.so"
        path.symlink_to(choice.preload or live.c_library())
        paths[choice.label] = path
    return paths


def simulate(recipe: Recipe, place: live.Place, settings: Mapping[str, str], shift_os_pages: int = 0) -> dict:
    """The counts of one run with `settings` in its environment, of the recipe's process: KEPT_OF_COUNTS of the whole,
    and of KEPT_OF_SIDES. `shift_os_pages`: its libraries and later mappings are this much higher. Raises HeaptapeError
    where the run fails or that process is not among those that ended.
    """
    folder = place.scratch / "counts"
    folder.mkdir()
    wrapper = [str(place.home.program("observe")), "--simulate", "--data-only", "--shift", str(shift_os_pages)]
    wrapper += ["-o", str(folder / "counts.json"), "--"]
    printed = place.scratch / "output"
    try:
        finished = recipes.run(recipe, place.prepared, place.scratch / recipe.name, wrapper, settings, printed)
        if not recipe.ended_well(finished.status):
            raise HeaptapeError(f"{recipe.name}: exit status {finished.status}{live.last_words(printed)}")
        return _kept(_meant([json.loads(path.read_bytes()) for path in folder.iterdir()], recipe))
    except (OSError, ValueError, KeyError) as error:
        raise HeaptapeError(f"{recipe.name}: the simulation's result can't be read: {error}") from None
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _meant(processes: Sequence[dict], recipe: Recipe) -> dict:
    """The recipe's process; the one with most instructions where several have its name."""
    named = [one for one in processes if recipe.is_meant(one["name"])]
    if not named:
        raise KeyError(f"no program {recipe.process} among {', '.join(sorted({one['name'] for one in processes}))}")
    return max(named, key=lambda one: one["instructions"])


def _kept(counts: dict) -> dict:
    kept = {key: counts[key] for key in KEPT_OF_COUNTS}
    return kept | {side: {key: counts[side][key] for key in KEPT_OF_COUNTS} for side in KEPT_OF_SIDES}


def _replay(program: Program, place: live.Place, choices: Sequence[Choice]) -> dict:
    from heaptape.features.workloads import capture

    program.tell("recording")
    tape = place.scratch / f"{program.recipe.name}.tape"
    capture.capture(program.recipe, tape, place.home, ("--preload", live.c_library()), cache=program.cache)
    workload = replay.prepare(str(tape), place.home, tape.parent)
    about = replay.describe_workload(workload, tape.stem)
    program.tell("replaying")
    settings = Settings(repeats=1, passes=PASSES, order="recorded", timeout_s=raw.RUN_LIMIT_S)
    return replay.replay(workload, about, list(choices), settings, place.home)


def _replay_accesses(program: Program, place: live.Place, choices: Sequence[Choice]) -> list[dict]:
    """Runs of the pass misses, from a separate recording: the program under Valgrind, whose accesses are recorded. The
    libraries' paths are of one length here too.
    """
    program.tell("recording accesses")
    workload = record_accesses(program, place)
    paths = libraries(choices, place.scratch / "replayed-libraries")
    also = tuple(engine_process.also_loaded(read_workload(workload).info))
    engine = replay.Engine(place.home.program("replay"), workload, Settings(also_loaded=also))
    runs = []
    for choice in choices:
        program.tell(f"replaying accesses, {choice.label}")
        linked = replace(choice, preload=str(paths[choice.label])) if choice.preload else choice
        # Not `replay.replay`: it would measure what a miss costs on this machine, which no count needs.
        found = replay.measure(engine, Run(linked, PASS_WITH_ACCESSES, 0))
        runs.append({"allocator": choice.allocator, "variant": choice.variant} | found)
    return runs


def record_accesses(program: Program, place: live.Place) -> Path:
    """The workload of a recording with data accesses, on the C library's allocator."""
    from heaptape.features.workloads import capture

    tape = place.scratch / f"{program.recipe.name}-accesses.tape"
    options = ("--accesses", "--preload", live.c_library())
    capture.capture(program.recipe, tape, place.home, options, cache=program.cache)
    return replay.prepare(str(tape), place.home, tape.parent)
