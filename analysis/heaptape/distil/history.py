"""The history of a workload, as its distillates are chosen from it: which objects are large, live at highs, touched.

What follows is in docs/DISTILLATION.md: the live heap of some positions costs too much and tells too little; the
objects that are live when their size class is at its high make most of what an allocator holds.
"""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import numpy as np

from heaptape.gate.objects import SIZE_CLASSES_PER_DOUBLING, Objects, read_objects

LARGE_BYTES = 32768  # from here on objects are few and matter one by one


class History:
    """Of a workload file that is legal. A *choice* is a mask over its objects. Memory: some 100 bytes per op."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        table = objects.table
        self._born, self._end = table["born"].to_numpy(np.int64), table["end"].to_numpy(np.int64)
        self._bytes = table["largest_bytes"].to_numpy(np.float64)

    @classmethod
    def of(cls, workload: Path) -> "History":
        """Raises FormatError."""
        return cls(read_objects(workload))

    @property
    def ops(self) -> int:
        """Of the workload."""
        return self.objects.ops

    @cached_property
    def _ops_of_object(self) -> np.ndarray:
        return np.bincount(self.objects.of_op, minlength=len(self._born))

    @cached_property
    def _classes(self) -> list[np.ndarray]:
        """Numbers of the objects of each size class; large objects are in none."""
        of = (np.log2(np.maximum(self._bytes, 1)) * SIZE_CLASSES_PER_DOUBLING).astype(np.int64)
        of[self.large()] = -1
        order = np.argsort(of, kind="stable")
        edges = np.flatnonzero(np.diff(of[order])) + 1
        return [part for part in np.split(order, edges) if len(part) and of[part[0]] >= 0]

    def ops_of(self, choice: np.ndarray) -> int:
        """Ops of the objects chosen."""
        return int(self._ops_of_object[choice].sum())

    def large(self) -> np.ndarray:
        """The objects that are, or become, large."""
        return self._bytes >= LARGE_BYTES

    def touched(self, ranges: Iterable[tuple[int, int]]) -> np.ndarray:
        """The objects of all ops in ranges of positions."""
        choice = np.zeros(len(self._born), bool)
        for begin, end in ranges:
            choice[self.objects.of_op[begin:end]] = True
        return choice

    def at_highs(self, segments: int) -> np.ndarray:
        """The objects that are live when the live bytes of their size class are highest, in one of `segments` equal
        parts of the history; those that are live when all live bytes are; and the large ones.
        """
        every = np.arange(len(self._born))
        choice = self.large() | self._live_at(every, self._highs(every, 1))
        for members in self._classes:
            choice[members] |= self._live_at(members, self._highs(members, segments))
        return choice

    def _highs(self, members: np.ndarray, segments: int) -> np.ndarray:
        """Positions, rising, after which live bytes of these objects are highest: one of each segment in which any is
        born or dies.
        """
        died = members[self._end[members] < self.ops]
        at = np.concatenate([self._born[members], self._end[died]])
        order = np.argsort(at, kind="stable")
        at, live = at[order], np.cumsum(np.concatenate([self._bytes[members], -self._bytes[died]])[order])
        first = np.flatnonzero(np.diff(at * segments // max(self.ops, 1), prepend=-1))
        parts = np.split(np.arange(len(at)), first[1:])
        return np.array([at[part[live[part].argmax()]] for part in parts if len(part)], np.int64)

    def _live_at(self, members: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Is each of these live after the op at any of the positions (rising)?"""
        if not len(positions):
            return np.zeros(len(members), bool)
        after = np.searchsorted(positions, self._born[members])
        return (after < len(positions)) & (positions[np.minimum(after, len(positions) - 1)] < self._end[members])
