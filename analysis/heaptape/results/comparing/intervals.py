# SPDX-License-Identifier: MIT
"""Intervals of ratios over a handful of repetitions.

Ratios are compared as logarithms, where a ratio and its inverse weigh the same. The interval is Student's t, or on
request a studentised bootstrap (below). It is never a percentile bootstrap, nor BCa: with three to five
repetitions these can only resample what they saw, and cover about 70 to 85 % instead of 95
(`test_interval_covers_the_truth_as_often_as_it_says`, `test_the_studentised_bootstrap_covers_where_bca_does_not`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
import pandas as pd
import scipy

LEVEL = 0.95
LARGEST_LOG = 700.0  # exp of more overflows
# With an interval whose upper end is this many times its lower, a figure is not shown as a number.
NOISY_FACTOR = 2.0
# Counted instructions of runs in one order: an allocator that reads the clock differs by up to 0.006 % from run to
# run. Within this share of the figure they count as the same.
COUNTED_AGREES = 1e-4

Method = Literal["t", "bootstrap"]


def _ratio_of(log: float) -> float:
    return math.exp(min(log, LARGEST_LOG))  # NaN stays


@dataclass(frozen=True)
class LogRatio:
    """Mean log ratio, its variance and degrees of freedom. `variance` is NaN with fewer than two repetitions.

    `parts`: the logarithms that the mean is made of, as (weight, values): mean = sum of weight * values.mean().
    """

    mean: float
    variance: float
    freedom: float
    repetitions: int
    parts: tuple[tuple[float, np.ndarray], ...] = field(default=(), compare=False, repr=False)

    @property
    def apart(self) -> bool:
        """Is the least ratio that the repetitions allow, each figure at the end that favours the other, beyond
        NOISY_FACTOR? Then they are few and not alike, but no noise hides the difference.
        """
        ends = [sorted((weight * float(x.min()), weight * float(x.max()))) for weight, x in self.parts]
        low, high = (sum(end) for end in zip(*ends)) if ends else (0.0, 0.0)
        return max(low, -high) > math.log(NOISY_FACTOR)

    def half_width(self, level: float = LEVEL) -> float:
        """Half the width of Student's interval, as a log ratio; NaN if the variance is not known."""
        if math.isnan(self.variance):
            return math.nan
        if self.variance <= 0:
            return 0.0
        # scipy.special, not scipy.stats, and imported by this use: they take 0.3 and 0.6 s of CPU time.
        return scipy.special.stdtrit(self.freedom, (1 + level) / 2) * math.sqrt(self.variance)

    def bounds(self, level: float = LEVEL, method: Method = "t") -> tuple[float, float]:
        """Bounds of the mean itself; NaN, NaN if the variance is not known. With too few repetitions to resample
        (FEWEST), "bootstrap" returns Student's.
        """
        if method == "bootstrap" and self.variance > 0 and enough(self.parts):
            least, most = quantiles(self.parts, level)
            error = math.sqrt(self.variance)
            return self.mean - most * error, self.mean - least * error
        half = self.half_width(level)
        return self.mean - half, self.mean + half

    def interval(self, level: float = LEVEL, method: Method = "t") -> tuple[float, float]:
        """Bounds of the ratio (not of its logarithm); NaN, NaN if the variance is not known."""
        low, high = self.bounds(level, method)
        return _ratio_of(low), _ratio_of(high)

    @property
    def ratio(self) -> float:
        """The ratio itself, not its logarithm."""
        return _ratio_of(self.mean)

    def p_value(self, method: Method = "t") -> float:
        """How often chance alone gives a ratio at least this far from 1, two-sided; NaN if the variance is not
        known.
        """
        if math.isnan(self.variance):
            return math.nan
        if self.variance == 0:
            return 1.0 if self.mean == 0 else 0.0
        statistic = self.mean / math.sqrt(self.variance)
        if method == "bootstrap" and enough(self.parts):
            return p_value(self.parts, statistic)
        return float(2 * scipy.special.stdtr(self.freedom, -abs(statistic)))


def steadied(values: pd.Series, metric: str) -> pd.Series:
    """The figures of a metric for comparison: counted instructions that agree within COUNTED_AGREES are replaced by
    their mean.
    """
    if "instructions" not in metric or len(values) < 2 or values.max() - values.min() > COUNTED_AGREES * values.max():
        return values
    return pd.Series(float(values.mean()), index=values.index)


def is_exact(values: pd.Series) -> bool:
    """Was the figure the same in every repetition, of two or more?"""
    return len(values) > 1 and values.nunique() == 1


def too_noisy(low: float, high: float, repetitions: int, apart: bool = False) -> str:
    """Why a figure with this interval (of a ratio, or in percent) is not shown as a number; empty if it is shown.
    `apart`: as in LogRatio.
    """
    if math.isnan(low) or high < NOISY_FACTOR * low or apart:
        return ""
    factor = high / low if low > 0 else math.inf
    spans = f"{factor:,.3g}" if factor < 100 else f"{factor:,.0f}" if factor < 10_000 else "more than 10,000"
    return (
        f"too noisy: the 95 % interval of {repetitions} repetitions spans a factor of {spans}; "
        "repeat more often (replay -n, --until-ci) or on a quieter machine"
    )


def log_ratio(baseline: pd.Series, other: pd.Series) -> LogRatio | None:
    """other / baseline; both are values indexed by round.

    Paired if both have at least two rounds in common (a round's runs are next to one another, so that a disturbance of
    one has probably disturbed the other), else Welch's. Welch's also if all values of one are the same: then pairing
    gains nothing, and rounds that only the other has count, too. None if a value is not positive or there are none.
    """
    before, after = baseline.to_numpy(float), other.to_numpy(float)
    if len(before) == 0 or len(after) == 0 or before.min() <= 0 or after.min() <= 0:
        return None
    base, new = np.log(before), np.log(after)
    if not (_constant(before) or _constant(after)):
        here, there = _common(baseline.index, other.index)
        if len(here) >= 2:
            differences = new[there] - base[here]
            count = len(differences)
            variance = float(differences.var(ddof=1)) / count
            return LogRatio(float(differences.mean()), variance, count - 1, count, ((1.0, differences),))
    mean, repetitions = float(new.mean() - base.mean()), min(len(base), len(new))
    if repetitions < 2:
        return LogRatio(mean, math.nan, math.nan, repetitions)
    return _sum(mean, [(-1.0, base), (1.0, new)], repetitions)


def mean_of(ratios: list[LogRatio]) -> LogRatio:
    """The geometric mean over workloads (one or more): the mean of log ratios, whose errors are independent."""
    share = 1 / len(ratios)
    return combined(sum(r.mean for r in ratios) * share, [(share, r) for r in ratios])


def combined(mean: float, weighted: list[tuple[float, LogRatio]]) -> LogRatio:
    """A figure with this mean, whose error is the weighted sum of the independent errors of `weighted`."""
    repetitions = min(r.repetitions for _, r in weighted)
    if any(math.isnan(r.variance) for _, r in weighted):
        return LogRatio(mean, math.nan, math.nan, repetitions)
    parts = tuple((weight * inner, values) for weight, r in weighted for inner, values in r.parts)
    variances = [(weight * weight * r.variance, r.freedom) for weight, r in weighted]
    return _satterthwaite(mean, variances, repetitions, parts)


def _constant(values: np.ndarray) -> bool:
    return len(values) >= 2 and values.min() == values.max()


def _common(one: pd.Index, two: pd.Index) -> tuple[np.ndarray, np.ndarray]:
    """The indices, in both, of the rounds that both have."""
    if one.equals(two):
        return (every := np.arange(len(one))), every
    places = {name: place for place, name in enumerate(two)}
    pairs = [(place, places[name]) for place, name in enumerate(one) if name in places]
    here, there = zip(*pairs) if pairs else ((), ())
    return np.array(here, int), np.array(there, int)


def _sum(mean: float, parts: list[tuple[float, np.ndarray]], repetitions: int) -> LogRatio:
    # Logarithms of equal numbers may differ from their mean by rounding, which is not variance.
    variances = [
        (0.0 if _constant(x) else weight * weight * float(x.var(ddof=1)) / len(x), len(x) - 1) for weight, x in parts
    ]
    return _satterthwaite(mean, variances, repetitions, tuple(parts))


def _satterthwaite(
    mean: float, variances: Sequence[tuple[float, float]], repetitions: int, parts: tuple[tuple[float, np.ndarray], ...]
) -> LogRatio:
    """Adds independent variances; degrees of freedom after Welch and Satterthwaite."""
    variance = sum(v for v, _ in variances)
    below = sum(v * v / f for v, f in variances)
    freedom = variance * variance / below if below > 0 else sum(f for _, f in variances)
    return LogRatio(mean, variance, freedom, repetitions, parts)


# The studentised bootstrap ("bootstrap-t") of a weighted sum of means.
#
# Each sample is redrawn with replacement, and the sum's deviation is divided by its own estimated error: the
# quantiles of that replace Student's. After Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter
# 12.5. scipy.stats.bootstrap offers percentile, basic and BCa intervals only, which cover too little. Coverage of 95
# % intervals (and median width; coverage() of analysis/test/coverage_of_intervals.py, 2,000 samples each):
#
#     noise, repetitions    this            Student's t     BCa
#     normal, 5             96.1 % (3.03)   95.8 % (2.28)   84.7 % (1.44)
#     normal, 10            95.3 % (1.47)   95.7 % (1.37)   90.1 % (1.13)
#     exponential, 5        93.3 % (2.95)   89.5 % (1.89)   82.0 % (1.23)
#     exponential, 10       93.5 % (1.54)   89.6 % (1.24)   86.2 % (1.03)
#
# So it pays where noise is skewed, at the cost of wider intervals: a third with 5 repetitions, 7 % with 10.
#
# The draws are seeded: the same results give the same interval.
RESAMPLES = 9_999
FEWEST = 5  # of three or four values, every 9th or 64th draw repeats a single value, and has no error to divide by
SEED = 20_170_106

Parts = tuple[tuple[float, np.ndarray], ...]


def enough(parts: Parts) -> bool:
    """Can these (weight, values) be resampled? Each has at least FEWEST values, or equal ones, and not all have equal
    ones.
    """
    varied = _varied(parts)
    return bool(varied) and all(len(values) >= FEWEST for _, values in varied)


def quantiles(parts: Parts, level: float) -> tuple[float, float]:
    """The two quantiles of the resampled statistic with the share `level` between them, and equal shares outside."""
    least, most = np.quantile(_statistics(parts), [(1 - level) / 2, (1 + level) / 2])
    return float(least), float(most)


def p_value(parts: Parts, statistic: float) -> float:
    """Share of resampled statistics beyond `statistic` (mean / error), doubled; never below 2 / (RESAMPLES + 1)."""
    found = _statistics(parts)
    beyond = min((found >= statistic).sum(), (found <= statistic).sum())
    return float(min(1.0, 2 * (1 + beyond) / (len(found) + 1)))


def _varied(parts: Parts) -> Parts:
    return tuple((weight, values) for weight, values in parts if weight != 0 and np.ptp(values) > 0)


def _statistics(parts: Parts) -> np.ndarray:
    deviation, variance = np.zeros(RESAMPLES), np.zeros(RESAMPLES)
    for number, (weight, values) in enumerate(_varied(parts)):
        drawn = values[_draws(len(values), number)]
        deviation += weight * (drawn.mean(axis=1) - values.mean())
        variance += weight * weight * drawn.var(axis=1, ddof=1) / len(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = deviation / np.sqrt(variance)
    return np.nan_to_num(found, nan=0.0, posinf=1e9, neginf=-1e9)


@lru_cache(maxsize=64)
def _draws(count: int, number: int) -> np.ndarray:
    """Indices, RESAMPLES x count; different ones for each part, as parts are independent."""
    return np.random.default_rng([SEED, count, number]).integers(0, count, (RESAMPLES, count))
