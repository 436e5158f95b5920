# SPDX-License-Identifier: MIT
"""Which windows of a workload stand for the others: strata of windows that are alike, and one window of each.

The workload's ops are cut into cells, all but the last of one length, in which instructions on some allocators were
counted (the second phase of the sample costs nothing, as the whole is replayed for its errors anyway). A window is some
consecutive cells.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

TURNS = 40  # of k-means: it has long settled


@dataclass(frozen=True)
class Windows:
    """Chosen ones, by rising position. `begin`, `end`: positions; `weight`: of how many times its ops it tells."""

    begin: np.ndarray
    end: np.ndarray
    weight: np.ndarray


def features(cells: pd.DataFrame, per_window: int) -> np.ndarray:
    """One row a window, one column for each of `cells` (one row a cell): its sum, in means of all windows."""
    groups = np.arange(len(cells)) // per_window
    sums = cells.groupby(groups).sum().to_numpy(np.float64)
    mean = sums.mean(axis=0)
    return sums[:, mean > 0] / mean[mean > 0]


def choose(cells: pd.DataFrame, edges: np.ndarray, per_window: int, wanted: int, seed: int) -> Windows:
    """`wanted` windows at most of `per_window` cells. `cells`: what is counted in each, one column a count;
    `edges`: positions of their ends, from 0 on. The first window is always one, for itself: the start is like nothing
    that follows. The same seed gives the same windows.
    """
    described = features(cells, per_window)
    begin = edges[:-1][::per_window]
    end = np.append(begin[1:], edges[-1])
    stratum = _strata(described, wanted, seed)
    chosen, weight = [], []
    for label in np.unique(stratum):
        members = np.flatnonzero(stratum == label)
        distance = ((described[members] - described[members].mean(axis=0)) ** 2).sum(axis=1)
        nearest = members[int(distance.argmin())]
        chosen.append(nearest)
        weight.append((end[members] - begin[members]).sum() / (end[nearest] - begin[nearest]))
    order = np.argsort(chosen)
    picked = np.array(chosen)[order]
    return Windows(begin[picked], end[picked], np.array(weight)[order])


def _strata(described: np.ndarray, wanted: int, seed: int) -> np.ndarray:
    """A label for each window: windows of one label are alike. The first has a label of its own."""
    from scipy.cluster.vq import kmeans2  # 0.3 s

    label = np.zeros(len(described), np.int64)
    rest = described[1:]
    if wanted <= 1 or not len(rest):
        return label
    if len(rest) <= wanted - 1:
        label[1:] = np.arange(1, len(rest) + 1)
        return label
    centres = _apart(rest, wanted - 1, seed)
    _, found = kmeans2(rest, centres, iter=TURNS, minit="matrix", missing="warn")
    label[1:] = found + 1
    return label


def _apart(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    """First centres, as k-means++ draws them: each by its squared distance from those before, so that what is rare and
    unlike the rest gets its own. Fewer than `count` where points are equal.
    """
    random = np.random.default_rng(seed)
    centres = [points[int(random.integers(len(points)))]]
    distance = ((points - centres[0]) ** 2).sum(axis=1)
    while len(centres) < count and distance.sum() > 0:
        centres.append(points[int(random.choice(len(points), p=distance / distance.sum()))])
        distance = np.minimum(distance, ((points - centres[-1]) ** 2).sum(axis=1))
    return np.array(centres)
