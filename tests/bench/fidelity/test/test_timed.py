# SPDX-License-Identifier: MIT
"""Live rounds with a runner whose times are made up."""

import random

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.results.comparing.race import DIFFERENT, SAME, UNDECIDED

from tests.bench.fidelity import live_rounds
from tests.bench.fidelity.document import document
from tests.bench.fidelity.live_rounds import Session, add_rounds

RATIOS = {"glibc": 1.0, "faster": 0.8, "same": 1.0, "noisy": 0.97}
NOISE = {"glibc": 0.002, "faster": 0.002, "same": 0.002, "noisy": 0.4}
GLIBC_NS = 1e8


def planted(name="plant", half="tuned", predicted=None):
    """Predictions: "faster" −15 % outright, "same" +5 % outright, "noisy" nothing certain."""
    predicted = predicted or {
        "faster": {"percent": -15.0, "low": -25.0, "high": -5.0},
        "same": {"percent": 5.0, "low": 3.0, "high": 9.0},
        "noisy": {"percent": 0.5, "low": -9.0, "high": 12.0},
    }
    return {
        "schema": 1, "kind": "timed", "created_unix_s": 1700000000, "elapsed_s": 1, "machine": {},
        "app": {"name": name, "set": half, "threads": 1, "ops": 1000, "summary": "a plant", "recipe_sha256": "00"},
        "settings": {}, "allocators": [], "replays": [], "predicted": predicted, "failures": {},
        "live": [], "looks": [], "sittings": [],
    }  # fmt: skip


class Runner:
    """Runs with made-up times; counts the runs of each label."""

    def __init__(self, fails=(), breaks_after=None):
        self.random, self.runs, self.fails, self.breaks_after = random.Random(5), [], set(fails), breaks_after

    def __call__(self, label):
        if len(self.runs) == self.breaks_after:
            raise KeyboardInterrupt
        self.runs.append(label)
        if label in self.fails:
            raise HeaptapeError(f"{label} does not start")
        return GLIBC_NS * RATIOS[label] * self.random.lognormvariate(0, NOISE[label])


def run_planted(budget_s=20.0, **named):
    data, runner = planted(**named), Runner()
    add_rounds(data, runner, Session(budget_s))
    return data, runner


def test_a_pair_that_is_decided_runs_no_more():
    data, runner = run_planted()
    verdicts = {label: one.verdict for label, one in live_rounds.found(data).items()}
    assert verdicts == {"faster": DIFFERENT, "same": SAME, "noisy": UNDECIDED}
    assert runner.runs.count("faster") == runner.runs.count("same") == data["looks"][0] == 8
    assert runner.runs.count("noisy") == runner.runs.count("glibc") == len(data["live"]) > 8


def test_rounds_end_where_the_budget_does_and_are_looked_at_there():
    data, _ = run_planted(budget_s=11)
    assert 11 <= live_rounds.spent_s(data) < 11.6
    assert data["looks"][-1] == len(data["live"])


def test_each_round_has_each_allocator_once_in_random_order():
    data, _ = run_planted(budget_s=3)
    orders = {tuple(one["cpu_ns"]) for one in data["live"][: data["looks"][0]]}
    assert all(sorted(order) == sorted(RATIOS) for order in orders)
    assert len(orders) > 3


def test_a_later_sitting_with_more_time_continues_and_one_with_as_much_does_nothing():
    data, _ = run_planted(budget_s=6)
    before = list(data["live"])
    idle, runner = Runner(), Runner()
    assert live_rounds.is_done(data, 6)
    add_rounds(data, idle, Session(6))
    assert not idle.runs
    add_rounds(data, runner, Session(9))
    assert data["live"][: len(before)] == before
    assert set(runner.runs) == {"glibc", "noisy"}
    assert [one["rounds"] for one in data["sittings"]] == [len(before), 0, len(data["live"]) - len(before)]


def test_a_sitting_whose_time_is_up_runs_nothing_more():
    data, runner = planted(), Runner()
    add_rounds(data, runner, Session(9, until=0))
    assert not runner.runs


def test_whole_rounds_are_kept_when_a_sitting_is_broken_off():
    data, saved = planted(), []
    with pytest.raises(KeyboardInterrupt):
        add_rounds(data, Runner(breaks_after=14), Session(9), save=lambda: saved.append(len(data["live"])))
    assert saved == [3]


def test_an_allocator_that_fails_is_reported_and_the_others_continue():
    data = planted()
    add_rounds(data, Runner(fails=["same"]), Session(6))
    assert data["failures"] == {"same": "live: same does not start"}
    assert live_rounds.found(data)["faster"].verdict == DIFFERENT
    assert "same does not start" in document([data], "")


def test_a_baseline_that_fails_ends_the_sitting_and_loses_nothing():
    data, _ = run_planted(budget_s=3)
    rounds = len(data["live"])
    add_rounds(data, Runner(fails=["glibc"]), Session(9))
    assert len(data["live"]) == rounds
    assert data["failures"]["glibc"] == "live: glibc does not start"
