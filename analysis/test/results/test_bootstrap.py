# SPDX-License-Identifier: MIT
"""The studentised bootstrap: its coverage is as stated, and it is the same each time."""

import math

import numpy as np
import pytest
from coverage_of_intervals import coverage
from heaptape.results.comparing import intervals
from heaptape.results.comparing.intervals import LogRatio, combined, log_ratio, mean_of
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_runs import series


def of(values) -> LogRatio:
    return log_ratio(series(np.ones(len(values))), series(np.exp(values)))


def test_the_studentised_bootstrap_covers_where_bca_does_not():
    """400 trials: three standard errors of 95 % are 3.3 %."""
    for noise in ("normal", "skewed"):
        held = {method: share for method, (share, _) in coverage(noise, 5, 400, seed=7).items()}
        assert held["bootstrap"] > 0.89, noise
        assert held["BCa"] < 0.89, noise
        assert held["percentile"] < 0.89, noise
    assert held["bootstrap"] > held["t"], "skewed noise is what it is for"


@settings(deadline=None, max_examples=15)
@given(st.integers(5, 12), st.integers(0, 2**32))
def test_the_interval_follows_location_and_scale(count, seed):
    noise = np.random.default_rng(seed).normal(0, 0.01, count)
    low, high = of(noise).bounds(method="bootstrap")
    moved = of(0.3 + 2 * noise)
    assert moved.bounds(method="bootstrap") == pytest.approx((0.3 + 2 * low, 0.3 + 2 * high), rel=1e-6, abs=1e-9)
    mirrored = of(-noise).bounds(method="bootstrap")
    assert mirrored == pytest.approx((-high, -low), rel=0.2, abs=1e-3)


def test_the_same_results_give_the_same_interval():
    noise = np.random.default_rng(3).normal(0, 1, 8)
    assert of(noise).bounds(method="bootstrap") == of(noise.copy()).bounds(method="bootstrap")


def test_fewer_than_five_repetitions_are_left_to_students_t():
    ratio = of([0.01, 0.02, 0.04])
    assert not intervals.enough(ratio.parts)
    assert ratio.bounds(method="bootstrap") == ratio.bounds(method="t")
    assert ratio.p_value("bootstrap") == ratio.p_value("t")


def test_what_never_varies_needs_no_resampling():
    ratio = log_ratio(series([2.0] * 6), series([3.0] * 6))
    assert ratio.interval(method="bootstrap") == pytest.approx((1.5, 1.5))


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32))
def test_the_mean_of_workloads_is_resampled_workload_by_workload(seed):
    """For normal noise, the bootstrap of a mean of many is close to Student's t."""
    random = np.random.default_rng(seed)
    mean = mean_of([of(random.normal(0.1 * i, 0.01, 10)) for i in range(6)])
    assert mean.mean == pytest.approx(np.mean([0.1 * i for i in range(6)]), abs=0.02)
    t, drawn = np.array(mean.bounds()), np.array(mean.bounds(method="bootstrap"))
    assert np.ptp(drawn) == pytest.approx(np.ptp(t), rel=0.25)


def test_p_values_and_intervals_agree():
    random = np.random.default_rng(11)
    for shift in np.linspace(-0.02, 0.02, 21):
        ratio = of(shift + random.normal(0, 0.01, 8))
        low, high = ratio.bounds(method="bootstrap")
        outside = low > 0 or high < 0
        p = ratio.p_value("bootstrap")
        if abs(p - 0.05) > 0.002:
            assert outside == (p < 0.05)


def test_a_weighted_sum_of_one_is_itself():
    ratio = of([0.1, 0.2, 0.4, 0.3, 0.2])
    same = combined(ratio.mean, [(1.0, ratio)])
    assert (same.mean, same.variance, same.freedom) == pytest.approx((ratio.mean, ratio.variance, ratio.freedom))
    assert same.bounds(method="bootstrap") == pytest.approx(ratio.bounds(method="bootstrap"))
    assert not math.isnan(same.variance)
