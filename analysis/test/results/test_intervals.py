# SPDX-License-Identifier: MIT
"""Intervals of ratios: they are scipy's, and their coverage is as stated. The studentised bootstrap: its coverage is
as stated, and it is the same each time. Effect sizes: by hand, against scipy, and unbiased where they say so.
"""

import math

import numpy as np
import pytest
import scipy
from coverage_of_intervals import coverage
from heaptape.results.comparing import intervals
from heaptape.results.comparing.intervals import LogRatio, combined, log_ratio, mean_of
from heaptape.results.comparing.verdicts import cliffs_delta, correction, hedges_g, hedges_g_unpaired
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_runs import series

positive = st.floats(0.01, 1e12)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=12))
def test_paired_interval_is_scipys(pairs):
    base, other = (series([p[i] for p in pairs]) for i in (0, 1))
    difference = np.log(other.to_numpy()) - np.log(base.to_numpy())
    ratio = log_ratio(base, other)
    assert ratio.mean == pytest.approx(difference.mean())
    if difference.std() < 1e-9:
        return
    expected = scipy.stats.t.interval(0.95, len(pairs) - 1, difference.mean(), scipy.stats.sem(difference))
    half = ratio.half_width()
    assert (ratio.mean - half, ratio.mean + half) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(st.lists(positive, min_size=2, max_size=8, unique=True), st.lists(positive, min_size=2, max_size=8, unique=True))
def test_unpaired_interval_is_welchs(one, two):
    ratio = log_ratio(series(one), series(two, first=100))
    if np.log(one).std() < 1e-6 or np.log(two).std() < 1e-6:
        return
    ends = ratio.mean + np.array([[-1], [1]]) * ratio.half_width()
    test = scipy.stats.ttest_ind(np.log(two) - ends, np.log(one)[None], axis=1, equal_var=False)
    assert test.pvalue == pytest.approx(0.05, rel=1e-6)


def test_one_repetition_gives_no_interval():
    ratio = log_ratio(series([2.0]), series([3.0]))
    assert math.exp(ratio.mean) == pytest.approx(1.5)
    assert all(math.isnan(bound) for bound in ratio.interval())


@pytest.mark.parametrize("bad", [[0.0, 1.0], [-1.0, 2.0], []])
def test_no_ratio_of_what_is_not_positive(bad):
    assert log_ratio(series([1.0, 1.0]), series(bad)) is None
    assert log_ratio(series(bad), series([1.0, 1.0])) is None


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=6))
def test_mean_over_workloads_is_the_geometric_mean(pairs):
    ratios = [log_ratio(series([a, a]), series([b, b])) for a, b in pairs]
    expected = scipy.stats.gmean([b / a for a, b in pairs])
    assert math.exp(mean_of(ratios).mean) == pytest.approx(expected)


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


values = st.lists(st.integers(-50, 50), min_size=1, max_size=12)


def test_hedges_g_by_hand():
    """Mean 3, standard deviation 1, J(2) = Gamma(1) / (1 * Gamma(1/2)) = 1 / sqrt(pi)."""
    assert hedges_g(np.array([2.0, 3.0, 4.0])) == pytest.approx(3 / np.sqrt(np.pi))


def test_the_correction_is_close_to_the_usual_approximation():
    for freedom in (5, 10, 40):
        assert correction(freedom) == pytest.approx(1 - 3 / (4 * freedom - 1), abs=2e-3)


@pytest.mark.parametrize("count", [4, 6, 12])
def test_hedges_g_is_unbiased(count):
    random = np.random.default_rng(count)
    samples = random.normal(0.8, 1, (40_000, count))
    raw = samples.mean(axis=1) / samples.std(axis=1, ddof=1)
    assert (correction(count - 1) * raw).mean() == pytest.approx(0.8, abs=0.02)
    assert raw.mean() > 0.85, "what is corrected"
    assert hedges_g(samples[0]) == pytest.approx(correction(count - 1) * raw[0])


def test_unpaired_g_is_students_t_scaled():
    one, two = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 6.0, 9.0])
    t = scipy.stats.ttest_ind(two, one).statistic
    assert hedges_g_unpaired(one, two) == pytest.approx(correction(5) * t * np.sqrt(1 / 3 + 1 / 4))


@given(values, values)
def test_cliffs_delta_is_mann_whitneys_u(one, two):
    u = scipy.stats.mannwhitneyu(two, one).statistic if one and two else 0
    assert cliffs_delta(one, two) == pytest.approx(2 * u / (len(one) * len(two)) - 1)


def test_without_noise_or_repetition_there_is_no_number():
    assert np.isnan(hedges_g(np.array([1.0])))
    assert np.isnan(hedges_g(np.zeros(3)))
    assert hedges_g(np.array([-2.0, -2.0, -2.0])) == -np.inf
    assert np.isnan(cliffs_delta([], [1.0]))
