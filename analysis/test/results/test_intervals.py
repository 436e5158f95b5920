# SPDX-License-Identifier: MIT
"""Intervals of ratios: they are scipy's."""

import math

import numpy as np
import pytest
import scipy
from heaptape.results.comparing.intervals import LogRatio, combined, log_ratio, mean_of
from hypothesis import given
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


def test_a_weighted_sum_of_one_is_itself():
    ratio = of([0.1, 0.2, 0.4, 0.3, 0.2])
    same = combined(ratio.mean, [(1.0, ratio)])
    assert (same.mean, same.variance, same.freedom) == pytest.approx((ratio.mean, ratio.variance, ratio.freedom))
    assert same.bounds() == pytest.approx(ratio.bounds())
    assert not math.isnan(same.variance)
