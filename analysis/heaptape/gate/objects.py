# SPDX-License-Identifier: MIT
"""The objects of a workload, numbered as by `heaptape-convert reduce`: the elements of pieces of a history."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.tape import calls
from heaptape.tape.workload_format import NO_SLOT, Workload, read_workload

SIZE_CLASSES_PER_DOUBLING = 4


@dataclass(frozen=True)
class Objects:
    """`of_op`: for each op, in the total order, the number of its object. `table`: one row per object, by number:
    born and end (positions of its first and last op; end is the number of ops if it is never released), thread (that
    acquired it), size_bytes (of its first request).
    """

    of_op: np.ndarray
    table: pd.DataFrame

    @property
    def ops(self) -> int:
        return len(self.of_op)

    @property
    def threads(self) -> list[int]:
        """All threads that make calls, in the order of their first calls."""
        return [int(thread) for thread in pd.unique(self.table["thread"])]

    def events(self, keep: np.ndarray, end: int) -> int:
        """Number of ops of the kept objects before position `end`."""
        return int(np.count_nonzero(keep[self.of_op[:end]]))

    def groups(self) -> dict[str, np.ndarray]:
        """grouping -> a label for each object: objects of one label are similar."""
        table = self.table
        doublings = np.log2(np.maximum(table["size_bytes"].to_numpy(np.float64), 1))
        life = np.log2((table["end"] - table["born"]).to_numpy(np.float64) + 1).astype(np.int64)
        life[(table["end"] == self.ops).to_numpy()] = -1
        return {
            "thread": table["thread"].to_numpy(np.int64),
            "size": (doublings * SIZE_CLASSES_PER_DOUBLING).astype(np.int64),
            "lifetime": life,
        }


def read_objects(path: Path) -> Objects:
    """The objects of a legal workload file. Raises FormatError."""
    ops = _ops_in_order(read_workload(path))
    call, slot = ops["call"].to_numpy(), ops["slot"].to_numpy()
    number, passed_null = call & calls.ID_MASK, (call & calls.NULL_IN) != 0
    births = calls.ACQUIRES[number] & ((calls.RELEASE_KIND[number] == calls.NOTHING) | passed_null)
    nothing = slot == NO_SLOT
    of_op = _object_of_each_op(births & ~nothing, nothing, slot)
    first = np.flatnonzero(births | nothing)
    last: np.ndarray = np.zeros(len(first), np.int64)
    last[of_op] = np.arange(len(of_op))  # the last value written stays
    # A death releases and hands out nothing.
    dies = (calls.RELEASE_KIND[number] == calls.RELEASES) & ~(calls.ACQUIRES[number] & ((call & calls.NULL_OUT) == 0))
    count = np.where(calls.PARAM_KIND[number] == calls.COUNT, ops["param"].to_numpy(), 1)
    size = ops["size"].to_numpy().astype(np.float64) * count
    table = pd.DataFrame(
        {
            "born": first,
            "end": np.where(dies[last], last, len(of_op)),
            "thread": ops["thread"].to_numpy()[first],
            "size_bytes": size[first],
        }
    )
    return Objects(of_op, table)


def _ops_in_order(workload: Workload) -> pd.DataFrame:
    """All threads' ops in the total order, with a column `thread`."""
    schedule = workload.schedule()
    runs = schedule["ops"].to_numpy().astype(np.int64)
    thread = np.repeat(schedule["thread"].to_numpy().astype(np.int64), runs)
    ops = pd.concat([workload.ops_of(number) for number in range(workload.threads)], ignore_index=True)
    # The k-th op of all threads' streams, concatenated, belongs at the place of the k-th smallest thread.
    place: np.ndarray = np.empty(len(thread), np.int64)
    place[np.argsort(thread, kind="stable")] = np.arange(len(thread))
    return ops.iloc[place].reset_index(drop=True).assign(thread=thread)


def _object_of_each_op(births: np.ndarray, nothing: np.ndarray, slot: np.ndarray) -> np.ndarray:
    """The number of each op's object: the last object born in its slot up to this op."""
    numbers = np.cumsum(births | nothing) - 1
    by_slot = np.argsort(slot, kind="stable")
    born = np.where(births, numbers, -1)[by_slot]
    # A slot's first op is a birth, so no number is carried over from another slot. Numbers rise only within a slot, so
    # places, not numbers, are accumulated.
    at = np.maximum.accumulate(np.where(born >= 0, np.arange(len(born)), 0))
    of_op: np.ndarray = np.empty(len(born), np.int64)
    of_op[by_slot] = born[at]
    of_op[nothing] = numbers[nothing]
    return of_op
