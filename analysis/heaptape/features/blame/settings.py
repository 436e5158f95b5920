# SPDX-License-Identifier: MIT
"""Settings of the allocator beside changes of the code: what each of its usual settings leaves resident, by a replay of
the recording. A setting costs a variable, a change of the code a release.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from heaptape.advise.tried import usual_settings
from heaptape.allocators import registry
from heaptape.allocators.registry import Choice
from heaptape.common.home import Home
from heaptape.decide.worth import is_reason
from heaptape.results import structs
from heaptape.results.schema import Results
from heaptape.run import judging, replay, rounds
from heaptape.run.rounds import Run
from heaptape.run.samples import rss_at


@dataclass(frozen=True)
class Setting:
    """RSS in bytes at a position, of the allocator as it was replayed and with other settings, `label`."""

    label: str
    environment: Mapping[str, str]
    before: float
    after: float

    @property
    def saving_bytes(self) -> float:
        return self.before - self.after


@dataclass(frozen=True)
class Replayed:
    """A recording, its workload, and the allocators on which it was replayed."""

    source: Path
    workload: Path
    choices: Sequence[Choice]
    home: Home


def with_memory(
    data: dict, of: Replayed, with_settings: bool, on_progress: Callable[[Run | None, float], None]
) -> dict:
    """The results with memory runs of the same allocators, with `with_settings` also of their usual settings, and with
    what the recording says of them (run/judging.py). Runs that fail are left out.
    """
    known, threads = registry.load(of.home), int(data["workload"]["threads"])
    named = [known[one.allocator] for one in of.choices if one.allocator in known] if with_settings else []
    labels = [label for allocator in named for label in usual_settings(allocator, threads)]
    tried = {one.label: one for one in (*of.choices, *registry.choose_all(labels, known))} if labels else {}
    made: dict = {"runs": [], "allocators": []}
    if tried:
        settings = rounds.Settings(1, passes=("memory",), seed=1, memory_map=False)
        made = replay.replay(of.workload, data["workload"], list(tried.values()), settings, of.home, on_progress)
    runs = [run for run in made["runs"] if "error" not in run]
    columns = {structs.label(one["name"], one["variant"]): one for one in (*made["allocators"], *data["allocators"])}
    by_label = {run.label: run for run in msgspec.convert(runs, list[structs.Run])}
    wrong = judging.judged(of.source, of.workload, of.home, by_label)
    about = data["workload"] | ({"disproof": wrong} if wrong else {})
    return data | {"workload": about, "runs": data["runs"] + runs, "allocators": list(columns.values())}


def best(file: Results, label: str, position: int) -> Setting | None:
    """The settings of the allocator `label` that leave least resident at the position. None: none is worth a change, or
    none was replayed.
    """
    runs = {run.label: run for run in file.measured if run.pass_ == "memory" and run.timeline}
    if label not in runs:
        return None
    environments = {one.label: one.environment or {} for one in file.parsed.allocators or []}
    own = runs[label]
    before = float(rss_at(own, np.array([position]))[0])
    found = [
        Setting(name, environments.get(name, {}), before, float(rss_at(run, np.array([position]))[0]))
        for name, run in runs.items()
        if run.allocator == own.allocator and name != label
    ]
    least = min(found, key=lambda one: one.after, default=None)
    if least is None or not before or not is_reason(100 * least.saving_bytes / before, 0.0, least.saving_bytes):
        return None
    return least
