"""What a distillate keeps: objects of the highs, against a count by hand; windows, one of each stratum."""

import numpy as np
import pandas as pd
import pytest
from heaptape.distil import select
from heaptape.distil.history import LARGE_BYTES, History
from heaptape.distil.measured import cell_edges
from heaptape.distil.plan import Cells, Planner
from hypothesis import given
from hypothesis import strategies as st

from analysis.test.gate.pieces import make_workload
from tests.examples import examples


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return History.of(make_workload(tmp_path_factory.mktemp("choice"), events=3000))


def size_class(largest_bytes):
    return int(np.log2(max(largest_bytes, 1)) * 4)


def live_bytes(objects, members):
    """After each op, one by one."""
    live, table = np.zeros(objects.ops), objects.table.iloc[members]
    for born, end, size in zip(table["born"], table["end"], table["largest_bytes"], strict=True):
        live[born:end] += size
    return live


@pytest.mark.parametrize("segments", [1, 5])
def test_of_each_size_class_and_part_the_objects_of_its_high_are_kept(history, segments):
    objects, keep = history.objects, history.at_highs(segments)
    classes = objects.table["largest_bytes"].map(size_class)
    small = objects.table["largest_bytes"] < LARGE_BYTES
    part_of = np.arange(objects.ops) * segments // objects.ops
    for members in objects.table[small].groupby(classes[small]).groups.values():
        numbers = np.array(members)
        whole, kept = live_bytes(objects, numbers), live_bytes(objects, numbers[keep[numbers]])
        for part in range(segments):
            here = part_of == part
            changes = np.diff(np.concatenate([[0.0], whole]))[here] != 0
            if changes.any():  # else what is live was live at the high before, or is not needed for a high here
                assert kept[here][changes].max() == pytest.approx(whole[here][changes].max())


def test_large_objects_are_kept_and_so_is_what_is_live_at_the_peak(history):
    table, keep = history.objects.table, history.at_highs(1)
    assert keep[table["largest_bytes"] >= LARGE_BYTES].all()
    everything = np.arange(len(table))
    peak = live_bytes(history.objects, everything).max()
    assert live_bytes(history.objects, everything[keep]).max() == pytest.approx(peak)


def test_more_parts_of_the_history_keep_more(history):
    kept = [history.ops_of(history.at_highs(segments)) for segments in (1, 4, 16)]
    assert kept == sorted(kept)
    assert kept[0] < kept[2]


def random_cells(seed, count):
    luck = np.random.default_rng(seed)
    return pd.DataFrame({"glibc": luck.gamma(2, 100, count), "calls of malloc": luck.integers(1, 50, count)})


@examples(60)
@given(seed=st.integers(0, 1000), ops=st.integers(60, 20_000), per_window=st.integers(1, 9), wanted=st.integers(2, 40))
def test_windows_stand_for_every_op_once(seed, ops, per_window, wanted):
    edges = cell_edges(ops)
    windows = select.choose(random_cells(seed, len(edges) - 1), edges, per_window, wanted, seed)
    assert 1 <= len(windows.begin) <= wanted
    assert windows.begin[0] == 0
    assert (windows.begin[1:] >= windows.end[:-1]).all()
    assert ((windows.end - windows.begin) * windows.weight).sum() == pytest.approx(ops)


def test_the_same_seed_chooses_the_same():
    edges = cell_edges(10_000)
    one, other = (select.choose(random_cells(1, len(edges) - 1), edges, 2, 9, 5) for _ in range(2))
    assert (one.begin == other.begin).all()
    assert (one.weight == other.weight).all()


def test_a_rare_window_that_is_unlike_the_rest_stands_for_itself():
    edges = cell_edges(20_000)
    cells = pd.DataFrame({"glibc": np.random.default_rng(2).normal(1000, 5, len(edges) - 1)})
    cells.loc[150] = 9000.0
    windows = select.choose(cells, edges, 1, 8, 0)
    rare = np.flatnonzero(windows.begin == edges[150])
    assert len(rare) == 1
    assert windows.weight[rare[0]] == 1


@pytest.mark.parametrize("kind", ["time", "memory", "both"])
def test_a_plan_has_all_objects_of_its_windows_and_no_more_ops_than_asked_for(history, kind):
    edges = cell_edges(history.ops)
    planner = Planner(history, Cells(random_cells(3, len(edges) - 1), edges), kind, 0)
    plan = planner.plan(int(0.9 * history.ops))
    assert plan.ops <= 0.9 * history.ops
    assert (plan.windows["begin"].to_numpy()[1:] >= plan.windows["end"].to_numpy()[:-1]).all()
    for window in plan.windows.itertuples():
        assert plan.keep[history.objects.of_op[window.begin : window.end]].all()
    assert plan.floor == history.ops_of(history.at_highs(1))


def test_what_is_less_than_the_floor_is_exceeded_and_not_thinned(history):
    edges = cell_edges(history.ops)
    plan = Planner(history, Cells(random_cells(3, len(edges) - 1), edges), "memory", 0).plan(1)
    assert plan.ops >= plan.floor > 1
