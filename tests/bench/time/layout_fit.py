# SPDX-License-Identifier: MIT
"""The check of the penalties: many layouts of one program, whose CPU times are regressed on their simulated counts."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pandas as pd
import scipy
from heaptape.results.model.counts import of_misses
from heaptape.results.model.penalties import Penalties
from heaptape.results.structs import Misses, Run

LEVEL = 0.95


@dataclass(frozen=True)
class Slope:
    """ns measured per ns predicted, with a 95 % interval: 1 is as predicted. `correlation`: of the two."""

    value: float
    low: float
    high: float
    correlation: float


def predicted_ns(simulated: Sequence[dict], penalties: Penalties) -> pd.DataFrame:
    """CPU time of each layout by the model, without kernel time: columns low, middle, high, in ns. `simulated`: results
    of `heaptape-observe --simulate`, whose instructions count as a program's.
    """
    rows = []
    for one in simulated:
        split = {"program_instructions": one["instructions"], "allocator_instructions": 0}
        misses = msgspec.convert({"caches": one["caches"], "tlbs": one["tlbs"]} | split, Misses)
        terms = of_misses(misses, Run(""), penalties).terms
        ends = ("low", "middle", "high")
        rows.append({end: sum(term.count * getattr(term.penalty, end) for term in terms) for end in ends})
    return pd.DataFrame(rows, columns=["low", "middle", "high"])


def slope(predicted: Sequence[float], measured: Sequence[float]) -> Slope:
    """Least squares of measured on predicted times, both in ns, one of each for every layout. Raises ValueError for
    fewer than 3 layouts, or equal predictions.
    """
    x, y = np.asarray(predicted, float), np.asarray(measured, float)
    spread = ((x - x.mean()) ** 2).sum()
    if len(x) < 3 or len(x) != len(y) or spread == 0:
        raise ValueError("a slope needs three layouts that differ")
    value = float(((x - x.mean()) * (y - y.mean())).sum() / spread)
    rest = y - y.mean() - value * (x - x.mean())
    error = float(np.sqrt((rest**2).sum() / (len(x) - 2) / spread))
    half = float(scipy.special.stdtrit(len(x) - 2, (1 + LEVEL) / 2)) * error
    correlation = float(np.corrcoef(x, y)[0, 1]) if y.std() > 0 else 0.0
    return Slope(value, value - half, value + half, correlation)
