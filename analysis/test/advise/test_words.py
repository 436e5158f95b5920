# SPDX-License-Identifier: MIT
"""The printed advice: at most ten lines, whatever was found."""

from pathlib import Path

from advise.made_up import NOW, error_of, no_error, row
from heaptape.advise.choose import BOTH, CPU, MEMORY, Judge, decide
from heaptape.advise.words import LINES, Advice, environment, lines
from heaptape.run.registry import Choice
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
    return Advice("p, 1 call", NOW, rows, picks, judge, choices, "", dict(refused), "How sure: not.", live)


@given(
    st.lists(st.tuples(st.floats(1, 1000), st.one_of(st.none(), st.floats(0, 1000))), min_size=1, max_size=12),
    st.floats(0, 20),
    st.one_of(st.none(), st.floats(1e6, 1e10)),
    st.lists(st.text(st.characters(min_codepoint=32), max_size=300), max_size=5),
)
def test_at_most_ten_lines_whatever_was_found(figures, error, cpu_ns, reasons):
    rows = [row(NOW, *figures[0]), *(row(f"a{i}", *one) for i, one in enumerate(figures[1:]))]
    refused = {f"a{i}": why for i, why in enumerate(reasons) if i + 1 < len(rows)}
    made = lines(advice(rows, Judge(error_of(error), cpu_ns), refused=refused, live=("Live 1", "Live 2")), "/c.so")
    assert 3 <= len(made) <= LINES
    assert not [line for line in made if not line.strip() or "nan" in line]


def test_the_line_to_set_is_what_a_shell_takes():
    made = lines(advice([row(NOW, 100), row("x:one", 50)], Judge(no_error), MEMORY), "/c.so")
    assert "  LD_PRELOAD=/lib/x.so A='b c'" in made
    assert "Memory: use x:one: peak RSS 50.0 MiB instead of 100.0 MiB (-50.0 %), mean -50.0 %." in made


def test_going_back_to_the_c_library_preloads_it():
    assert environment(choice(NOW), "jemalloc", "/c.so") == {"LD_PRELOAD": "/c.so"}
    assert environment(choice(f"{NOW}:a", A="1"), NOW, "/c.so") == {"A": "1"}


def test_staying_is_said_with_the_reason():
    made = lines(advice([row(NOW, 100, 10), row("x", 120, 500)], Judge(no_error, 1e9)), "/c.so")
    assert "Memory: stay with glibc: nothing tried has a lower peak RSS." in made
    assert "CPU time: stay with glibc: nothing tried is predicted to need less CPU time." in made


def test_cpu_time_is_in_percent_where_the_programs_is_known():
    rows = [row(NOW, 100, 1000), row("x", 100, 500)]
    known = lines(advice(rows, Judge(no_error, 1e9), CPU), "/c.so")[1]
    assert known.startswith("CPU time: use x: 10 ± 5.0 % less CPU time (of 1 s: 50 % fewer instructions of the calls)")
    unknown = lines(advice(rows, Judge(no_error, None), CPU), "/c.so")[1]
    assert unknown.startswith("CPU time: use x: 100 ± 50 ms less CPU time (50 % fewer instructions of the calls)")


def test_what_lies_between_the_aims_is_named():
    rows = [row(NOW, 100, 1000), row("lean", 50, 900), row("mid", 70, 500), row("fast", 90, 100)]
    made = lines(advice(rows, Judge(no_error, 1e9)), "/c.so")
    assert "Between the two: mid (peak RSS -30.0 %, CPU time -10.0 %)." in made


def test_a_reason_that_several_share_is_said_once():
    rows = [row(NOW, 100), row("x", 50), row("x:a", 50), row("y", 60)]
    made = lines(advice(rows, Judge(no_error), MEMORY, refused={"x": "op 1 is wrong", "x:a": "op 1 is wrong"}), "/c.so")
    assert "Not advised: x, x:a: op 1 is wrong." in made
