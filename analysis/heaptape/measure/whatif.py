"""What if: the workload of a trace with groups of its objects treated otherwise, replayed beside the original.

Each experiment is a workload of its own (`heaptape-convert compile --group`), replayed in the same passes on the same
allocators. Its runs stand in one results object with those of the original, as variants of their allocators: the
experiment is part of the variant's name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.formats.workload_format import is_workload, read_workload
from heaptape.measure import replay
from heaptape.measure.agreement import agreement
from heaptape.measure.registry import DEFAULT_VARIANT, Choice
from heaptape.measure.rounds import Run, Settings
from heaptape.results import disturbance
from heaptape.results.schema import label

PASSES = ("memory", "instructions")


@dataclass(frozen=True)
class Experiment:
    """Groups that are treated otherwise together, each as EXPR=ACTION."""

    groups: tuple[str, ...]

    @property
    def name(self) -> str:
        """As in labels and tables."""
        return " ".join(self.groups)


def experiments(groups: Sequence[str], *, together: bool) -> list[Experiment]:
    """One for each group, or one of all."""
    return [Experiment(tuple(groups))] if together else [Experiment((group,)) for group in groups]


def compile_workload(source: Path, experiment: Experiment, output: Path, home: Home) -> list[dict]:
    """Writes the rewritten workload; gives what was done to each group (core/workload/WORKLOAD.md, `whatif`). Raises
    HeaptapeError with the compiler's one line.
    """
    options = [part for group in experiment.groups for part in ("--group", group)]
    replay.compile_trace(source, output, options, home)
    about = read_workload(output).info.get("whatif")
    return about if isinstance(about, list) else []


@dataclass(frozen=True)
class Job:
    """What is to be replayed: the trace, the experiments, allocators and how."""

    source: Path
    experiments: Sequence[Experiment]
    choices: Sequence[Choice]
    settings: Settings


def run(
    job: Job,
    home: Home,
    directory: Path,
    on_progress: Callable[[Run | None, float, str], None] = lambda run, share, name: None,
    on_failure: Callable[[Run, str], None] = lambda run, error: None,
) -> dict:
    """Replays the original and each experiment: results (schema 1) with the key "whatif": per experiment its name,
    `groups` (what was done), `workload` (what was replayed), and `labels` (label of the allocator -> label of the
    experiment's runs). `directory`: for the workloads. `on_progress(run, share of all, experiment or "")`.

    Raises HeaptapeError where the source is no trace, an experiment can't be compiled, or the engine can't run.
    """
    source = job.source
    if source.is_file() and is_workload(source):
        raise HeaptapeError(f"{source}: is a workload: groups of objects are found in a trace")
    workloads: dict[Experiment | None, Path] = {None: replay.prepare(str(source), home, directory)}
    done = {}
    for number, tried in enumerate(job.experiments):
        workloads[tried] = directory / f"whatif-{number}.work"
        done[tried] = compile_workload(source, tried, workloads[tried], home)
    data: dict = {}
    for number, (experiment, path) in enumerate(workloads.items()):
        name = experiment.name if experiment else ""

        def tell(run: Run | None, share: float, name: str = name, number: int = number) -> None:
            on_progress(run, (number + share) / len(workloads), name)

        about = replay.describe_workload(path, source.name.split(".")[0])
        found = replay.replay(path, about, list(job.choices), job.settings, home, tell, on_failure)
        data = _joined(data, found, experiment, done.get(experiment, [])) if experiment else found | {"whatif": []}
    return data | {"noise": disturbance.summarise(data["runs"]), "agreement": agreement(data["runs"])}


def variant_of(variant: str, experiment: Experiment) -> str:
    """What the runs of an experiment are called, of an allocator of that variant."""
    return experiment.name if variant == DEFAULT_VARIANT else f"{variant} {experiment.name}"


def _joined(data: dict, found: dict, experiment: Experiment, groups: list[dict]) -> dict:
    runs = [r | {"variant": variant_of(r["variant"], experiment)} for r in found["runs"]]
    columns = [a | {"variant": variant_of(a["variant"], experiment)} for a in found["allocators"]]
    names = {
        label(a["name"], a["variant"]): label(a["name"], variant_of(a["variant"], experiment))
        for a in found["allocators"]
    }
    workload = {key: value for key, value in found["workload"].items() if key not in ("recorded", "request_sizes")}
    about = {"name": experiment.name, "groups": groups, "workload": workload, "labels": names}
    return data | {
        "runs": data["runs"] + runs,
        "allocators": data["allocators"] + columns,
        "elapsed_s": round(data["elapsed_s"] + found["elapsed_s"], 3),
        "whatif": [*data["whatif"], about],
    }
