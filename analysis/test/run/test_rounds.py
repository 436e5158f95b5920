# SPDX-License-Identifier: MIT
"""Rounds interleave, can be repeated with their seed, and end when the figures are as precise as requested."""

import json
import math
import os
import random
import subprocess
import sys
from collections import Counter

import msgspec
import pytest
from heaptape.allocators.registry import Choice
from heaptape.common.console import Counted
from heaptape.common.engine import PASSES
from heaptape.results import disturbance
from heaptape.results.structs import AllNoise
from heaptape.results.structs import Run as Made
from heaptape.run import machine, replay
from heaptape.run.replay import _stop_rule
from heaptape.run.rounds import FEW_REPEATS, FEWEST_ROUNDS, Rounds, Run, Settings, memory_varies, widest_interval
from hypothesis import given
from hypothesis import strategies as st

AS_OFTEN_AS_ASKED = ("time", "bare", "contention")
ONCE = ("misses", "verify", "blame")


def make_choices(count):
    return [Choice(f"a{i}", "default", None, "", {}) for i in range(count)]


def play(choices, settings, measure=lambda run: {}):
    """All planned runs, each with its result."""
    rounds, finished, runs = Rounds(choices, settings), [], []
    while made := rounds.next(finished):
        runs += made
        for run in made:
            finished.append(Made(run.choice.allocator, repeat=run.repeat, pass_=run.pass_, **measure(run)))
    return runs


@given(st.integers(1, 5).map(make_choices), st.integers(1, 8), st.integers(0, 2**32))
def test_every_run_is_made_once_and_again_with_the_same_seed(choices, repeats, seed):
    settings = Settings(repeats=repeats, seed=seed, passes=PASSES)
    runs = play(choices, settings)
    often = dict.fromkeys(AS_OFTEN_AS_ASKED, repeats) | {"instructions": FEW_REPEATS} | dict.fromkeys(ONCE, 1)
    wanted = [(c.label, p, r) for c in choices for p in PASSES for r in range(often.get(p, min(repeats, FEW_REPEATS)))]
    assert Counter((run.choice.label, run.pass_, run.repeat) for run in runs) == Counter(wanted)
    assert play(choices, settings) == runs
    assert Rounds(choices, settings).least() == Counter(run.pass_ for run in runs)
    # Interleaved: within a round all allocators of a pass are together, rounds never mix.
    assert [run.repeat for run in runs] == sorted(run.repeat for run in runs)
    for repeat in range(repeats):
        passes = [run.pass_ for run in runs if run.repeat == repeat]
        assert passes == sorted(passes, key=PASSES.index)


def test_order_within_a_round_changes_from_round_to_round():
    runs = play(make_choices(5), Settings(repeats=20, passes=("time",), seed=1))
    orders = {tuple(run.choice.label for run in runs[5 * i : 5 * i + 5]) for i in range(20)}
    assert len(orders) > 10


def test_memory_is_repeated_only_where_two_runs_differ():
    source = random.Random(1)

    def measure(run: Run):
        steady = run.choice.allocator == "a0"
        return {"rss_anon_peak_bytes": 10**7 if steady else 10**7 + source.randrange(10**6)}

    runs = play(make_choices(2), Settings(repeats=6, passes=("memory",)), measure)
    assert Counter(run.choice.allocator for run in runs) == {"a0": FEW_REPEATS, "a1": 6}


def test_memory_varies_looks_at_peak_and_mean():
    def runs(*means):
        return [Made("x", pass_="memory", rss_anon_peak_bytes=5000, rss_anon_mean_bytes=mean) for mean in means]

    assert not memory_varies("x", [])
    assert not memory_varies("x", runs(4000, 4000))
    assert memory_varies("x", runs(4000, 4100))
    assert not memory_varies("y", runs(4000, 4100))


def noisy_cycles(spread, seed):
    source = random.Random(seed)

    def measure(run: Run):
        if run.pass_ != "time":
            return {}
        base = {"a0": 1e9, "a1": 8e8, "a2": 1.2e9}[run.choice.allocator]
        return {"cycles_total": base * math.exp(source.gauss(0, spread))}

    return measure


@pytest.mark.parametrize("percent", [5.0, 2.0])
def test_stop_rule_ends_when_every_interval_is_narrow_enough(percent):
    choices, settings = make_choices(3), Settings(repeats=2, passes=("time",), until_ci_percent=percent)
    often = []
    for seed in range(20):
        measure = noisy_cycles(0.02, seed)
        finished = []

        def keep(run, measure=measure, finished=finished):
            measured = measure(run)
            finished.append(Made(run.choice.allocator, repeat=run.repeat, pass_="time", **measured))
            return measured

        rounds = 1 + max(run.repeat for run in play(choices, settings, keep))
        said = _stop_rule(finished, choices, settings)
        assert said["reached"]
        assert said["widest_percent"] == round(widest_interval(finished, "a0"), 3) <= percent
        if rounds > FEWEST_ROUNDS:
            before = [run for run in finished if run.repeat < rounds - 1]
            assert not _stop_rule(before, choices, settings)["reached"]
        often.append(rounds)
    assert min(often) >= FEWEST_ROUNDS
    # A standard deviation of 2 % each, 2.8 % of the difference: half an interval is about 2 x 2.8 / sqrt(n) percent.
    assert 0.4 < sorted(often)[10] / max((2 * 2.8 / percent) ** 2, FEWEST_ROUNDS) < 2.5


def test_stop_rule_gives_up_at_its_limit_and_without_a_ratio():
    settings = Settings(repeats=2, passes=("time",), until_ci_percent=0.001, repeats_limit=9)
    assert 1 + max(run.repeat for run in play(make_choices(3), settings, noisy_cycles(0.1, 1))) == 9
    only_one = play(make_choices(1), Settings(repeats=2, passes=("time",), until_ci_percent=1), noisy_cycles(0.1, 1))
    assert len(only_one) == FEWEST_ROUNDS
    # All runs fail: there is nothing to compare, and nothing to wait for.
    assert len(play(make_choices(2), settings)) == 2 * FEWEST_ROUNDS
    assert widest_interval([Made("a", pass_="time", repeat=0, cycles_total=5.0)], "b") == math.inf


def reading(**fields):
    return machine.Reading(**({"clock": 0.0, "busy": 0.0, "steal": 0.0, "own": 0.0, "mhz": None} | fields))


def test_noise_separates_own_work_from_that_of_others(monkeypatch):
    """Two seconds on four processors, of which some were busy for one second in all."""
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
    begin = reading(clock=10.0, busy=5.0, own=1.0)
    assert machine.noise_between(begin, reading(clock=12.0, busy=6.0, own=2.0, steal=0.2)) == {
        "steal_percent": 2.5,
        "other_load_percent": 0.0,
    }
    assert machine.noise_between(begin, reading(clock=12.0, busy=6.0, own=1.2, mhz=2600.0)) == {
        "steal_percent": 0.0,
        "other_load_percent": 10.0,
        "cpu_mhz": 2600.0,
    }
    # Ticks may lag behind a process's own figures from the kernel.
    assert machine.noise_between(begin, reading(clock=12.0, busy=6.0, own=2.5))["other_load_percent"] == 0


def test_a_child_that_was_waited_for_is_own_work_and_one_that_was_not_is_others():
    """By the kernel's figures of that child, when it has just ended."""
    burn = "for _ in range(2_000_000): pass"
    before = machine.read_noise()
    child = subprocess.Popen([sys.executable, "-c", burn])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    ended = machine.read_noise()
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    after = machine.read_noise()
    spent = usage.ru_utime + usage.ru_stime
    assert spent > 0
    assert after.own - ended.own >= spent
    assert ended.clock >= before.clock
    assert ended.busy >= before.busy


def test_too_short_a_run_has_no_noise_figures():
    assert machine.noise_between(reading(), reading(clock=0.19, busy=0.1)) is None
    assert machine.noise_between(reading(), reading(clock=0.21, busy=0.1)) is not None
    assert machine.noise_between(reading(), reading(clock=9.0)) is None, "no tick was counted"


def test_noise_is_summed_up_and_reported():
    runs = [
        {"noise": {"steal_percent": 0.0, "other_load_percent": 3.0, "cpu_mhz": 2600.0}},
        {"noise": {"steal_percent": 4.0, "other_load_percent": 3.0, "cpu_mhz": 2400.0}},
        {"noise": {"steal_percent": 0.0, "other_load_percent": 40.0, "cpu_mhz": 2600.0}},
        {},
    ]
    summary = disturbance.summarise(runs)
    assert summary["runs"] == 3
    assert summary["disturbed_runs"] == 2
    text = disturbance.sentence(msgspec.convert(summary, AllNoise))
    assert text.startswith("2 of 3 runs were disturbed")
    assert "worst 4.0 % and 40.0 %" in text
    assert "2,400 to 2,600 MHz" in text
    assert (
        disturbance.sentence(msgspec.convert(disturbance.summarise([{}]), AllNoise)) == disturbance.sentence(None) == ""
    )


def test_runs_of_a_round_share_the_engines_own_cost(small_results):
    runs = [run for run in json.loads(small_results.read_text())["runs"] if run["pass"] == "time"]
    own = {
        repeat: [run["engine_cycles_per_op"] for run in runs if run["repeat"] == repeat]
        for repeat in {run["repeat"] for run in runs}
    }
    assert all(len(figures) == 2 and len(set(figures)) == 1 for figures in own.values())
    assert len({figures[0] for figures in own.values()}) == len(own) == 2


def test_the_share_done_is_of_time_once_each_pass_has_a_run(monkeypatch):
    """Two runs of a second, then two of nine."""
    clock, told = [0.0], []
    monkeypatch.setattr(replay.time, "monotonic", lambda: clock[0])
    runs = [Run(choice, pass_, 0) for pass_ in ("memory", "misses") for choice in make_choices(2)]
    of = replay._Progress(lambda run, share: told.append(share), {"memory": 2, "misses": 2}).of_each(runs)
    for number, seconds in enumerate((1, 1, 9, 9)):
        tell = of(number)
        for share in (0.5, 1.0):
            clock[0] += seconds / 2
            tell(share)
    assert told == pytest.approx([0, 1 / 8, 1 / 4, 1 / 4, 3 / 8, 1 / 2, 1 / 2, 5 / 8, 11 / 20, 11 / 20, 31 / 40, 1])
    assert [isinstance(share, Counted) for share in told] == [True] * 8 + [False] * 4


def test_what_changes_figures_is_unusual():
    asked = Settings(repeats=1, passes=("memory",), seed=7, jobs=2, optional=("instructions",), memory_map=False)
    assert asked.unusual == {"repeats": 1, "memory_map": False}
