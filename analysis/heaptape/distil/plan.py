# SPDX-License-Identifier: MIT
"""What a distillate keeps: objects for memory, windows for time, within a number of ops.

Objects that are live when their size class is at its high are there for the memory, and are the heap on which windows
are counted; the objects that the ops of windows and their warm-ups touch come in addition. What the highs need at least
is the floor: no smaller distillate can tell the memory. Which objects these are, heaptape-convert finds.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd

from heaptape.distil import select

Kind = Literal["time", "memory", "both"]
# Of the ops, for the highs; the windows have the rest, and no less than that where the floor is higher.
SHARE_OF_HIGHS = {"time": 0.3, "memory": 1.0, "both": 0.5}
MOST_SEGMENTS = 64
FEWEST_WINDOWS, MOST_WINDOWS = 8, 200
OPS_A_WINDOW = 1500  # with its warm-up and what else its objects do: more ops make more windows, then longer ones
WARM_UP = 4  # times a window's length: docs/use/DISTILLATION.md has what other depths give
ROUNDS = 6  # of fitting the windows' length
LARGE_BYTES = 32768  # from here on objects are few and matter one by one
ON = " on "
COLUMNS = ("begin", "counted", "end", "weight")

# Which objects windows need (convert/distil/plan.h): those that they touch, or all that are live when they begin.
Heap = Literal["touched", "live"]

# heaptape-convert's plan of a distillate -> ops that it has
Count = Callable[[Mapping], int]


@dataclass(frozen=True, eq=False)
class Plan:
    """`windows`: one row each, begin, counted, end (positions), weight, by position; may be empty. `segments`: parts of
    the history of whose highs it has the objects, 0: none. `ops`: its own; `floor`: of the highs of the whole history.
    `sampled`: how the windows were chosen.
    """

    windows: pd.DataFrame
    segments: int
    ops: int
    floor: int
    heap: Heap = "touched"
    sampled: select.Sampled | None = None

    def rules(self) -> dict:
        return _rules(self.segments, self.windows, self.heap)

    def left_out(self, cells: "Cells", families: Mapping[str, str]) -> pd.DataFrame | None:
        """select.left_out of its windows, which were chosen by these cells; None: it has no windows. `families`: label
        -> allocator.
        """
        if not self.sampled:
            return None
        of_columns = {name: families[name.split(ON)[1]] for name in [*cells.counts, *cells.beside] if ON in name}
        return select.left_out(cells.counts, cells.edges, self.sampled, of_columns, cells.beside)


@dataclass(frozen=True, eq=False)
class _Tried:
    windows: pd.DataFrame
    sampled: select.Sampled
    ops: int


def _rules(segments: int, windows: pd.DataFrame, heap: Heap = "touched") -> dict:
    rows = [[*map(int, row[:3]), float(row[3])] for row in windows[list(COLUMNS)].itertuples(index=False)]
    large = {"large": {"bytes": LARGE_BYTES, "share": 1.0}} if segments else {}
    return {"windows": rows, "heap": heap, "highs": segments} | large


@dataclass(frozen=True, eq=False)
class Cells:
    """The workload, cut into pieces in which everything was counted: `counts`, one row each, by which windows are
    chosen; `edges`, from 0. `beside`: what else was counted.
    """

    counts: pd.DataFrame
    edges: np.ndarray
    beside: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def length(self) -> int:
        return int(self.edges[1] - self.edges[0])


def column(figure: str, label: str) -> str:
    """Of Cells: a figure on an allocator."""
    return f"{figure}{ON}{label}"


class Planner:
    """Plans for one workload, as many as are asked for."""

    def __init__(self, cells: Cells, count: Count, kind: Kind, seed: int) -> None:
        self._cells, self._count, self._kind, self._seed = cells, count, kind, seed
        self._none = pd.DataFrame(columns=COLUMNS)
        self._ops_of_highs: dict[int, int] = {0: 0}
        self.floor = self._highs(1)

    def plan(self, ops: int) -> Plan:
        """Of so many ops as near as can be; more, where the floor and FEWEST_WINDOWS need more."""
        segments = self._segments(ops * SHARE_OF_HIGHS[self._kind])
        if self._kind == "memory":
            return Plan(self._none, segments, self._highs(segments), self.floor)
        room = self._room(segments, ops)
        tried = self._fitting_windows(segments, room)
        on_live = self._count(_rules(segments, tried.windows, "live"))
        if on_live <= self._highs(segments) + room:
            return Plan(tried.windows, segments, on_live, self.floor, "live", tried.sampled)
        return Plan(tried.windows, segments, tried.ops, self.floor, "touched", tried.sampled)

    def _highs(self, segments: int) -> int:
        if segments not in self._ops_of_highs:
            self._ops_of_highs[segments] = self._count(_rules(segments, self._none))
        return self._ops_of_highs[segments]

    def _segments(self, ops: float) -> int:
        """As many as so many ops are enough for; one at least, but for time."""
        if self._kind == "time" and self.floor > ops:
            return 0
        segments = 1
        while segments < MOST_SEGMENTS and self._highs(2 * segments) <= ops:
            segments *= 2
        return segments

    def _room(self, segments: int, ops: int) -> int:
        """Ops of the windows: they have their share, whatever the highs need."""
        return max(ops - self._highs(segments), round(ops * (1 - SHARE_OF_HIGHS[self._kind])))

    def _fitting_windows(self, segments: int, room: int) -> _Tried:
        """The longest that fit, or the shortest."""
        tried = list(self._tried(segments, room, int(np.clip(room / OPS_A_WINDOW, FEWEST_WINDOWS, MOST_WINDOWS))))
        return next((one for one in reversed(tried) if one.ops <= self._highs(segments) + room), tried[0])

    def _tried(self, segments: int, room: int, wanted: int) -> Iterator[_Tried]:
        """Windows of one cell, then longer ones, each by what those before left, up to the first that are too long."""
        sampled = select.Sampled(1, wanted, self._seed)
        for _ in range(ROUNDS):
            windows = self._windows(sampled)
            ops = self._count(_rules(segments, windows))
            yield _Tried(windows, sampled, ops)
            longer = int(sampled.per_window * min(room / max(ops - self._highs(segments), 1), 64))
            if longer <= sampled.per_window:
                return
            sampled = replace(sampled, per_window=longer)

    def _windows(self, sampled: select.Sampled) -> pd.DataFrame:
        """With warm-ups, none of which begins before the end of the window before it."""
        chosen = select.choose(self._cells.counts, self._cells.edges, sampled)
        before = np.concatenate([[0], chosen.end[:-1]])
        begin = np.maximum(chosen.begin - WARM_UP * sampled.per_window * self._cells.length, before)
        return pd.DataFrame(dict(zip(COLUMNS, (begin, chosen.begin, chosen.end, chosen.weight), strict=True)))
