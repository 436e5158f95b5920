# SPDX-License-Identifier: MIT
"""Verification of CPU time: the model of time's prediction for a program, against alternate live runs.

First the counts: the program is recorded once with its data accesses, on the C library's allocator, and replayed by the
pass misses on each, with this machine's caches. The prediction is made from the counts before the first live run, and
not changed later. Then rounds of live runs follow, until looks.py has decided each pair or the budget is spent.
All is in one raw result, to which a later session adds. Addresses are random in each run, and the preloaded libraries
have paths of one length: so an interval covers the effect of layouts. Evaluation: judged.py.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from heaptape.allocators.registry import Choice, sha256_of
from heaptape.common.errors import HeaptapeError
from heaptape.results.model.time_model import ALL, prediction
from heaptape.results.schema import Results
from heaptape.results.structs import label
from heaptape.run import live, machine, recipes, replay
from heaptape.run.rounds import Settings

from tests.bench.fidelity import counted, raw
from tests.bench.fidelity.live_rounds import BASELINE, LIVE, Program, Session, add_rounds, is_done, observe, place_for

DIRECTORIES = (*recipes.DIRECTORIES, *counted.DIRECTORIES)  # of two recipes of one name the shorter program
PASS = "misses"
KEPT_OF_REPLAYS = ("pass", "order", "misses")


def judge(program: Program, session: Session, path: Path | None) -> dict:
    """The content of the program's raw results file of kind "timed", after one more session. `path`: that file, which
    is continued if it exists, and kept up to date. Raises HeaptapeError as `count` does, where the file is of other
    libraries, and where there is no file and the time is up.
    """
    data = _counted_before(program, raw.read_results([path])[0]) if path and path.exists() else None
    if data is None and time.monotonic() >= session.until:
        raise HeaptapeError("not begun within the time of --stop-after")
    data = data or count(program)

    def save() -> None:
        if path:
            raw.write_results(data, path)

    save()
    run_session(program, data, session, save)
    return data


def count(program: Program) -> dict:
    """Counts and prediction, without live runs. Raises HeaptapeError where the program can't run here, or fails on the
    C library's allocator.
    """
    began, recipe, home = time.time(), program.recipe, program.home
    measured = machine.of_this_machine(home)  # before the pass, so that it takes this machine's caches
    with place_for(recipe, home, program.cache) as place:
        program.tell("recording accesses")
        workload = counted.record_accesses(program, place)
        about = replay.describe_workload(workload, recipe.name)
        program.tell("replaying accesses")
        linked = _linked(program, place)
        choices = [one if one.label == BASELINE else linked[one.label] for one in program.choices]
        results = replay.replay(workload, about, choices, Settings(repeats=1, passes=(PASS,)), home)
    failures = raw.replay_failures(results)
    if BASELINE in failures:
        raise HeaptapeError(f"{recipe.name}: {failures[BASELINE]}")
    data = raw.about_run(recipe, began, 1, "timed") | {"looks": [], "sittings": []}
    return predict(raw.with_runs(data, results, [], failures, KEPT_OF_REPLAYS), measured)


def predict(data: dict, measured: dict) -> dict:
    """The raw result with the present prediction of the model of time from its counts and the penalties `measured`."""
    content = {"schema": 1, "workload": {"name": data["app"]["name"]}, "runs": data["replays"], "penalties": measured}
    rows = prediction([Results(data["app"]["name"], content)], BASELINE)
    whole = rows[rows["part"] == ALL].set_index("allocator")[["percent", "low", "high"]]
    made = {"unix_s": round(time.time()), "commit": replay.commit()}
    return data | {"penalties": measured, "predicted": whole.round(3).to_dict("index"), "predicted_at": made}


def _counted_before(program: Program, data: dict) -> dict | None:
    """The earlier result, to which live runs may be added; None: it is of another recipe or other libraries. Its
    prediction is made again where nothing ran live yet. Raises HeaptapeError where it is of another recipe or other
    libraries and has live runs.
    """
    if _fits(program, data):
        return data if data["live"] else predict(data, machine.of_this_machine(program.home))
    if data["live"]:
        raise HeaptapeError("its live runs are of another recipe or other libraries: take another --results folder")
    return None


def _fits(program: Program, data: dict) -> bool:
    there = {label(one["name"], one.get("variant")): one["sha256"] for one in data.get("allocators", ())}
    here = {choice.label: sha256_of(choice.path) for choice in program.choices}
    return data["app"].get("recipe_sha256") == sha256_of(program.recipe.path) and there == here


def run_session(program: Program, data: dict, session: Session, save: Callable[[], None] = lambda: None) -> None:
    """Adds rounds of live runs to the raw result, as `add_rounds` does."""
    data["failures"] = {label: why for label, why in data["failures"].items() if not why.startswith(LIVE)}
    if is_done(data, session.budget_s) or time.monotonic() >= session.until:
        return
    with place_for(program.recipe, program.home, program.cache) as place:
        linked = _linked(program, place)

        def run(label: str) -> float:
            return float(observe(program.recipe, place, linked[label], memory=False)["cpu_ns"])

        add_rounds(data, run, session, program.tell, save)


def _linked(program: Program, place: live.Place) -> dict[str, Choice]:
    """label -> the choice with a library path of one length for all, also for the C library's allocator."""
    paths = counted.libraries(program.choices, place.scratch / "libraries")
    return {one.label: replace(one, preload=str(paths[one.label])) for one in program.choices}
