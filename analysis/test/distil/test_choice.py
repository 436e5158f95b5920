# SPDX-License-Identifier: MIT
"""What a distillate keeps: windows, one of each stratum; the highs of as many parts of the history as there is room.
Heaps that age are distinguished from those that only grow. Corrections that are fitted on some allocators, and the
errors to expect on another one.
"""

import functools
from typing import get_args

import msgspec
import numpy as np
import pandas as pd
import pytest
from heaptape.common.home import default_home
from heaptape.distil import fit, measured, plan
from heaptape.distil.fit import errors, expected
from heaptape.distil.measured import cell_edges
from heaptape.distil.plan import Cells, Kind, Planner
from heaptape.results import distilled
from heaptape.results.structs import Correction, Distilled, Run, Windows, timeline_frame
from heaptape.tape.workload_format import read_workload
from hypothesis import given
from hypothesis import strategies as st

from analysis.test.distil.planted_histories import stationary
from tests.examples import examples
from tests.support import check


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    return stationary(tmp_path_factory.mktemp("choice"), turns=5000)


def random_cells(seed, count):
    luck = np.random.default_rng(seed)
    return pd.DataFrame({"glibc": luck.gamma(2, 100, count), "calls of malloc": luck.integers(1, 50, count)})


@examples(60)
@given(seed=st.integers(0, 1000), ops=st.integers(60, 20_000), per_window=st.integers(1, 9), wanted=st.integers(2, 40))
def test_windows_stand_for_every_op_once(seed, ops, per_window, wanted):
    edges = cell_edges(ops)
    windows = plan.choose(random_cells(seed, len(edges) - 1), edges, plan.Sampled(per_window, wanted, seed))
    assert 1 <= len(windows.begin) <= wanted
    assert windows.begin[0] == 0
    assert (windows.begin[1:] >= windows.end[:-1]).all()
    assert ((windows.end - windows.begin) * windows.weight).sum() == pytest.approx(ops)


def test_the_same_seed_chooses_the_same():
    edges = cell_edges(10_000)
    one, other = (plan.choose(random_cells(1, len(edges) - 1), edges, plan.Sampled(2, 9, 5)) for _ in range(2))
    assert (one.begin == other.begin).all()
    assert (one.weight == other.weight).all()


def test_a_rare_window_that_is_unlike_the_rest_stands_for_itself():
    edges = cell_edges(20_000)
    cells = pd.DataFrame({"glibc": np.random.default_rng(2).normal(1000, 5, len(edges) - 1)})
    cells.loc[150] = 9000.0
    windows = plan.choose(cells, edges, plan.Sampled(1, 8, 0))
    rare = np.flatnonzero(windows.begin == edges[150])
    assert len(rare) == 1
    assert windows.weight[rare[0]] == 1


def test_the_sampling_error_is_that_of_the_weighted_windows_of_the_whole():
    windows = plan.Windows(np.array([0, 20]), np.array([10, 30]), np.array([1.0, 3.0]))
    # 1 x 5 + 3 x 9 of 5 + 7 + 9 + 11
    error = plan.sampling_error(pd.Series([5, 7, 9, 11]), np.array([0, 10, 20, 30, 40]), windows)
    assert error == pytest.approx(100 * (32 / 32 - 1))
    error = plan.sampling_error(pd.Series([5, 7, 1, 11]), np.array([0, 10, 20, 30, 40]), windows)
    assert error == pytest.approx(100 * (8 / 24 - 1))


def test_what_an_allocator_costs_where_others_do_not_is_unseen():
    """Its expensive windows get a stratum only where the allocator was known."""
    none = pd.DataFrame()
    edges = cell_edges(20_000)
    luck = np.random.default_rng(4)
    cells = pd.DataFrame({name: luck.normal(1000, 1, len(edges) - 1) for name in ("one", "like", "other")})
    cells.loc[100:120, "one"] *= 40
    families = {"one": "one", "like": "like", "other": "other"}
    found = plan.left_out(cells, edges, plan.Sampled(1, 6, 0), families, none)
    assert abs(found.at["one", "unseen"]) > 5
    assert found.loc[["like", "other"], "unseen"].abs().max() < 1
    assert found.at["one", "sampling"] > abs(found.at["one", "unseen"])


def test_the_sampling_interval_is_that_of_the_variance_within_strata():
    """By hand: strata of 1 and 7, of 4 and 4 and 10, and of one window alone."""
    counts = pd.Series([1.0, 7.0, 4.0, 4.0, 10.0, 74.0])
    found = plan.sampling_interval(counts, 1, np.array([0, 0, 1, 1, 1, 2]))
    assert found == pytest.approx(100 * 1.959964 * (2 * 1 * 18 + 3 * 2 * 12) ** 0.5 / 100)


def planted(seed, windows=400, strata=8):
    """Counts of a population whose scatter within strata no known allocator shows: gamma, skewed like calls."""
    luck = np.random.default_rng(seed)
    stratum = luck.integers(0, strata, windows)
    level, shape = luck.uniform(100, 5000, strata)[stratum], luck.uniform(2, 30, strata)[stratum]
    return stratum, pd.Series(luck.gamma(shape, level / shape))


def test_the_sampling_interval_covers_as_often_as_it_says():
    """With one window drawn at random from each stratum, many times from each population."""
    populations, times, covered = 200, 10, 0
    for seed in range(populations):
        stratum, counts = planted(seed)
        luck = np.random.default_rng(seed + populations)
        strata, sizes = np.unique(stratum, return_counts=True)
        drawn = [luck.choice(counts[stratum == one], times) for one in strata]
        errors = 100 * (sizes @ drawn / counts.sum() - 1)
        covered += (np.abs(errors) <= plan.sampling_interval(counts, 1, stratum)).sum()
    assert 0.92 <= covered / (populations * times) <= 0.97


def test_the_sampling_interval_covers_an_allocator_by_which_no_window_was_chosen():
    """Windows nearest to the strata's means on other allocators are also nearer to its own means than random ones."""
    edges, tries, covered = cell_edges(400 * 50), 150, 0
    for seed in range(tries):
        stratum, unseen = planted(seed)
        level = unseen.groupby(stratum).transform("mean")
        luck = np.random.default_rng(seed)
        known = pd.DataFrame({name: level * luck.normal(1, 0.02, len(level)) for name in ("one", "other")})
        windows = plan.choose(known, edges, plan.Sampled(1, 12, seed))
        error = plan.sampling_error(unseen, edges, windows)
        covered += abs(error) <= plan.sampling_interval(unseen, 1, windows.stratum)
    assert 0.9 <= covered / tries < 1


def test_windows_have_the_whole_live_heap_where_there_is_room(workload):
    planner = planner_of(workload, "both")
    ops = read_workload(workload).ops
    assert planner.plan(ops).heap == "live"
    assert planner.plan(1).heap == "touched"


def planner_of(workload, kind):
    edges = cell_edges(read_workload(workload).ops)
    counted = functools.partial(measured.count, workload, home=default_home())
    return Planner(Cells(random_cells(3, len(edges) - 1), edges), counted, kind, 0)


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("share", [0.6, 0.9])
def test_a_plan_has_no_more_ops_than_asked_for_and_the_trace_has_as_many(workload, tmp_path, kind, share):
    ops = int(share * read_workload(workload).ops)
    plan = planner_of(workload, kind).plan(ops)
    assert plan.floor <= plan.ops <= ops
    assert (plan.windows["begin"].to_numpy()[1:] >= plan.windows["end"].to_numpy()[:-1]).all()
    measured.write(workload, plan, {"kind": kind}, tmp_path / "d.tape", default_home())
    assert check(tmp_path / "d.tape")["events"] == plan.ops


def test_what_is_less_than_the_floor_is_exceeded_and_not_thinned(workload):
    plan = planner_of(workload, "memory").plan(1)
    assert plan.ops == plan.floor > 1
    assert plan.segments == 1


def test_more_ops_keep_the_highs_of_more_parts_of_the_history(workload):
    planner = planner_of(workload, "memory")
    ops = read_workload(workload).ops
    segments = [planner.plan(int(share * ops)).segments for share in (0.01, 0.7, 1.0)]
    assert segments == sorted(segments)
    assert segments[0] < segments[2]


FAMILIES = {"glibc": "glibc", "glibc:no-tcache": "glibc", "reference": "reference"}


def growth(*rows):
    """Rows of RSS and live bytes."""
    timeline = [[position, rss, 0, live] for position, (rss, live) in enumerate(rows)]
    return measured.growth_percent(timeline_frame(timeline))


def test_a_heap_whose_rss_follows_its_live_bytes_does_not_age():
    assert growth((10, 10), (50, 50), (100, 100), (60, 50)) == 0


def test_growth_is_that_of_rss_at_as_many_live_bytes():
    assert growth((10, 10), (120, 100), (130, 98), (180, 100), (120, 40)) == pytest.approx(50)


def test_without_samples_or_live_bytes_there_is_no_growth():
    assert growth() == 0
    assert growth((0, 0), (10, 0)) == 0


@pytest.mark.parametrize(
    ("percents", "expected"), [((60, 60, 0), False), ((60, 0, 5), False), ((60, 0, 11), True), ((0, 12, 12), True)]
)
def test_a_heap_ages_if_it_does_on_two_allocators(percents, expected):
    assert measured.ages(dict(zip(FAMILIES, percents, strict=True)), FAMILIES) == expected


@pytest.mark.parametrize("model", fit.MODELS)
def test_a_correction_that_fits_all_is_found(model):
    have = [100.0, 200.0, 300.0]
    want = {"none": have, "factor": [120.0, 240.0, 360.0], "shift": [150.0, 250.0, 350.0]}[model]
    value = fit.correction(model, have, want)
    assert [distilled.corrected(Correction(model, value), one) for one in have] == pytest.approx(want)


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
    run = Run("a", windows=Windows([0, 10, 20], {"free": [5, 7]}))
    positions, counts = distilled.until("instructions/calloc", run)
    assert (positions, counts.tolist()) == ([0, 10, 20], [0, 0, 0])
    assert distilled.until("instructions", run)[1].tolist() == [0, 5, 12]


def manifest():
    about = {
        "version": distilled.VERSION,
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
    return msgspec.convert(about, Distilled)


def estimates(runs):
    made = {name: msgspec.convert({"allocator": "a", "pass": name} | run, Run) for name, run in runs.items()}
    found = [(figure, made.get(distilled.pass_of(figure))) for figure in manifest().expected]
    return {figure: distilled.estimate(figure, run, manifest()) for figure, run in found if run}


def test_estimates_by_hand():
    windows = {"positions": [0, 10, 20, 30], "instructions": {"malloc": [70, 9, 40], "free": [30, 9, 10]}}
    timeline = [[0, 100.0, 0, 0], [10, 200.0, 0, 0], [30, 400.0, 0, 0]]
    missed = {"positions": [0, 10, 20, 30], "caches": [{"bytes": 64, "misses": [4, 10, 11, 13]}], "tlbs": []}
    runs = {
        "instructions": {"windows": windows},
        "misses": {"misses": {"caches": [{"bytes": 64, "misses": 15}], "windows": missed}},
        "memory": {"timeline": timeline, "rss_anon_peak_bytes": 400.0},
    }
    found = estimates(runs)
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
    assert list(estimates({"memory": timeline})) == ["rss-peak", "rss-mean"]
