# SPDX-License-Identifier: MIT
"""Runs that measure how accurate replays are: each program live on every allocator, recorded once on the C library's,
and its replays. Prediction: prediction.py; evaluation: certificate.py.
"""

import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from heaptape.allocators.registry import Choice, package_versions, sha256_of
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.results.structs import Run, label
from heaptape.run import live, machine, replay
from heaptape.run.recipes import Recipe
from heaptape.run.rounds import Settings

from tests.bench.fidelity import prediction, recorded
from tests.bench.fidelity.certificate import BASELINE
from tests.bench.fidelity.live_rounds import observe, place_for
from tests.bench.fidelity.raw import SCHEMA

MEMORY_REPEATS = 2
POINTS = 120  # of each time line that is kept
RUN_LIMIT_S = 600
KEPT_OF_REPLAYS = (
    "pass", "order", "repeat", "cpu_ns", "engine_cycles_per_op", "cycles_hz", "rss_anon_peak_bytes",
    "rss_anon_mean_bytes", "vm_size_peak_bytes", "page_faults", "syscalls", "peaks", "rss_anon_start_bytes",
)  # fmt: skip


def verify(
    recipe: Recipe,
    choices: Sequence[Choice],
    repeats: int,
    home: Home,
    cache: Path,
    tell: Callable[[str], None] = lambda text: None,
    memory_repeats: int = MEMORY_REPEATS,
) -> dict:
    """All runs of one program and the predictions made from them: the content of a raw results file.

    `repeats`: number of live runs and replays whose processor time counts. Memory is measured in `memory_repeats`
    separate runs, as close sampling costs the program time, and in as many under the recorder, which counts calls. An
    allocator whose live run or replay fails has the reason in "failures", and no figures. Raises HeaptapeError where
    the program can't run here, or fails on the C library's own allocator.
    """
    began = time.time()
    with place_for(recipe, home, cache) as place:
        lived, failures = _live(recipe, place, choices, {"memory": memory_repeats, "time": repeats}, tell)
        kept = that_ran(recipe, choices, lived, failures)
        series = recorded.Series(recipe, place, cache, tell)
        base, rows = series.record(kept, memory_repeats, BASELINE, failures)
        lived += rows
        tell("replaying")
        settings = Settings(repeats=repeats, passes=("memory", "bare"), timeout_s=RUN_LIMIT_S)
        results = replay.replay(base.workload, base.about, kept, settings, home)
        predicted = _predict(base, results, lived, failures)
    data = about_run(recipe, began, repeats)
    return with_runs(data, results, lived, failures, KEPT_OF_REPLAYS) | {"predicted": predicted}


def that_ran(
    recipe: Recipe, choices: Sequence[Choice], lived: Sequence[dict], failures: Mapping[str, str]
) -> list[Choice]:
    """The choices that have live runs and no failure. Raises HeaptapeError where the C library's has no live run."""
    known = {run["allocator"] for run in lived}
    if BASELINE not in known:
        raise HeaptapeError(next(iter(failures.values()), f"{recipe.name}: no live run"))
    return [choice for choice in choices if choice.label in known and choice.label not in failures]


def replay_failures(results: dict) -> dict[str, str]:
    """label -> why its last failed replay failed."""
    return {_label(run): f"replay, {run['pass']}: {run['error']}" for run in results["runs"] if "error" in run}


def with_runs(
    about: dict, results: dict, lived: Sequence[dict], failures: Mapping[str, str], kept: Sequence[str]
) -> dict:
    """A raw results file's content. `about`: from `about_run`; `results`: the replays'; `kept`: which keys are kept of
    each replay that did not fail.
    """
    rows = [
        {"allocator": _label(run)} | {key: run[key] for key in kept if key in run}
        for run in results["runs"]
        if "error" not in run
    ]
    app = about["app"] | {key: results["workload"][key] for key in ("threads", "ops")}
    return about | {
        "app": app,
        "heaptape": results["heaptape"],
        "allocators": results["allocators"],
        "live": lived,
        "replays": rows,
        "failures": failures,
    }


def about_run(recipe: Recipe, began: float, repeats: int, kind: str = "fidelity") -> dict:
    return {
        "schema": SCHEMA,
        "kind": kind,
        "created_unix_s": round(began),
        "elapsed_s": round(time.time() - began, 1),
        "machine": machine.describe(),
        "app": {
            "name": recipe.name,
            "summary": recipe.summary,
            "set": recipe.set,
            "deterministic": recipe.deterministic,
            "recipe_sha256": sha256_of(recipe.path),
            "program_version": _version(recipe),
        },
        "settings": {"repeats": repeats},
        "replays": [],
        "predicted": {},
    }


def not_verified(recipe: Recipe, why: str, kind: str = "fidelity") -> dict:
    """The content of a raw results file of a program that could not be verified."""
    nothing: dict = {"live": [], "failures": {"all": why}} | ({"looks": [], "sittings": []} if kind == "timed" else {})
    return about_run(recipe, time.time(), 0, kind) | nothing


def _live(
    recipe: Recipe, place: live.Place, choices: Sequence[Choice], kinds: Mapping[str, int], tell: Callable[[str], None]
) -> tuple[list[dict], dict[str, str]]:
    """Every allocator once in each round, in random order. `kinds`: how many rounds of which kind."""
    runs: list[dict] = []
    failures: dict[str, str] = {}
    shuffler = random.Random(0)
    for kind, count in kinds.items():
        for number in range(count):
            order = [choice for choice in choices if choice.label not in failures]
            shuffler.shuffle(order)
            for choice in order:
                tell(f"live, {kind}, {number + 1} of {count}, {choice.label}")
                try:
                    figures = observe(recipe, place, choice, kind == "memory")
                except HeaptapeError as error:
                    failures[choice.label] = f"live: {error}"
                    continue
                if kind == "memory":
                    figures["timeline"] = _thin(figures["timeline"])
                runs.append({"allocator": choice.label, "kind": kind, "repeat": number} | figures)
    return runs, failures


def _thin(timeline: list) -> list:
    rows = np.array(timeline, dtype=float).reshape(-1, 4)
    return prediction.thinned(rows[:, 0], rows[:, 2], POINTS)


def _predict(
    base: recorded.Recording, results: dict, lived: Sequence[dict], failures: dict[str, str]
) -> dict[str, dict]:
    """label -> predicted figures, as `prediction.predict` returns them."""
    failures |= replay_failures(results)
    memory: dict[str, list[dict]] = {}
    for run in results["runs"]:
        if "error" not in run and run["pass"] == "memory":
            memory.setdefault(_label(run), []).append(run)
    if BASELINE not in memory or BASELINE in failures:
        raise HeaptapeError(f"{base.tape.stem}: {failures.get(BASELINE, 'no replay on the recording allocator')}")
    kept = {label: runs for label, runs in memory.items() if label not in failures}
    replays = {
        label: [prediction.replayed(msgspec.convert(run, Run), base.samples) for run in runs]
        for label, runs in kept.items()
    }
    return prediction.predict(replays, lived, BASELINE)


def _label(run: dict) -> str:
    return label(run["allocator"], run.get("variant"))


def _version(recipe: Recipe) -> str:
    """The version of the Debian package that the program is from; empty where it is from none."""
    program = shutil.which(recipe.command[0])
    if not program:
        return ""
    real = Path(program).resolve()
    return package_versions((real,)).get(real, "")
