# SPDX-License-Identifier: MIT
"""Events drawn from distributions, window by window, as a legal history.

A window's births are drawn with their sizes, and each with an age. The number of live objects after it is the
profile's, so older objects are released early or late: first those that are due, and where their bytes are off, larger
or smaller ones. Time is bytes allocated, as in the profile's lifetimes. Memory: live objects and one part of a window.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from heaptape.synth.distributions import AGES, Distributions

PART_BIRTHS = 1 << 18  # a window is drawn in parts of this many births
TURN = 32  # births in a row by one thread
STEPS = 10  # of the search for releases with the right bytes
CHOICE = 8  # candidates for each release of an older object
LARGEST = 64  # and this many of the largest
NEAR_ENOUGH = 0.01  # of live bytes
LEAST_BIRTHS = 4096  # in a stretch, and
LEAST_OF_LIVE = 1 / 8  # of the live objects
LARGE = 0.02  # of the most live bytes: live bytes determine the lives of such objects, unless these are short
TOUCHED_MIN_BYTES = 8 << 10
ACQUIRE, MOVE, RELEASE, NOTHING = range(4)
_PLACE, _SIZE, _DUE, _CALL, _THREAD, _BORN, _CHAIN, _MOVED, _FIRST = range(9)  # columns of live objects
_COLUMNS = 9


@dataclass(frozen=True)
class Events:
    """Events in order. `kind`: ACQUIRE, MOVE, RELEASE or NOTHING (a call without an object); `call`: the number of the
    call that acquired the object at its birth; `place`: the object, `to`: its place after a move. Places are numbers
    from 1 on, and none is used twice. `size_bytes`: of the request; for a RELEASE the number of touched OS pages plus
    1, or 0 where that is not known.
    """

    kind: np.ndarray
    call: np.ndarray
    thread: np.ndarray
    place: np.ndarray
    to: np.ndarray
    size_bytes: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)


def events(of: Distributions, ops: int, seed: int) -> Iterator[Events]:
    """The whole workload, of about `ops` ops: births and heap are scaled, the heap never beyond the profile's."""
    drawing, scale = _Drawing(of, ops, seed), ops / of.ops
    heap = min(scale, 1.0)
    objects = bytes_ = 0.0
    for births, others, live, live_bytes in _stretches(of, scale):
        parts = max(int(births.sum() * scale / PART_BIRTHS), 1)
        for share in np.arange(1, parts + 1) / parts:
            target = heap * (objects + share * (live - objects)), heap * (bytes_ + share * (live_bytes - bytes_))
            yield drawing.part(births * scale / parts, others * scale / parts, target)
        objects, bytes_ = live, live_bytes


def _stretches(of: Distributions, scale: float) -> Iterator[tuple[np.ndarray, float, float, float]]:
    """Windows, merged until they are worth a pass over the live heap; one ends at the highest heap. Each with births,
    calls without an object, and objects and bytes that are live after it.
    """
    windows = of.windows
    highest = int(np.argmax(windows.live_bytes)) if len(windows.live_bytes) else 0
    births, others = np.zeros(len(of.kinds.births)), 0.0
    for number, row in enumerate(windows.births):
        births, others = births + row, others + float(windows.others[number])
        least = max(LEAST_BIRTHS, LEAST_OF_LIVE * windows.live_objects[number] * min(scale, 1.0))
        if births.sum() * scale >= least or number in (highest, len(windows.births) - 1):
            yield births, others, float(windows.live_objects[number]), float(windows.live_bytes[number])
            births, others = np.zeros(len(births)), 0.0


class _Live:
    """Live objects, a row for each column and a column for each object, in no order."""

    def __init__(self) -> None:
        self._room = np.zeros((_COLUMNS, 1024))
        self.count, self.bytes = 0, 0.0

    @property
    def table(self) -> np.ndarray:
        """The objects; to be changed only by `update`."""
        return self._room[:, : self.count]

    def mean_below(self, most: float) -> float:
        """Mean bytes of the objects that are smaller than `most`."""
        size = self.table[_SIZE]
        small = size < most
        return float(size.sum(where=small) / max(int(small.sum()), 1))

    def add(self, columns: np.ndarray) -> None:
        end = self.count + columns.shape[1]
        if end > self._room.shape[1]:
            self._room = np.concatenate([self.table, np.zeros((_COLUMNS, end))], axis=1)
        self._room[:, self.count : end] = columns
        self.count, self.bytes = end, self.bytes + float(columns[_SIZE].sum())

    def update(self, which: np.ndarray, columns: np.ndarray) -> None:
        self.bytes += float(columns[_SIZE].sum() - self._room[_SIZE, which].sum())
        self._room[:, which] = columns

    def remove(self, which: np.ndarray) -> None:
        """Removes objects; the last ones move to their places."""
        self.bytes -= float(self._room[_SIZE, which].sum())
        end = self.count - len(which)
        tail = np.setdiff1d(np.arange(end, self.count), which, assume_unique=True)
        kept = which < end
        self._room[:, which[kept]] = self._room[:, tail]
        self.count = end


class _Drawing:
    """State that continues from part to part."""

    def __init__(self, of: Distributions, ops: int, seed: int) -> None:
        self._of = of
        self._random = np.random.default_rng(seed)
        self._live, self._clock, self._next_place, self._owed_others = _Live(), 0.0, 1, 0.0
        self._ages_left = np.zeros(0)
        self._large = max(LARGE * float(of.windows.live_bytes.max(initial=0)), TOUCHED_MIN_BYTES)
        self._end = float(of.kinds.births @ of.kinds.size_bytes) * ops / of.ops
        # Fraction of a kind's next birth that is due: random, so that kinds are not born in the same parts.
        self._owed = self._random.random(len(of.kinds.births))
        self._ages = np.cumsum(of.ages, axis=1) + np.arange(len(of.ages))[:, None]
        pairs = of.pairs[np.lexsort((of.pairs[:, 1], of.pairs[:, 0]))]
        self._acquirers, rank = np.unique(pairs[:, 0], return_inverse=True)
        self._releasers = pairs[:, 1]
        acquired = np.bincount(rank, pairs[:, 2])
        self._share_of_acquirer = acquired / acquired.sum()
        running = np.cumsum(pairs[:, 2]) - np.concatenate([[0], np.cumsum(acquired)])[rank]
        self._of_pair = rank + running / acquired[rank]

    def part(self, births: np.ndarray, others: float, target: tuple[float, float]) -> Events:
        """Draws a part. `births`: of each kind; `others`: calls without an object; `target`: live objects and bytes
        after it.
        """
        born, live, live_bytes = self._births(births), *target
        sizes = born[_SIZE]
        after = self._clock + np.cumsum(sizes)
        end = float(after[-1]) if len(after) else self._clock
        self._exchange(born, end, target)
        dies = born[_DUE] <= end
        born[_DUE, ~dies & (sizes >= self._large)] = np.inf
        count = max(self._live.count + int((~dies).sum()) - round(live), 0)
        off = self._live.bytes + float(sizes[~dies].sum()) - live_bytes
        large = self._large_ones(off - count * self._live.mean_below(self._large))
        off -= float(self._live.table[_SIZE, large].sum())
        goes = np.append(large, self._chosen(max(count - len(large), 0), off, live_bytes))
        chained = np.setdiff1d(np.flatnonzero(self._live.table[_CHAIN]), goes, assume_unique=True)
        old = np.concatenate([goes, chained])
        table = np.concatenate([self._live.table[:, old], born], axis=1)
        ends = np.concatenate([np.ones(len(goes), bool), np.zeros(len(chained), bool), dies])
        begin_key = np.concatenate([np.zeros(len(old)), np.arange(1.0, len(sizes) + 1)])
        end_key = np.where(ends, self._end_keys(table, begin_key, after), len(sizes) + 1.0)
        made = [_rows(begin_key[len(old) :], ACQUIRE, born[_CALL], born[_THREAD], born[_PLACE], 0, sizes)]
        made.append(self._moves(table, begin_key, end_key, np.where(ends, 1.0, self._age_share(table, end))))
        made += [self._released(table[:, ends], end_key[ends]), self._other(others, len(sizes))]
        self._live.update(chained, table[:, len(goes) : len(old)])
        self._live.remove(goes)
        self._live.add(table[:, len(old) :][:, ~dies])
        self._clock = end
        columns = np.concatenate(made, axis=1)
        columns = columns[:, np.argsort(columns[0], kind="stable")]
        return Events(*columns[1:].astype(np.int64))

    def _exchange(self, born: np.ndarray, end: float, target: tuple[float, float]) -> None:
        """Adjusts ages, which are drawn for the whole run. Where too few objects would be live after a part, some of
        its own lose their ends; where too many would be live, later objects get these ages.
        """
        live, live_bytes = target
        sizes, dies = born[_SIZE], born[_DUE] <= end
        left_bytes = self._live.bytes + float(sizes[~dies].sum()) - live_bytes
        releases = self._live.count + len(sizes) - round(live) - int(dies.sum())
        due = int((self._live.table[_DUE] <= end).sum())
        if releases < 0:
            own = np.flatnonzero(dies)
            age = born[_DUE, own] - born[_BORN, own]
            given_up = own[_picked(-age, sizes[own], min(-releases, len(own)), -left_bytes, live_bytes)]
            self._ages_left = np.sort(np.append(self._ages_left, born[_DUE, given_up] - born[_BORN, given_up]))
            born[_DUE, given_up] = np.inf
        elif releases > due and len(self._ages_left):
            own = np.flatnonzero(~dies)
            count = min(releases - due, len(own), len(self._ages_left))
            taken = own[_picked(-born[_DUE, own], sizes[own], count, left_bytes, live_bytes)]
            born[_DUE, taken] = born[_BORN, taken] + np.maximum(self._ages_left[:count], sizes[taken])
            self._ages_left = self._ages_left[count:]

    def _other(self, expected: float, births: int) -> np.ndarray:
        """Calls without an object, at random places."""
        self._owed_others += expected
        count = int(self._owed_others)
        self._owed_others -= count
        thread = self._random.choice(self._acquirers, count, p=self._share_of_acquirer)
        return _rows(self._random.random(count) * (births + 1), NOTHING, 0, thread, 0, 0, 0)

    def _births(self, expected: np.ndarray) -> np.ndarray:
        """Columns of new objects, in the order of their births; due: bytes of age or, if never, infinite."""
        kinds = self._of.kinds
        owed = self._owed + expected
        counts = np.floor(owed)
        self._owed = owed - counts
        kind = self._random.permutation(np.repeat(np.arange(len(counts)), counts.astype(np.int64)))
        found = np.zeros((_COLUMNS, len(kind)))
        sizes = kinds.size_bytes[kind].astype(float)
        chain = self._chains(found, sizes)
        before = self._clock + np.cumsum(found[_SIZE]) - found[_SIZE]
        found[_PLACE] = self._places(len(kind))
        found[_DUE] = before + np.maximum(self._age(kind), found[_SIZE])
        found[_CALL], found[_BORN], found[_CHAIN] = kinds.call[kind], before, chain
        turns = len(kind) // TURN + 1
        thread = self._random.choice(self._acquirers, turns, p=self._share_of_acquirer)
        found[_THREAD] = np.repeat(thread, TURN)[: len(kind)]
        return found

    def _chains(self, found: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """The row of chains of each new object, from 1 on; 0: it is never moved. Sets its sizes."""
        shares = np.cumsum(self._of.chains[:, 1])
        chain = np.searchsorted(shares, self._random.random(len(sizes)), "right") + 1
        chain[chain > len(shares)] = 0
        moved = chain > 0
        sizes[moved] = np.maximum(np.rint(self._of.chains[chain[moved] - 1, 2]), 1)
        found[_SIZE] = found[_FIRST] = sizes
        return chain

    def _age(self, kind: np.ndarray) -> np.ndarray:
        """Ages in bytes, uniform over the logarithms within a bucket."""
        bucket = np.searchsorted(self._ages.ravel(), kind + self._random.random(len(kind)), "right") - kind * AGES
        age = np.exp2(bucket - 1 + self._random.random(len(kind))) * self._of.born_share
        return np.where(bucket >= AGES, np.inf, np.where(bucket == 0, 0.0, age))

    def _places(self, count: int) -> np.ndarray:
        self._next_place += count
        return np.arange(self._next_place - count, self._next_place)

    def _chosen(self, count: int, wanted_bytes: float, live_bytes: float) -> np.ndarray:
        """Which older, not large objects are released: `count`, with about `wanted_bytes`, those due first."""
        small = np.flatnonzero(self._live.table[_SIZE] < self._large)
        count = min(count, len(small))
        if count == 0:
            return np.zeros(0, np.int64)
        due, size = self._live.table[_DUE][small], self._live.table[_SIZE][small]
        most = min(CHOICE * count + LARGEST, len(due))
        found = np.arange(len(due))
        if most < len(due):
            found = np.union1d(np.argpartition(due, most - 1)[:most], np.argpartition(size, -LARGEST)[-LARGEST:])
        return small[found[_picked(due[found], size[found], count, wanted_bytes, live_bytes)]]

    def _large_ones(self, off: float) -> np.ndarray:
        """Which large objects are released where `off` bytes too many are live."""
        size = self._live.table[_SIZE]
        found = np.flatnonzero(size >= self._large)
        released = []
        for one in found[np.argsort(-size[found], kind="stable")]:
            if off >= size[one] / 2:
                released.append(int(one))
                off -= size[one]
        return np.array(released, np.int64)

    def _end_keys(self, table: np.ndarray, begin: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Places of releases among births, whose keys are 1, 2, …; releases that are not due are anywhere, in order."""
        births = len(after)
        early = table[_DUE] > (after[-1] if births else -1)
        keys = np.maximum(np.searchsorted(after, table[_DUE], "right"), begin) + 0.5
        spread = np.sort(self._random.random(int(early.sum()))) * (births + 0.5)
        in_order = np.lexsort((table[_PLACE][early], table[_DUE][early]))
        placed = np.empty(len(spread))
        placed[in_order] = spread
        keys[early] = placed
        return keys

    def _age_share(self, table: np.ndarray, now: float) -> np.ndarray:
        """The share of its life that each object has lived at `now`."""
        until = np.where(np.isfinite(table[_DUE]), table[_DUE], max(self._end, now))
        return np.clip((now - table[_BORN]) / np.maximum(until - table[_BORN], 1), 0, 1)

    def _released(self, gone: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Releases; their threads are drawn from the profile's pairs of acquiring and releasing thread."""
        rank = np.searchsorted(self._acquirers, gone[_THREAD])
        pair = np.searchsorted(self._of_pair, rank + self._random.random(len(rank)), "right")
        thread = self._releasers[np.minimum(pair, len(self._releasers) - 1)]
        return _rows(keys, RELEASE, gone[_CALL], thread, gone[_PLACE], 0, self._touched(gone[_SIZE]))

    def _touched(self, sizes: np.ndarray) -> np.ndarray:
        """Touched OS pages, plus 1; 0 for objects that are too small, or where the profile lacks it."""
        least, per_byte = self._of.touched.T
        if not len(least):
            return np.zeros(len(sizes))
        place = np.maximum(np.searchsorted(least, sizes, "right") - 1, 0)
        return np.where(sizes >= TOUCHED_MIN_BYTES, np.rint(sizes * per_byte[place]) + 1, 0)

    def _moves(self, table: np.ndarray, begin: np.ndarray, end: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Reallocs of the table's objects, evenly between birth and release; sizes grow by the same factor each time.
        Changes the places and sizes in the table.
        """
        has = np.flatnonzero(table[_CHAIN] > 0)
        row = table[_CHAIN][has].astype(int) - 1
        moves, _, first, last = self._of.chains[row].T
        count = np.maximum(np.floor(moves * share[has] + 0.5) - table[_MOVED][has], 0).astype(int)
        each = np.repeat(np.arange(len(has)), count)
        number = np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count) + 1
        objects = has[each]
        step = (table[_MOVED][objects] + number) / moves[each]
        sizes = np.maximum(np.rint(first[each] * (last[each] / np.maximum(first[each], 1)) ** step), 1)
        to = self._places(len(each))
        place = np.where(number == 1, table[_PLACE][objects], to - 1)
        keys = begin[objects] + (end[objects] - begin[objects]) * number / (count[each] + 1)
        made = _rows(keys, MOVE, table[_CALL][objects], table[_THREAD][objects], place, to, sizes)
        final = number == count[each]
        table[_PLACE, objects[final]], table[_SIZE, objects[final]] = to[final], sizes[final]
        table[_MOVED, has] += count
        return made


def _picked(first: np.ndarray, size: np.ndarray, count: int, wanted_bytes: float, live_bytes: float) -> np.ndarray:
    """Picks `count` objects with about `wanted_bytes`, preferring the least of `first`."""
    by_first, by_size = _ranks(first), _ranks(size)
    low, high, power = -8.0, 8.0, 0.0
    chosen = np.arange(len(size))
    for _ in range(STEPS if 0 < count < len(size) else 0):
        chosen = np.argpartition(by_first + power * by_size, count - 1)[:count]
        off = float(size[chosen].sum()) - wanted_bytes
        if abs(off) <= NEAR_ENOUGH * live_bytes:
            break
        low, high = (power, high) if off > 0 else (low, power)
        power = (low + high) / 2
    return chosen[:count]


def _ranks(values: np.ndarray) -> np.ndarray:
    """The values' ranks, 0 to 1."""
    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values)) / max(len(values), 1)
    return ranks


def _rows(keys: np.ndarray, kind: int, *columns: "np.ndarray | int") -> np.ndarray:
    """Columns of events: key, kind, call, thread, place, to, size."""
    made = np.zeros((2 + len(columns), len(keys)))
    made[0], made[1] = keys, kind
    for number, column in enumerate(columns):
        made[2 + number] = column
    return made
