# SPDX-License-Identifier: MIT
"""Which windows of a workload represent all of them: strata of similar windows, and one window of each.

The workload's ops are cut into cells, all but the last of one length, in which instructions on some allocators were
counted (the second phase of the sample costs nothing, as the whole is replayed for its errors anyway). A window is a
few consecutive cells.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
