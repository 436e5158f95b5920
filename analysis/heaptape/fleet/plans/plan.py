# SPDX-License-Identifier: MIT
"""The plan: which workloads, choices, passes and repetitions, and so which cells. It is kept in the store, where
commands that run shares of it, or show its status, find it.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import msgspec

from heaptape.fleet.store.cell import Cell, Count, Name, Pass, Sha, Sizes, Value, Variable, digest, is_exact
from heaptape.fleet.store.store import Store
from heaptape.measure.registry import DEFAULT_VARIANT
from heaptape.measure.replay import order_of
from heaptape.measure.rounds import Settings
from heaptape.results.runs import label

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

    kind: ClassVar[str] = "cells"  # in worker.py

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
