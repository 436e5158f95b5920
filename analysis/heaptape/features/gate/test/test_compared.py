# SPDX-License-Identifier: MIT
"""When a figure is worse: with made-up figures, so that many gates can be tried."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from heaptape.allocators.registry import Choice
from heaptape.commands.main import make_parser, parser_of
from heaptape.commands.outcome import given
from heaptape.features.gate import gate, minimise
from heaptape.features.gate.gate import MOST_RUNS, Compared, Pairing
from heaptape.features.gate.gate_command import LIMITS
from heaptape.features.gate.minimise import Limits, Minimiser
from heaptape.features.gate.tables import gate_lines, gate_next
from heaptape.run.condition import parse_tolerances

OLD, NEW = (Choice(name, "default", Path(), "", {}) for name in ("old", "new"))


class Bench:
    """Returns `draw(choice)` for every figure, and counts the runs."""

    def __init__(self, draw):
        self.draw, self.runs = draw, 0

    def figures(self, choice, names):
        self.runs += 1
        return {name: self.draw(choice) for name in names}


def compare(draw, tolerate="syscalls=0%"):
    bench, found = Bench(draw), Compared("made up", "")
    gate._compare_pass(bench, Pairing(OLD, NEW, parse_tolerances(tolerate)), ["syscalls"], found)
    return bench, found


@pytest.mark.parametrize("values", [[5], [1, 3], [10, 10, 10, 200], list(range(100, 200))])
def test_of_two_equal_allocators_none_is_worse_whatever_the_distribution(values):
    """The bound is 1 of 12,870 for each gate; in 2,000 gates there may be one, hardly ever two."""
    luck = np.random.default_rng(1)
    worse = sum(bool(compare(lambda choice: float(luck.choice(values)))[1].worse) for _ in range(2000))
    assert worse <= 1


def test_what_is_worse_by_more_than_its_noise_is_found():
    luck = np.random.default_rng(2)
    for _ in range(50):
        bench, found = compare(lambda choice: 100 + 20 * (choice is NEW) + luck.integers(0, 5), "syscalls=10%")
        assert found.worse == ["syscalls"]
        assert bench.runs == 2 * MOST_RUNS


def test_what_is_within_its_tolerance_needs_one_run_of_each():
    bench, found = compare(lambda choice: 100.0 + 9 * (choice is NEW), "syscalls=10%")
    assert (bench.runs, found.worse, found.noise) == (2, [], [])


def test_noise_is_reported_and_ends_the_runs():
    values = {"old": iter([10.0, 30.0]), "new": iter([20.0, 10.0])}
    bench, found = compare(lambda choice: next(values[choice.label]))
    assert (bench.runs, found.worse, found.noise) == (4, [], ["syscalls"])
    assert not found.failed


@pytest.mark.parametrize(
    ("upper", "figures", "worse"),
    [(100, ["rss-peak"], []), (180, ["rss-peak", "rss-peak-upper"], ["rss-peak-upper"])],
)
def test_of_a_peak_that_is_a_range_the_upper_end_is_judged_too(upper, figures, worse):
    """Both ends are 100 on the old allocator, and the lower one on the new one."""

    class Ranges(Bench):
        def figures(self, choice, names):
            return {name: float(upper if choice is NEW and name == "rss-peak-upper" else 100) for name in names}

    found = Compared("made up", "")
    pairing = Pairing(OLD, NEW, parse_tolerances("rss-peak=1%"))
    gate._compare_pass(Ranges(None), pairing, ["rss-peak", "rss-peak-upper"], found)
    assert (list(found.figures), found.worse) == (figures, worse)
    about = found.as_json(pairing.tolerances)
    data = {"old": {"name": "old"}, "new": {"name": "new"}, "workloads": [about], "minimised": [], "not_minimised": []}
    said = " ".join(gate_lines(data))
    assert ("Peaks are ranges of made up" in said) == bool(worse)
    assert ("upper end of peak memory is 180" in said) == bool(worse)


def test_the_minimise_that_is_to_be_typed_has_the_limits_that_the_gate_was_given():
    worse = {"name": "w", "source": "a b.tape", "broken": {"new": "", "old": ""},
             "figures": {"rss-peak": {"verdict": "worse", "beyond": "rss-peak>101%*old"}}}  # fmt: skip
    data = {"old": {"name": "old"}, "new": {"name": "new"}, "workloads": [worse], "minimised": [], "not_minimised": []}
    line = ["gate", "x", "--old", "old", "--new", "new", "--minimise", "none", "--minimise-runs", "7"]
    arguments = make_parser("gate").parse_args(line)
    arguments.parser = parser_of(make_parser("gate"), "gate")
    assert gate_next(data, given(arguments, LIMITS)) == (
        "heaptape minimise 'a b.tape' --old old --new new --if 'rss-peak>101%*old' --minimise-runs 7"
    )


@pytest.mark.parametrize(
    ("tried", "minutes", "says"),
    [(100, 2.0, "23 events, 2 of at most 5 minutes"), (300, 2.0, "23 events, 300 of at most 400 tries")],
)
def test_a_search_ends_before_its_limits_so_its_progress_names_the_nearer_one(tried, minutes, says, monkeypatch):
    search, said = object.__new__(Minimiser), []
    search._limits, search._begin, search._tried, search.tell = Limits(400, 5), 0.0, tried, said.append
    search._search = SimpleNamespace(best=None, size=lambda best: (23, 0))
    monkeypatch.setattr(minimise.time, "monotonic", lambda: 60 * minutes)
    search._count()
    assert said == [says]
