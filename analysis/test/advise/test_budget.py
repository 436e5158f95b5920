# SPDX-License-Identifier: MIT
"""What a budget is spent on: a function of times, without a clock."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from heaptape.advise import advise, budget, confirm, tried
from heaptape.advise.budget import ACCESSES, LIVE, LIVE_RUNS, WHOLE_RUNS, default_s, not_done, plan
from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import default_home
from heaptape.results.model.counts import Counts
from heaptape.results.structs import Run
from heaptape.run.exact import TimeUpError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BOTH = (ACCESSES, LIVE)
TIMES = st.floats(0, 1e5)
RUNS = st.floats(1e-3, 1e4)
STEPS = st.sets(st.sampled_from(BOTH))


def cost(made: budget.Plan, run_s: float) -> float:
    outside = budget.START_S + run_s * budget.OUTSIDE_RUNS if made.accesses else 0.0
    return outside + made.accesses * run_s * (WHOLE_RUNS - budget.OUTSIDE_RUNS) + made.live_s


@given(TIMES, RUNS, STEPS)
def test_no_more_is_spent_than_is_left(left_s, run_s, wanted):
    assert cost(plan(left_s, run_s, wanted), run_s) <= left_s * (1 + 1e-9)


@given(TIMES, RUNS, STEPS)
def test_each_step_that_is_wanted_is_made_or_reported_with_what_it_takes(left_s, run_s, wanted):
    made = plan(left_s, run_s, wanted)
    done = {step for step, on in ((ACCESSES, made.accesses), (LIVE, made.live_s)) if on}
    left_out = dict(made.left_out)
    assert done | set(left_out) | ({ACCESSES} & wanted if LIVE in done else set()) == wanted  # a race decides
    assert not done & set(left_out)
    assert all(needed_s > 0 for needed_s in left_out.values())


@given(TIMES, RUNS, st.sampled_from([(ACCESSES,), (LIVE,), BOTH]))
def test_what_is_forced_is_made_whatever_is_left(left_s, run_s, forced):
    made = plan(left_s, run_s, forced, forced)
    assert made.left_out == ()
    assert (made.accesses == 1.0) == (ACCESSES in forced)
    assert (made.live_s >= LIVE_RUNS * run_s * (1 - 1e-9)) == (LIVE in forced)


@given(TIMES, RUNS, st.floats(1, 10))
def test_a_larger_budget_never_leaves_out_more(left_s, run_s, times):
    less, more = plan(left_s, run_s, BOTH), plan(left_s * times, run_s, BOTH)
    assert more.live_s >= less.live_s
    assert more.live_s or more.accesses >= less.accesses - 1e-9


@given(st.floats(0, 1e4), RUNS, st.floats(60, 1e4), st.sets(st.sampled_from(BOTH), min_size=1))
def test_the_budget_that_is_named_is_another_one_and_enough(spent_s, run_s, total_s, wanted):
    """Whatever replays do with it."""
    left_out = plan(0.0, run_s, wanted).left_out
    said = not_done(left_out, budget.with_room(spent_s, sum(needed_s for _, needed_s in left_out), total_s))
    named_s = budget.parse(said.rpartition(" ")[2].rstrip("."))
    assert named_s > total_s
    _, _, replays_s, last_s = budget.ends(named_s, spent_s, run_s)
    assert replays_s <= last_s
    if wanted == {LIVE}:
        assert plan(last_s - replays_s, run_s, wanted).left_out == ()
    assert plan(last_s - spent_s, run_s, wanted).left_out == ()


@given(TIMES, st.floats(0, 1), RUNS)
def test_counting_ends_before_timing_and_that_before_the_budget(total_s, share, run_s):
    spent_s = share * (1 - budget.ENDING) * total_s
    counted_s, alone_s, replays_s, last_s = budget.ends(total_s, spent_s, run_s)
    assert counted_s <= alone_s <= last_s * (1 + 1e-9)
    assert spent_s <= counted_s * (1 + 1e-9)
    assert counted_s <= replays_s * (1 + 1e-9)
    assert replays_s <= last_s * (1 + 1e-9)
    assert last_s <= total_s


class Clock:
    """Simulated: only what is replayed or run takes time."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        for module in (advise, confirm, tried):
            monkeypatch.setattr(module, "time", self)

    def monotonic(self):
        return self.now


class Bench:
    """Replays. `began`: what was replayed, in order; `costs`: what each pass takes, in seconds of `clock`."""

    def __init__(self, clock=None, costs=None):
        self.began, self.jobs, self.clock, self.costs = [], 1, clock, costs or {}

    def run(self, choice, pass_, within_s=math.inf):
        if within_s <= 0:
            raise TimeUpError
        self.began.append((choice.label, pass_))
        self._takes(pass_, within_s)
        return Run(
            choice.allocator, choice.variant, 0, pass_, rss_anon_peak_bytes=1.0, rss_anon_mean_bytes=1.0, cpu_ns=1.0
        )

    def promises(self, choice, within_s):
        self._takes("verify", within_s)
        return ""

    def counting(self, ops):
        return self

    def side_by_side(self, work, items):
        return ((item, work(item)) for item in items)

    def _takes(self, pass_, within_s):
        cost_s = self.costs.get(pass_, 0.0)
        if self.clock:
            self.clock.now += max(min(cost_s, within_s), 0.0)
        if cost_s > within_s:
            raise TimeUpError


CHOICES = [
    Choice(name, variant, Path(), "", {}) for name in ("glibc", "x", "y") for variant in ("default", "one-arena")
]


def test_when_time_is_up_no_other_candidate_is_replayed_and_that_is_said():
    bench = Bench()
    bounds = tried.Bounds(("memory", "instructions"), None, until=0.0, needed={"glibc", "y:one-arena"})
    made, runs = tried.replay_all(bench, CHOICES, bounds, {"name": "w"})
    assert {label for label, _ in bench.began} == {"glibc", "y:one-arena"} == set(runs)
    failures = {one.label: one.failure for one in made}
    assert failures == {one.label: "" if one.label in runs else str(TimeUpError()) for one in CHOICES}


def test_settings_are_replayed_after_every_allocator_alone():
    bench = Bench()
    tried.replay_all(bench, CHOICES, tried.Bounds(("memory",), None), {"name": "w"})
    assert [label for label, _ in bench.began] == ["glibc", "x", "y", "glibc:one-arena", "x:one-arena", "y:one-arena"]


def test_memory_counts_without_the_counts_that_there_was_no_time_for(monkeypatch):
    clock = Clock(monkeypatch)
    bench = Bench(clock, {"memory": 1.0, "instructions": 10.0})
    bounds = tried.Bounds(("memory", "instructions"), None, until=clock.now + 18, needed={"glibc"})
    made, runs = tried.replay_all(bench, CHOICES[::2], bounds, {"name": "w"})
    assert ("x", "instructions") in bench.began  # and ended before its time
    assert clock.now <= bounds.until + 1
    assert [one.label for one in made if one.failure] == []
    assert set(runs) == {"glibc", "x", "y"}
    assert bounds.took_s["instructions"] == 10


def advisor(place, about, bench, all_tried, monkeypatch, **known):
    monkeypatch.setattr(advise.Advisor, "has_accesses", False)
    return advise.Advisor(
        advise.Wish("cpu"), place, advise.Source(Path("w.tape"), "w", 1e9), Path("w.work"), about, CHOICES[0], "",
        advise.Recorded(), bench, None, None, all_tried, None, **known,
    )  # fmt: skip


SECONDS = st.floats(0.01, 200)


class Live:
    """The program, run live."""

    command, latencies = SimpleNamespace(name="w", replayed=True), {}

    def __init__(self, clock, ends, seconds):
        self.clock, self.ends, self.seconds = clock, ends, seconds

    @property
    def left_s(self):
        return self.ends - self.clock.now

    def __call__(self, choice, memory):
        took_s = self.seconds()
        self.clock.now += max(min(took_s, self.left_s), 0.0)
        if self.left_s <= 0:
            raise TimeUpError
        return {"cpu_ns": {"glibc": 2e9}.get(choice.label, 1e9), "rss_anon_peak_bytes": 1.0}


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(SECONDS, SECONDS, SECONDS, SECONDS, st.floats(0.01, 30), st.floats(1, 3), st.floats(0.3, 3))
def test_by_default_a_race_is_run_and_the_budget_kept_whatever_replays_take(
    counting_s, bare_s, verifying_s, memory_s, run_s, recording, busier
):
    """Beyond it only today's own memory replay goes on. `recording`: how many times slower the recorded run was;
    `busier`: the same of live runs, as the machine changes.
    """
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        began, wall_s = clock.now, recording * run_s
        memory_s = min(memory_s, run_s)
        clock.now += wall_s
        total_s = default_s(wall_s)
        timed = budget.must_be_timed(total_s, wall_s)
        if timed:
            clock.now += run_s
            total_s = default_s(run_s)
        known_s = run_s if timed else wall_s
        times = budget.ends(total_s, clock.now - began, known_s)
        counted_end, alone_end, replays_end, ends = (began + end_s for end_s in times)
        all_fit = clock.now + 3 * memory_s < alone_end
        costs = {"memory": memory_s, "instructions": counting_s, "bare": bare_s, "verify": verifying_s}
        bench = Bench(clock, costs)
        bounds = tried.Bounds(
            ("memory", "instructions"), None, until=counted_end, alone_until=alone_end, needed={"glibc"}
        )
        about = {"ops": 20_000_000, "name": "w", "threads": 1}
        found, runs = tried.replay_all(bench, CHOICES[::2], bounds, about)
        counted = [replace(one, counts=Counts((), False)) for one in found]
        assert all(one.counts for one in tried.with_time(bench, counted, about["ops"], replays_end))
        assert clock.now <= max(replays_end, alone_end, began + wall_s + run_s + memory_s)
        place = advise.Place(default_home(), Path())
        made = advisor(place, about, bench, found, patch, counting_s=bounds.took_s["instructions"], ends=ends)
        made.uncounted = bench, runs
        left_s = ends - clock.now
        planned = plan(left_s, known_s, BOTH)
        assert planned.live_s
        racers = [one.label for one in found if not one.failure and one.label != "glibc"]
        confirmed, _ = confirm.made(made, racers, Live(clock, ends, lambda: busier * run_s), known_s, timed)
        assert len(racers) == 2 or not all_fit
        if racers and busier <= 1 and verifying_s <= run_s:
            assert len(confirmed[0].figures["cpu_ns"]) >= confirm.LEAST_ROUNDS
        made.count()
        made.found()
        assert clock.now <= ends + 1e-6
        over = [what for what, _ in made.left_out if "verifying" in what]
        assert len(over) == len(set(over))


def test_the_ends_are_planned_when_the_workload_is_made(monkeypatch):
    """Compiling 10^8 calls takes longer than what follows."""
    done = []
    monkeypatch.setattr(advise.replay, "prepare", lambda *_, **within: done.append("workload"))

    def planned():
        raise UsageError(str(done))

    with pytest.raises(UsageError, match="'workload'"):
        advise.replayed(advise.Source(Path(), "w"), advise.Wish("both"), advise.Place(default_home(), Path()), planned)


def test_what_any_advice_needs_ends_with_a_budget_that_was_given(monkeypatch):
    """The workload and today's memory; by default these go on."""
    clock, within = Clock(monkeypatch), []

    def prepare(*_, within_s, **about):
        within.append(within_s)
        clock.now += 30
        raise HeaptapeError

    monkeypatch.setattr(advise.replay, "prepare", prepare)
    place = advise.Place(default_home(), Path())
    for until in (math.inf, clock.now + 90):
        with pytest.raises(HeaptapeError):
            advise.replayed(advise.Source(Path(), "w"), advise.Wish("both"), place, until=until)
    assert within == [math.inf, 60]
    bounds = tried.Bounds(("memory",), None, until=0.0, needed={"glibc"}, needed_until=clock.now + 20)
    made, runs = tried.replay_all(Bench(clock, {"memory": 1000.0}), CHOICES[:1], bounds, {"name": "w"})
    assert (made[0].failure, runs, clock.now) == (str(TimeUpError()), {}, bounds.needed_until)


@pytest.mark.parametrize(
    ("calls", "live_bytes", "cpu_ns", "lacks", "alone", "races"),
    [
        (7, 4096, 1e9, [], True, False),
        (7, 4096, None, [], True, True),
        (7, 4096, 1e6, [], True, True),
        (7, 4096, 1e9, ["calls"], True, True),
        (7, 4096, 1e9, [], False, True),
        (7, 1 << 30, 1e9, [], True, True),
        (100_000, 4096, 1e12, [], True, True),
    ],
)
def test_a_program_races_unless_all_its_calls_take_next_to_nothing_of_it(
    calls, live_bytes, cpu_ns, lacks, alone, races, monkeypatch
):
    about = {"ops": calls, "name": "w", "threads": 1, "peak_live_os_page_bytes": live_bytes, "lacks": lacks}
    found = [tried.Tried(choice, 1.0) for choice in CHOICES[::2]]
    made = advisor(advise.Place(default_home(), Path()), about, Bench(), found, monkeypatch)
    made.source = advise.Source(Path("w.tape"), "w", cpu_ns, alone=alone)
    assert bool(made.racers()) == races
    whys = [pick.why for pick in made.advice().picks]
    assert whys == ([] if races else ["its 7 calls take less than 0.1 % of its CPU time"])


@given(RUNS, st.floats(0, 1e4))
def test_a_budget_with_room_for_the_rest_of_a_program_records_all_of_it(recorded_s, more_s):
    wall_s = recorded_s + more_s
    named_s = budget.with_room(wall_s, budget.rest_s(recorded_s, wall_s), recorded_s / budget.RECORDED)
    assert budget.RECORDED * named_s >= recorded_s + budget.RECORDING_RUNS * more_s


def test_replays_leave_time_for_a_race():
    found = budget.ends(60.0, 35.0, 1.0)
    assert 35.0 < found.counted_s <= found.alone_s < found.last_s == 57.0
    assert found.alone_s >= 35.0 + 0.5 * 22.0 - 1e-9


def test_where_no_race_fits_nothing_is_kept_for_it():
    fits, none = (budget.ends(100.0, 15.0, run_s) for run_s in (1.0, 10.0))
    assert none.alone_s > fits.alone_s
    assert none.replays_s == fits.replays_s == 15.0 + 0.5 * 80.0


def test_candidates_that_there_was_no_time_to_replay_are_named_with_what_they_take():
    late = str(TimeUpError())
    found = [tried.Tried(CHOICES[0], 1.0), tried.Tried(CHOICES[1], failure=late), tried.Tried(CHOICES[2], failure="x")]
    assert advise._not_replayed(found, 4.0) == (("replaying 1 candidate", 4.0),)
    assert advise._not_replayed(found[:1], 4.0) == ()


def test_where_there_was_no_time_for_any_other_candidate_that_is_why_todays_stays(monkeypatch):
    late = [tried.Tried(choice, failure=str(TimeUpError())) for choice in CHOICES[1:]]
    about = {"ops": 20_000_000, "name": "w", "threads": 1}
    made = advisor(
        advise.Place(default_home(), Path()), about, Bench(), [tried.Tried(CHOICES[0], 1.0), *late], monkeypatch
    )
    made.wish = advise.Wish("memory")
    assert [pick.why for pick in made.advice().picks] == ["there was no time to replay another allocator"]


def test_what_there_was_no_time_to_replay_is_not_counted_whole_either(monkeypatch):
    """Another glibc is, with whatever is picked."""
    other = replace(CHOICES[2], c_library="/other/libc.so.6")
    bench = Bench(Clock(monkeypatch))
    runs = {"glibc": bench.run(CHOICES[0], "memory")}
    all_tried = [tried.Tried(CHOICES[0], 1.0), tried.Tried(other, failure=str(TimeUpError()))]
    about = {"ops": 20_000_000, "name": "w", "threads": 1}
    made = advisor(advise.Place(default_home(), Path()), about, bench, all_tried, monkeypatch)
    made.uncounted = bench, runs
    made.count({"glibc"})
    assert bench.began[1:] == [("glibc", "instructions")]
    assert [bool(one.failure) for one in made.tried] == [False, True]


@pytest.mark.parametrize(
    ("left_s", "counted"),
    [(1000, ["glibc", "x", "y"]), (25, ["glibc", "x"]), (15, []), (-5, [])],
)
def test_as_many_are_counted_whole_as_there_is_time_for(left_s, counted, monkeypatch):
    """10 s for each two of them."""
    monkeypatch.setattr(advise.time, "monotonic", lambda: 100.0)
    now = CHOICES[0]
    all_tried = [tried.Tried(one, 1.0, 1.0, 1.0) for one in CHOICES[::2]]
    place = advise.Place(default_home(), Path())
    about = {"ops": 20_000_000}
    bench = Bench()
    bench.jobs = 1 if left_s < 1000 else 2
    made = advisor(place, about, bench, all_tried, monkeypatch, counting_s=0.5, ends=100.0 + left_s)
    assert made.now == now
    assert made._affordable(["y", "x", "glibc"])[:1] == counted[:1]
    assert len(made._affordable(["y", "x", "glibc"])) == len(counted)
    assert bool(made.left_out) == (len(counted) < 3)
