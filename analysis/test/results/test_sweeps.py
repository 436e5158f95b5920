# SPDX-License-Identifier: MIT
"""Sweeps: ranges become variants, and variants become curves (sweeps.examples), whatever the figures."""

import matplotlib
import numpy as np
import pytest
import scipy
from conftest import ROOT
from heaptape.allocators.registry import Allocator, expand
from heaptape.allocators.tunables import Tunable, Tunables
from heaptape.results.comparing.variants import sweep
from hypothesis import given
from hypothesis import strategies as st
from planted_runs import cycles_and_rss, file_of

matplotlib.use("Agg")

ANY = Tunable("integer", "any number", range=(0, 1000))
TWO = Tunables("G_TUNABLES", {"count": ANY, "max": ANY}, "g.{name}={value}", ":")
REGISTRY = {
    "g": Allocator("", tunables=TWO, name="g", path=ROOT),
    "t": Allocator("", tunables=Tunables("T_{NAME}", {"rate": ANY}), name="t", path=ROOT),
}


def results_of(cycles, rss, name="w"):
    """cycles, rss: variant of allocator r -> one value per repetition."""
    runs = cycles_and_rss(cycles, rss).data["runs"]
    return file_of([run | {"allocator": "r", "variant": run["allocator"]} for run in runs], name)


def test_the_interval_of_a_mean_is_students_and_one_value_has_none():
    random = np.random.default_rng(1)
    values = {f"n={count}": random.uniform(1, 1e6, count) for count in (1, 2, 3, 4)} | {"n=9": np.full(3, 7.0)}
    cycles = sweep([results_of(values, {})], "n").set_index("value")
    for count in (2, 3, 4):
        drawn = values[f"n={count}"]
        expected = scipy.stats.t.interval(0.95, count - 1, drawn.mean(), scipy.stats.sem(drawn))
        assert cycles.loc[count, ["mean", "mean_low", "mean_high"]].tolist() == pytest.approx([drawn.mean(), *expected])
    assert cycles.loc[1, ["mean_low", "mean_high"]].isna().all()
    assert cycles.loc[9, ["mean_low", "mean_high"]].tolist() == [7, 7]


@given(st.integers(0, 50), st.integers(0, 200), st.integers(1, 9))
def test_ranges_are_pythons_with_both_ends(first, length, step):
    last = first + length
    values = [int(name.rpartition("=")[2]) for name in expand(f"g:count={first}..{last}/{step}", REGISTRY)]
    assert values == list(range(first, last + 1, step))
