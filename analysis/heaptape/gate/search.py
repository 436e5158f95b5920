# SPDX-License-Identifier: MIT
"""Delta debugging over pieces of a history: which pieces are tried, from the largest cut to the smallest.

Each step makes smaller candidates from the best one so far, and accepts the first that holds. Steps that cut along
meaningful properties (time, threads, sizes, lifetimes) come before steps that cut anywhere (samples, single objects).
The condition need not be monotone: a step that fails is tried again after other steps have succeeded.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from heaptape.gate.candidates import Candidate
from heaptape.gate.objects import Objects

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
