# SPDX-License-Identifier: MIT
"""A search finds the best settings, tries none twice, and continues after an interrupt as it would have. Long: more
seeds, and more points at which it is interrupted. Objectives, limits and weights as written on the command line. The
file of a search: continued only by the same search, and one clear line for anything else.
"""

import builtins
import dataclasses
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from heaptape.allocators import registry
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.features.tune import goals, trials
from heaptape.features.tune.confirm import Judged, front, judged, winner
from heaptape.features.tune.goals import UNSET, key_of, space_of
from heaptape.features.tune.test.planted import (
    BEST,
    GOALS,
    WORKLOAD,
    Formula,
    in_memory,
    pages,
    planted_space,
    search_in,
)
from heaptape.features.tune.trials import Point
from hypothesis import given
from hypothesis import strategies as st

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
    points, _ = searched(60)
    assert len(points) == len({(point.key, point.again) for point in points})
    assert len(keys(points)) > 50


def test_the_same_seed_gives_the_same_points_however_many_replays_run_at_once_and_another_does_not():
    assert keys(searched(40)[0]) == keys(search_in(None, 40, jobs=3)[0])
    assert keys(searched(60)[0]) != keys(searched(60, 1)[0])


class Interrupted(Formula):
    """Is interrupted after a number of points."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def measure(self, wanted, jobs, again=0):
        for point in super().measure(wanted, jobs, again):
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


def test_a_search_with_a_larger_budget_answers_as_if_it_were_the_first_and_repeats_no_replay():
    kept, formula = in_memory(), Formula()
    search_in(kept, 20, trials=formula)
    points, best = search_in(kept, 50, trials=formula)
    assert (points, best) == (searched(50)[0], searched(50)[1])
    assert len(formula.measured) == len({(key_of(one), again) for one, again in formula.measured}) < 60


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 40, 50, 60])
def test_the_budget_is_spent_but_for_one_replay_of_a_new_winner(budget):
    assert budget - 1 <= len(searched(budget)[0]) <= budget


def test_the_winner_was_replayed_again_and_without_each_of_its_settings():
    points, best = searched(60)
    found = {(point.key, point.again) for point in points}
    assert {(point.key, 1) for point in points if point.settings in ({}, best.settings)} <= found
    assert all((key_of(planted_space().without(best.settings, name)), 0) in found for name in best.settings)


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
    _, best = search_in(None, 50, goals=limited)
    assert best.settings == BEST | {"a": "24"}


def test_a_limit_that_nothing_keeps_leaves_no_winner():
    impossible = dataclasses.replace(GOALS, limits=goals.limits(["syscalls<=0.5*default"]))
    assert search_in(None, 30, goals=impossible)[1] is None


def test_two_objectives_give_the_whole_front():
    points, _ = search_in(None, 60, goals=TWO)
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
        Judged(Point({f"{number}{n}": "" for n in range(size)}), {}, (1.0 if broken else 0.0,), pair)
        for number, (pair, broken, size) in enumerate(given_rows)
    ]
    found, kept = front(rows), [row for row in rows if row.feasible]
    assert all(row.feasible and not any(other.beats(row) for other in kept) for row in found)
    assert all(any(one.values == row.values or one.beats(row) for one in found) for row in kept)
    assert len({row.values for row in found}) == len(found)
    best = winner(rows)
    assert (best is None) == (not kept)
    assert best is None or (best in found and best.balance == min(row.balance for row in kept))


@given(st.integers(1, 2**60), st.integers(0, 2**60), st.integers(0, 500))
def test_a_limit_is_kept_exactly(default, value, percent):
    (limit,) = goals.limits([f"rss<={percent / 100:.2f}*default"])
    figures = [{"w": {"rss-peak": float(one)}} for one in (value, default)]
    exactly = Fraction(float(value)) * 100 <= percent * Fraction(float(default))
    assert (limit.excess(*figures) <= 0) == exactly


def opened(path, about, objectives=1):
    trials.require_optuna()
    with trials.opened(path, about, objectives, planted_space()) as kept:
        return len(kept.points)


@examples(10)
@given(st.floats(0, 1))
def test_points_are_there_again_and_after_a_cut_those_before_it(share):
    """A kill leaves the last line without its end."""
    points = [
        Point({}, {"w": {"rss-peak": 0.1}}),
        Point({"a": "8"}, {"w": {"rss-peak": 1 / 3}}, again=2),
        Point({"a": "1", "b": "nothing of the space"}, error="killed"),
    ]
    trials.require_optuna()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        with trials.opened(path, {}, 1, planted_space()) as kept:
            for point in points:
                kept.keep(point, [1.0])
        data = path.read_bytes()
        path.write_bytes(data[: round(share * len(data))])
        with trials.opened(path, {}, 1, planted_space()) as kept:
            there = kept.points
            assert there == points[: len(there)]
            for point in points[len(there) :]:
                kept.keep(point, [1.0])
        with trials.opened(path, {}, 1, planted_space()) as kept:
            assert kept.points == points


def test_another_search_is_refused_with_what_differs(tmp_path):
    opened(tmp_path / "s", {"workloads": {"a": "1"}, "seed": 0})
    with pytest.raises(HeaptapeError, match='s: holds a search of another workloads: {"a": "1"}, not {"a": "2"}'):
        opened(tmp_path / "s", {"workloads": {"a": "2"}, "seed": 0})
    assert opened(tmp_path / "s", {"workloads": {"a": "1"}, "seed": 0}) == 0


@pytest.mark.parametrize(
    "content", [b"x", b"SQLite format 3\0" + b"junk" * 2000, b"{}\n", b"[]\n", b'{"op_code": 4}\n', b"{\n{\n"]
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "s"
    path.write_bytes(content)
    with pytest.raises(HeaptapeError, match=f"^{path}: ") as caught:
        opened(path, {})
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_two_searches_do_not_share_a_file(tmp_path):
    trials.require_optuna()
    with (
        trials.opened(tmp_path / "s", {}, 1, planted_space()),
        pytest.raises(HeaptapeError, match="another search is using it"),
    ):
        opened(tmp_path / "s", {})


def test_a_place_that_can_not_be_written_is_reported(tmp_path):
    with pytest.raises(HeaptapeError, match="none/s: can't be written: No such file or directory"):
        opened(tmp_path / "none" / "s", {})


def test_without_optuna_the_command_that_installs_it_is_reported(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "optuna":
            raise ImportError("No module named 'optuna'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(HeaptapeError, match="^tune needs the Python package optuna: pip install optuna"):
        trials.require_optuna()


MIB = 1 << 20
LONG = "a_tunable_with_a_long_name=18446744073709551615 another_one=0.5 a_third=10m"


def found(ratio, default_bytes=100 * MIB, error=1.0, breaks=False, standing="better"):
    """The results of a search whose winner has this ratio to the default."""

    def point(label, of_default, **more):
        figures = {"w": {"rss-peak": of_default * default_bytes}}
        about = {
            "label": label or "default",
            "variants": [],
            "settings": {label: "1"} if label else {},
            "figures": figures,
        }
        about |= {"ratios": {"rss-peak": of_default}, "front": True, "refuted": False, "limits_kept": True, "again": []}
        return about | {"environment": {"CONF": label}} | more

    points = [point("", 1.0, limits_kept=not breaks), point("best", ratio)]
    points += [point(f"{LONG}{number}", 1.1) for number in range(30)]
    return {
        "search": {
            "allocator": {"name": "planted"}, "workloads": {"w": "0"}, "objectives": ["rss-peak"],
            "figures": ["rss-peak"],
        },
        "points": points,
        "winner": points[1] | {"standing": standing, "ratios_again": {}},
        "tunables": [{"name": f"t{number}", "importance": 0.1} for number in range(9)],
        "error_percent": {"rss-peak": error},
    }  # fmt: skip


def test_of_a_pair_a_search_sets_both_or_neither():
    """Either of glibc's thresholds alone stops both from adapting."""
    space = space_of("glibc", registry.load(default_home()), ["mmap_threshold", "trim_threshold", "tcache_count"])
    kept = {"tcache_count": "0"}
    for name, times in (("mmap_threshold", 2.0), ("trim_threshold", 0.5)):
        other = space.allocator.tunables.space[name].pair[0]
        for value in (level for level in space.levels[name] if level):
            both = space.normal({name: value})
            assert both.keys() == {name, other}
            least = min(abs(int(level) - times * int(value)) for level in space.levels[other] if level)
            assert abs(int(both[other]) - times * int(value)) == least
            assert space.places(both) is not None
        assert space.without(both | kept, name) == kept
        assert space.normal(both | {name: UNSET} | kept) == kept


@given(st.tuples(*[st.integers(1, 1000)] * 4))
def test_a_gain_and_a_limit_of_a_peak_that_is_a_range_hold_at_both_ends(ends):
    low, high, default_low, default_high = ends
    found = {WORKLOAD: {"rss-peak": low, "rss-peak-upper": low + high}}
    default = {WORKLOAD: {"rss-peak": default_low, "rss-peak-upper": default_low + default_high}}
    goal = goals.Goals(("rss-peak",), goals.limits(["rss-peak<=1.0*today"]), {WORKLOAD: 1.0})
    less = low < default_low and low + high < default_low + default_high
    assert (goal.ratios(found, default)["rss-peak"] < 1) == less
    kept = low <= default_low and low + high <= default_low + default_high
    assert (goal.excess(found, default)[0] <= 0) == kept
    exact = {WORKLOAD: {"rss-peak": default_low}}  # no range: both ends are the same
    assert (goal.excess(found, exact)[0] <= 0) == (low + high <= default_low)
