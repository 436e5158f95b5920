# SPDX-License-Identifier: MIT
"""A saving is named only where repeated replays confirm it."""

import dataclasses
import random

import pytest
from heaptape.features.tune import confirm, goals
from heaptape.features.tune.confirm import AGAIN, Standing, standing
from heaptape.features.tune.test.planted import BEST, GOALS, WORKLOAD, Formula, in_memory, search_in
from heaptape.features.tune.trials import Point
from hypothesis import assume, given
from hypothesis import strategies as st

SETTINGS = {"a": "1"}
LIMITED = dataclasses.replace(GOALS, limits=goals.limits(["syscalls<=1.05*default"]))
pages = st.integers(1, 1000)


def replayed(settings, figures, syscalls=100.0):
    return [
        Point(settings, {WORKLOAD: {"rss-peak": float(one), "syscalls": syscalls}}, again=again)
        for again, one in enumerate(figures)
    ]


@given(st.lists(pages, min_size=1, max_size=9), st.lists(pages, min_size=2, max_size=9))
def test_better_is_better_each_time_and_the_replay_that_chose_does_not_count(default, candidate):
    found = standing(replayed({}, default), replayed(SETTINGS, candidate), GOALS)
    assert (found is Standing.NOT_BETTER) == (max(candidate[1:]) >= min(default))


@given(st.lists(pages, min_size=1, max_size=AGAIN), st.lists(pages, min_size=2, max_size=AGAIN))
def test_figures_that_vary_are_better_only_after_all_their_replays(default, candidate):
    assume(len(set(default)) > 1 or len(set(candidate)) > 1)
    assert standing(replayed({}, default), replayed(SETTINGS, candidate), GOALS) is not Standing.BETTER


@given(pages, pages)
def test_of_figures_that_are_the_same_again_one_more_replay_is_enough(default, candidate):
    found = standing(replayed({}, [default] * 2), replayed(SETTINGS, [candidate] * 2), GOALS)
    assert found is (Standing.BETTER if candidate < default else Standing.NOT_BETTER)


@given(st.lists(st.integers(100, 120), min_size=2, max_size=7))
def test_each_replay_keeps_each_limit(syscalls):
    default = replayed({}, [100] * 7)
    candidate = [replayed(SETTINGS, [50] * 7, float(one))[again] for again, one in enumerate(syscalls)]
    assert (standing(default, candidate, LIMITED) is Standing.NOT_BETTER) == (max(syscalls[1:]) > 105)


def test_a_replay_that_fails_when_made_again_refutes():
    candidate = [*replayed(SETTINGS, [50]), Point(SETTINGS, error="killed", again=1)]
    points = [*replayed({}, [100, 100]), *candidate]
    assert confirm.refuted(points, GOALS) == {candidate[0].key}


class Varying(Formula):
    """Figures that vary randomly by up to `share`. `effect`: whether the settings have any."""

    def __init__(self, seed, share, effect=True):
        super().__init__()
        self.seed, self.share, self.effect = seed, share, effect

    def figures(self, settings, again):
        found = super().figures(settings if self.effect else {}, again)
        drawn = random.Random(f"{self.seed} {sorted(settings.items())} {again}").random()
        return found | {"rss-peak": found["rss-peak"] * (1 + self.share * drawn)}


class Ended(Varying):
    """Is interrupted when it is to replay settings for the third time."""

    def measure(self, wanted, jobs, again=0):
        if again == 2:
            raise KeyboardInterrupt
        return super().measure(wanted, jobs, again)


def test_of_settings_that_change_nothing_hardly_ever_one_is_named():
    named = [search_in(None, 30, trials=Varying(seed, 0.1, effect=False))[1].settings for seed in range(8)]
    assert sum(one != {} for one in named) <= 1


@pytest.mark.parametrize("seed", range(2))
def test_a_saving_beyond_what_the_figures_vary_by_is_found(seed):
    points, best = search_in(None, 60, trials=Varying(seed, 0.1))
    assert best.balance < 0.5  # the best is 0.08
    assert best.settings["mode"] == BEST["mode"]
    both = confirm.replays(points)
    assert standing(both[frozenset()], both[best.point.key], GOALS) is Standing.BETTER
    assert len(both[frozenset()]) == len(both[best.point.key]) == AGAIN + 1


def test_a_search_that_varies_is_interrupted_and_continues_as_it_would_have():
    kept = in_memory()
    whole, best = search_in(None, 30, trials=Varying(1, 0.3))
    with pytest.raises(KeyboardInterrupt):
        search_in(kept, 30, trials=Ended(1, 0.3))
    points, again = search_in(kept, 30, trials=Varying(1, 0.3))
    assert {(one.key, one.again) for one in points} == {(one.key, one.again) for one in whole}
    assert again.settings == best.settings
