# SPDX-License-Identifier: MIT
"""What a distillate keeps: windows, one of each stratum; the highs of as many parts of the history as there is room."""

import functools
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from heaptape.common.home import default_home
from heaptape.distil import measured, plan
from heaptape.distil.measured import cell_edges
from heaptape.distil.plan import Cells, Kind, Planner
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
