# SPDX-License-Identifier: MIT
"""Sweeps: ranges become variants, and variants become curves."""

import matplotlib
import numpy as np
import pytest
import scipy
from conftest import ROOT
from heaptape.allocators.registry import Allocator, choose_all, expand
from heaptape.allocators.tunables import Tunable, Tunables
from heaptape.common.errors import HeaptapeError
from heaptape.results.comparing.compare import as_shown
from heaptape.results.comparing.variants import choose_tunable, curve, settings_of, sweep, tunables_in
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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("g:count=0..16/4", ["g:count=0", "g:count=4", "g:count=8", "g:count=12", "g:count=16"]),
        ("g:count=0..5/2", ["g:count=0", "g:count=2", "g:count=4"]),
        ("g:count=2..4", ["g:count=2", "g:count=3", "g:count=4"]),
        ("g:count=1..64*4", ["g:count=1", "g:count=4", "g:count=16", "g:count=64"]),
        ("g:count=0,7,10..30/10", ["g:count=0", "g:count=7", "g:count=10", "g:count=20", "g:count=30"]),
        ("g:count=1..2 max=8,9", ["g:count=1 max=8", "g:count=1 max=9", "g:count=2 max=8", "g:count=2 max=9"]),
        ("t:T_RATE=1..3", ["t:T_RATE=1", "t:T_RATE=2", "t:T_RATE=3"]),
        ("g:G_TUNABLES=g.count=1,2", ["g:G_TUNABLES=g.count=1,2"]),
        ("./x.so:A=1..2", ["./x.so:A=1", "./x.so:A=2"]),
        ("g", ["g"]),
        ("g:some-variant", ["g:some-variant"]),
    ],
)
def test_a_range_is_one_variant_for_each_value(name, expected):
    assert expand(name, REGISTRY) == expected


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("g:count=5..1", "is not a range"),
        ("g:count=1..9/0", "is not a range"),
        ("g:count=0..9*2", "is not a range"),
        ("g:count=1..9*1", "is not a range"),
        ("g:count=0..100000", "more than 1000 values"),
        ("g:count=1..100 max=1..100", "more than 1000 values"),
    ],
)
def test_a_range_that_ends_nowhere_is_refused(name, what):
    with pytest.raises(HeaptapeError, match=what):
        expand(name, REGISTRY)


def test_tunables_become_the_allocators_own_environment():
    made = choose_all(["g:count=1,2 max=9", "t:rate=3 OTHER=4", "g:G_TUNABLES=g.count=7"], REGISTRY)
    assert [choice.environment for choice in made] == [
        {"G_TUNABLES": "g.count=1:g.max=9"},
        {"G_TUNABLES": "g.count=2:g.max=9"},
        {"OTHER": "4", "T_RATE": "3"},
        {"G_TUNABLES": "g.count=7"},
    ]
    with pytest.raises(HeaptapeError, match="unknown tunable 'cuont' of g: did you mean 'count'"):
        choose_all(["g:cuont=1"], REGISTRY)


@pytest.mark.parametrize(
    ("label", "rest"),
    [
        ("glibc:tcache_count=4", "glibc"),
        ("glibc:tcache_count=4 arena_max=1", "glibc:arena_max=1"),
        ("glibc:arena_max=1 tcache_count=4", "glibc:arena_max=1"),
        ("glibc:GLIBC_TUNABLES=glibc.malloc.tcache_count=4", "glibc"),
        ("reference:REFERENCE_TUNABLES=tcache_count=4:stats=1", "reference:REFERENCE_TUNABLES=:stats=1"),
    ],
)
def test_a_variant_says_its_value_and_its_curve(label, rest):
    assert settings_of(label)["tcache_count"] == 4
    assert curve(label, "tcache_count") == rest


def test_names_with_numbers_in_them_are_not_settings():
    assert settings_of("reference:tcache-count-100") == {}
    assert settings_of("glibc") == {}


def results_of(cycles, rss, name="w"):
    """cycles, rss: variant of allocator r -> one value per repetition."""
    runs = cycles_and_rss(cycles, rss).data["runs"]
    return file_of([run | {"allocator": "r", "variant": run["allocator"]} for run in runs], name)


SWEPT = results_of(
    {"n=8": [50, 55], "default": [70, 70], "n=0": [100, 110], "n=2": [80, 88]},
    {"n=8": [300, 300], "n=0": [100, 100], "n=2": [150, 150]},
)


def test_points_of_a_sweep_by_hand():
    frame = sweep([SWEPT], "n").set_index(["figure", "value"])
    cycles = frame.loc["total_cycles"]
    assert list(cycles.index) == pytest.approx([np.nan, 0, 2, 8], nan_ok=True)
    assert list(cycles["mean"]) == pytest.approx([70, 105, 84, 52.5])
    # Two values 10 apart: standard deviation 7.071, error 5, Student's t of one degree of freedom 12.706.
    assert cycles.loc[0.0, "mean_high"] == pytest.approx(105 + 12.7062 * 5, rel=1e-4)
    assert list(cycles["percent"]) == pytest.approx([100 * 70 / np.sqrt(100 * 110), 100, 80, 50])
    assert (cycles.loc[8.0, "low"], cycles.loc[8.0, "high"]) == pytest.approx((50, 50))
    rss = frame.loc["peak_rss"]
    assert list(rss.index) == [0, 2, 8]
    assert list(rss["mean"]) == list(rss["mean_low"]) == list(rss["mean_high"]) == [100, 150, 300]
    assert list(rss["percent"]) == pytest.approx([100, 150, 300])
    assert set(frame["allocator"]) == {"r"}


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


def test_intervals_that_span_a_factor_of_two_are_not_shown():
    """Two values 10 apart are 127 wide (see above); two that are the same have an interval of no width."""
    frame = as_shown(sweep([SWEPT], "n")).set_index(["figure", "value"])
    assert frame.loc[("total_cycles", 0.0), ["mean_low", "mean_high"]].isna().all()
    assert frame.loc[("total_cycles", 0.0), "mean"] == 105
    assert list(frame.loc["peak_rss"]["mean_low"]) == [100, 150, 300]


def test_the_tunable_that_was_swept_is_found():
    assert tunables_in([SWEPT]) == ["n"]
    assert choose_tunable([SWEPT], None) == "n"
    with pytest.raises(HeaptapeError, match="tunable 'm' was not swept: the results have n"):
        choose_tunable([SWEPT], "m")
    with pytest.raises(HeaptapeError, match="no tunable was swept"):
        choose_tunable([results_of({"n=1": [1]}, {})], None)
    both = results_of({f"n={n} m={m}": [1] for n in (1, 2) for m in (1, 2)}, {})
    with pytest.raises(HeaptapeError, match="several tunables"):
        choose_tunable([both], None)
    assert set(sweep([both], "n")["allocator"]) == {"r:m=1", "r:m=2"}


@given(st.integers(0, 50), st.integers(0, 200), st.integers(1, 9))
def test_ranges_are_pythons_with_both_ends(first, length, step):
    last = first + length
    values = [int(name.rpartition("=")[2]) for name in expand(f"g:count={first}..{last}/{step}", REGISTRY)]
    assert values == list(range(first, last + 1, step))
