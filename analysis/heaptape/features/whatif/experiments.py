# SPDX-License-Identifier: MIT
"""What if: the workload of a trace with groups of its objects treated differently, replayed beside the original.

Each experiment is a separate workload (`heaptape-convert compile --group`), replayed in the same passes on the same
allocators. Its runs are in one results object with those of the original, as variants of their allocators: the
experiment is part of the variant's name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from heaptape.allocators.registry import DEFAULT_VARIANT, Choice
from heaptape.common.engine import OF_ORIGINS, need_origins
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.results import disturbance, structs
from heaptape.results.structs import label
from heaptape.run import judging, replay
from heaptape.run.across_passes import agreement
from heaptape.run.rounds import Run, Settings
from heaptape.tape.workload_format import is_workload, read_workload

PASSES = ("memory", "instructions", *OF_ORIGINS)


@dataclass(frozen=True)
class Experiment:
    """Groups that are treated differently together, each as EXPR=ACTION."""

    groups: tuple[str, ...]

    @property
    def name(self) -> str:
        return " ".join(self.groups)


def experiments(groups: Sequence[str], *, together: bool) -> list[Experiment]:
    """One experiment for each group, or one of all."""
    return [Experiment(tuple(groups))] if together else [Experiment((group,)) for group in groups]


@dataclass(frozen=True)
class Job:
    """What to replay: the trace, the experiments, the allocators and the settings. Positions of `settings.at` are of
    the trace: an experiment's runs attribute memory at the corresponding positions of its workload.
    """

    source: Path
    experiments: Sequence[Experiment]
    choices: Sequence[Choice]
    settings: Settings

    @property
    def positions(self) -> list[int]:
        return sorted({int(where) for where in self.settings.at if where.isdecimal()})


@dataclass(frozen=True)
class Rewritten:
    """An experiment's workload, what was done to each group (core/workload/WORKLOAD.md, `whatif`), and where in it the
    job's positions are.
    """

    workload: Path
    groups: list[dict]
    positions: dict[int, int]


def compile_workload(job: Job, experiment: Experiment, output: Path, home: Home) -> Rewritten:
    """Writes the rewritten workload. Raises HeaptapeError with the compiler's error."""
    options = [part for group in experiment.groups for part in ("--group", group)]
    options += [part for position in job.positions for part in ("--position", str(position))]
    replay.compile_trace(job.source, output, options, home, origins=need_origins(job.settings.passes))
    info = read_workload(output).info
    groups, positions = info.get("whatif"), info.get("whatif_positions")
    return Rewritten(output, groups if isinstance(groups, list) else [], dict(positions or []))


def run(
    job: Job,
    home: Home,
    directory: Path,
    on_progress: Callable[[Run | None, float, str], None] = lambda run, share, name: None,
    on_failure: Callable[[Run, str], None] = lambda run, error: None,
) -> dict:
    """Replays the original and each experiment: results (schema 1) with the key "whatif": per experiment its name,
    `groups` (what was done), `workload` (what was replayed), `labels` (label of the allocator -> label of the
    experiment's runs), and `positions` ([[in the trace, in the experiment], ...] of the job's). `directory`: for the
    workloads. `on_progress(run, share of all, experiment or "")`.

    Raises HeaptapeError if the source is not a trace, an experiment can't be compiled, or the engine can't run.
    """
    source = job.source
    if source.is_file() and is_workload(source):
        raise HeaptapeError(f"{source}: is a workload: groups of objects are found in a trace")
    original = replay.prepare(str(source), home, directory, need_origins(job.settings.passes))
    rewritten = {
        experiment: compile_workload(job, experiment, directory / f"whatif-{number}.work", home)
        for number, experiment in enumerate(job.experiments)
    }

    def replayed(number: int, workload: Path, at: Sequence[str], name: str = "") -> dict:
        def tell(run: Run | None, share: float) -> None:
            on_progress(run, type(share)((number + share) / (len(rewritten) + 1)), name)

        about = replay.describe_workload(workload, source.name.split(".")[0])
        settings = replace(job.settings, at=tuple(at))
        return replay.replay(workload, about, list(job.choices), settings, home, tell, on_failure)

    data = replayed(0, original, job.settings.at) | {"whatif": []}
    made = {run.label: run for run in msgspec.convert(data["runs"], list[structs.Run]) if run.pass_ == "memory"}
    if wrong := judging.judged(source, original, home, {name: run for name, run in made.items() if run.error is None}):
        data["workload"] |= {"disproof": wrong}
    for number, (experiment, workload) in enumerate(rewritten.items(), 1):
        found = replayed(number, workload.workload, _places(job.settings.at, workload), experiment.name)
        data = _joined(data, found, experiment, workload)
    return data | {
        "noise": disturbance.summarise(data["runs"]),
        "agreement": agreement(msgspec.convert(data["runs"], list[structs.Run])),
    }


def _places(at: Sequence[str], made: Rewritten) -> list[str]:
    return [str(made.positions[int(where)]) if where.isdecimal() else where for where in at]


def variant_of(variant: str, experiment: Experiment) -> str:
    """The variant of an experiment's runs, for an allocator with this variant."""
    return experiment.name if variant == DEFAULT_VARIANT else f"{variant} {experiment.name}"


def _joined(data: dict, found: dict, experiment: Experiment, made: Rewritten) -> dict:
    runs = [r | {"variant": variant_of(r["variant"], experiment)} for r in found["runs"]]
    columns = [a | {"variant": variant_of(a["variant"], experiment)} for a in found["allocators"]]
    names = {
        label(a["name"], a["variant"]): label(a["name"], variant_of(a["variant"], experiment))
        for a in found["allocators"]
    }
    workload = {key: value for key, value in found["workload"].items() if key not in ("recorded", "request_sizes")}
    about = {"name": experiment.name, "groups": made.groups, "workload": workload, "labels": names}
    about |= {"positions": [list(pair) for pair in made.positions.items()]}
    return data | {
        "runs": data["runs"] + runs,
        "allocators": data["allocators"] + columns,
        "elapsed_s": round(data["elapsed_s"] + found["elapsed_s"], 3),
        "whatif": [*data["whatif"], about],
    }
