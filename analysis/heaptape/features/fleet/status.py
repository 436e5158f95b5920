# SPDX-License-Identifier: MIT
"""Progress of a store's plans: cells done, who runs what, what failed and why, and when all will be ready."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from heaptape.common.console import duration
from heaptape.common.phrases import counted
from heaptape.common.tables import Cell, Table
from heaptape.features.fleet.plan import Task, plans_of, tasks_of
from heaptape.features.fleet.store import HEARTBEAT_S, Failed, Failure, FleetStatus, Record, Store

SILENT_S = 6 * HEARTBEAT_S  # a worker that is silent for longer has probably gone
SAMPLED = 100  # cells of each pass, whose times are the basis of the estimate for cells that are left


def status(store: Store, now_s: float) -> FleetStatus:
    """The status, by listing the store; only few cells are read. `now_s`: wall time since 1970."""
    plans = plans_of(store)
    tasks = tasks_of(plans)
    there, failures = store.cell_keys(), store.failures()
    finals = final_failures(failures)
    planned = {key: task for task in tasks for key in task.keys}
    left = {key: task for key, task in planned.items() if key not in there and key not in finals}
    running = store.running()
    alive = [one for one in running if now_s - one.unix_s <= SILENT_S]
    left_s = _left_s(left, planned, there, store)
    at_a_time = sum(max(1, len(one.cells)) for one in alive)
    return FleetStatus(
        schema=1,
        store=store.url,
        plans=len(plans),
        cells=len(planned),
        done=sum(1 for key in planned if key in there),
        left=len(left),
        failed=[
            _failed(key, all_, key in finals) for key, all_ in failures.items() if key in planned and key not in there
        ],
        running=alive,
        silent=[one for one in running if now_s - one.unix_s > SILENT_S],
        left_s=left_s,
        ready_in_s=left_s / at_a_time if left_s is not None and at_a_time else None,
        damaged=len(store.files.names("damaged")),
    )


def _failed(key: str, failures: Sequence[Failure], final: bool) -> Failed:
    last = failures[-1]
    return Failed(key, last.workload, last.label, last.pass_, last.reason, last.machine, len(failures), final)


def _left_s(left: Mapping[str, Task], planned: Mapping[str, Task], there: set[str], store: Store) -> float | None:
    """Time left for one worker in s: by the mean time of finished cells of the same pass."""
    total = 0.0
    means: dict[str, float | None] = {}
    passes = {key: _pass_of(key, task) for key, task in planned.items()}
    for key in left:
        pass_ = passes[key]
        if pass_ not in means:
            done = islice((other for other in planned if other in there and passes[other] == pass_), SAMPLED)
            seconds = [record.seconds for record in store.records(list(done))]
            means[pass_] = statistics.fmean(seconds) if seconds else None
        mean = means[pass_]
        if mean is None:
            return None
        total += mean
    return total


def _pass_of(key: str, task: Task) -> str:
    if len(task.cells) == 1:
        return task.cells[0].cell.pass_
    return "block"


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
    lines += [f"{one.worker} runs {', '.join(one.cells) or 'nothing'} ({one.done:,} done)" for one in found.running]
    lines += [f"{one.worker} has been silent for long: {', '.join(one.cells) or 'nothing'}" for one in found.silent]
    for one in found.failed:
        often = f"{one.attempts} attempts" if one.attempts > 1 else "1 attempt"
        lines.append(f"failed: {one.workload}: {one.label}, {one.pass_} pass: {one.reason} ({often})")
    if found.left and found.ready_in_s is not None:
        lines.append(f"ready in {duration(found.ready_in_s)} with the workers that run now")
    elif found.left and found.left_s is not None:
        lines.append(f"no worker runs; {duration(found.left_s)} of one worker are left")
    elif found.left:
        lines.append("time left: not known before some cells of each pass are done")
    return lines


class Left(msgspec.Struct, frozen=True):
    """`tasks`: to be run. `done`: number of cells that are there. `failed`: cell -> its failure, for cells that would
    fail again, as the allocator is at fault.
    """

    tasks: list[Task]
    done: int
    failed: dict[str, Failure]


def left(tasks: Sequence[Task], store: Store, again: bool = False) -> Left:
    """What is left to be run, by the cells in the store. Reads each cell of the tasks, so that damaged cells are found.
    `again`: run also cells with a final failure.
    """
    finals = {} if again else final_failures(store.failures())
    there = store.cell_keys()
    open_tasks, done = [], 0
    failed: dict[str, Failure] = {}
    keys = {key: None for task in tasks for key in task.keys if key in there}
    seen = index_by_cell(store.records(keys))
    for task in tasks:
        own = {key: finals[key] for key in task.keys if key in finals and key not in seen}
        failed |= own
        if is_done(task, seen, own):
            done += len(task.cells) - len(own)
        else:
            open_tasks.append(task)
    return Left(open_tasks, done, failed)


def is_done(task: Task, seen: Mapping[str, tuple[str | None, bool]], failed: Mapping[str, Failure]) -> bool:
    """Is every cell there, or known to fail? `seen`: cell -> block, and whether its curves are kept. A block is done
    where all its cells were measured together.
    """
    there = [seen[key] for key in task.keys if key in seen]
    if len(there) + len(failed) < len(task.cells) or any(task.whole and not whole for _, whole in there):
        return False
    return len({block for block, _ in there}) <= 1


def final_failures(failures: Mapping[str, Sequence[Failure]]) -> dict[str, Failure]:
    """Cell -> the failure for which its allocator is at fault."""
    return {key: one for key, all_ in failures.items() for one in all_ if one.final}


def index_by_cell(records: Iterable[Record]) -> dict[str, tuple[str | None, bool]]:
    return {record.cell.key: (record.block, record.whole) for record in records}
