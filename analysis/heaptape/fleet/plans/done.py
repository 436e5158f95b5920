# SPDX-License-Identifier: MIT
"""What of a plan is done: a cell if its file is there and whole, a block if its cells were measured together."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from heaptape.fleet.plans.plan import Task
from heaptape.fleet.store.store import Failure, Record, Store


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
    seen = seen_of(store.records(keys))
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


def seen_of(records: Iterable[Record]) -> dict[str, tuple[str | None, bool]]:
    return {record.cell.key: (record.block, record.whole) for record in records}
