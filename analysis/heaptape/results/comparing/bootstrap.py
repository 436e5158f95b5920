# SPDX-License-Identifier: MIT
"""The studentised bootstrap ("bootstrap-t") of a weighted sum of means.

Each sample is redrawn with replacement, and the sum's deviation is divided by its own estimated error: the quantiles
of that replace Student's. After Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 12.5.
scipy.stats.bootstrap offers percentile, basic and BCa intervals only, which cover too little. Coverage of 95 %
intervals (and median width; `python analysis/test/coverage_of_intervals.py`, 2,000 samples each):

    noise, repetitions    this            Student's t     BCa
    normal, 5             96.1 % (3.03)   95.8 % (2.28)   84.7 % (1.44)
    normal, 10            95.3 % (1.47)   95.7 % (1.37)   90.1 % (1.13)
    exponential, 5        93.3 % (2.95)   89.5 % (1.89)   82.0 % (1.23)
    exponential, 10       93.5 % (1.54)   89.6 % (1.24)   86.2 % (1.03)

So it pays where noise is skewed, at the cost of wider intervals: a third with 5 repetitions, 7 % with 10.

The draws are seeded: the same results give the same interval.
"""

from functools import lru_cache

import numpy as np

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
