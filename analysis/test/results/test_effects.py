# SPDX-License-Identifier: MIT
"""Effect sizes: by hand, against scipy, and unbiased where they say so."""

import numpy as np
import pytest
import scipy
from heaptape.results.comparing.verdicts import cliffs_delta, correction, hedges_g, hedges_g_unpaired
from hypothesis import given
from hypothesis import strategies as st

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
