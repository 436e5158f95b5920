# SPDX-License-Identifier: MIT
"""The rule by which rounds end, on made-up noise: how often it is wrong in spite of repeated looks. Long: one more
difference.
"""

import numpy as np
import pytest
from heaptape.results.comparing.intervals import LEVEL
from heaptape.results.comparing.race import DIFFERENT, SAME, UNDECIDED

from tests.bench.fidelity.looks import FIRST_LOOK, LEVEL_OF_ONE, LOOKS, decision, decisions, next_look

TRIALS = 300
MOST_ROUNDS = 512
SCHEDULE = [FIRST_LOOK * 2**number for number in range(7)]


def normal(rng, count):
    return rng.normal(0, 0.05, count)


def far_off(rng, count):
    """Eight of a hundred runs take at least half as long again, on either side of the ratio."""
    late = [rng.exponential(0.5, count) * (rng.random(count) < 0.08) for _ in range(2)]
    return rng.normal(0, 0.05, count) + late[0] - late[1]


def heavy(rng, count):
    return 0.04 * rng.standard_t(3, count)


NOISES = (normal, far_off, heavy)


def logs_of(percent, noise, rng):
    return list(np.log1p(percent / 100) + noise(rng, MOST_ROUNDS))


def at_end(logs):
    """The rule's decision for rounds with these logarithms."""
    rounds = [{"base": 1.0, "other": float(np.exp(value))} for value in logs]
    return decisions(rounds, SCHEDULE, "base")["other"]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("percent", [0.0, 2.0, pytest.param(-3.0, marks=pytest.mark.long)])
def test_of_pairs_that_are_looked_at_again_and_again_no_more_than_5_percent_are_decided_wrongly(percent, noise):
    """Wrong: a difference where there is none, or of the other sign; no difference of 2 % where there is one."""
    rng = np.random.default_rng(7)
    found = [at_end(logs_of(percent, noise, rng)) for _ in range(TRIALS)]
    wrong_sign = sum(one.verdict == DIFFERENT and one.percent * percent <= 0 for one in found)
    wrongly_same = sum(one.verdict == SAME and abs(percent) >= 2 for one in found)
    assert wrong_sign + wrongly_same <= 0.05 * TRIALS


def ever_missed(level, noise, rng):
    """In how many trials one of the looks' intervals does not hold the truth, which is 0."""
    missed = 0
    for _ in range(TRIALS):
        logs = list(noise(rng, MOST_ROUNDS))
        looks = [decision(logs[:rounds], level) for rounds in SCHEDULE]
        missed += any(not one.low <= 0 <= one.high for one in looks)
    return missed / TRIALS


@pytest.mark.parametrize("noise", NOISES)
def test_all_intervals_of_a_pair_hold_the_truth_in_95_percent_and_uncorrected_ones_do_not(noise):
    rng = np.random.default_rng(11)
    assert ever_missed(LEVEL_OF_ONE, noise, rng) <= 1 - LEVEL
    assert ever_missed(LEVEL, noise, rng) > 1.5 * (1 - LEVEL)


@pytest.mark.parametrize(("percent", "verdict"), [(-30.0, DIFFERENT), (8.0, DIFFERENT), (0.0, SAME), (1.0, SAME)])
def test_with_rounds_enough_a_pair_is_decided_as_it_is(percent, verdict):
    rng = np.random.default_rng(3)
    found = [at_end(logs_of(percent, normal, rng)) for _ in range(40)]
    assert sum(one.verdict == verdict for one in found) >= 36


def test_too_few_rounds_decide_nothing():
    for logs in ([], [0.5]):
        assert decision(logs).verdict == UNDECIDED
        assert np.isnan(decision(logs).low)


def test_the_first_look_that_decides_is_what_counts():
    clear, gone = [np.log(0.7)] * 8, [0.0] * 8
    rounds = [{"base": 1.0, "other": float(np.exp(value))} for value in clear + gone]
    found = decisions(rounds, [8, 16], "base")["other"]
    assert (found.rounds, found.verdict) == (8, DIFFERENT)
    assert found.percent == pytest.approx(-30)


def test_the_looks_end():
    looks = []
    while (place := next_look(looks)) is not None:
        looks.append(place)
    assert len(looks) == LOOKS
    assert looks[:3] == [8, 16, 32]
    assert next_look([8, 11]) == 22  # after a look where a budget ended


def test_a_round_in_which_an_allocator_did_not_run_does_not_count_for_it():
    rounds = [{"base": 1.0, "a": 1.5, "b": 1.0 + 0.01 * (number % 2)} for number in range(4)] + [
        {"base": 1.0, "b": 1.0}
    ]
    found = decisions(rounds, [5], "base")
    assert (found["a"].rounds, found["b"].rounds) == (4, 5)
