# SPDX-License-Identifier: MIT
"""Weights and corrections that are fitted on allocators, and the errors to expect on another."""

import math

import numpy as np
import pytest
from heaptape.distil import calibrate
from heaptape.distil.errors import errors, expected
from heaptape.results import distilled
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


@examples(50)
@given(seed=st.integers(0, 10_000), windows=st.integers(12, 60), allocators=st.integers(1, 6))
def test_calibrated_weights_meet_the_totals_and_stay_near_the_strata(seed, windows, allocators):
    luck = np.random.default_rng(seed)
    counted = luck.uniform(50, 150, (windows, allocators))
    base = luck.uniform(5, 20, windows)
    totals = base @ counted * luck.uniform(0.97, 1.03, allocators)
    found = calibrate.weights(base, counted, totals, 1e-8)
    if (found > 0).all():  # else some would have been negative, and the totals are not met
        assert found @ counted == pytest.approx(totals, rel=1e-3)
    soft = calibrate.weights(base, counted, totals, 1.0)
    assert np.abs(soft - base).sum() <= np.abs(found - base).sum() + 1e-9


def test_no_weight_is_negative():
    base, counted = np.array([1.0, 1.0, 1.0]), np.array([[1.0], [100.0], [1.0]])
    assert (calibrate.weights(base, counted, np.array([1.0]), 1e-8) >= 0).all()


def test_the_strongest_ridge_is_one_factor_for_all():
    base, counted = np.array([1.0, 3.0]), np.array([[10.0, 20.0], [30.0, 10.0]])
    found = calibrate.weights(base, counted, base @ counted * 1.1, math.inf)
    assert found == pytest.approx(1.1 * base)


@pytest.mark.parametrize("model", calibrate.MODELS)
def test_a_correction_that_fits_all_is_found(model):
    have = [100.0, 200.0, 300.0]
    want = {"none": have, "factor": [120.0, 240.0, 360.0], "shift": [150.0, 250.0, 350.0]}[model]
    value = calibrate.correction(model, have, want)
    assert [distilled.corrected({"model": model, "value": value}, one) for one in have] == pytest.approx(want)


def test_an_allocator_is_left_out_with_its_variants():
    asked = []

    def fit(known):
        asked.append(list(known))
        return np.full(4, 100.0)

    found = errors(fit, np.array([100.0, 110.0, 100.0, 80.0]), ["a", "a", "b", "c"])
    assert sorted(asked) == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 3], [2, 3]]
    assert found.left_out == pytest.approx([0, -9.0909, 0, 25], abs=1e-3)


def test_the_interval_covers_the_error_on_another_allocator_as_often_as_it_says():
    luck, covered, tries = np.random.default_rng(4), 0, 3000
    for _ in range(tries):
        drawn = luck.normal(0, 2, 7)
        covered += abs(drawn[6]) <= expected(drawn[:6], list("abcdef"))
    assert 0.935 <= covered / tries <= 0.975


def manifest():
    return {
        "segments": [[0, 0, 10, 0, 10, 1.0], [15, 20, 30, 40, 50, 3.0]],
        "map": [[0, 0], [10, 10], [20, 40], [30, 50], [40, 100]],
        "expected": {"instructions": 1.0, "rss-peak": 2.0, "rss-mean": 3.0},
        "corrections": {"rss-peak": {"model": "factor", "value": 2.0}, "rss-mean": {"model": "shift", "value": 5.0}},
    }


def test_estimates_by_hand():
    windows = {"positions": [0, 10, 20, 30], "instructions": {"malloc": [70, 9, 40], "free": [30, 9, 10]}}
    timeline = [[0, 100.0, 0, 0], [10, 200.0, 0, 0], [30, 400.0, 0, 0]]
    runs = {"instructions": {"windows": windows}, "memory": {"timeline": timeline, "rss_anon_peak_bytes": 400.0}}
    found = distilled.estimates(runs, manifest()).set_index("figure")["value"]
    assert distilled.edges(manifest()) == [0, 10, 20, 30]
    assert found["instructions"] == 100 + 3 * 50
    assert found["rss-peak"] == 800
    # 10 of the whole's positions at 100 bytes, 40 at 200, 50 at 400.
    assert found["rss-mean"] == pytest.approx(10 + 80 + 200 + 5, rel=1e-3)


def test_a_figure_whose_pass_was_not_made_is_not_estimated():
    timeline = {"timeline": [[0, 100.0, 0, 0]], "rss_anon_peak_bytes": 100.0}
    assert list(distilled.estimates({"memory": timeline}, manifest())["figure"]) == ["rss-peak", "rss-mean"]
