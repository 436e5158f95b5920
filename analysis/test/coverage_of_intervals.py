# SPDX-License-Identifier: MIT
"""How often 95 % intervals of a mean hold the truth: ours, Student's t, and those of scipy.stats.bootstrap."""

import numpy as np
from heaptape.results.comparing.intervals import LogRatio
from scipy import stats

# name -> (draws of shape, their true mean)
NOISES = {
    "normal": (lambda random, shape: random.normal(0, 1, shape), 0.0),
    "skewed": (lambda random, shape: random.exponential(1, shape), 1.0),
    "disturbed": (lambda random, shape: random.normal(0, 1, shape) + 3 * (random.random(shape) < 0.1), 0.3),
}


def coverage(noise: str, repetitions: int, trials: int, seed: int) -> dict[str, tuple[float, float]]:
    """method -> (share of intervals that hold the truth, median width)."""
    random = np.random.default_rng(seed)
    draw, truth = NOISES[noise]
    samples = draw(random, (trials, repetitions))
    ratios = [
        LogRatio(float(x.mean()), float(x.var(ddof=1)) / repetitions, repetitions - 1, repetitions, ((1.0, x),))
        for x in samples
    ]
    bounds = {method: np.array([r.bounds(method=method) for r in ratios]).T for method in ("t", "bootstrap")}
    for method in ("BCa", "percentile"):
        found = stats.bootstrap(
            (samples,), np.mean, axis=1, method=method, n_resamples=499, vectorized=True, random_state=random
        ).confidence_interval
        bounds[method] = np.array([found.low, found.high])
    return {
        method: (float(np.mean((low <= truth) & (truth <= high))), float(np.median(high - low)))
        for method, (low, high) in bounds.items()
    }
