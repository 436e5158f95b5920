# SPDX-License-Identifier: MIT
"""Races on made-up times, of which the truth is known."""

import math
import random
import statistics

import numpy as np
import pytest
import scipy
from heaptape.results.comparing import race

TODAY = "today"
YOSYS = {TODAY: 0.0, "mimalloc": -0.13, "tcmalloc": -0.20, "jemalloc": -0.26, "tbbmalloc": -0.02}


def run(effects, noise, disturbed, seed):
    """The rounds of a race. `effects`: label -> logarithm of its time; one run of 1 / `disturbed` is 30 % slower."""
    rng = random.Random(seed)
    racers = [label for label in effects if label != TODAY]
    rounds, running = [], racers
    while running:
        common = rng.gauss(0, 0.1)
        slow = {label: 0.3 * (rng.random() < disturbed) for label in effects}
        made = [TODAY, *running]
        rounds.append({label: math.exp(effects[label] + common + rng.gauss(0, noise) + slow[label]) for label in made})
        running = race.goes_on(rounds, racers, TODAY)
    return rounds, racers


@pytest.mark.parametrize("disturbed", [0.0, 0.1])
def test_the_fastest_wins_in_a_few_rounds_although_runs_are_disturbed(disturbed):
    lengths = []
    for seed in range(12):
        rounds, racers = run(YOSYS, 0.01, disturbed, seed)
        found = race.standings(rounds, racers, TODAY)
        assert next(iter(found)) == "jemalloc"
        assert set(found.values()) <= {race.LEADS, race.BEATEN, race.NEAR}
        against = race.compared(rounds, "jemalloc", TODAY, len(racers))
        assert against.low < 100 * math.expm1(-0.26) < against.high
        lengths.append(len(rounds))
    assert statistics.median(lengths) <= 8


def test_the_best_is_never_beaten_and_what_a_race_misses_is_small():
    """95 % of races hold all their intervals; of 40 none may drop an allocator that is 2 % faster than its leader."""
    for seed in range(40):
        rng = random.Random(1000 + seed)
        effects = {TODAY: 0.0} | {f"a{i}": rng.uniform(-0.1, 0.02) for i in range(3)}
        rounds, racers = run(effects, 0.005, 0.05, seed)
        found = race.standings(rounds, racers, TODAY)
        best = min(racers, key=effects.__getitem__)
        assert effects[next(iter(found))] - effects[best] < 0.02
        assert found[best] != race.BEATEN


def test_equals_are_told_as_equals_and_end_the_race():
    rounds, racers = run({TODAY: 0.0, "a": -0.1, "b": -0.1, "c": -0.099}, 0.003, 0.0, 1)
    found = race.standings(rounds, racers, TODAY)
    assert list(found.values()) == [race.LEADS, race.EQUAL, race.EQUAL]
    assert len(rounds) < race.LOOKS[-1]


def test_what_is_beaten_does_not_run_again():
    rounds, _ = run({TODAY: 0.0, "slow": 0.5, "a": -0.1, "b": -0.115}, 0.02, 0.0, 2)
    assert "slow" in rounds[race.LOOKS[0] - 1]
    assert "slow" not in rounds[-1]


def test_without_a_gain_over_todays_the_race_ends():
    rounds, racers = run({TODAY: 0.0, "a": 0.1, "b": 0.2}, 0.01, 0.0, 3)
    assert race.compared(rounds, "a", TODAY, len(racers)).low > 0
    assert len(rounds) <= 4


def test_a_disturbed_run_is_left_out_and_no_other():
    rounds, _ = run(YOSYS, 0.01, 0.0, 4)
    rounds = [dict(one) for one in rounds]
    rounds[1]["tcmalloc"] *= 1.5
    kept = race.undisturbed(rounds)
    assert "tcmalloc" not in kept[1]
    assert sum(map(len, kept)) >= sum(map(len, rounds)) - 2


def test_a_difference_is_clear_only_where_its_interval_is_narrower_than_it():
    assert race.Decision(10, 6, 14, 8).verdict == race.DIFFERENT
    assert race.Decision(10, 4, 16, 8).verdict == race.UNDECIDED
    assert race.Decision(1.9, 1.5, 2.3, 8).verdict == race.UNDECIDED
    assert race.Decision(1.0, 0.5, 1.9, 8).verdict == race.SAME
    assert race.Decision(-1.0, -2.1, 0.1, 8).verdict == race.UNDECIDED


def test_a_pair_is_compared_by_a_trimmed_mean_and_rounds_that_are_far_off_hardly_move_it():
    rng = np.random.default_rng(2)
    logs = np.sort(rng.normal(0.1, 0.05, 40))
    found = race.trimmed(logs)
    half = scipy.special.stdtrit(23, 0.975) * scipy.stats.mstats.trimmed_stde(logs, (0.2, 0.2))
    assert np.log(found.interval(0.95)[1]) == pytest.approx(scipy.stats.trim_mean(logs, 0.2) + half)
    logs[-5:] += 9
    again = race.trimmed(logs)
    assert (again.mean, again.interval(0.95)) == (pytest.approx(found.mean), pytest.approx(found.interval(0.95)))


def test_the_rounds_of_a_single_pair_are_not_counted_twice():
    """Three rounds have two degrees of freedom."""
    rounds = [{TODAY: 1.0, "a": 0.97}, {TODAY: 1.1, "a": 1.06}, {TODAY: 0.9, "a": 0.88}]
    found = race.compared(rounds, "a", TODAY, 1)
    assert found.freedom == 2
    assert found.low < 0 < found.high
