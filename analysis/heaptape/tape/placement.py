# SPDX-License-Identifier: MIT
"""Achievable memory: a placement of all objects of a workload that never moves one, as tight as known heuristics find.

Lifetimes are an instance of dynamic storage allocation: objects that live at the same time must not overlap, and the
greatest end is to be small. The least possible is NP-hard to find, and lies between the peak of live bytes and this
bound. The heuristics are first-fit and best-fit in order of time, which an allocator without headers, size classes and
caches could run online, and for few objects first-fit in order of decreasing size, lifetime and their product, which
know the future. A realloc ends one object and begins another at the same moment.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heaptape.tape import calls
from heaptape.tape.workload_format import NO_SLOT, read_workload

GRAIN = 16  # bytes to which sizes are rounded up, and the alignment of malloc
# More objects than this are placed in order of time only: the other orders compare each with all that are placed.
OFFLINE_OBJECTS = 10_000
ADDRESS_BITS = 48


@dataclass(frozen=True)
class Lifetimes:
    """One object per place: it lives from op `lower` until before op `upper`, and takes `size` bytes."""

    lower: np.ndarray
    upper: np.ndarray
    size: np.ndarray

    def peak(self) -> int:
        """The most bytes that live at a moment."""
        places = np.concatenate((self.upper, self.lower))
        changes = np.concatenate((-self.size, self.size))
        return int(changes[np.argsort(places, kind="stable")].cumsum().max(initial=0))


@dataclass(frozen=True)
class Placement:
    """`offset` of each object, the `bytes` that all take together, and the heuristic that found it."""

    offset: np.ndarray
    bytes: int
    heuristic: str


def lifetimes(path: Path) -> Lifetimes:
    """Of a workload's objects, with their requested sizes; those with an alignment beyond GRAIN have it added. Raises
    FormatError.
    """
    workload = read_workload(path)
    ops = workload.ops_in_order()
    call, slot = ops["call"].to_numpy(), ops["slot"].to_numpy()
    number = call & calls.ID_MASK
    begins = calls.ACQUIRES[number] & ((call & calls.NULL_OUT) == 0)
    ends = (calls.RELEASE_KIND[number] == calls.RELEASES) & ((call & calls.NULL_IN) == 0)
    at = np.flatnonzero((begins | ends) & (slot != NO_SLOT) & (ops["apart"].to_numpy() == 0))
    at = at[np.argsort(slot[at], kind="stable")]
    # An object ends at the next op of its slot that begins or ends one.
    last = np.append(slot[at][1:] != slot[at][:-1], True)
    until = np.where(last, len(ops), np.append(at[1:], len(ops)))
    at, until = at[begins[at]], until[begins[at]]
    order = np.argsort(at)
    at, until = at[order], until[order]
    size, param = (ops[name].to_numpy()[at].astype(np.int64) for name in ("size", "param"))
    kind = calls.PARAM_KIND[number[at]]
    size = np.where(kind == calls.COUNT, size * np.maximum(param, 1), size)  # none given: 1
    return Lifetimes(at, until, size + np.where((kind == calls.ALIGN) & (param > GRAIN), param - GRAIN, 0))


def best(found: Lifetimes, offline_objects: int = OFFLINE_OBJECTS) -> Placement:
    """The tightest of all heuristics' placements."""
    grains = np.maximum(1, -(-found.size // GRAIN))
    tried = [_in_time("best-fit", found, grains, _BestFit), _in_time("first-fit", found, grains, _FirstFit)]
    if len(grains) <= offline_objects:
        life = found.upper - found.lower
        for name, key in (("size", grains), ("lifetime", life), ("size x lifetime", grains * life)):
            tried.append(_by_order(f"first-fit by decreasing {name}", found, grains, np.argsort(-key, kind="stable")))
    return min(tried, key=lambda one: one.bytes)


class _Fit:
    """Free ranges below `end`, joined with their free neighbours. Subclasses choose one."""

    def __init__(self) -> None:
        self.end = 0
        self.size_at: dict[int, int] = {}
        self.begin_of: dict[int, int] = {}  # end -> begin

    def choose(self, size: int) -> int | None:
        raise NotImplementedError

    def insert(self, begin: int, size: int) -> None:
        raise NotImplementedError

    def remove(self, begin: int, size: int) -> None:
        raise NotImplementedError

    def take(self, size: int) -> int:
        begin = self.choose(size)
        if begin is None:  # what is free at the end grows
            begin = self.begin_of.get(self.end, self.end)
            if begin < self.end:
                self._drop(begin)
            self.end = begin + size
            return begin
        room = self._drop(begin)
        if room > size:
            self._add(begin + size, room - size)
        return begin

    def give(self, begin: int, size: int) -> None:
        after = self.size_at.get(begin + size)
        if after is not None:
            size += self._drop(begin + size)
        before = self.begin_of.get(begin)
        if before is not None:
            size += self._drop(before)
            begin = before
        self._add(begin, size)

    def _add(self, begin: int, size: int) -> None:
        self.size_at[begin], self.begin_of[begin + size] = size, begin
        self.insert(begin, size)

    def _drop(self, begin: int) -> int:
        size = self.size_at.pop(begin)
        del self.begin_of[begin + size]
        self.remove(begin, size)
        return size


class _BestFit(_Fit):
    """The smallest range that fits, of these the lowest."""

    def __init__(self) -> None:
        super().__init__()
        self.sorted: list[int] = []

    def choose(self, size: int) -> int | None:
        at = bisect_left(self.sorted, size << ADDRESS_BITS)
        return self.sorted[at] & ((1 << ADDRESS_BITS) - 1) if at < len(self.sorted) else None

    def insert(self, begin: int, size: int) -> None:
        insort(self.sorted, size << ADDRESS_BITS | begin)

    def remove(self, begin: int, size: int) -> None:
        del self.sorted[bisect_left(self.sorted, size << ADDRESS_BITS | begin)]


class _FirstFit(_Fit):
    """The lowest range that fits. Ranges are kept by the power of two below their size, each in order of addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.of_power: list[list[int]] = [[] for _ in range(ADDRESS_BITS)]

    def choose(self, size: int) -> int | None:
        power = size.bit_length()
        lowest = min((ranges[0] for ranges in self.of_power[power + 1 :] if ranges), default=None)
        for begin in self.of_power[power]:
            if lowest is not None and begin > lowest:
                break
            if self.size_at[begin] >= size:
                return begin
        return lowest

    def insert(self, begin: int, size: int) -> None:
        insort(self.of_power[size.bit_length()], begin)

    def remove(self, begin: int, size: int) -> None:
        ranges = self.of_power[size.bit_length()]
        del ranges[bisect_left(ranges, begin)]


def _in_time(name: str, found: Lifetimes, grains: np.ndarray, kind: Callable[[], _Fit]) -> Placement:
    fit, count = kind(), len(grains)
    sizes, offsets = grains.tolist(), [0] * count
    # At one op, what ends goes first.
    moments = np.concatenate((found.upper, found.lower))
    for which in np.argsort(moments, kind="stable").tolist():
        if which < count:
            fit.give(offsets[which], sizes[which])
        else:
            offsets[which - count] = fit.take(sizes[which - count])
    return Placement(GRAIN * np.array(offsets, np.int64), GRAIN * fit.end, name)


def _by_order(name: str, found: Lifetimes, grains: np.ndarray, order: Sequence[int] | np.ndarray) -> Placement:
    """Each object at the lowest place that no object placed before it takes within its lifetime."""
    count = len(grains)
    lower, upper, begin, end = (np.zeros(count, np.int64) for _ in range(4))
    offset = np.zeros(count, np.int64)
    for placed, which in enumerate(order):
        together = (lower[:placed] < found.upper[which]) & (upper[:placed] > found.lower[which])
        begins, ends = begin[:placed][together], end[:placed][together]
        by_address = np.argsort(begins)
        tops = np.maximum.accumulate(np.append(0, ends[by_address]))
        gaps = np.append(begins[by_address], np.iinfo(np.int64).max) - tops
        offset[which] = tops[np.argmax(gaps >= grains[which])]
        lower[placed], upper[placed] = found.lower[which], found.upper[which]
        begin[placed], end[placed] = offset[which], offset[which] + grains[which]
    return Placement(GRAIN * offset, GRAIN * int(end.max(initial=0)), name)
