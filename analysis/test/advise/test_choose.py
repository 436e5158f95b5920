# SPDX-License-Identifier: MIT
"""Which candidate is picked, whatever the figures; which are tried; the printed advice is one screen. Examples with
figures whose order is known are in choose.examples.
"""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from advise.made_up import NOW, error_of, no_error, row
from heaptape.advise import tried as candidates
from heaptape.advise.words import Advice, screen
from heaptape.allocators import registry
from heaptape.allocators.registry import Choice
from heaptape.common.home import default_home
from heaptape.decide.cpu import ESTIMATED, Cpu, cpu_text
from heaptape.decide.verdict import BOTH, CPU, MEMORY, Judge, between, contenders, decide, finalists
from heaptape.decide.weighing import LIKELY, Live, weighed
from heaptape.show.screen import render
from hypothesis import given
from hypothesis import strategies as st


def picks(rows, objective=BOTH, error=no_error, cpu_ns=1e9, kept=None):
    labels = [one.label for one in rows] if kept is None else kept
    return {pick.aim: pick for pick in decide(rows, NOW, objective, Judge(error, {"": cpu_ns}), labels)}


@given(st.floats(1, 1000), st.floats(1, 1000), st.floats(1e-3, 99), st.floats(-0.999, 0.999))
def test_what_is_apart_is_so_live_whichever_of_the_two_was_replayed_with_the_error(exact, live, error, share):
    measured, replayed = row(NOW, exact), row("replayed", live * (1 + share * error / 100))
    for pair in ((measured, replayed), (replayed, measured)):
        apart = Judge(error_of(error)).memory_apart(*pair)
        assert not apart or (replayed.peak > measured.peak) == (live > exact)


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=8))
def test_every_gain_whose_range_reaches_the_pick_is_its_rival_or_its_tie(instructions):
    rows = [row(NOW, 100, 5000), *(row(f"a{i}", 100, one) for i, one in enumerate(instructions))]
    judge = Judge(no_error, {"": 1e9})
    pick = picks(rows, CPU)[CPU]
    changes = {one.label: judge.cpu(rows[0], one) for one in rows[1:]}
    best = changes[pick.best].percent
    reach = {label for label, cpu in changes.items() if cpu.low <= best and cpu.percent < -0.05}
    assert set(pick.group) >= reach
    assert len(pick.group) == len(set(pick.group))


def live(percent, low, high):
    return Live(NOW, 1e9, percent, low, high, 9)


def measured_live(percent, deviation=0.05, rounds=9, **more):
    return Live(NOW, 1e9, percent, math.nan, math.nan, rounds, deviation=deviation, freedom=30.0, **more)


def predicted_cpu(percent, reach):
    return Cpu(ESTIMATED, percent, percent - reach, percent + reach, 0.0, 0.0, 0.0)


@given(st.floats(-40, 40), st.floats(0.5, 60), st.one_of(st.none(), st.floats(-40, 40)), st.floats(0.5, 60))
def test_what_is_weighed_lies_between_both_and_is_narrower_than_each(measured, half, predicted, reach):
    made = measured_live(measured, half / 196)
    other = None if predicted is None else predicted_cpu(predicted, reach)
    found = weighed(made, other)
    ends = sorted((measured, predicted or 0.0))  # without a prediction most changes are small
    assert ends[0] - 1e-6 <= found.percent <= ends[1] + 1e-6
    assert math.log1p(found.high / 100) - math.log1p(found.low / 100) <= 2 * 2.05 * half / 196
    assert (found.chance > 0.5) == (found.percent < 0) or abs(found.percent) < 1e-6


@given(st.floats(-60, 60), st.floats(0.001, 0.3), st.integers(1, 9), st.one_of(st.none(), st.floats(-40, 40)))
def test_what_probably_gains_two_percent_is_named_however_wide_its_interval(percent, deviation, rounds, predicted):
    made = measured_live(percent, deviation, rounds)
    found = weighed(made, None if predicted is None else predicted_cpu(predicted, 10))
    assert found.named == (found.chance >= LIKELY)
    assert found.is_reason == (found.named and found.percent <= -2)
    if found.is_reason and found.high > 0:
        assert f"{100 * found.chance:.0f} % chance" in cpu_text(found)


@given(st.floats(-50, 50), st.floats(0, 30), st.floats(0, 30), st.floats(1, 900))
def test_live_runs_are_used_even_where_a_prediction_contradicts_them(percent, below, above, instructions):
    rows = [row(NOW, 100, 500), row("other", 100, instructions)]
    judge = Judge(no_error, {"": 1e9})
    predicted = judge.cpu(*rows)
    measured = live(percent, percent - below, percent + above)
    used = judge.cpu(rows[0], replace(rows[1], live=measured))
    if measured.high < predicted.low or measured.low > predicted.high:
        assert used.percent <= max(measured.percent, predicted.percent) + 1e-6
    assert used.kind == "live"


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=8))
def test_finalists_are_at_most_two_of_those_that_may_be_a_reason_to_change(instructions):
    rows = [row(NOW, 100, 500), *(row(f"a{i}", 100, one) for i, one in enumerate(instructions))]
    judge = Judge(no_error, {"": 1e9})
    found = finalists(rows, rows[0], [one.label for one in rows], judge)
    able = [one for one in rows[1:] if judge.cpu(rows[0], one).low <= -2]
    assert len(found) == min(2, len(able))
    best = sorted(able, key=lambda one: judge.cpu(rows[0], one).ms)
    assert [judge.cpu(rows[0], one).ms for one in best[:2]] == [
        judge.cpu(rows[0], next(one for one in rows if one.label == label)).ms for label in found
    ]


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1000)), min_size=2, max_size=9))
def test_the_best_in_each_aim_is_a_contender_and_so_is_todays(figures):
    rows = [row(NOW, *figures[0]), *(row(f"a{i}", *one) for i, one in enumerate(figures[1:]))]
    kept = contenders(rows, rows[0], Judge(no_error, {"": 1e9}))
    made = picks(rows)
    assert NOW in kept
    assert made[CPU].label in kept
    assert min(one.peak for one in rows) == min(one.peak for one in rows if one.label in kept)


FIGURES = st.lists(st.tuples(st.floats(1, 1000), st.floats(1, 1000)), min_size=2, max_size=8)


@given(FIGURES, st.floats(0, 20))
def test_a_pick_is_better_than_todays_beyond_the_error(figures, error):
    rows = [row(NOW, *figures[0]), *(row(f"a{i}", *one) for i, one in enumerate(figures[1:]))]
    by_label = {one.label: one for one in rows}
    now, judge = by_label[NOW], Judge(error_of(error), {"": 1e9})
    for pick in decide(rows, NOW, BOTH, judge, list(by_label)):
        for label in (pick.label, *pick.ties):
            if label == NOW:
                assert pick.why
            elif pick.aim == MEMORY:
                assert by_label[label].peak < now.peak * (1 - error / 100) * (1 + 1e-9)
            else:
                change = judge.cpu(now, by_label[label])
                assert change.high < 0
                assert change.percent <= -2


@given(FIGURES)
def test_no_candidate_between_the_aims_is_beaten_in_both(figures):
    rows = [row(f"a{i}", *one) for i, one in enumerate(figures)]
    judge = Judge(no_error, {"": 1e9})
    for one in between(rows, rows[0], judge):
        time = judge.cpu(rows[0], one).ms
        assert not [other for other in rows if other.peak < one.peak and judge.cpu(rows[0], other).ms < time]


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(1, 2000)), min_size=1, max_size=5))
def test_an_allocator_of_today_that_keeps_no_limit_is_replaced_by_the_best_that_does(figures):
    others = [row(f"other{i}", *one) for i, one in enumerate(figures)]
    made = picks([row(NOW, 10, 10), *others], kept=[one.label for one in others])
    peaks = {one.label: one.peak for one in others}
    assert made[CPU].label in peaks
    assert peaks[made[MEMORY].label] == min(peaks.values())


KNOWN = registry.load(default_home())


def tried(monkeypatch, threads, installed=()):
    found = [SimpleNamespace(record=SimpleNamespace(label=label)) for label in installed]
    monkeypatch.setattr(candidates.installed, "find_all", lambda folder: found)
    monkeypatch.setattr(candidates, "choose_all", lambda names, known: [choice(name) for name in names])
    return [one.label for one in candidates.candidates([], KNOWN, threads, None)]


def test_every_allocator_found_is_tried_with_its_main_variants_and_those_installed(monkeypatch):
    names = tried(monkeypatch, 1, ["x@1.0"])
    assert {"glibc", "glibc:trim-at-once", "x@1.0"} <= set(names)
    assert "glibc:one-arena" not in names
    assert len(names) == len(set(names))


def test_variants_for_threads_are_tried_where_there_are_several(monkeypatch):
    more = set(tried(monkeypatch, 2)) - set(tried(monkeypatch, 1))
    assert "glibc:one-arena" in more
    assert all(KNOWN[name.partition(":")[0]].variants[name.partition(":")[2]].advise == "threads" for name in more)


def choice(label, **settings):
    name, _, variant = label.partition(":")
    preload = "" if name == NOW else f"/lib/{name}.so"
    return Choice(name, variant or "default", Path(preload or "/lib/libc.so.6"), preload, settings)


def advice(rows, judge, objective=BOTH, refused=(), live=(), linked=""):
    kept = [one.label for one in rows if one.label not in refused]
    choices = {one.label: choice(one.label, A="b c") for one in rows}
    picks = decide(rows, NOW, objective, judge, kept)
    said = ["What could change it."]
    race = "heaptape advise --budget 2m -- x"
    return Advice(
        "p: 1 call.", NOW, rows, picks, judge, choices, "", dict(refused), said, live, race=race, linked=linked
    )


def text(*arguments, **settings):
    return render(screen(advice(*arguments, **settings), "/c.so"))


def said(*arguments, **settings):
    return " ".join(text(*arguments, **settings).split())


@given(
    st.lists(st.tuples(st.floats(1, 1000), st.one_of(st.none(), st.floats(0, 1000))), min_size=1, max_size=12),
    st.floats(0, 20),
    st.one_of(st.none(), st.floats(1e6, 1e10)),
    st.lists(st.text(st.characters(min_codepoint=32), max_size=300), max_size=5),
)
def test_at_most_a_screen_whatever_was_found(figures, error, cpu_ns, reasons):
    rows = [row(NOW, *figures[0]), *(row(f"a{i}", *one) for i, one in enumerate(figures[1:]))]
    refused = {f"a{i}": why for i, why in enumerate(reasons) if i + 1 < len(rows)}
    made = text(rows, Judge(error_of(error), {"": cpu_ns}), refused=refused, live=("Live 1", "Live 2")).splitlines()
    assert 3 <= len(made) <= 24
    assert not [line for line in made if "nan" in line.split()]
