# SPDX-License-Identifier: MIT
"""The plan: which workloads, choices, passes and repetitions, and so which cells. It is kept in the store, where
commands that run shares of it, or show its status, find it. It is made from a request: the command line or PLAN.toml,
whose paths must stay in its folder, as plans are not trusted. `prepare` brings its workloads and libraries into the
store.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from heaptape.common.checked import checked, read_toml
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import processors, scratch_folder
from heaptape.common.version import __version__
from heaptape.features.fleet.files import StoreError
from heaptape.features.fleet.machine import engine_hash
from heaptape.features.fleet.store import (
    Cell,
    Count,
    Name,
    Pass,
    Sha,
    Sizes,
    Store,
    Value,
    Variable,
    Workload,
    digest,
    file_of_companion,
    file_of_workload,
    is_exact,
)
from heaptape.features.gate import gate
from heaptape.results.structs import label
from heaptape.run import engine_process, registry, replay
from heaptape.run.passes import BY_NAME, PASSES, need_origins
from heaptape.run.registry import DEFAULT_VARIANT, Choice, sha256_of
from heaptape.run.replay import order_of
from heaptape.run.rounds import Settings

if TYPE_CHECKING:
    import pandas as pd


DEFAULT_PASSES = ("instructions", "memory")
COMPANION_OF = {
    name: "accesses" if one.accesses else "origins" for name, one in BY_NAME.items() if one.accesses or one.origins
}
REQUIRED = ("accesses",)  # without origins a pass can run
Repetitions = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Variant = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f]{1,4096}\Z")]


class PlannedChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An allocator with settings. `variant`: their name in tables. `counting`: the settings with the one that makes it
    count its own operations; None: it can't.
    """

    allocator: Name
    variant: Variant
    library: Sha
    environment: tuple[tuple[Variable, Value], ...]
    counting: tuple[tuple[Variable, Value], ...] | None = None

    def environment_in(self, pass_: str) -> tuple[tuple[Variable, Value], ...]:
        """The environment in which it runs in a pass."""
        return self.counting if BY_NAME[pass_].own_counters and self.counting is not None else self.environment

    @property
    def label(self) -> str:
        return label(self.allocator, self.variant)


class PlannedWorkload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`need_bytes`: memory that a replay may take. `beside`: libraries that are loaded with every allocator."""

    sha256: Sha
    name: str
    ops: Count
    need_bytes: int
    beside: tuple[Sha, ...]
    companions: dict[Name, Sha]


class Planned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cell, and the name of its settings."""

    cell: Cell
    variant: Variant = DEFAULT_VARIANT


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker's unit of work: one exact cell; or a block, the timed cells of one repetition of a workload, in the
    order in which they run. `name`: the workload's. `whole`: its curves are kept, too.
    """

    cells: tuple[Planned, ...]
    name: str
    need_bytes: int
    whole: bool
    timeout_s: float

    @property
    def is_block(self) -> bool:
        """Does it measure time, and so need the machine alone?"""
        return not is_exact(self.cells[0].cell.pass_)

    @property
    def keys(self) -> list[str]:
        return [planned.cell.key for planned in self.cells]

    @property
    def resources(self) -> dict[str, float]:
        """What it takes of a worker's (worker.py): so it goes only where its engine is."""
        timed = {"timed": 1.0} if self.is_block else {}
        return {"memory": self.need_bytes, f"engine {self.cells[0].cell.engine}": 1, **timed}


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`baseline`: label of the choice that the others are compared with. `repetitions`: of timed passes."""

    engine: Sha
    version: Annotated[str, msgspec.Meta(max_length=64)]
    baseline: str
    seed: int
    repetitions: Repetitions
    timeout_s: Annotated[float, msgspec.Meta(ge=0)]
    whole: bool
    passes: tuple[Pass, ...]
    caches: Sizes
    tlbs: Sizes
    choices: tuple[PlannedChoice, ...]
    workloads: tuple[PlannedWorkload, ...]

    @property
    def id(self) -> str:
        return digest(msgspec.to_builtins(self))

    def tasks(self) -> Iterator[Task]:
        """All tasks: exact cells first, then block after block. The order is the same in every process."""
        for workload in self.workloads:
            for pass_ in filter(is_exact, self.passes):
                for choice in self.choices:
                    if self._can(pass_, workload):
                        yield self._task(workload, [self._planned(workload, choice, pass_, 0)])
        for repetition in range(self.repetitions):
            for workload in self.workloads:
                if block := self._block(workload, repetition):
                    yield self._task(workload, block)

    def cells(self) -> int:
        exact = sum(is_exact(pass_) and self._can(pass_, one) for one in self.workloads for pass_ in self.passes)
        timed = sum(not is_exact(pass_) and self._can(pass_, one) for one in self.workloads for pass_ in self.passes)
        return len(self.choices) * (exact + self.repetitions * timed)

    def left_out(self) -> list[str]:
        return [
            f"{one.name}: no data accesses, which the {pass_} pass needs: left out"
            for one in self.workloads
            for pass_ in self.passes
            if not self._can(pass_, one)
        ]

    def _can(self, pass_: str, workload: PlannedWorkload) -> bool:
        needs = COMPANION_OF.get(pass_)
        return needs not in REQUIRED or needs in workload.companions

    def _block(self, workload: PlannedWorkload, repetition: int) -> list[Planned]:
        """Baseline and candidates in random order, which follows from the seed."""
        timed = [pass_ for pass_ in self.passes if not is_exact(pass_) and self._can(pass_, workload)]
        company = digest([[c.allocator, c.library, c.environment] for c in self.choices] + [list(timed)])
        cells = [
            self._planned(workload, choice, pass_, repetition, company) for pass_ in timed for choice in self.choices
        ]
        chance = random.Random(f"{self.seed} {workload.sha256} {repetition}")
        chance.shuffle(cells)
        return cells

    def _planned(
        self, workload: PlannedWorkload, choice: PlannedChoice, pass_: str, repetition: int, company: str = ""
    ) -> Planned:
        settings = Settings(passes=(pass_,))
        simulated = BY_NAME[pass_].accesses
        cell = Cell(
            workload=workload.sha256,
            allocator=choice.allocator,
            library=choice.library,
            environment=choice.environment_in(pass_),
            pass_=pass_,
            order=order_of(pass_, settings, workload.ops),
            repetition=repetition,
            engine=self.engine,
            version=self.version,
            beside=workload.beside,
            companion=workload.companions.get(COMPANION_OF.get(pass_, ""), ""),
            caches=self.caches if simulated else "",
            tlbs=self.tlbs if simulated else "",
            company=company,
        )
        return Planned(cell, choice.variant)

    def _task(self, workload: PlannedWorkload, cells: Sequence[Planned]) -> Task:
        return Task(tuple(cells), workload.name, workload.need_bytes, self.whole, self.timeout_s)


def keep(plan: Plan, store: Store) -> None:
    name = f"plans/{plan.id}.json"
    if store.get(name, Plan) is None:
        store.put(name, plan)


def plans_of(store: Store) -> list[Plan]:
    """All plans of a store, in an order that does not change."""
    found = (store.get(name, Plan) for name in store.files.names("plans"))
    return [plan for plan in found if plan]


def tasks_of(plans: Sequence[Plan]) -> list[Task]:
    """The tasks of all plans, each once; with its curves, if one of the plans requires them."""
    found = {tuple(task.keys): task for plan in sorted(plans, key=lambda one: one.whole) for task in plan.tasks()}
    return list(found.values())


def share(tasks: Sequence[Task], index: int, shares: int) -> list[Task]:
    """Every `shares`-th task. A task's share does not depend on how many tasks are done."""
    return [task for number, task in enumerate(tasks) if number % shares == index]


class PlanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tapes`: traces, workloads and folders of them. `workloads`: sha256 of workloads in the store. `allocators`: as
    'heaptape replay -a' takes them; none: all that are found. `weights`: of workloads in the fleet, by name or by the
    tape as written in `tapes`; 1 where not given.
    """

    tapes: tuple[str, ...] = ()
    workloads: tuple[Sha, ...] = ()
    allocators: tuple[str, ...] = ()
    baseline: str = "glibc"
    passes: tuple[str, ...] = DEFAULT_PASSES
    repetitions: Repetitions = 5
    seed: int = 0
    weights: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}


def read_plan_file(path: Path) -> PlanFile:
    """A plan, its paths made absolute. Raises HeaptapeError, naming the file, where it is malformed or a path leads out
    of its folder.
    """
    plan = checked(path, read_toml(path), PlanFile)
    unknown = [name for name in plan.passes if name not in PASSES]
    if unknown:
        raise HeaptapeError(f"{path}: passes: unknown pass '{unknown[0]}': there are {', '.join(PASSES)}")
    return msgspec.structs.replace(
        plan,
        tapes=tuple(str(_beside(path, name)) for name in plan.tapes),
        weights=_by_name(path, plan),
        allocators=tuple(_allocator(path, name) for name in plan.allocators),
    )


def requested(inputs: Sequence[str]) -> PlanFile:
    """The request of the command line: one PLAN.toml, or traces and workloads."""
    plans = [name for name in inputs if name.endswith(".toml")]
    if plans and len(inputs) > 1:
        raise HeaptapeError(f"{plans[0]}: a plan is given alone: it names its own tapes")
    return read_plan_file(Path(plans[0])) if plans else PlanFile(tapes=tuple(inputs))


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


def chosen_plan(place: Path, chosen: "pd.DataFrame", baseline: str) -> str:
    """A plan to be written to `place`, of chosen recordings with their weights (choose.CHOSEN). Raises HeaptapeError
    where a recording is not below that folder, as then the plan could not be read.
    """
    folder = place.parent.resolve()
    weights = {}
    for source, weight in zip(chosen["source"], chosen["weight"], strict=True):
        path = Path(source).resolve()
        if not path.is_file() or not path.is_relative_to(folder):
            raise HeaptapeError(
                f"{place}: {source} is not below the plan's folder: write the plan above its recordings"
            )
        weights[str(path.relative_to(folder))] = weight
    lines = [
        "# Recordings that stand for a fleet, by 'heaptape fleet choose'; for 'heaptape fleet replay'.",
        *("tapes = [", *(f"  {json.dumps(tape)}," for tape in weights), "]"),
        *(f"baseline = {json.dumps(baseline)}", "", "[weights]"),
        *(f"{json.dumps(tape)} = {weight!r}" for tape, weight in weights.items()),
    ]
    return "\n".join(lines) + "\n"


def _by_name(path: Path, plan: PlanFile) -> dict[str, float]:
    """The weights by workload name; keys that are tapes as written in the plan are translated."""
    if not any(key in plan.tapes for key in plan.weights):
        return plan.weights
    found = gate.find(str(_beside(path, tape)) for tape in plan.tapes)
    names = {file.resolve(): name for name, file in found.items()}
    return {
        names.get(_beside(path, key), key) if key in plan.tapes else key: weight for key, weight in plan.weights.items()
    }


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """sources/SHA.json: the workload that the file of that hash was compiled to, and by which heaptape. `origins`: with
    the origins of its objects.
    """

    workload: Sha
    version: str
    origins: bool


def source_of(store: Store, sha256: str) -> Source | None:
    """The Source of a file of that hash, if it was brought into the store."""
    return store.get(f"sources/{sha256}.json", Source)


@dataclass
class Prepared:
    """`refused`: files that can't be replayed, one line each."""

    plan: Plan
    refused: list[str]


def prepare(
    wanted: PlanFile,
    store: Store,
    home: Home,
    timeout_s: float = 0,
    whole: bool = False,
    tell: Callable[[str], None] = lambda line: None,
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
        baseline=wanted.baseline,
        seed=wanted.seed,
        repetitions=wanted.repetitions,
        timeout_s=timeout_s,
        whole=whole,
        passes=wanted.passes,
        caches=settings.caches,
        tlbs=settings.tlbs,
        choices=tuple(_planned_choice(choice, store) for choice in choices),
        workloads=tuple(_planned(workload, choices, store) for workload in workloads),
    )
    keep(plan, store)
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
        store.put_library(choice.path, sha256)
    counting = None if choice.counting is None else tuple(sorted(choice.counting.items()))
    environment = tuple(sorted(choice.environment.items()))
    made = PlannedChoice(choice.allocator, choice.variant, sha256, environment, counting)
    try:  # a plan that is written must be readable
        return msgspec.convert(msgspec.to_builtins(made), PlannedChoice)
    except msgspec.ValidationError as error:
        raise HeaptapeError(f"{choice.label}: can't be sent to others: {error}") from None


def _planned(workload: Workload, choices: Sequence[Choice], store: Store) -> PlannedWorkload:
    beside = [Path(path).resolve() for path in engine_process.also_loaded(workload.about, choices)]
    hashes = tuple(sha256_of(path) for path in beside)
    for path, sha256 in zip(beside, hashes, strict=True):
        store.put_library(path, sha256)
    return PlannedWorkload(
        workload.sha256, workload.name, workload.ops, workload.need_bytes, hashes, workload.companions
    )


def _workloads(
    wanted: PlanFile, store: Store, home: Home, tell: Callable[[str], None]
) -> tuple[list[Workload], list[str]]:
    """The workloads from the files and from the store, each once; and the files that are refused."""
    known = store.workloads()
    missing = [sha256 for sha256 in wanted.workloads if sha256 not in known]
    if missing:
        raise HeaptapeError(f"{store.url}: no workload {missing[0]}")
    found = {sha256: known[sha256] for sha256 in wanted.workloads}
    refused = []
    files = gate.find(wanted.tapes)

    def bring(name: str) -> Workload | str:
        try:
            return _fetch(name, files[name], wanted, store, home, known)
        except StoreError:  # not the file's fault: the next file would wait as long
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


def _fetch(name: str, path: Path, wanted: PlanFile, store: Store, home: Home, known: dict[str, Workload]) -> Workload:
    """The workload of a file; it is in the store afterwards."""
    sha256, origins = sha256_of(path), need_origins(wanted.passes)
    source = source_of(store, sha256)
    if source and source.version == __version__ and (source.origins or not origins):
        workload = known.get(source.workload)
        if workload and _is_stored(workload, store):
            return _weighed(workload, wanted.weights.get(name), store)
    with scratch_folder() as scratch:
        workload = _compiled(name, path, wanted, store, home, scratch)
    store.put(f"sources/{sha256}.json", Source(workload.sha256, __version__, origins))
    return workload


def _is_stored(workload: Workload, store: Store) -> bool:
    """Is the workload there, with the files beside it? A damaged file was set aside by the process that found it."""
    if store.files.size(file_of_workload(workload.sha256)) != workload.file_bytes:
        return False
    return all(store.files.size(file_of_companion(sha256)) for sha256 in workload.companions.values())


def _weighed(workload: Workload, weight: float | None, store: Store) -> Workload:
    if weight is None or weight == workload.weight:
        return workload
    changed = msgspec.structs.replace(workload, weight=weight)
    store.put_about_workload(changed)
    return changed


def _compiled(name: str, path: Path, wanted: PlanFile, store: Store, home: Home, scratch: Path) -> Workload:
    made = replay.prepare(str(path), home, scratch, need_origins(wanted.passes))
    about = replay.describe_workload(made, Path(name).name)
    companions = {"accesses": replay.accesses_of(made), "origins": replay.origins_of(made)}
    there = {kind: file for kind, file in companions.items() if file}
    if "accesses" in there and not replay.has_accesses(made):
        del there["accesses"]
    replayer = home.program("replay")
    engine = replay.Engine(replayer, made, Settings(), about["ops"], replay.baseline(replayer, made))
    program = about.get("program")
    workload = Workload(
        sha256=about["sha256"],
        name=about["name"],
        program=program if isinstance(program, str) else about["name"],
        ops=about["ops"],
        weight=wanted.weights.get(name, 1.0),
        source=path.name,
        file_bytes=made.stat().st_size,
        need_bytes=replay.need_bytes(engine),
        about=about,
        companions={kind: sha256_of(file) for kind, file in there.items()},
    )
    store.put_workload(workload, made, there)
    return workload
