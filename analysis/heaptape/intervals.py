"""Intervals of ratios over a handful of repetitions.

Ratios are compared as logarithms, where a ratio and its inverse weigh the same. The interval is Student's t and not a
bootstrap: with three to five repetitions a percentile bootstrap can only resample what it saw, and covers about 75 to
85 % where it says 95 (`test_interval_covers_the_truth_as_often_as_it_says` measures both).
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

LEVEL = 0.95
LARGEST_LOG = 700.0  # exp of more overflows


@dataclass(frozen=True)
class LogRatio:
    """Mean log ratio, its variance and degrees of freedom. `variance` is NaN where there was no repetition to tell."""

    mean: float
    variance: float
    freedom: float
    repetitions: int

    def half_width(self, level: float = LEVEL) -> float:
        """Half the interval's width, as a log ratio; NaN if there is no telling."""
        if math.isnan(self.variance):
            return math.nan
        # scipy.special, not scipy.stats: that takes 0.6 s to import.
        return stdtrit(self.freedom, (1 + level) / 2) * math.sqrt(self.variance) if self.variance > 0 else 0.0

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Bounds of the ratio (not of its logarithm); NaN, NaN if there is no telling."""
        half = self.half_width(level)
        return math.exp(self.mean - half), math.exp(min(self.mean + half, LARGEST_LOG))


def log_ratio(baseline: pd.Series, other: pd.Series) -> LogRatio | None:
    """other / baseline; both are values indexed by round.

    In pairs where at least two rounds are common to both (a round's runs stood next to one another, so that what
    disturbed one is likely to have disturbed the other), else Welch's. None where a value is not positive or nothing is
    there.
    """
    if len(baseline) == 0 or len(other) == 0 or (baseline <= 0).any() or (other <= 0).any():
        return None
    base, new = np.log(baseline), np.log(other)
    common = base.index.intersection(new.index)
    if len(common) >= 2:
        difference = (new[common] - base[common]).to_numpy()
        return LogRatio(
            float(difference.mean()), float(difference.var(ddof=1)) / len(common), len(common) - 1, len(common)
        )
    mean = float(new.mean() - base.mean())
    repetitions = min(len(base), len(new))
    if repetitions < 2:
        return LogRatio(mean, math.nan, math.nan, repetitions)
    return _sum(mean, [(float(s.var(ddof=1)) / len(s), len(s) - 1) for s in (base, new)], repetitions)


def mean_of(ratios: list[LogRatio]) -> LogRatio | None:
    """The geometric mean over workloads: the mean of log ratios, whose errors are independent of one another."""
    if not ratios:
        return None
    count = len(ratios)
    mean = sum(r.mean for r in ratios) / count
    repetitions = min(r.repetitions for r in ratios)
    if any(math.isnan(r.variance) for r in ratios):
        return LogRatio(mean, math.nan, math.nan, repetitions)
    return _sum(mean, [(r.variance / count**2, r.freedom) for r in ratios], repetitions)


def _sum(mean: float, parts: list[tuple[float, float]], repetitions: int) -> LogRatio:
    """Adds independent variances; degrees of freedom after Welch and Satterthwaite."""
    variance = sum(v for v, _ in parts)
    below = sum(v * v / f for v, f in parts)
    freedom = variance * variance / below if below > 0 else sum(f for _, f in parts)
    return LogRatio(mean, variance, freedom, repetitions)
