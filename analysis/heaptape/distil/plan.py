"""What a distillate keeps: objects for memory, windows for time, within a number of ops.

Objects of the highs (history.py) are there for the memory, and are the heap on which windows are counted; the objects
that the ops of windows and their warm-ups touch come in addition. What the highs need at least is the floor: no smaller
distillate can tell the memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from heaptape.distil import select
from heaptape.distil.history import History

Kind = Literal["time", "memory", "both"]
KINDS: tuple[Kind, ...] = ("time", "memory", "both")
# Of the ops, for the highs; the windows have the rest.
SHARE_OF_HIGHS = {"time": 0.3, "memory": 1.0, "both": 0.5}
MOST_SEGMENTS = 64
FEWEST_WINDOWS, MOST_WINDOWS = 8, 120
OPS_A_WINDOW = 3000  # with its warm-up and what else its objects do: more ops make more windows, then longer ones
WARM_UP = 2  # times a window's length: docs/DISTILLATION.md has what other depths give
ROUNDS = 6  # of fitting the windows' length


@dataclass(frozen=True, eq=False)
class Plan:
    """`keep`: mask over objects; `windows`: one row each, begin, counted, end (positions), weight, by position.
    `segments`: parts of the history of whose highs it has the objects, 0: none. `ops`: its own; `floor`: of the highs
    of the whole history.
    """

    keep: np.ndarray
    windows: pd.DataFrame
    segments: int
    ops: int
    floor: int


@dataclass(frozen=True, eq=False)
class Cells:
    """The workload, cut into pieces in which everything was counted: `counts`, one row each; `edges`, from 0."""

    counts: pd.DataFrame
    edges: np.ndarray

    @property
    def length(self) -> int:
        """Ops of all but the last."""
        return int(self.edges[1] - self.edges[0])


class Planner:
    """Plans for one workload, as many as are asked for."""

    def __init__(self, history: History, cells: Cells, kind: Kind, seed: int) -> None:
        self._history, self._cells, self._kind, self._seed = history, cells, kind, seed
        self._highs: dict[int, np.ndarray] = {}
        self.floor = history.ops_of(self._at_highs(1))

    def plan(self, ops: int) -> Plan:
        """Of so many ops as near as can be; more, where the floor and FEWEST_WINDOWS need more."""
        segments, keep = self._choose_highs(ops * SHARE_OF_HIGHS[self._kind])
        windows = self._start_alone()
        if self._kind != "memory":
            windows = self._fitting_windows(keep, ops)
        keep = keep | self._touched(windows)
        return Plan(keep, windows, segments, self._history.ops_of(keep), self.floor)

    def _at_highs(self, segments: int) -> np.ndarray:
        if segments not in self._highs:
            self._highs[segments] = self._history.at_highs(segments)
        return self._highs[segments]

    def _choose_highs(self, ops: float) -> tuple[int, np.ndarray]:
        """As many segments as so many ops are enough for; one at least, but for time."""
        if self._kind == "time" and self.floor > ops:
            return 0, np.zeros_like(self._at_highs(1))
        segments = 1
        while segments < MOST_SEGMENTS and self._history.ops_of(self._at_highs(2 * segments)) <= ops:
            segments *= 2
        return segments, self._at_highs(segments)

    def _start_alone(self) -> pd.DataFrame:
        """A window of the first ops: there must be one."""
        end = int(self._cells.edges[1])
        return pd.DataFrame({"begin": [0], "counted": [0], "end": [end], "weight": [self._history.ops / end]})

    def _touched(self, windows: pd.DataFrame) -> np.ndarray:
        return self._history.touched(zip(windows["begin"], windows["end"], strict=True))

    def _fitting_windows(self, highs: np.ndarray, ops: int) -> pd.DataFrame:
        """The longest that fit."""
        room = max(ops - self._history.ops_of(highs), 0)
        wanted = int(np.clip(room / OPS_A_WINDOW, FEWEST_WINDOWS, MOST_WINDOWS))
        best = None
        for per_window in self._lengths(highs, room, wanted):
            windows = self._windows(per_window, wanted)
            fits = self._history.ops_of(highs | self._touched(windows)) <= ops
            if best is None or fits:
                best = windows
        assert best is not None
        return best

    def _lengths(self, highs: np.ndarray, room: int, wanted: int) -> Iterator[int]:
        """Cells of a window, from one on, up to the first that is too long: each by what the one before left."""
        per_window = 1
        for _ in range(ROUNDS):
            yield per_window
            windows = self._windows(per_window, wanted)
            used = self._history.ops_of(highs | self._touched(windows)) - self._history.ops_of(highs)
            longer = int(per_window * min(room / max(used, 1), 64))
            if longer <= per_window:
                return
            per_window = longer

    def _windows(self, per_window: int, wanted: int) -> pd.DataFrame:
        """With warm-ups, none of which begins before the end of the window before it."""
        chosen = select.choose(self._cells.counts, self._cells.edges, per_window, wanted, self._seed)
        before = np.concatenate([[0], chosen.end[:-1]])
        begin = np.maximum(chosen.begin - WARM_UP * per_window * self._cells.length, before)
        return pd.DataFrame({"begin": begin, "counted": chosen.begin, "end": chosen.end, "weight": chosen.weight})
