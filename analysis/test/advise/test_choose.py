# SPDX-License-Identifier: MIT
"""Which candidate is picked, by figures whose order is known."""

import pytest
from advise.made_up import NOW, error_of, no_error, row
from heaptape.advise.choose import BOTH, CPU, MEMORY, Judge, between, decide
from hypothesis import given
from hypothesis import strategies as st


def picks(rows, objective=BOTH, error=no_error, cpu_ns=1e9, kept=None):
    labels = [one.label for one in rows] if kept is None else kept
    return {pick.aim: pick for pick in decide(rows, NOW, objective, Judge(error, cpu_ns), labels)}


def test_each_aim_has_the_candidate_that_is_best_in_it():
    rows = [row(NOW, 100, 1000), row("lean", 60, 1500), row("fast", 150, 200), row("neither", 90, 900)]
    made = picks(rows)
    assert (made[MEMORY].label, made[CPU].label) == ("lean", "fast")
    assert made[MEMORY].ties == made[CPU].ties == ()


@pytest.mark.parametrize(("objective", "aims"), [(MEMORY, [MEMORY]), (CPU, [CPU]), (BOTH, [MEMORY, CPU])])
def test_only_what_is_asked_is_answered(objective, aims):
    assert list(picks([row(NOW, 100, 1000), row("b", 60, 500)], objective)) == aims


@pytest.mark.parametrize(
    ("peak", "error", "stays", "why"),
    [
        (97, 2.0, False, ""),
        (97, 4.0, True, "saves 3.0 % of peak memory, within the error of 4 %"),
        (99, 0.0, True, "saves 1.0 % of peak memory, less than 2 %"),
        (101, 0.0, True, "nothing tried has a lower peak"),
    ],
)
def test_a_saving_counts_beyond_the_error_and_from_two_percent_on(peak, error, stays, why):
    pick = picks([row(NOW, 100), row("other", peak)], MEMORY, error_of(error))[MEMORY]
    assert (pick.label == NOW) == stays
    assert why in pick.why


@given(st.floats(1, 1000), st.floats(1, 1000), st.floats(0, 99), st.floats(-1, 1))
def test_what_is_apart_is_so_live_whichever_of_the_two_was_replayed_with_the_error(exact, live, error, share):
    measured, replayed = row(NOW, exact), row("replayed", live * (1 + share * error / 100))
    for pair in ((measured, replayed), (replayed, measured)):
        apart = Judge(error_of(error)).memory_apart(*pair)
        assert not apart or (replayed.peak_bytes > measured.peak_bytes) == (live > exact)


def test_of_ties_in_memory_the_one_of_least_cpu_time_is_picked():
    rows = [row(NOW, 100, 1000), row("leanest", 60, 1500), row("tie", 61, 800), row("apart", 70, 100)]
    pick = picks(rows, MEMORY, error_of(3.0))[MEMORY]
    assert pick.label == "tie"
    assert pick.ties == ("leanest",)


def test_a_tie_at_the_peak_is_none_where_the_mean_is_apart():
    rows = [row(NOW, 100, 1000), row("a", 60, 1500, mean_mib=30), row("b", 61, 800, mean_mib=60)]
    assert picks(rows, MEMORY, error_of(3.0))[MEMORY].label == "a"


def test_of_ties_in_cpu_time_the_leanest_is_picked():
    """The same instructions: nothing between them can be predicted."""
    rows = [row(NOW, 100, 5000), row("fat", 150, 200), row("lean", 90, 200), row("slower", 50, 4000)]
    pick = picks(rows, CPU)[CPU]
    assert pick.label == "lean"
    assert pick.ties == ("fat",)


def test_cpu_time_that_is_no_two_percent_of_the_program_changes_nothing():
    rows = [row(NOW, 100, 50), row("fast", 100, 5)]
    pick = picks(rows, CPU, cpu_ns=1e9)[CPU]
    assert pick.label == NOW
    assert "saves 0.9 %, within the error of 4 %" in pick.why
    assert picks(rows, CPU, cpu_ns=1e8)[CPU].label == "fast"


def test_a_tenth_of_a_mebibyte_changes_nothing():
    pick = picks([row(NOW, 1.0), row("lean", 0.9)], MEMORY)[MEMORY]
    assert (pick.label, pick.why) == (NOW, "the leanest, lean, saves 10.0 % of peak memory, less than 1 MiB")


def test_without_counts_there_is_no_advice_on_cpu_time():
    assert list(picks([row(NOW, 100), row("b", 60)])) == [MEMORY]


def test_what_is_not_kept_is_not_picked():
    rows = [row(NOW, 100, 1000), row("lean", 60, 1500), row("next", 80, 900)]
    assert picks(rows, MEMORY, kept=[NOW, "next"])[MEMORY].label == "next"
    assert picks(rows, MEMORY, kept=[NOW])[MEMORY].label == NOW


FIGURES = st.lists(st.tuples(st.floats(1, 1000), st.floats(1, 1000)), min_size=2, max_size=8)


@given(FIGURES, st.floats(0, 20))
def test_a_pick_is_better_than_todays_beyond_the_error(figures, error):
    rows = [row(NOW, *figures[0]), *(row(f"a{i}", *one) for i, one in enumerate(figures[1:]))]
    by_label = {one.label: one for one in rows}
    now, judge = by_label[NOW], Judge(error_of(error), 1e9)
    for pick in decide(rows, NOW, BOTH, judge, list(by_label)):
        for label in (pick.label, *pick.ties):
            if label == NOW:
                assert pick.why
            elif pick.aim == MEMORY:
                assert by_label[label].peak_bytes < now.peak_bytes * (1 - error / 100) * (1 + 1e-9)
            else:
                change = judge.change(now, by_label[label])
                assert change.high < 0
                assert change.percent <= -2


@given(FIGURES)
def test_no_candidate_between_the_aims_is_beaten_in_both(figures):
    rows = [row(f"a{i}", *one) for i, one in enumerate(figures)]
    judge = Judge(no_error, 1e9)
    for one in between(rows, rows[0], judge):
        time = judge.change(rows[0], one).ns
        assert not [
            other for other in rows if other.peak_bytes < one.peak_bytes and judge.change(rows[0], other).ns < time
        ]
