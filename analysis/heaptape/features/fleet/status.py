# SPDX-License-Identifier: MIT
"""Progress of a store's plans: cells done, what failed and why, and how much work is left."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from heaptape.common.console import duration
from heaptape.common.phrases import counted
from heaptape.common.tables import Cell, Table
from heaptape.features.fleet.plan import tasks_of
from heaptape.features.fleet.store import Record, Store, Task


class Failed(msgspec.Struct, forbid_unknown_fields=True, rename={"pass_": "pass"}):
    """A cell that was tried and has no figures. `final`: its allocator is at fault, so it is not tried again."""

    workload: str
    label: str
    pass_: str
    reason: str
    machine: str
    attempts: int
    final: bool


class FleetStatus(msgspec.Struct, forbid_unknown_fields=True):
    """`heaptape fleet status --json`. `left`: cells that were not run, or that failed without an allocator at fault.
    `left_s`: of one worker; null if no cell of a pass is done yet. `damaged`: files that were set aside.
    """

    store: str
    plans: int
    cells: int
    done: int
    left: int
    failed: list[Failed]
    left_s: float | None
    damaged: int
    schema: Literal[1] = 1


def is_done(record: Record | None, task: Task) -> bool:
    """Is the record all that the task asks for? One that failed, as the allocator is at fault, would fail again."""
    return record is not None and (record.whole or not task.whole)


def left(tasks: Sequence[Task], store: Store, again: bool = False) -> tuple[list[Task], dict[str, Record]]:
    """The tasks that are left to be run, and the records of the others, by key. Reads each record, so that damaged ones
    are found. `again`: run also those that failed.
    """
    there = store.keys()
    found = {one.key: one for one in store.records(task.key for task in tasks if task.key in there)}
    open_ = [task for task in tasks if not is_done(found.get(task.key), task) or (again and found[task.key].errors)]
    return open_, {key: found[key] for key in found.keys() - {task.key for task in open_}}


def status(store: Store) -> FleetStatus:
    plans, tasks = tasks_of(store)
    open_, found = left(tasks, store)
    failed = [*_failed(tasks, found), *_not_done(open_, store)]
    return FleetStatus(
        store=store.url,
        plans=plans,
        cells=sum(len(task.cells) for task in tasks),
        done=sum(len(record.cells) - len(record.errors) for record in found.values()),
        left=sum(len(task.cells) for task in open_),
        failed=failed,
        left_s=_left_s(open_, found),
        damaged=len(store.files.names("damaged")),
    )


def _failed(tasks: Sequence[Task], found: dict[str, Record]) -> Iterator[Failed]:
    for task in tasks:
        record = found.get(task.key)
        for cell, error in record.errors if record else ():
            yield Failed(task.name, cell.label, cell.pass_, error, record.machine if record else "", 1, True)


def _not_done(open_: Sequence[Task], store: Store) -> Iterator[Failed]:
    failures = store.failures()
    for task in open_:
        if failure := failures.get(task.key):
            cell = task.cells[0]
            what = "all" if task.is_block else cell.label
            yield Failed(task.name, what, cell.pass_, failure.reason, failure.machine, failure.attempts, False)


def _left_s(open_: Sequence[Task], found: dict[str, Record]) -> float | None:
    """By the mean time of finished tasks of the same pass, or of all blocks."""
    seconds = defaultdict(list)
    for record in found.values():
        seconds[record.cells[0].pass_ if len(record.cells) == 1 else ""].append(record.seconds)
    kinds = [task.cells[0].pass_ if len(task.cells) == 1 else "" for task in open_]
    return sum(statistics.fmean(seconds[kind]) for kind in kinds) if all(seconds[kind] for kind in kinds) else None


def failed_table(found: FleetStatus) -> Table:
    names = ("workload", "label", "pass_", "reason", "machine")
    rows = [
        [*(Cell(getattr(one, name)) for name in names), Cell(str(one.attempts), one.attempts)] for one in found.failed
    ]
    return Table("", ["workload", "allocator", "pass", "reason", "machine", "attempts"], rows, text_columns=5)


def in_words(found: FleetStatus) -> list[str]:
    plans = counted(found.plans, "plan")
    lines = [f"{found.store}: {found.cells:,} cells of {plans}: {found.done:,} done, {found.left:,} left"]
    if found.damaged:
        lines.append(f"{found.damaged} damaged files were set aside")
    lines += [f"failed: {line}" for line in map(failed_in_words, found.failed)]
    if found.left:
        known = f"{duration(found.left_s)} of one worker are left" if found.left_s is not None else ""
        lines.append(known or "time left: not known before some cells of each pass are done")
    return lines


def failed_in_words(one: Failed) -> str:
    return f"{one.workload}: {one.label}, {one.pass_} pass: {one.reason} ({counted(one.attempts, 'attempt')})"
