# SPDX-License-Identifier: MIT
"""The plan: which workloads, choices, passes and repetitions, and so which cells. It is kept in the store, where
`fleet status` finds it. It is made from a request: the command line or PLAN.toml, whose paths must stay in its folder,
as plans are not trusted. `prepare` brings its workloads and libraries into the store.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from heaptape.allocators import registry
from heaptape.allocators.registry import Choice, sha256_of
from heaptape.common.checked import checked, read_toml
from heaptape.common.engine import BY_NAME, PASSES, need_origins
from heaptape.common.errors import HeaptapeError, unknown
from heaptape.common.home import Home
from heaptape.common.process import convert_output, processors, scratch_folder
from heaptape.common.version import __version__
from heaptape.features.fleet import features
from heaptape.features.fleet.files import StoreError
from heaptape.features.fleet.store import (
    Cell,
    Count,
    Name,
    Pass,
    Sha,
    Sizes,
    Store,
    Task,
    Value,
    Variable,
    Variant,
    Workload,
    digest,
    file_of_companion,
    file_of_library,
    file_of_workload,
    is_exact,
)
from heaptape.features.fleet.work import engine_hash
from heaptape.features.gate import gate
from heaptape.run import engine_process, replay
from heaptape.run.replay import order_of
from heaptape.run.rounds import Settings
from heaptape.tape.workload_format import is_workload

DEFAULT_PASSES = ("instructions", "memory")
COMPANION_OF = {
    name: "accesses" if one.accesses else "origins" for name, one in BY_NAME.items() if one.accesses or one.origins
}
REQUIRED = ("accesses",)  # without origins a pass can run
Repetitions = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class PlannedChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An allocator with settings. `counting`: the settings with the one that makes it count its own operations; None:
    it can't.
    """

    allocator: Name
    variant: Variant
    library: Sha
    environment: tuple[tuple[Variable, Value], ...]
    counting: tuple[tuple[Variable, Value], ...] | None = None


class PlannedWorkload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`need_bytes`: memory that a replay may take. `beside`: libraries that are loaded with every allocator."""

    sha256: Sha
    name: str
    ops: Count
    need_bytes: int
    beside: tuple[Sha, ...]
    companions: dict[Name, Sha]


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`repetitions`: of timed passes."""

    engine: Sha
    version: Annotated[str, msgspec.Meta(max_length=64)]
    seed: int
    repetitions: Repetitions
    timeout_s: Annotated[float, msgspec.Meta(ge=0)]
    whole: bool
    passes: tuple[Pass, ...]
    caches: Sizes
    tlbs: Sizes
    choices: tuple[PlannedChoice, ...]
    workloads: tuple[PlannedWorkload, ...]

    def tasks(self) -> Iterator[Task]:
        """All tasks: exact cells first, then block after block. The order is the same in every process."""
        for workload in self.workloads:
            for pass_ in filter(is_exact, self.passes_of(workload)):
                for choice in self.choices:
                    yield self._task(workload, [self._cell(workload, choice, pass_, 0)])
        for repetition in range(self.repetitions):
            for workload in self.workloads:
                timed = [pass_ for pass_ in self.passes_of(workload) if not is_exact(pass_)]
                block = [self._cell(workload, choice, pass_, repetition) for pass_ in timed for choice in self.choices]
                if block:  # baseline and candidates in random order, which follows from the seed
                    random.Random(f"{self.seed} {workload.sha256} {repetition}").shuffle(block)
                    yield self._task(workload, block)

    def passes_of(self, workload: PlannedWorkload) -> list[str]:
        """Those for which the workload has what they need."""
        needs = {pass_: COMPANION_OF.get(pass_, "") for pass_ in self.passes}
        return [pass_ for pass_, need in needs.items() if need not in REQUIRED or need in workload.companions]

    def left_out(self) -> list[str]:
        return [
            f"{one.name}: no data accesses, which the {pass_} pass needs: left out"
            for one in self.workloads
            for pass_ in self.passes
            if pass_ not in self.passes_of(one)
        ]

    def _cell(self, workload: PlannedWorkload, choice: PlannedChoice, pass_: str, repetition: int) -> Cell:
        facts = BY_NAME[pass_]
        counts = facts.own_counters and choice.counting is not None
        return Cell(
            workload=workload.sha256,
            allocator=choice.allocator,
            variant=choice.variant,
            library=choice.library,
            environment=choice.counting if counts and choice.counting is not None else choice.environment,
            pass_=pass_,
            order=order_of(pass_, Settings(passes=(pass_,)), workload.ops),
            repetition=repetition,
            engine=self.engine,
            version=self.version,
            beside=workload.beside,
            companion=workload.companions.get(COMPANION_OF.get(pass_, ""), ""),
            caches=self.caches if facts.accesses else "",
            tlbs=self.tlbs if facts.accesses else "",
        )

    def _task(self, workload: PlannedWorkload, cells: Sequence[Cell]) -> Task:
        return Task(tuple(cells), workload.name, workload.need_bytes, self.whole, self.timeout_s)


def tasks_of(store: Store) -> tuple[int, list[Task]]:
    """The number of a store's plans, and their tasks, each once."""
    plans = [plan for name in store.files.names("plans") if (plan := store.get(name, Plan))]
    return len(plans), list({task.key: task for plan in plans for task in plan.tasks()}.values())


class PlanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tapes`: traces, workloads and folders of them. `allocators`: as 'heaptape replay -a' takes them; none: all that
    are found. `weights`: of workloads in the fleet, by name; 1 where not given.
    """

    tapes: tuple[str, ...] = ()
    allocators: tuple[str, ...] = ()
    baseline: str = "glibc"
    passes: tuple[str, ...] = DEFAULT_PASSES
    repetitions: Repetitions = 5
    seed: int = 0
    weights: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}


def requested(inputs: Sequence[str]) -> PlanFile:
    """The request of the command line: one PLAN.toml, or traces and workloads."""
    plans = [name for name in inputs if name.endswith(".toml")]
    if plans and len(inputs) > 1:
        raise HeaptapeError(f"{plans[0]}: a plan is given alone: it names its own tapes")
    return _plan_file(Path(plans[0])) if plans else PlanFile(tapes=tuple(inputs))


def _plan_file(path: Path) -> PlanFile:
    """A plan, its paths made absolute. Raises HeaptapeError, naming the file, where it is malformed or a path leads out
    of its folder.
    """
    plan = checked(path, read_toml(path), PlanFile)
    for name in plan.passes:
        if name not in PASSES:
            raise HeaptapeError(f"{path}: passes: {unknown('pass', name, PASSES)}")
    tapes = tuple(str(_beside(path, name)) for name in plan.tapes)
    return msgspec.structs.replace(
        plan, tapes=tapes, allocators=tuple(_allocator(path, one) for one in plan.allocators)
    )


def _allocator(plan: Path, name: str) -> str:
    """An allocator's name; the path of a library is made absolute."""
    library, colon, setting = name.partition(":")
    if "/" in library or library.endswith(".so"):
        return f"{_beside(plan, library)}{colon}{setting}"
    return name


def _beside(plan: Path, name: str) -> Path:
    folder = plan.parent.resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise HeaptapeError(f"{plan}: '{name}' leads out of the plan's folder")
    return path


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """sources/SHA.json: the workload that the file of that hash was compiled to, and by which heaptape. `origins`: with
    the origins of its objects.
    """

    workload: Sha
    version: str
    origins: bool


@dataclass(frozen=True)
class Prepared:
    """`refused`: files that can't be replayed, one line each."""

    plan: Plan
    refused: list[str]


def prepare(
    wanted: PlanFile, store: Store, home: Home, timeout_s: float, whole: bool, tell: Callable[[str], None]
) -> Prepared:
    """The plan; it and all files that it needs are then in the store. Files already in the store are not made again.
    `tell`: called at once for each refused file. Raises StoreError, and HeaptapeError where nothing is left to replay.
    """
    choices = _choices(wanted, home)
    workloads, refused = _workloads(wanted, store, home, tell)
    if not workloads:
        raise HeaptapeError("no workload to replay")
    settings, _ = replay.with_sizes(Settings(passes=wanted.passes))
    plan = Plan(
        engine=engine_hash(home),
        version=__version__,
        seed=wanted.seed,
        repetitions=wanted.repetitions,
        timeout_s=timeout_s,
        whole=whole,
        passes=wanted.passes,
        caches=settings.caches,
        tlbs=settings.tlbs,
        choices=tuple(_planned_choice(choice, store) for choice in choices),
        workloads=tuple(_planned(workload, store) for workload in workloads),
    )
    store.put(f"plans/{digest(msgspec.to_builtins(plan))}.json", plan)
    return Prepared(plan, refused)


def _choices(wanted: PlanFile, home: Home) -> list[Choice]:
    known = registry.load(home)
    choices = registry.choose_all(wanted.allocators, known)
    if wanted.baseline not in [choice.label for choice in choices]:
        choices = [registry.choose(wanted.baseline, known), *choices]
    return choices


def _planned_choice(choice: Choice, store: Store) -> PlannedChoice:
    if choice.c_library:
        raise HeaptapeError(f"{choice.label}: a fleet's machines replay on their own glibc only")
    sha256 = sha256_of(choice.path)
    if choice.preload:
        store.files.upload(choice.path, file_of_library(sha256))
    counting = None if choice.counting is None else tuple(sorted(choice.counting.items()))
    environment = tuple(sorted(choice.environment.items()))
    made = PlannedChoice(choice.allocator, choice.variant, sha256, environment, counting)
    try:  # a plan that is written must be readable
        return msgspec.convert(msgspec.to_builtins(made), PlannedChoice)
    except msgspec.ValidationError as error:
        raise HeaptapeError(f"{choice.label}: can't be sent to others: {error}") from None


def _planned(workload: Workload, store: Store) -> PlannedWorkload:
    beside = {
        sha256_of(path): path for path in (Path(one).resolve() for one in engine_process.also_loaded(workload.about))
    }
    for sha256, path in beside.items():
        store.files.upload(path, file_of_library(sha256))
    return PlannedWorkload(
        workload.sha256, workload.name, workload.ops, workload.need_bytes, tuple(beside), workload.companions
    )


def _workloads(
    wanted: PlanFile, store: Store, home: Home, tell: Callable[[str], None]
) -> tuple[list[Workload], list[str]]:
    """The workloads of the files, each once; and the files that are refused."""
    known, files = store.workloads(), gate.find(wanted.tapes)
    found: dict[str, Workload] = {}
    refused = []

    def bring(name: str) -> Workload | str:
        try:
            return _brought(name, files[name], wanted, store, home, known)
        except StoreError:  # not the file's fault: the next file would fail as well
            raise
        except HeaptapeError as error:
            return str(error) or f"{files[name]}: can't be compiled"

    with ThreadPoolExecutor(processors()) as pool:
        for made in pool.map(bring, files):
            if isinstance(made, str):
                refused.append(made)
                tell(made)
            else:
                found.setdefault(made.sha256, made)
    return list(found.values()), refused


def _brought(name: str, path: Path, wanted: PlanFile, store: Store, home: Home, known: dict[str, Workload]) -> Workload:
    """The workload of a file; it is in the store afterwards."""
    sha256, origins = sha256_of(path), need_origins(wanted.passes)
    source = store.get(f"sources/{sha256}.json", Source)
    weight = wanted.weights.get(name, 1.0)
    workload = known.get(source.workload) if source and source.version == __version__ else None
    if workload and source and (source.origins or not origins) and _is_stored(workload, store):
        if name in wanted.weights and workload.weight != weight:
            workload = msgspec.structs.replace(workload, weight=weight)
            store.put(f"workloads/{workload.sha256}.json", workload)
        return workload
    with scratch_folder() as scratch:
        workload = _compiled(name, path, weight, origins, store, home, scratch)
    store.put(f"sources/{sha256}.json", Source(workload.sha256, __version__, origins))
    return workload


def _is_stored(workload: Workload, store: Store) -> bool:
    """Is the workload there, with the files beside it? A damaged file was set aside by the process that found it."""
    if store.files.size(file_of_workload(workload.sha256)) != workload.file_bytes:
        return False
    return all(store.files.size(file_of_companion(sha256)) for sha256 in workload.companions.values())


def _compiled(name: str, path: Path, weight: float, origins: bool, store: Store, home: Home, scratch: Path) -> Workload:
    made = replay.prepare(str(path), home, scratch, origins)
    about = replay.describe_workload(made, Path(name).name)
    there = {"accesses": replay.accesses_of(made) if replay.has_accesses(made) else None}
    there |= {"origins": replay.origins_of(made)}
    companions = {kind: file for kind, file in there.items() if file}
    replayer = home.program("replay")
    engine = replay.Engine(replayer, made, Settings(), about["ops"], replay.baseline(replayer, made))
    program = about.get("program")
    workload = Workload(
        sha256=about["sha256"],
        name=about["name"],
        program=program if isinstance(program, str) else about["name"],
        ops=about["ops"],
        weight=weight,
        source=path.name,
        file_bytes=made.stat().st_size,
        need_bytes=replay.need_bytes(engine),
        about=about,
        companions={kind: sha256_of(file) for kind, file in companions.items()},
        profile={} if is_workload(path) else features.of_profile(convert_output(home, "profile", str(path))),
    )
    store.put_workload(workload, made, companions)
    return workload
