# SPDX-License-Identifier: MIT
"""Corrections that are fitted on some allocators, and the errors to expect on another one."""

import numpy as np
import pytest
from heaptape.distil import fit
from heaptape.distil.fit import errors, expected
from heaptape.results import distilled


@pytest.mark.parametrize("model", fit.MODELS)
def test_a_correction_that_fits_all_is_found(model):
    have = [100.0, 200.0, 300.0]
    want = {"none": have, "factor": [120.0, 240.0, 360.0], "shift": [150.0, 250.0, 350.0]}[model]
    value = fit.correction(model, have, want)
    assert [distilled.corrected({"model": model, "value": value}, one) for one in have] == pytest.approx(want)


def test_an_allocator_is_left_out_with_its_variants():
    asked = []

    def fit(known):
        asked.append(list(known))
        return np.full(4, 100.0)

    found = errors(fit, np.array([100.0, 110.0, 100.0, 80.0]), ["a", "a", "b", "c"])
    assert sorted(asked) == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 3], [2, 3]]
    assert found.left_out == pytest.approx([0, -9.0909, 0, 25], abs=1e-3)


def test_what_was_known_before_the_fit_is_added_to_the_error_of_what_is_left_out():
    whole, unseen = np.array([100.0, 200.0]), np.array([3.0, -1.0])
    found = errors(lambda known: whole, whole, ["a", "b"], unseen)
    assert found.left_out == pytest.approx(unseen)
    assert found.fitted == pytest.approx([0, 0])
    assert found.expected >= 3


def test_the_interval_covers_the_error_on_another_allocator_as_often_as_it_says():
    luck, covered, tries = np.random.default_rng(4), 0, 3000
    for _ in range(tries):
        drawn = luck.normal(0, 2, 7)
        covered += abs(drawn[6]) <= expected(drawn[:6], list("abcdef"))
    assert 0.935 <= covered / tries <= 0.975


def test_a_kind_of_call_that_a_distillate_lacks_counts_zero():
    run = {"windows": {"positions": [0, 10, 20], "instructions": {"free": [5, 7]}}}
    positions, counts = distilled.until("instructions/calloc", run)
    assert (positions, counts.tolist()) == ([0, 10, 20], [0, 0, 0])
    assert distilled.until("instructions", run)[1].tolist() == [0, 5, 12]


def manifest():
    return {
        "segments": [[0, 0, 10, 0, 10, 1.0], [15, 20, 30, 40, 50, 3.0]],
        "map": [[0, 0], [10, 10], [20, 40], [30, 50], [40, 100]],
        "whole": {"calls": {"malloc": 10, "free": 5}},
        "expected": {
            "instructions": 1.0,
            "instructions/malloc": 2.0,
            "misses/all/cache_64": 3.0,
            "rss-peak": 2.0,
            "rss-mean": 3.0,
        },
        "corrections": {
            "misses/all/cache_64": {"model": "factor", "value": 0.5},
            "rss-peak": {"model": "factor", "value": 2.0},
            "rss-mean": {"model": "shift", "value": 5.0},
        },
    }


def test_estimates_by_hand():
    windows = {"positions": [0, 10, 20, 30], "instructions": {"malloc": [70, 9, 40], "free": [30, 9, 10]}}
    timeline = [[0, 100.0, 0, 0], [10, 200.0, 0, 0], [30, 400.0, 0, 0]]
    missed = {"positions": [0, 10, 20, 30], "caches": [{"bytes": 64, "misses": [4, 10, 11, 13]}], "tlbs": []}
    runs = {
        "instructions": {"windows": windows},
        "misses": {"misses": {"caches": [{"bytes": 64, "misses": 15}], "windows": missed}},
        "memory": {"timeline": timeline, "rss_anon_peak_bytes": 400.0},
    }
    found = distilled.estimates(runs, manifest()).set_index("figure")["value"]
    assert distilled.edges(manifest()) == [0, 10, 20, 30, 40]
    assert found["instructions"] == 100 + 3 * 50
    assert found["instructions/malloc"] == (70 + 3 * 40) / 10
    # The start-up's 4 and the end's 2 count once.
    assert found["misses/all/cache_64"] == 0.5 * (4 + 2 + 6 + 3 * 2)
    assert found["rss-peak"] == 800
    # 10 of the whole's positions at 100 bytes, 40 at 200, 50 at 400.
    assert found["rss-mean"] == pytest.approx(10 + 80 + 200 + 5, rel=1e-3)


def test_a_figure_whose_pass_was_not_made_is_not_estimated():
    timeline = {"timeline": [[0, 100.0, 0, 0]], "rss_anon_peak_bytes": 100.0}
    assert list(distilled.estimates({"memory": timeline}, manifest())["figure"]) == ["rss-peak", "rss-mean"]
