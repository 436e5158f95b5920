# SPDX-License-Identifier: MIT
"""What a distillate keeps, within a number of ops: objects for memory, windows for time.

Objects that are live when their size class is at its high are kept for memory, and are the heap on which windows are
counted. The objects that the ops of windows and their warm-ups touch are kept in addition. The ops that the highs need
at least are the floor: no smaller distillate can estimate memory. heaptape-convert determines which objects these are.

Which windows of a workload represent all of them: strata of similar windows, and one window of each.

The workload's ops are cut into cells, all but the last of one length, in which instructions on some allocators were
counted (the second phase of the sample costs nothing, as the whole is replayed for its errors anyway). A window is a
few consecutive cells.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri

from heaptape.results.comparing.intervals import LEVEL

TURNS = 20  # of k-means: enough for it to settle


@dataclass(frozen=True)
class Sampled:
    """How windows are chosen: at most `wanted`, of `per_window` cells each. The same seed gives the same windows."""

    per_window: int
    wanted: int
    seed: int


@dataclass(frozen=True)
class Windows:
    """The chosen windows, by rising position. `begin`, `end`: positions; `weight`: how many times its ops a window
    represents. `stratum`: of every window, chosen or not.
    """

    begin: np.ndarray
    end: np.ndarray
    weight: np.ndarray
    stratum: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


def features(cells: pd.DataFrame, per_window: int) -> np.ndarray:
    """One row per window, one column per column of `cells` (a row per cell): its sum, divided by the windows' mean."""
    sums = _sums(cells, per_window).to_numpy(np.float64)
    mean = sums.mean(axis=0)
    return sums[:, mean > 0] / mean[mean > 0]


def _sums(cells: pd.DataFrame, per_window: int) -> pd.DataFrame:
    return cells.groupby(np.arange(len(cells)) // per_window).sum()


def choose(cells: pd.DataFrame, edges: np.ndarray, sampled: Sampled) -> Windows:
    """Chooses windows. `cells`: one row per cell, one column per count; `edges`: positions of the cells' ends, from 0
    on. The first window is always chosen, with its own stratum: the start is unlike everything after it.
    """
    described = features(cells, sampled.per_window)
    begin = edges[:-1][:: sampled.per_window]
    end = np.append(begin[1:], edges[-1])
    # By ratios, so that a few expensive windows do not take all strata: an allocator that has no part in the choice may
    # differ among the other windows.
    stratum = _strata(np.log1p(described), sampled.wanted, sampled.seed)
    chosen, weight = [], []
    for label in np.unique(stratum):
        members = np.flatnonzero(stratum == label)
        distance = ((described[members] - described[members].mean(axis=0)) ** 2).sum(axis=1)
        nearest = members[int(distance.argmin())]
        chosen.append(nearest)
        weight.append((end[members] - begin[members]).sum() / (end[nearest] - begin[nearest]))
    order = np.argsort(chosen)
    picked = np.array(chosen)[order]
    return Windows(begin[picked], end[picked], np.array(weight)[order], stratum)


def left_out(
    cells: pd.DataFrame, edges: np.ndarray, sampled: Sampled, families: Mapping[str, str], beside: pd.DataFrame
) -> pd.DataFrame:
    """The effect on each allocator of choosing windows without it. One row per column of `cells` or `beside` (which has
    no part in the choice) that is in `families` (column -> allocator). `unseen`: the sampling error of windows chosen
    without its family, less the error of windows chosen with all families. `sampling`: sampling_interval of windows
    chosen without its family. Percent.
    """
    all_known, rows = choose(cells, edges, sampled), {}
    for family in dict.fromkeys(families.values()):
        own = [column for column, of in families.items() if of == family]
        others = choose(cells.drop(columns=own, errors="ignore"), edges, sampled)
        for column in own:
            counts = cells[column] if column in cells else beside[column]
            added = sampling_error(counts, edges, others) - sampling_error(counts, edges, all_known)
            rows[column] = {"unseen": added, "sampling": sampling_interval(counts, sampled.per_window, others.stratum)}
    return pd.DataFrame.from_dict(rows, orient="index")


def sampling_interval(counts: pd.Series, per_window: int, stratum: np.ndarray) -> float:
    """Half the 95 % interval of an estimate by one window of each stratum, drawn at random, in percent of the whole's
    count: by the variance of all windows within each stratum (Cochran, Sampling Techniques, 5.3), as all were counted.
    `counts`: one per cell; `stratum`: one per window.
    """
    windows = _sums(counts.to_frame("count"), per_window)["count"].astype(np.float64)
    within = windows.groupby(stratum).agg(["size", "var"]).fillna(0.0)  # one window alone has no variance
    variance = (within["size"] * (within["size"] - 1) * within["var"]).sum()
    return float(100 * ndtri((1 + LEVEL) / 2) * np.sqrt(variance) / windows.sum())


def sampling_error(counts: pd.Series, edges: np.ndarray, windows: Windows) -> float:
    """By how many percent the counts in the windows of the whole, times their weights, are above the whole's count.
    `counts`: one per cell.
    """
    until = np.append(0.0, counts.to_numpy(np.float64).cumsum())
    counted = until[np.searchsorted(edges, windows.end)] - until[np.searchsorted(edges, windows.begin)]
    return float(100 * (windows.weight @ counted / until[-1] - 1))


def _strata(described: np.ndarray, wanted: int, seed: int) -> np.ndarray:
    """A label for each window: windows of one label are similar. The first window has its own label."""
    from scipy.cluster.vq import kmeans2  # 0.3 s

    label = np.zeros(len(described), np.int64)
    rest = described[1:]
    if wanted <= 1 or not len(rest):
        return label
    count = min(wanted - 1, len(np.unique(rest, axis=0)))  # k-means++ draws no point twice
    _, found = kmeans2(rest, count, iter=TURNS, minit="++", missing="warn", seed=seed)
    label[1:] = found + 1
    return label


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
    sampled: Sampled | None = None

    def rules(self) -> dict:
        return _rules(self.segments, self.windows, self.heap)

    def left_out(self, cells: "Cells", families: Mapping[str, str]) -> pd.DataFrame | None:
        """left_out for the plan's windows, which were chosen by these cells; None: no windows. `families`: label
        -> allocator.
        """
        if not self.sampled:
            return None
        of_columns = {name: families[name.split(ON)[1]] for name in [*cells.counts, *cells.beside] if ON in name}
        return left_out(cells.counts, cells.edges, self.sampled, of_columns, cells.beside)


@dataclass(frozen=True, eq=False)
class _Tried:
    windows: pd.DataFrame
    sampled: Sampled
    ops: int


def _rules(segments: int, windows: pd.DataFrame, heap: Heap = "touched") -> dict:
    rows = [[*map(int, row[:3]), float(row[3])] for row in windows[list(COLUMNS)].itertuples(index=False)]
    large = {"large": {"bytes": LARGE_BYTES, "share": 1.0}} if segments else {}
    return {"windows": rows, "heap": heap, "highs": segments} | large


def rules_of_highs(segments: int) -> dict:
    """Rules of a distillate without windows."""
    return _rules(segments, pd.DataFrame(columns=COLUMNS))


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
            self._ops_of_highs[segments] = self._count(rules_of_highs(segments))
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
        sampled = Sampled(1, wanted, self._seed)
        for _ in range(ROUNDS):
            windows = self._windows(sampled)
            ops = self._count(_rules(segments, windows))
            yield _Tried(windows, sampled, ops)
            longer = int(sampled.per_window * min(room / max(ops - self._highs(segments), 1), 64))
            if longer <= sampled.per_window:
                return
            sampled = replace(sampled, per_window=longer)

    def _windows(self, sampled: Sampled) -> pd.DataFrame:
        """Windows with warm-ups, none of which begins before the end of the preceding window."""
        chosen = choose(self._cells.counts, self._cells.edges, sampled)
        before = np.concatenate([[0], chosen.end[:-1]])
        begin = np.maximum(chosen.begin - WARM_UP * sampled.per_window * self._cells.length, before)
        return pd.DataFrame(dict(zip(COLUMNS, (begin, chosen.begin, chosen.end, chosen.weight), strict=True)))
