# SPDX-License-Identifier: MIT
"""Delta debugging over pieces of a history: which pieces are tried, from the largest cut to the smallest.

A piece has some of the workload's objects, numbered as by `heaptape-convert reduce`, up to a position, on fewer
threads. Each is a legal history.

Each step makes smaller candidates from the best one so far, and accepts the first that holds. Steps that cut along
meaningful properties (time, threads, sizes, lifetimes) come before steps that cut anywhere (samples, single objects).
The condition need not be monotone: a step that fails is tried again after other steps have succeeded.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import convert_json
from heaptape.tape import calls
from heaptape.tape.workload_format import NO_SLOT, read_workload

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
    ops = read_workload(path).ops_in_order()
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
    count = np.where(calls.PARAM_KIND[number] == calls.COUNT, np.maximum(ops["param"].to_numpy(), 1), 1)
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


@dataclass(frozen=True, eq=False)
class Candidate:
    """`keep`: for each object, does it stay? `end`: position of the first op that is left out, with all later ones.
    `joined`: threads whose calls thread 0 makes.
    """

    keep: np.ndarray
    end: int
    joined: frozenset[int] = frozenset()

    def key(self) -> tuple:
        """Equal for equal candidates."""
        return (hashlib.sha256(np.packbits(self.keep).tobytes()).digest(), self.end, self.joined)

    def without(self, objects: np.ndarray) -> "Candidate":
        """The same without `objects` (a mask, or numbers)."""
        keep = self.keep.copy()
        keep[objects] = False
        return replace(self, keep=keep)

    def only(self, objects: np.ndarray) -> "Candidate":
        """The same, restricted to `objects` (a mask)."""
        return replace(self, keep=self.keep & objects)


def whole_history(objects: Objects) -> Candidate:
    return Candidate(np.ones(len(objects.table), bool), objects.ops)


def write_candidate(workload: Path, candidate: Candidate, tape: Path, home: Home) -> int:
    """Writes the candidate as a trace, and returns its number of events. Raises HeaptapeError."""
    kept = tape.with_suffix(".kept")
    arguments = ["--keep", str(kept), "--end", str(candidate.end)]
    arguments += [word for thread in sorted(candidate.joined) for word in ("--join", str(thread))]
    try:
        born = candidate.keep.astype(np.uint8)
        try:
            kept.write_bytes(born.tobytes())
        except OSError as error:
            raise HeaptapeError(f"{kept}: can't be written: {error.strerror}") from error
        done = convert_json(home, "reduce", str(workload), "-o", str(tape), *arguments)
    finally:
        kept.unlink(missing_ok=True)
    return int(done["events"])


# Returns the first of the candidates that holds, with its number; None: none holds.
Find = Callable[[Iterable[Candidate]], tuple[int, Candidate] | None]

CUTS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 7 / 8)  # shares to keep of the present piece, the shortest first
SAMPLES = (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1 / 2)
ALONE = 6  # groups that are tried alone, those with most events


class Search:
    """`best` is the smallest candidate so far that holds. `run` may be ended by an exception of `find`."""

    def __init__(self, objects: Objects, best: Candidate, find: Find) -> None:
        self.best = best
        self._objects, self._find = objects, find
        self._groups = objects.groups()
        self._random = np.random.default_rng(0)  # the same candidates each time

    def run(self) -> None:
        """Repeats all steps until none of them makes the candidate smaller."""
        before = None
        while before != self.size(self.best):
            before = self.size(self.best)
            self._shorten(self._ends)
            self._shorten(self._begins)
            self._join_threads()
            for labels in self._groups.values():
                self._drop_groups(labels)
            self._shorten(self._samples)
            self._sweep(list(np.array_split(self._kept(), len(self._kept()))))

    def size(self, candidate: Candidate) -> tuple[int, int]:
        """The size to be minimised: events, then threads."""
        return self._objects.events(candidate.keep, candidate.end), -len(candidate.joined)

    def _kept(self) -> np.ndarray:
        return np.flatnonzero(self.best.keep)

    def _take(self, candidates: Iterable[Candidate]) -> int | None:
        """Accepts the first candidate that is smaller and holds; returns its number among the candidates."""
        numbers: list[int] = []

        def smaller() -> Iterator[Candidate]:
            for number, candidate in enumerate(candidates):
                size = self.size(candidate)
                if size[0] > 0 and size < self.size(self.best):
                    numbers.append(number)
                    yield candidate

        found = self._find(smaller())
        if found is None:
            return None
        self.best = found[1]
        return numbers[found[0]]

    def _shorten(self, cuts: Callable[[], Iterable[Candidate]]) -> None:
        while self._take(cuts()) is not None:
            pass

    def _places(self) -> np.ndarray:
        """Positions of the kept ops."""
        return np.flatnonzero(self.best.keep[self._objects.of_op[: self.best.end]])

    def _ends(self) -> Iterator[Candidate]:
        places, best = self._places(), self.best
        born = self._objects.table["born"].to_numpy()
        for cut in CUTS:
            end = int(places[int(cut * len(places))])
            yield replace(best.only(born < end), end=end)

    def _begins(self) -> Iterator[Candidate]:
        """Later beginnings: objects released before are left out; objects live there are born in their order."""
        places, best = self._places(), self.best
        ends = self._objects.table["end"].to_numpy()
        for cut in CUTS:
            yield best.only(ends >= places[int((1 - cut) * (len(places) - 1))])

    def _samples(self) -> Iterator[Candidate]:
        best = self.best
        luck = self._random.random(len(best.keep))
        for share in SAMPLES:
            yield best.only(luck < share)

    def _join_threads(self) -> None:
        others = [thread for thread in self._objects.threads if thread not in self.best.joined | {0}]
        best = self.best
        if others and self._take([replace(best, joined=best.joined | set(others))]) is None:
            for thread in others:
                self._take([replace(self.best, joined=self.best.joined | {thread})])

    def _drop_groups(self, labels: np.ndarray) -> None:
        """Leaves out objects, all of one label together."""
        kept = self._kept()
        names, which, counts = np.unique(labels[kept], return_inverse=True, return_counts=True)
        if len(names) < 2:
            return
        best = self.best
        largest = np.argsort(-counts, kind="stable")[:ALONE]
        if self._take(best.only(labels == names[one]) for one in largest) is None:
            self._sweep([kept[which == number] for number in range(len(names))])

    def _sweep(self, parts: Sequence[np.ndarray]) -> None:
        """Leaves out as many parts as possible: halves of them, then quarters, down to single parts."""
        rest, pieces = list(parts), 2
        while len(rest) > 1:
            pieces = min(pieces, len(rest))
            chunks = [rest[a:b] for a, b in _halves(len(rest), pieces)]
            rest = [part for chunk in self._without_each(chunks) for part in chunk]
            if pieces >= len(rest):
                return
            pieces *= 2

    def _without_each(self, chunks: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
        """Tries to leave out each chunk in turn; returns the chunks that are needed."""
        needed: list[list[np.ndarray]] = []
        while chunks:
            best = self.best
            taken = self._take(best.without(np.concatenate(chunk)) for chunk in chunks)
            if taken is None:
                return needed + chunks
            needed += chunks[:taken]
            chunks = chunks[taken + 1 :]
        return needed


def _halves(count: int, pieces: int) -> list[tuple[int, int]]:
    """Bounds of `pieces` pieces, as equal as possible."""
    bounds = [count * piece // pieces for piece in range(pieces + 1)]
    return list(zip(bounds, bounds[1:], strict=False))
