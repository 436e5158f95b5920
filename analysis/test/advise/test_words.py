# SPDX-License-Identifier: MIT
"""The printed advice: one screen, whatever was found."""

from pathlib import Path

import pytest
from advise.made_up import NOW, error_of, no_error, row
from heaptape.advise import confirm
from heaptape.advise.choose import BOTH, CPU, MEMORY, Judge, decide
from heaptape.advise.words import Advice, environment, screen
from heaptape.run.registry import Choice
from heaptape.show.screen import render
from hypothesis import given
from hypothesis import strategies as st


def choice(label, **settings):
    name, _, variant = label.partition(":")
    preload = "" if name == NOW else f"/lib/{name}.so"
    return Choice(name, variant or "default", Path(preload or "/lib/libc.so.6"), preload, settings)


def advice(rows, judge, objective=BOTH, refused=(), live=()):
    kept = [one.label for one in rows if one.label not in refused]
    choices = {one.label: choice(one.label, A="b c") for one in rows}
    picks = decide(rows, NOW, objective, judge, kept)
    return Advice("p: 1 call.", NOW, rows, picks, judge, choices, "", dict(refused), ["What could change it."], live)


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
    made = text(rows, Judge(error_of(error), cpu_ns), refused=refused, live=("Live 1", "Live 2")).splitlines()
    assert 3 <= len(made) <= 24
    assert not [line for line in made if "nan" in line.split()]


def test_the_line_to_set_is_what_a_shell_takes():
    made = text([row(NOW, 100), row("x:one", 50)], Judge(no_error), MEMORY)
    assert "  LD_PRELOAD=/lib/x.so A='b c'\n" in made
    assert "Use x:one  peak memory  100 -> 50.0 MiB (-50 %)  replayed" in made


def test_going_back_to_the_c_library_preloads_it():
    assert environment(choice(NOW), "jemalloc", "/c.so") == {"LD_PRELOAD": "/c.so"}
    assert environment(choice(f"{NOW}:a", A="1"), NOW, "/c.so") == {"A": "1"}


def test_staying_is_said_with_the_reason():
    made = said([row(NOW, 100, 10), row("x", 120, 500)], Judge(no_error, 1e9))
    assert "No reason to change from glibc. Memory: nothing tried has a lower peak; CPU time: nothing tried is" in made


def test_cpu_time_is_in_percent_where_the_programs_is_known():
    rows = [row(NOW, 100, 1000), row("x", 100, 500)]
    known = said(rows, Judge(no_error, 1e9), CPU)
    assert "CPU time ≈ -10 % estimated" in known
    assert "Why: 50 % fewer instructions in malloc and free." in known
    assert "CPU time ≈ -100 ms estimated" in said(rows, Judge(no_error, None), CPU)


def test_what_lies_between_the_aims_is_named():
    rows = [row(NOW, 100, 1000), row("lean", 50, 900), row("mid", 70, 500), row("fast", 90, 100)]
    made = said(rows, Judge(no_error, 1e9))
    assert "For memory use lean peak memory 100 -> 50.0 MiB (-50 %)" in made
    assert "For CPU time use fast peak memory 100 -> 90.0 MiB (-10 %)" in made
    assert "Or mid: peak memory -30 %, CPU time ≈ -10 %." in made


def test_a_reason_that_several_share_is_said_once():
    rows = [row(NOW, 100), row("x", 50), row("x:a", 50), row("y", 60)]
    made = said(rows, Judge(no_error), MEMORY, refused={"x": "op 1 is wrong", "x:a": "op 1 is wrong"})
    assert "Not advised: x, x:a: op 1 is wrong." in made


@pytest.mark.parametrize(
    ("predicted", "low", "high", "verdict"),
    [
        (-5.1, -8.3, -2.4, "confirmed"),
        (-7.0, -20.0, -16.0, "larger than predicted"),
        (-9.0, -8.3, -2.4, "smaller than predicted"),
        (-5.0, -6.0, 1.0, "not resolved"),
        (-5.0, 2.0, 4.0, "smaller than predicted"),
        (float("nan"), -4.0, -2.0, "confirmed"),
    ],
)
def test_a_live_check_says_how_prediction_and_measurement_agree(predicted, low, high, verdict):
    assert confirm._verdict(predicted, low, high) == verdict
