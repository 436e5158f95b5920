# SPDX-License-Identifier: MIT
"""Runs that measure how accurate replays of memory are: each program live on every allocator, recorded once on the C
library's, and its replays. Prediction: prediction.py; evaluation: judged.py.
"""

import random
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.results.structs import Run
from heaptape.run import live, replay
from heaptape.run.rounds import Settings
from heaptape.run.samples import Samples, read_samples

from tests.bench.fidelity import prediction, raw
from tests.bench.fidelity.live_rounds import BASELINE, Program, observe, place_for

MEMORY_REPEATS = 2
RECORDED = "recorded"  # live runs under the recorder, which counts calls: their memory at the same points
# How often the recorder samples the program's memory: with 10 ms, means are off where a peak is shorter.
SAMPLE_MS = 2
KEPT_OF_REPLAYS = (
    "pass", "order", "repeat", "cpu_ns", "engine_cycles_per_op", "cycles_hz", "rss_anon_peak_bytes",
    "rss_anon_mean_bytes", "vm_size_peak_bytes", "page_faults", "syscalls", "peaks", "rss_anon_start_bytes",
)  # fmt: skip


def verify(program: Program, repeats: int, memory_repeats: int = MEMORY_REPEATS) -> dict:
    """All runs of one program and the predictions made from them: the content of a raw results file.

    `repeats`: number of live runs and replays whose processor time counts. Memory is measured in `memory_repeats`
    separate runs, as close sampling costs the program time, and in as many under the recorder. An allocator whose live
    run or replay fails has the reason in "failures", and no figures. Raises HeaptapeError where the program can't run
    here, or fails on the C library's own allocator.
    """
    began = time.time()
    with place_for(program.recipe, program.home, program.cache) as place:
        lived, failures = _live(program, place, {"memory": memory_repeats, "time": repeats})
        kept = raw.that_ran(program.recipe, program.choices, lived, failures)
        base, rows = _recorded(program, place, kept, memory_repeats, failures)
        lived += rows
        program.tell("replaying")
        settings = Settings(repeats=repeats, passes=("memory", "bare"), timeout_s=raw.RUN_LIMIT_S)
        results = replay.replay(base.workload, base.about, kept, settings, program.home)
        predicted = _predict(base, results, lived, failures)
    about = raw.about_run(program.recipe, began, repeats)
    return raw.with_runs(about, results, lived, failures, KEPT_OF_REPLAYS) | {"predicted": predicted}


def _live(program: Program, place: live.Place, kinds: Mapping[str, int]) -> tuple[list[dict], dict[str, str]]:
    """Every allocator once in each round, in random order. `kinds`: how many rounds of which kind."""
    runs: list[dict] = []
    failures: dict[str, str] = {}
    shuffler = random.Random(0)
    for kind, number in ((kind, number) for kind, count in kinds.items() for number in range(count)):
        order = [choice for choice in program.choices if choice.label not in failures]
        shuffler.shuffle(order)
        for choice in order:
            program.tell(f"live, {kind}, {number + 1} of {kinds[kind]}, {choice.label}")
            try:
                figures = observe(program.recipe, place, choice, kind == "memory")
            except HeaptapeError as error:
                failures[choice.label] = f"live: {error}"
                continue
            figures.pop("timeline", None)
            runs.append({"allocator": choice.label, "kind": kind, "repeat": number} | figures)
    return runs, failures


@dataclass(frozen=True)
class Recording:
    """A recording, compiled: its workload and facts about it, and RssAnon in bytes at each sample."""

    workload: Path
    about: dict
    samples: Samples
    rss_anon: np.ndarray

    def row(self, choice: Choice, repeat: int, clock: Samples) -> dict:
        """The live run as a row of a raw result. `clock`: samples of the recording that is replayed."""
        mean = prediction.aligned_mean(self.samples, self.rss_anon, clock)
        figures = {"rss_anon_peak_bytes": int(self.rss_anon.max()), "rss_anon_aligned_mean_bytes": round(mean)}
        about = {"allocator": choice.label, "kind": RECORDED, "repeat": repeat, "ops": self.about["ops"]}
        return about | figures


def _record(program: Program, place: live.Place, choice: Choice, folder: str) -> Recording:
    """Records into a new folder of the scratch place."""
    from heaptape.features.workloads import capture

    into = place.scratch / folder
    into.mkdir()
    tape = into / f"{program.recipe.name}.tape"
    options = ("--preload", choice.preload or live.c_library(), "--sample-ms", str(SAMPLE_MS))
    capture.capture(program.recipe, tape, place.home, options, cache=program.cache, environment=choice.environment)
    workload = replay.prepare(str(tape), place.home, into)
    return Recording(workload, replay.describe_workload(workload, tape.stem), *read_samples(tape, workload))


def _recorded(
    program: Program, place: live.Place, choices: Sequence[Choice], repeats: int, failures: dict[str, str]
) -> tuple[Recording, list[dict]]:
    """The recording to be replayed (the first on the C library's allocator, whose files are kept), and a row for each
    live run on each allocator. An allocator on which a run fails has the reason in `failures`, under its label and the
    kind of run. Raises HeaptapeError where the first run fails.
    """
    first = next(choice for choice in choices if choice.label == BASELINE)
    program.tell(f"recording, {BASELINE}")
    base = _record(program, place, first, "base")
    rows = [base.row(first, 0, base.samples)]
    for number, choice in ((number, choice) for number in range(repeats) for choice in choices):
        about = f"{choice.label}, {RECORDED}"
        if about in failures or (number == 0 and choice is first):
            continue
        program.tell(f"live, {RECORDED}, {number + 1} of {repeats}, {choice.label}")
        try:
            rows.append(_record(program, place, choice, "other").row(choice, number, base.samples))
        except HeaptapeError as error:
            failures[about] = str(error)
        shutil.rmtree(place.scratch / "other", ignore_errors=True)
    return base, rows


def _predict(base: Recording, results: dict, lived: Sequence[dict], failures: dict[str, str]) -> dict[str, dict]:
    """label -> predicted figures, as `prediction.predict` returns them."""
    failures |= raw.replay_failures(results)
    replays: dict[str, list[dict]] = {}
    for run in results["runs"]:
        label = raw.label_of(run)
        if "error" not in run and run["pass"] == "memory" and (label not in failures or label == BASELINE):
            replays.setdefault(label, []).append(prediction.replayed(msgspec.convert(run, Run), base.samples))
    if BASELINE not in replays or BASELINE in failures:
        raise HeaptapeError(failures.get(BASELINE, "no replay on the recording allocator"))
    return prediction.predict(replays, lived, BASELINE)
