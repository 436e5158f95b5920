# SPDX-License-Identifier: MIT
"""Which recordings stand for a fleet."""

import itertools

import numpy as np
import pandas as pd
import pytest
from heaptape.common.errors import UsageError
from heaptape.features.fleet import choose as module
from heaptape.features.fleet.choose import choose, errors, standardised
from heaptape.features.fleet.dataset import FEATURES


def made_up(count, groups, programs=1, seed=0):
    """Traces of `groups` groups, each near its own place; a group is of one program."""
    rng = np.random.default_rng(seed)
    places = [{name: rng.uniform(2, 20) for name in FEATURES} for _ in range(groups)]
    rows = []
    for number in range(count):
        place = places[number % groups]
        features = {
            name: place[name] / 20 + rng.normal(0, 0.002) if feature.compared == "plain" else 2 ** place[name]
            for name, feature in FEATURES.items()
        }
        rows.append(features | {
            "trace": f"{number:064x}", "name": f"{number % groups}", "source": f"/{number}.tape",
            "program": f"p{number % groups % programs}",
        })  # fmt: skip
    return pd.DataFrame(rows)


def cost(place, medoids):
    """Sum of the distances to the nearest medoid."""
    return np.linalg.norm(place[:, None] - place[list(medoids)], axis=2).min(axis=1).sum()


@pytest.mark.parametrize("seed", range(6))
def test_the_chosen_are_those_of_all_choices_that_the_others_are_nearest_to(seed):
    traces = made_up(13, 13, seed=seed)
    place = standardised(traces)
    chosen = choose(traces, 3)
    medoids = {list(traces["trace"]).index(trace) for trace in chosen.traces["trace"]}
    least = min(cost(place, some) for some in itertools.combinations(range(13), 3))
    assert cost(place, medoids) <= 1.02 * least


def test_groups_are_found_and_their_weights_are_their_sizes():
    chosen = choose(made_up(130, 12, programs=3), 12)
    assert sorted(chosen.traces["name"], key=int) == [str(group) for group in range(12)]
    assert dict(zip(chosen.traces["name"], chosen.traces["recordings"])) == {str(g): 11 - (g > 9) for g in range(12)}
    assert chosen.traces["weight"].sum() == 130
    assert chosen.explained > 0.95


def test_each_program_is_stood_for_by_its_own():
    traces = made_up(60, 6, programs=6)
    traces.loc[traces.index[1:], "program"] = "common"  # one recording is of a different program
    chosen = choose(traces, 3)
    of_program = traces.set_index("trace")["program"]
    assert (of_program[chosen.stands_for.index].to_numpy() == of_program[chosen.stands_for].to_numpy()).all()
    assert chosen.traces.loc[chosen.traces["program"] == "p0", "recordings"].tolist() == [1]


def test_weights_by_ops_add_up_to_the_ops_of_the_fleet():
    traces = made_up(50, 5, seed=2)
    traces["ops"] = np.arange(1, 51)
    chosen = choose(traces, 4, weight="ops").traces
    assert (chosen["weight"] * chosen["ops"]).sum() == pytest.approx(traces["ops"].sum())


def test_equal_traces_need_one():
    traces = made_up(9, 1)
    for name, feature in FEATURES.items():
        traces[name] = 1 if feature.kind == "count" else 0.5
    assert choose(traces, 4).traces["recordings"].tolist() == [9]


def test_many_of_a_stratum_are_stood_for_by_a_sample_and_the_same_each_time(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 40)
    traces = made_up(200, 4)
    chosen = choose(traces, 4)
    assert sorted(chosen.traces["recordings"]) == [50, 50, 50, 50]
    pd.testing.assert_frame_equal(chosen.traces, choose(traces, 4).traces)


def test_more_programs_than_places_are_refused():
    with pytest.raises(UsageError, match="there are 5 values of program"):
        choose(made_up(20, 5, programs=5), 4)


def test_the_error_is_the_weighted_sum_against_the_whole():
    def of(workload, label, value):
        return {"workload": workload, "figure": "peak_rss", "label": label, "value": value, "pass_": "memory"}

    results = pd.DataFrame([
        of("a", "glibc", 100.0), of("b", "glibc", 100.0), of("c", "glibc", 300.0),
        of("a", "other", 50.0), of("b", "other", 70.0), of("c", "other", 330.0),
        of("a", "third", 1.0),  # not for all workloads: no error can be computed
        of("a", "glibc", 9e9) | {"pass_": "bare"},
    ])  # fmt: skip
    stands_for = pd.Series({"a": "a", "b": "a", "c": "c"})
    table = errors(results, stands_for, pd.Series({"a": 2.0, "c": 1.0}), "glibc").set_index("label")
    assert list(table.index) == ["glibc", "other"]
    assert table["whole"].tolist() == [500.0, 450.0]
    assert table["estimate"].tolist() == [500.0, 430.0]
    assert table["error_percent"].tolist() == pytest.approx([0.0, 100 * (430 / 450 - 1)])
    assert table.loc["other", "change_percent"] == pytest.approx(-10.0)
    assert table.loc["other", "change_error_percent"] == pytest.approx(-4.0)
