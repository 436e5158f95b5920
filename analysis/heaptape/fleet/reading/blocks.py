# SPDX-License-Identifier: MIT
"""Figures of candidates against a baseline, measured on several machines: the machine is a block.

Times are compared only within a block: the baseline and the candidates of one repetition, alternately on one machine.
The machine's speed cancels out of the ratio. The log ratios give two results:

- *here*, on the machines that measured: their mean, with the error of blocks within machines;
- *elsewhere*, on machines like these: the machine is a random effect, as a candidate may suit one machine better than
  another. Its variance is that of DerSimonian and Laird, the interval Hartung's and Knapp's, with one degree of freedom
  less than there are machines: two machines predict little about a third, and one nothing.

Exact counts are the same on every machine: one figure, no interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heaptape.fleet.store.cell import is_exact
from heaptape.results.comparing.intervals import LogRatio
from heaptape.run.rounds import PASSES

BY = ["workload", "name", "program", "weight", "figure", "unit"]
COLUMNS = [
    *BY, "label", "ratio", "low", "high", "low_elsewhere", "high_elsewhere", "exact", "machines", "blocks", "between",
    "baseline_value", "value",
]  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """Mean log ratios with their errors, `here` and `elsewhere` (variance unknown where only one machine measured).
    `between`: standard deviation of a machine's own effect, as a share (0.02: machines differ by about 2 %).
    """

    here: LogRatio
    elsewhere: LogRatio
    machines: int
    between: float


def effect(by_machine: Sequence[np.ndarray]) -> Effect:
    """The effect from the log ratios of each machine's blocks; at least one machine, each with at least one block."""
    counts = np.array([len(values) for values in by_machine], float)
    means = np.array([values.mean() for values in by_machine])
    blocks, machines = int(counts.sum()), len(counts)
    freedom = blocks - machines
    squares = sum(float(((values - mean) ** 2).sum()) for values, mean in zip(by_machine, means))
    residual = squares / freedom if freedom else math.nan
    mean = float((counts * means).sum() / blocks)
    here = LogRatio(mean, residual / blocks, freedom, blocks)
    if machines == 1:
        return Effect(here, LogRatio(mean, math.nan, math.nan, blocks), 1, math.nan)
    among = float((counts * (means - mean) ** 2).sum()) / (machines - 1)
    known = residual if freedom else 0.0  # with single blocks, all variance is the machines'
    size = (blocks - float((counts**2).sum()) / blocks) / (machines - 1)
    between = max(0.0, (among - known) / size)
    weights = 1 / np.maximum(between + known / counts, np.finfo(float).tiny)
    weights /= weights.sum()
    overall = float((weights * means).sum())
    variance = float((weights * (means - overall) ** 2).sum()) / (machines - 1)
    elsewhere = LogRatio(overall, variance, machines - 1, blocks)
    # Machines may by chance agree better than their own blocks; other machines are not known better than these.
    if freedom and elsewhere.half_width() < here.half_width():
        elsewhere = here
    return Effect(here, elsewhere, machines, math.sqrt(between))


def against_baseline(results: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Each label against the baseline, per workload and figure: rows of COLUMNS. `results`: as from Store.results.

    `ratio`: the label's figure by the baseline's; `low`, `high`: its 95 % interval here, `low_elsewhere` and
    `high_elsewhere` on machines like these; NaN where unknown; where it is `exact`, the ratio itself. `machines`,
    `blocks`: numbers compared. `between`: as in Effect. `baseline_value`, `value`: exact figures, or medians over all
    blocks, for sums over the fleet. A figure that is not positive, or that the baseline lacks in the same block, is
    left out.
    """
    exact = _exact(results[results["pass_"].map(is_exact)], baseline)
    timed = _timed(results[~results["pass_"].map(is_exact)], baseline)
    both = pd.concat([part for part in (exact, timed) if len(part)] or [exact])[COLUMNS]
    # A timed pass also yields memory figures, but less accurate than those of the pass for memory.
    both = both.drop_duplicates(["workload", "figure", "label"])
    return both.sort_values(["name", "workload", "figure", "label"], ignore_index=True)


def _pairs(results: pd.DataFrame, baseline: str, within: list[str]) -> pd.DataFrame:
    """Each row beside the baseline's of the same workload, figure and `within`."""
    kept = results[results["value"] > 0]
    own = kept.loc[kept["label"] == baseline, ["workload", "figure", *within, "value"]]
    own = own.groupby(["workload", "figure", *within], dropna=False)["value"].median().rename("baseline_value")
    return kept[kept["label"] != baseline].merge(own.reset_index(), on=["workload", "figure", *within])


def _exact(results: pd.DataFrame, baseline: str) -> pd.DataFrame:
    best = results.sort_values("pass_", key=lambda passes: passes.map(PASSES.index), kind="stable")
    best = best.drop_duplicates(["workload", "figure", "label"])
    found = _pairs(best, baseline, [])
    ratio = found["value"] / found["baseline_value"]
    ends = dict.fromkeys(("low", "high", "low_elsewhere", "high_elsewhere"), ratio)
    return found.assign(ratio=ratio, **ends, exact=True, machines=0, blocks=0, between=math.nan)


def _timed(results: pd.DataFrame, baseline: str) -> pd.DataFrame:
    pairs = _pairs(results[results["block"].notna()], baseline, ["machine", "block"])
    pairs = pairs.assign(log=np.log(pairs["value"] / pairs["baseline_value"]))
    rows = []
    for keys, here in pairs.groupby([*BY, "label"], sort=False, dropna=False):
        found = effect([group["log"].to_numpy() for _, group in here.groupby("machine")])
        rows.append((
            *keys, math.exp(found.here.mean), *found.here.interval(), *found.elsewhere.interval(), False,
            found.machines, found.here.repetitions, found.between, here["baseline_value"].median(),
            here["value"].median(), ))  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)
