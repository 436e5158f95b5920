# SPDX-License-Identifier: MIT
"""A search finds the best settings, tries none twice, and continues after an interrupt as it would have.

Long: more seeds, and more points at which it is interrupted.
"""

import dataclasses
from functools import cache

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.tune import goals
from heaptape.tune.confirm import Judged, front, judged, winner
from heaptape.tune.goals import key_of
from heaptape.tune.search import without
from heaptape.tune.trials import Point
from hypothesis import given
from hypothesis import strategies as st
from tune.planted import BEST, GOALS, WORKLOAD, Formula, in_memory, pages, planted_space, search_in

from tests.examples import examples

TWO = dataclasses.replace(GOALS, objectives=("rss-peak", "syscalls"))


def long(*values):
    """Parameters of the long tests."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


def keys(points):
    return {point.key for point in points}


@cache
def searched(points, seed=0):
    """A search that nothing interrupts."""
    return search_in(None, points, seed=seed)


@pytest.mark.parametrize("seed", [0, 1, *long(2, 3, 4)])
def test_the_best_of_243_settings_is_found_in_60(seed):
    points, best = searched(60, seed)
    assert len(points) <= 60
    assert best.settings == BEST


def test_no_settings_are_tried_twice():
    formula = Formula()
    points, _ = search_in(None, 60, trials=formula)
    assert len(points) == len(formula.measured) == len({(point.key, point.again) for point in points})
    assert len(keys(points)) > 50


def test_the_same_seed_gives_the_same_points_and_another_does_not():
    one, again, other = (search_in(None, 30, seed=seed)[0] for seed in (3, 3, 4))
    assert keys(one) == keys(again)
    assert keys(one) != keys(other)


def test_the_number_of_replays_at_once_changes_no_point():
    assert keys(searched(40)[0]) == keys(search_in(None, 40, jobs=3)[0])


class Interrupted(Formula):
    """Is interrupted after a number of points."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def measure(self, wanted, batch, jobs, again=0):
        for point in super().measure(wanted, batch, jobs, again):
            if self.after == 0:
                raise KeyboardInterrupt
            self.after -= 1
            yield point


@pytest.mark.parametrize("after", [0, 7, 33, *long(1, 2, 20)])
def test_an_interrupted_search_continues_as_it_would_have(after):
    whole, best = searched(40)
    kept, formula = in_memory(), Formula()
    with pytest.raises(KeyboardInterrupt):
        search_in(kept, 40, trials=Interrupted(after))
    points, again = search_in(kept, 40, trials=formula)
    assert len(formula.measured) == len(whole) - after  # nothing that was kept is measured again
    assert {(point.key, point.again) for point in points} == {(point.key, point.again) for point in whole}
    assert again.settings == best.settings


def test_a_search_with_a_larger_budget_continues_as_it_would_have():
    kept, cut = in_memory(), in_memory()
    few = [list(search_in(study, 20)[0]) for study in (kept, cut)][0]
    whole, best = search_in(kept, 50)
    assert whole[: len(few)] == few
    assert len(few) < len(whole) <= 50
    with pytest.raises(KeyboardInterrupt):
        search_in(cut, 50, trials=Interrupted(15))
    points, again = search_in(cut, 50)
    assert keys(points) == keys(whole)
    assert again.settings == best.settings


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 24, 40, 60])
def test_the_budget_is_spent_but_for_one_replay_of_a_new_winner(budget):
    assert budget - 1 <= len(searched(budget)[0]) <= budget


def test_the_winner_was_replayed_again_and_without_each_of_its_settings():
    points, best = searched(60)
    found = {(point.key, point.again) for point in points}
    assert {(point.key, 1) for point in points if point.settings in ({}, best.settings)} <= found
    assert all((key_of(without(best.settings, name)), 0) in found for name in best.settings)


def test_a_small_space_is_searched_completely_and_then_left():
    points, best = search_in(None, 1000, space=planted_space(["mode"]))
    assert len(keys(points)) == 3
    assert len(points) == 5  # the default and the winner again
    assert best.settings == {"mode": "y"}


def test_settings_that_fail_are_kept_and_not_taken():
    formula = Formula(fails=lambda one: one.get("mode") == "y")
    points, best = search_in(None, 60, trials=formula)
    failed = [point for point in points if point.error]
    assert failed
    assert all(point.settings["mode"] == "y" for point in failed)
    assert best.settings == {name: value for name, value in BEST.items() if name != "mode"}


def test_a_default_that_fails_ends_the_search():
    with pytest.raises(HeaptapeError, match="killed by SIGSEGV"):
        search_in(None, 60, trials=Formula(fails=lambda one: not one))


def test_the_winner_keeps_a_limit_that_the_best_breaks():
    limited = dataclasses.replace(GOALS, limits=goals.limits(["syscalls<=1.024*default"]))
    _, best = search_in(None, 80, goals=limited)
    assert best.settings == BEST | {"a": "24"}


def test_a_limit_that_nothing_keeps_leaves_no_winner():
    impossible = dataclasses.replace(GOALS, limits=goals.limits(["syscalls<=0.5*default"]))
    assert search_in(None, 30, goals=impossible)[1] is None


def test_two_objectives_give_the_whole_front():
    points, _ = search_in(None, 120, goals=TWO)
    found = [row.settings.get("a", "0") for row in front(judged(points, TWO))]
    assert found == ["40", "32", "24", "16", "8", "0"]  # each with the best b and mode
    assert all(
        pages(row.settings) == 100 + 16 * (40 - int(row.settings.get("a", 0))) for row in front(judged(points, TWO))
    )


def test_settings_without_effect_are_dropped_from_the_winner():
    points, best = search_in(None, 60, goals=dataclasses.replace(GOALS, objectives=("syscalls",)))
    assert best.settings == {}


values = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda pair: (float(pair[0]), float(pair[1])))


@examples(100)
@given(st.lists(st.tuples(values, st.booleans(), st.integers(0, 3)), max_size=12))
def test_the_front_is_what_nothing_beats_and_the_winner_is_on_it(given_rows):
    rows = [
        Judged(Point({f"{number}{n}": "" for n in range(size)}, 0), {}, (1.0 if broken else 0.0,), pair)
        for number, (pair, broken, size) in enumerate(given_rows)
    ]
    found, kept = front(rows), [row for row in rows if row.feasible]
    assert all(row.feasible and not any(other.beats(row) for other in kept) for row in found)
    assert all(any(one.values == row.values or one.beats(row) for one in found) for row in kept)
    assert len({row.values for row in found}) == len(found)
    best = winner(rows)
    assert (best is None) == (not kept)
    assert best is None or (best in found and best.balance == min(row.balance for row in kept))


def test_ratios_of_several_workloads_are_a_weighted_geometric_mean():
    both = goals.Goals(("rss-peak",), (), goals.weights(["one", "two"], "3,1"))
    default = {"one": {"rss-peak": 100.0}, "two": {"rss-peak": 100.0}}
    found = {"one": {"rss-peak": 200.0}, "two": {"rss-peak": 1600.0}}
    assert both.ratios(found, default)["rss-peak"] == pytest.approx(2**0.75 * 16**0.25)
    assert both.ratios(default, default)["rss-peak"] == 1
    assert WORKLOAD not in both.weights
