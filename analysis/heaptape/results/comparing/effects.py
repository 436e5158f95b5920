# SPDX-License-Identifier: MIT
"""Effect sizes: how large a difference is beside the noise of single repetitions, and how often it would be seen.

An interval shows how well a mean is known, and narrows with every repetition; an effect size doesn't.
"""

import numpy as np
import scipy


def hedges_g(differences: np.ndarray) -> float:
    """Mean of paired differences in their standard deviations (Cohen's d_z), corrected for its bias in small samples.

    d_z: Lakens, Calculating and reporting effect sizes, Frontiers in Psychology 4:863 (2013); the correction, exact:
    Hedges, Distribution theory for Glass's estimator of effect size, Journal of Educational Statistics 6:107 (1981).
    `differences`: one per pair, of any unit. NaN where there are fewer than two or all are 0; infinite where all are
    the same.
    """
    values = np.asarray(differences, float)
    if len(values) < 2 or not values.any():
        return float("nan")
    spread = values.std(ddof=1)
    if spread <= 1e-12 * abs(values.mean()):
        return float(np.copysign(np.inf, values.mean()))
    return float(correction(len(values) - 1) * values.mean() / spread)


def hedges_g_unpaired(one: np.ndarray, two: np.ndarray) -> float:
    """Difference of the means (two - one) in pooled standard deviations, corrected for its bias (Hedges 1981)."""
    a, b = np.asarray(one, float), np.asarray(two, float)
    freedom = len(a) + len(b) - 2
    if min(len(a), len(b)) < 2:
        return float("nan")
    spread = np.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom)
    difference = b.mean() - a.mean()
    if spread == 0:
        return float("nan") if difference == 0 else float(np.copysign(np.inf, difference))
    return float(correction(freedom) * difference / spread)


def correction(freedom: int) -> float:
    """Hedges' J: the factor that removes the bias of a standardised mean difference. `freedom`: degrees of freedom."""
    if freedom < 2:
        return float("nan")  # two values have no unbiased estimate
    log_ratio = scipy.special.gammaln(freedom / 2) - scipy.special.gammaln((freedom - 1) / 2)
    return float(np.exp(log_ratio) / np.sqrt(freedom / 2))


def cliffs_delta(one: np.ndarray, two: np.ndarray) -> float:
    """P(a value of `two` is larger than one of `one`) minus P(it is smaller), over all pairs: -1 to 1.

    Cliff, Dominance statistics: ordinal analyses to answer ordinal questions, Psychological Bulletin 114:494 (1993).
    NaN where either is empty.
    """
    a, b = np.asarray(one, float), np.asarray(two, float)
    if not len(a) or not len(b):
        return float("nan")
    return float(np.sign(b[:, None] - a[None, :]).mean())
