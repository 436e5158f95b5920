# SPDX-License-Identifier: MIT
"""What a distillate keeps, within a number of ops: objects for memory, windows for time.

Objects that are live when their size class is at its high are kept for memory, and are the heap on which windows are
counted. The objects that the ops of windows and their warm-ups touch are kept in addition. The ops that the highs need
at least are the floor: no smaller distillate can estimate memory. heaptape-convert determines which objects these are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd

from heaptape.distil import select

Kind = Literal["time", "memory", "both"]
# Share of the ops for the highs; the windows have the other share, also where the floor is higher.
SHARE_OF_HIGHS = {"time": 0.3, "memory": 1.0, "both": 0.5}
MOST_SEGMENTS = 64
FEWEST_WINDOWS, MOST_WINDOWS = 8, 200
OPS_A_WINDOW = 1500  # with its warm-up and other ops of its objects: more ops make more windows, then longer ones
WARM_UP = 4  # times a window's length: docs/use/DISTILLATION.md has the results of other depths
ROUNDS = 6  # of fitting the windows' length
LARGE_BYTES = 32768  # from this size on objects are few and matter one by one
ON = " on "
COLUMNS = ("begin", "counted", "end", "weight")

# Which objects windows need (convert/distil/distil.h): those that they touch, or all that are live at their begin.
Heap = Literal["touched", "live"]

# heaptape-convert's rules of a distillate -> its number of ops
Count = Callable[[Mapping], int]


@dataclass(frozen=True, eq=False)
class Plan:
    """`windows`: one row per window, by position: begin, counted, end (positions), weight; may be empty. `segments`:
    number of parts of the history; the objects of each part's highs are kept; 0: none. `ops`: the distillate's;
    `floor`: the ops for the highs of the whole history. `sampled`: how the windows were chosen.
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
        """select.left_out for the plan's windows, which were chosen by these cells; None: no windows. `families`: label
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
    """The workload, cut into pieces that were counted one by one. `counts`: one row per cell, by which windows are
    chosen; `edges`: positions, from 0; `beside`: further counts.
    """

    counts: pd.DataFrame
    edges: np.ndarray
    beside: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def length(self) -> int:
        return int(self.edges[1] - self.edges[0])


def column(figure: str, label: str) -> str:
    """The column of Cells for a figure on an allocator."""
    return f"{figure}{ON}{label}"


class Planner:
    """Makes plans for one workload."""

    def __init__(self, cells: Cells, count: Count, kind: Kind, seed: int) -> None:
        self._cells, self._count, self._kind, self._seed = cells, count, kind, seed
        self._none = pd.DataFrame(columns=COLUMNS)
        self._ops_of_highs: dict[int, int] = {0: 0}
        self.floor = self._highs(1)

    def plan(self, ops: int) -> Plan:
        """A plan of about `ops` ops; of more, where the floor and FEWEST_WINDOWS need more."""
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
        """The most segments that `ops` are enough for; at least one, except for time."""
        if self._kind == "time" and self.floor > ops:
            return 0
        segments = 1
        while segments < MOST_SEGMENTS and self._highs(2 * segments) <= ops:
            segments *= 2
        return segments

    def _room(self, segments: int, ops: int) -> int:
        """Ops for the windows: at least their share, whatever the highs need."""
        return max(ops - self._highs(segments), round(ops * (1 - SHARE_OF_HIGHS[self._kind])))

    def _fitting_windows(self, segments: int, room: int) -> _Tried:
        """The longest windows that fit, or the shortest."""
        tried = list(self._tried(segments, room, int(np.clip(room / OPS_A_WINDOW, FEWEST_WINDOWS, MOST_WINDOWS))))
        return next((one for one in reversed(tried) if one.ops <= self._highs(segments) + room), tried[0])

    def _tried(self, segments: int, room: int, wanted: int) -> Iterator[_Tried]:
        """Windows of one cell, then longer ones by the room that shorter ones left, up to the first too long ones."""
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
        """Windows with warm-ups, none of which begins before the end of the preceding window."""
        chosen = select.choose(self._cells.counts, self._cells.edges, sampled)
        before = np.concatenate([[0], chosen.end[:-1]])
        begin = np.maximum(chosen.begin - WARM_UP * sampled.per_window * self._cells.length, before)
        return pd.DataFrame(dict(zip(COLUMNS, (begin, chosen.begin, chosen.end, chosen.weight), strict=True)))
