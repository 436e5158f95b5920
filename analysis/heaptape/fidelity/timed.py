# SPDX-License-Identifier: MIT
"""Verification of CPU time: the model of time's prediction for a program, against alternate live runs.

First the counts: the program is recorded once with its data accesses, on the C library's allocator, and replayed by the
pass misses on each, with this machine's caches. The prediction is made from the counts before the first live run, and
not changed later. Then rounds of live runs follow, until sequential.py has decided each pair or the budget is spent.
All is in one raw result, to which a later sitting adds. Addresses are random in each run, and the preloaded libraries
have paths of one length: so an interval covers the effect of layouts. Evaluation: timed_certificate.py.
"""

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.fidelity import counted, live, verify
from heaptape.fidelity.certificate import BASELINE
from heaptape.fidelity.raw import read_results, write_results
from heaptape.fidelity.sequential import UNDECIDED, decisions, next_look
from heaptape.results.model.time_model import ALL, prediction
from heaptape.results.schema import Results, label_of
from heaptape.run import noise, penalties, recipes, replay
from heaptape.run.recipes import Recipe
from heaptape.run.registry import Choice, sha256_of
from heaptape.run.rounds import Settings

DIRECTORIES = (*recipes.DIRECTORIES, *counted.DIRECTORIES)  # of two recipes of one name the shorter program
PASS = "misses"
LIVE = "live: "  # begins the failures of live runs
KEPT_OF_REPLAYS = ("pass", "order", "misses")
Runner = Callable[[str], float]  # the CPU time in ns of one run on the allocator of that label


@dataclass(frozen=True)
class Sitting:
    """Limits: `budget_s` of CPU time for the program, including earlier sittings; `until`, by time.monotonic()."""

    budget_s: float
    until: float = float("inf")


@dataclass(frozen=True)
class Program:
    """What is judged, and where: a recipe on allocators, one of which is the C library's."""

    recipe: Recipe
    choices: Sequence[Choice]
    home: Home
    cache: Path
    tell: Callable[[str], None] = lambda text: None


def judge(program: Program, sitting: Sitting, path: Path | None) -> dict:
    """The content of the program's raw results file of kind "timed", after one more sitting. `path`: that file, which
    is continued if it exists, and kept up to date. Raises HeaptapeError as `count` does, where the file is of other
    libraries, and where there is no file and the time is up.
    """
    data = _counted_before(program, read_results([path])[0]) if path and path.exists() else None
    if data is None and time.monotonic() >= sitting.until:
        raise HeaptapeError("not begun within the time of --stop-after")
    data = data or count(program)

    def save() -> None:
        if path:
            write_results(data, path)

    save()
    sit(program, data, sitting, save)
    return data


def count(program: Program) -> dict:
    """Counts and prediction, without live runs. Raises HeaptapeError where the program can't run here, or fails on the
    C library's allocator.
    """
    began, recipe, home = time.time(), program.recipe, program.home
    measured = penalties.of_this_machine(home)  # before the pass, so that it takes this machine's caches
    with live.place_for(recipe, home, program.cache) as place:
        program.tell("recording accesses")
        workload = counted.record_accesses(recipe, place, program.cache)
        about = replay.describe_workload(workload, recipe.name)
        program.tell("replaying accesses")
        linked = _linked(program, place)
        choices = [one if one.label == BASELINE else linked[one.label] for one in program.choices]
        results = replay.replay(workload, about, choices, Settings(repeats=1, passes=(PASS,)), home)
    failures = verify.replay_failures(results)
    if BASELINE in failures:
        raise HeaptapeError(f"{recipe.name}: {failures[BASELINE]}")
    data = verify.about_run(recipe, began, 1, "recorded", "timed") | {"looks": [], "sittings": []}
    return predict(verify.with_runs(data, results, [], failures, KEPT_OF_REPLAYS), measured)


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
        return data if data["live"] else predict(data, penalties.of_this_machine(program.home))
    if data["live"]:
        raise HeaptapeError("its live runs are of another recipe or other libraries: take another --results folder")
    return None


def _fits(program: Program, data: dict) -> bool:
    there = {label_of(one | {"allocator": one["name"]}): one["sha256"] for one in data.get("allocators", ())}
    here = {choice.label: sha256_of(choice.path) for choice in program.choices}
    return data["app"].get("recipe_sha256") == sha256_of(program.recipe.path) and there == here


def sit(program: Program, data: dict, sitting: Sitting, save: Callable[[], None] = lambda: None) -> None:
    """Adds rounds of live runs to the raw result, as `add_rounds` does."""
    data["failures"] = {label: why for label, why in data["failures"].items() if not why.startswith(LIVE)}
    if is_done(data, sitting.budget_s) or time.monotonic() >= sitting.until:
        return
    with live.place_for(program.recipe, program.home, program.cache) as place:
        linked = _linked(program, place)

        def run(label: str) -> float:
            return float(live.observe(program.recipe, place, linked[label], memory=False)["cpu_ns"])

        add_rounds(data, run, sitting, program.tell, save)


def add_rounds(
    data: dict,
    run: Runner,
    sitting: Sitting,
    tell: Callable[[str], None] = lambda text: None,
    save: Callable[[], None] = lambda: None,
) -> None:
    """Adds rounds until each pair is decided, the budget is spent or the time is up. `save`: called after each look and
    at the end, also after an error. An allocator that fails has the reason in "failures" and runs no more; if the
    baseline fails, the rounds end.
    """
    about = {"created_unix_s": round(time.time()), "commit": replay.commit(), "load_before": list(os.getloadavg())}
    began, rounds_before = time.monotonic(), len(data["live"])
    undecided = _open(data)
    try:
        while not is_done(data, sitting.budget_s, undecided) and time.monotonic() < sitting.until:
            data["live"] += _round(data, undecided, run)
            undecided = [label for label in undecided if label not in data["failures"]]
            if baseline_of(data) in data["failures"]:
                break
            if len(data["live"]) == next_look(data["looks"]) or spent_s(data) >= sitting.budget_s:
                data["looks"].append(len(data["live"]))
                undecided = _open(data)
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
    return not (_open(data) if undecided is None else undecided)


def spent_s(data: dict) -> float:
    """CPU time of all live runs."""
    return sum(sum(one["cpu_ns"].values()) for one in data["live"]) / 1e9


def found(data: dict) -> dict:
    """label -> decision (sequential.py), for the allocators that ran live."""
    return decisions([one["cpu_ns"] for one in data["live"]], data["looks"], baseline_of(data))


def baseline_of(data: dict) -> str:
    """Label of the allocator that the others are compared with: in raw results of `judge` the C library's."""
    return data.get("baseline", BASELINE)


def _open(data: dict) -> list[str]:
    """Labels with a prediction that are not decided, and have not failed."""
    decided = {label for label, one in found(data).items() if one.verdict != UNDECIDED}
    return [label for label in data["predicted"] if label not in decided and label not in data["failures"]]


def _round(data: dict, labels: Sequence[str], run: Runner) -> list[dict]:
    """One round: "cpu_ns" by label, in the order of the runs, and the machine's other load meanwhile. Empty where the
    baseline failed.
    """
    order = [baseline_of(data), *labels]
    random.Random(f"{data['app']['name']} {len(data['live'])}").shuffle(order)
    before = noise.read()
    cpu_ns = {}
    for label in order:
        try:
            cpu_ns[label] = run(label)
        except HeaptapeError as error:
            data["failures"][label] = f"{LIVE}{error}"
    if baseline_of(data) not in cpu_ns:
        return []
    return [{"cpu_ns": cpu_ns, "noise": noise.between(before, noise.read())}]


def _linked(program: Program, place: live.Place) -> dict[str, Choice]:
    """label -> the choice with a library path of one length for all, also for the C library's allocator."""
    paths = counted.libraries(program.choices, place.scratch / "libraries")
    return {one.label: replace(one, preload=str(paths[one.label])) for one in program.choices}
