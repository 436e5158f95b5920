# SPDX-License-Identifier: MIT
"""Chooses recordings that stand for the fleet: medoids over standardised features, stratified, each with its weight.

Partitioning around medoids (Kaufman and Rousseeuw), with the swaps of Schubert and Rousseeuw's FasterPAM. Written here,
as `kmedoids` of PyPI is under the GPL and scikit-learn-extra is no longer maintained.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from heaptape.common.errors import UsageError
from heaptape.features.fleet.dataset import FEATURES
from heaptape.features.fleet.matrix import FIGURES as FLEET_FIGURES
from heaptape.features.fleet.plan import source_of
from heaptape.features.fleet.store import Store, is_exact

# Medoids are searched among at most this many traces of a stratum, drawn at random: the distances of all pairs are in
# memory at a time, and 2,000 traces already distinguish 12 groups.
SAMPLE = 2000
WEIGHTS = ("recordings", "ops")
CHOSEN = ["trace", "name", "source", "program", "ops", "recordings", "weight"]
ERRORS = ["figure", "label", "whole", "estimate", "error_percent", "change_percent", "change_error_percent"]


@dataclass(frozen=True)
class Chosen:
    """`traces`: rows of CHOSEN, the heaviest first: `recordings` it stands for, `weight` by which its figures count.
    `stands_for`: trace -> the chosen one that stands for it. `explained`: share (0 to 1) of the fleet's variety (mean
    distance from the centre) that the chosen ones explain.
    """

    traces: pd.DataFrame
    stands_for: pd.Series
    explained: float


def choose(traces: pd.DataFrame, count: int, by: str = "program", weight: str = "recordings", seed: int = 1) -> Chosen:
    """Chooses `count` of the traces (dataset.traces). `by`: column whose values are strata, each represented by at
    least one trace; "" for none. `weight`: "recordings", each counts the same; "ops", each by its ops. The same traces
    and seed give the same choice. Raises UsageError where there are more strata than traces to choose.
    """
    if count < 1:
        raise UsageError("choose -n: 1 at least")
    place = standardised(traces)
    importance = traces["ops"].to_numpy(float) if weight == "ops" else np.ones(len(traces))
    strata = _strata(traces, by)
    if len(strata) > count:
        raise UsageError(
            f"choose -n {count}: there are {len(strata)} values of {by}: choose at least as many, or --by none"
        )
    rng = np.random.default_rng(seed)
    nearest = np.zeros(len(traces), int)
    for members, medoids in _medoids(place, importance, strata, count, rng):
        distances = cdist(place[members], place[medoids])
        nearest[members] = medoids[distances.argmin(axis=1)]
        nearest[medoids] = medoids
    left = importance @ np.linalg.norm(place - place[nearest], axis=1)
    centre = np.average(place, axis=0, weights=importance)
    whole = importance @ np.linalg.norm(place - centre, axis=1)
    return Chosen(
        _weighed(traces, nearest, importance),
        pd.Series(traces["trace"].to_numpy()[nearest], index=pd.Index(traces["trace"])),
        1 - left / whole if whole > 0 else 1.0,
    )


def standardised(traces: pd.DataFrame) -> np.ndarray:
    """The compared FEATURES of each trace, sizes and counts as logarithms, each with mean 0 and deviation 1, without
    features that are the same for all traces.
    """
    columns = []
    for name, feature in FEATURES.items():
        values = traces[name].to_numpy(float)
        if feature.compared and values.max() > values.min():
            columns.append(np.log2(1 + values) if feature.compared == "log" else values)
    if not columns:
        return np.zeros((len(traces), 1))
    stacked = np.column_stack(columns)
    return (stacked - stacked.mean(axis=0)) / stacked.std(axis=0)


def errors(results: pd.DataFrame, chosen: pd.Series, weights: pd.Series, baseline: str) -> pd.DataFrame:
    """The fleet's figures estimated from the chosen, weighted, against those of all: rows of ERRORS, per exact figure
    and label.

    `results`: Store.results; `chosen`: workload (sha256) -> the workload that stands for it; `weights`: of the chosen,
    by workload. `whole`, `estimate`: sums over the fleet. `change_percent`: the whole's against the baseline's;
    `change_error_percent`: the error of its estimate, in percent of the baseline. Only figures and labels that all
    workloads have.
    """
    wanted = results["workload"].isin(chosen.index) & results["figure"].isin(FLEET_FIGURES)
    exact = results[wanted & results["pass_"].map(is_exact)]
    values = exact.drop_duplicates(["workload", "figure", "label"]).pivot(
        index="workload", columns=["figure", "label"], values="value"
    )
    values = values.reindex(chosen.index).dropna(axis="columns")
    whole = values.sum()
    estimate = values.loc[weights.index].mul(weights, axis="index").sum()
    rows = []
    for figure, label in values.columns:
        all_, estimated = whole[(figure, label)], estimate[(figure, label)]
        change = estimated_change = np.nan
        if (figure, baseline) in values.columns and whole[(figure, baseline)] > 0 and estimate[(figure, baseline)] > 0:
            change = 100 * (all_ / whole[(figure, baseline)] - 1)
            estimated_change = 100 * (estimated / estimate[(figure, baseline)] - 1)
        off = 100 * (estimated / all_ - 1) if all_ else np.nan
        rows.append((figure, label, all_, estimated, off, change, estimated_change - change))
    return pd.DataFrame(rows, columns=ERRORS).sort_values(["figure", "label"], ignore_index=True)


def errors_in(store: Store, chosen: Chosen, baseline: str) -> tuple[pd.DataFrame, int]:
    """`errors` by the exact cells of a store, and for how many traces it has workloads. No rows where a trace has no
    workload.
    """
    found = {trace: source.workload for trace in chosen.stands_for.index if (source := source_of(store, trace))}
    if len(found) < len(chosen.stands_for):
        return pd.DataFrame(columns=ERRORS), len(found)
    by_workload = pd.Series({found[trace]: found[other] for trace, other in chosen.stands_for.items()})
    weights = chosen.traces.set_index(chosen.traces["trace"].map(found))["weight"]
    return errors(store.results(), by_workload, weights, baseline), len(found)


def _strata(traces: pd.DataFrame, by: str) -> list[np.ndarray]:
    if not by:
        return [np.arange(len(traces))]
    groups: dict[Hashable, np.ndarray] = traces.reset_index(drop=True).groupby(by, sort=True).indices
    return list(groups.values())


def _weighed(traces: pd.DataFrame, nearest: np.ndarray, importance: np.ndarray) -> pd.DataFrame:
    medoids, inverse, counts = np.unique(nearest, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, importance)
    weights = sums / np.maximum(importance[medoids], 1)
    frame = traces.iloc[medoids].assign(recordings=counts, weight=weights, stood_for=sums)
    return frame.sort_values("stood_for", ascending=False, kind="stable")[CHOSEN].reset_index(drop=True)


def _medoids(
    place: np.ndarray, importance: np.ndarray, strata: list[np.ndarray], count: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The members of each stratum and its medoids: first one each, then one more where it helps the whole fleet most,
    then exchanges within strata as long as they help.
    """
    found = []
    for members in strata:
        drawn = members if len(members) <= SAMPLE else np.sort(rng.choice(members, SAMPLE, replace=False))
        scale = importance[members].sum() / max(importance[drawn].sum(), 1)
        found.append(_Stratum(members, drawn, cdist(place[drawn], place[drawn]), scale * importance[drawn]))
    for _ in range(count - len(found)):
        gain, best = max(((stratum.next_gain()[0], -number) for number, stratum in enumerate(found)))
        if gain <= 0:
            break  # equal traces are represented already
        found[-best].add()
    return [(stratum.members, stratum.drawn[stratum.exchanged()]) for stratum in found]


class _Stratum:
    """Medoids of some points, by their distances and importance."""

    def __init__(self, members: np.ndarray, drawn: np.ndarray, distances: np.ndarray, importance: np.ndarray) -> None:
        self.members, self.drawn, self._distances, self._importance = members, drawn, distances, importance
        self._medoids = [int((importance @ distances).argmin())]
        self._next: tuple[float, int] | None = None

    def next_gain(self) -> tuple[float, int]:
        """By how much the best further medoid reduces the points' distances, and which one it is."""
        if self._next is None:
            nearest = self._distances[self._medoids].min(axis=0)
            gains = self._importance @ np.maximum(nearest[:, None] - self._distances, 0)
            self._next = float(gains.max()), int(gains.argmax())
        return self._next

    def add(self) -> None:
        self._medoids.append(self.next_gain()[1])
        self._next = None

    def exchanged(self) -> np.ndarray:
        """The medoids, after best exchanges of one medoid for another point until none helps."""
        distances, importance = self._distances, self._importance
        medoids = np.array(self._medoids)
        while True:
            to_medoids = distances[medoids]
            own = to_medoids.argmin(axis=0)
            first = to_medoids.min(axis=0)
            second = np.partition(to_medoids, 1, axis=0)[1] if len(medoids) > 1 else np.full(len(first), np.inf)
            shared = np.minimum(distances - first, 0)  # [candidate, point]: the candidate's gain, whichever medoid goes
            lost = np.minimum(distances, second) - first - shared  # and the cost for the points of the medoid that goes
            change = np.empty((len(medoids), len(first)))
            for number in range(len(medoids)):
                change[number] = shared @ importance + lost[:, own == number] @ importance[own == number]
            goes, comes = np.unravel_index(change.argmin(), change.shape)
            if change[goes, comes] >= -1e-9 * max(importance @ first, 1e-300):
                return medoids
            medoids[goes] = comes
