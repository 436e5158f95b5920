# SPDX-License-Identifier: MIT
"""What live runs cost, with and without the processor's counters, which this machine need not have: simulated ones."""

import random
from types import SimpleNamespace

import pytest
from heaptape.advise import confirm, costs
from heaptape.advise.costs import Cost
from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.results.comparing import race

from tests.support import OUT

NOW, HZ = "today", 3e9
EFFECTS = {NOW: 1.0, "a": 0.97, "b": 0.96}


class Simulated:
    """Runs of 1 s: their time is moved by up to `noise`, their cycles by a thousandth, and by no frequency."""

    left_s = 1e9
    command = SimpleNamespace(name="p", replayed=True)

    def __init__(self, noise, counters=True, loads=(), fails=()):
        self.rng, self.noise, self.counters, self.loads = random.Random(1), noise, counters, list(loads)
        self.runs, self.fails = [], fails

    def __call__(self, choice, memory):
        self.runs.append(choice.allocator)
        if choice.allocator in self.fails:
            raise HeaptapeError(f"p on {choice.allocator}: exit status 7")
        busy = self.loads.pop(0) if self.loads else 0.0
        user_ns = 0.9e9 * EFFECTS[choice.allocator]
        slower = 1 + self.rng.uniform(0, self.noise) + busy / 100
        cycles = user_ns * HZ / 1e9 * (1 + self.rng.uniform(0, 0.001))
        return {
            "cpu_ns": user_ns * slower + 0.1e9,
            "system_ns": 0.1e9,
            "counters": {costs.CYCLES: cycles, "instructions": 2 * cycles} if self.counters else {"task_clock_ns": 1e9},
            "noise": {"steal_percent": 0.0, "other_load_percent": busy},
        }


def raced(observe):
    advice = SimpleNamespace(today=NOW, choices={name: Choice(name, "default", OUT, "", {}) for name in EFFECTS})
    return confirm.run_race(advice, ["a", "b"], observe, 1.0, 0.0)


def test_counted_cycles_tell_a_gain_in_few_rounds_that_time_does_not():
    made = raced(Simulated(0.3))
    assert len(made.rounds) <= 4
    assert made.live["b"].counted
    assert made.live["b"].percent == pytest.approx(-3.6, abs=0.4)  # a tenth of the time is the kernel's
    assert made.live["b"].low < made.live["b"].high < 0
    timed = raced(Simulated(0.3, counters=False))
    assert not timed.live["b"].counted
    assert len(timed.rounds) > len(made.rounds)


def test_an_allocator_on_which_the_program_fails_leaves_the_race():
    made = raced(Simulated(0.01, fails=["b"]))
    assert (made.racers, made.failed) == (("a",), {"b": "p on b: exit status 7"})
    assert list(made.live) == ["a"]
    assert len(made.runs) >= 3
    alone = raced(Simulated(0.01, fails=["a", "b"]))
    assert (alone.live, len(alone.runs)) == ({}, 1)
    with pytest.raises(HeaptapeError, match="exit status 7"):
        raced(Simulated(0.01, fails=[NOW]))


def test_without_cycles_in_each_run_time_is_what_counts():
    runs = [{NOW: Cost(2.0, 0.0, {costs.CYCLES: 6.0}), "a": Cost(1.0)}]
    assert costs.in_ns(runs) == [{NOW: 2.0, "a": 1.0}]
    assert costs.in_ns([]) == []


def test_cycles_become_time_at_the_frequency_of_all_runs():
    runs = [{NOW: Cost(3.0, 1.0, {costs.CYCLES: 8.0}), "a": Cost(9.0, 1.0, {costs.CYCLES: 2.0})}]
    assert costs.in_ns(runs) == [{NOW: 9.0, "a": 3.0}]


def test_a_run_that_other_load_disturbed_is_made_again():
    observe = Simulated(0.001, counters=False, loads=[0.0, 1.0, 60.0])
    made = raced(observe)
    assert made.repeated == 1
    assert observe.runs[3] == observe.runs[2]
    assert all(one.noise["other_load_percent"] < 60 for run in made.runs for one in run.values())


@pytest.mark.parametrize("loads", [[70.0] * 99, [0.0] * 99])
def test_a_load_that_is_always_there_makes_no_run_again(loads):
    assert raced(Simulated(0.05, counters=False, loads=loads)).repeated == 0


def test_what_is_made_again_is_bounded():
    observe = Simulated(0.2, counters=False, loads=[float(90 * (at % 3 == 0)) for at in range(999)])
    made = raced(observe)
    assert made.repeated <= confirm.REPEATED * 3 * len(made.rounds) + 3
    assert len(observe.runs) == 3 * len(made.rounds) + made.repeated
    assert len(made.rounds) <= race.LOOKS[-1]


def test_progress_is_the_share_of_the_time_for_live_runs_that_is_over(monkeypatch, tmp_path):
    clock, told = SimpleNamespace(now=100.0), []
    monkeypatch.setattr(confirm.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(confirm.live, "observe", lambda *about: {})
    command = confirm.Command(("p",), "p", 0, default_home(), 20.0, tell=lambda text, share: told.append((text, share)))
    observe = confirm.Observer(command, tmp_path)
    for _ in range(4):
        observe(Choice("a", "default", OUT, "", {}), memory=False)
        clock.now += 8
    assert told == [("live on a", share) for share in (0.0, 0.4, 0.8, 1.0)]
