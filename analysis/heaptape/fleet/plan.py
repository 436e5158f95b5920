# SPDX-License-Identifier: MIT
"""The plan: which workloads, choices, passes and repetitions, and so which cells. It is kept in the store, where
commands that run shares of it, or show its status, find it. It is made from a request: the command line or PLAN.toml,
whose paths must stay in its folder, as plans are not trusted.
"""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from heaptape.common.checked import checked, read_toml
from heaptape.common.errors import HeaptapeError
from heaptape.fleet.store import Cell, Count, Name, Pass, Sha, Sizes, Store, Value, Variable, digest, is_exact
from heaptape.gate import corpus
from heaptape.results.runs import label
from heaptape.run.passes import PASSES
from heaptape.run.registry import DEFAULT_VARIANT
from heaptape.run.replay import order_of
from heaptape.run.rounds import Settings

if TYPE_CHECKING:
    import pandas as pd


DEFAULT_PASSES = ("instructions", "memory")
COMPANION_OF = {"misses": "accesses", "blame": "origins"}
REQUIRED = ("accesses",)  # a blame pass can run without origins
Repetitions = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Variant = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f]{1,4096}\Z")]


class PlannedChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An allocator with settings. `variant`: their name in tables. `counting`: the settings with the one that makes it
    count its locks, for the pass contention; None: it can't count them.
    """

    allocator: Name
    variant: Variant
    library: Sha
    environment: tuple[tuple[Variable, Value], ...]
    counting: tuple[tuple[Variable, Value], ...] | None = None

    def environment_in(self, pass_: str) -> tuple[tuple[Variable, Value], ...]:
        """The environment in which it runs in a pass."""
        return self.counting if pass_ == "contention" and self.counting is not None else self.environment

    @property
    def label(self) -> str:
        return label(self.allocator, self.variant)


class PlannedWorkload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`need_bytes`: memory that a replay may take. `beside`: libraries that are loaded with every allocator. `windows`:
    its instructions are counted between the edges of windows (a distillate).
    """

    sha256: Sha
    name: str
    ops: Count
    need_bytes: int
    windows: bool
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
        settings = Settings(passes=(pass_,), windows="yes" if workload.windows else "")
        simulated = pass_ == "misses"
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
        return Task(tuple(cells), workload.name, workload.need_bytes, self.whole or workload.windows, self.timeout_s)


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
    found = corpus.find(str(_beside(path, tape)) for tape in plan.tapes)
    names = {file.resolve(): name for name, file in found.items()}
    return {
        names.get(_beside(path, key), key) if key in plan.tapes else key: weight for key, weight in plan.weights.items()
    }
