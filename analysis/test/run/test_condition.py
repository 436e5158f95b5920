# SPDX-License-Identifier: MIT
"""Conditions on a figure: their meaning, and the errors for malformed ones."""

import operator

import pytest
from heaptape.common.errors import UsageError
from heaptape.run.condition import UNITS, parse
from heaptape.run.exact import FIGURES
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.decimals(min_value=0, max_value=10**12, allow_nan=False, places=3)
COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
SPACES = st.sampled_from(["", " ", "  "])


@given(st.sampled_from(list(FIGURES)), st.sampled_from(list(COMPARISONS)), NUMBERS, SPACES, st.floats(0, 1e15))
def test_a_multiple_of_a_name_holds_as_its_comparison_does(figure, comparison, number, space, reference):
    condition = parse(f"{figure}{space}{comparison}{space}{number:f}{space}*{space}good", ("good",))
    assert (condition.figure, condition.reference) == (figure, "good")
    for value in (0.0, float(number) * reference, float(number) * reference + 1):
        assert condition.holds(value, reference) == COMPARISONS[comparison](value, float(number) * reference)


@given(st.sampled_from(list(UNITS)), NUMBERS)
def test_a_bound_with_a_unit_is_in_bytes(unit, number):
    assert parse(f"rss-peak>{number:f} {unit}").bound() == float(number) * UNITS[unit]


def test_a_name_alone_is_once_it_and_percent_a_hundredth():
    assert parse("syscalls>old").bound(7) == 7
    assert parse("syscalls>110%*old").bound(100) == pytest.approx(110)
    assert parse("broken > 0").bound() == 0


def test_an_amount_comes_on_top_of_a_multiple():
    assert parse("rss-peak > 1.5*old + 4 KiB").bound(100) == 150 + 4096
    assert parse("syscalls>old+3").bound(7) == 10


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a condition"),
        ("rss-peak", "is not a condition"),
        ("rss>1.1*old", "unknown figure 'rss': there are rss-peak, "),
        (
            "rss-peak>1.1*good",
            "'1.1*good' is not a bound of rss-peak: NUMBER*old, NUMBER*old+AMOUNT, AMOUNT, AMOUNT KiB|",
        ),
        ("rss-peak>", "'' is not a bound"),
        ("rss-peak>1.1old", "is not a bound"),
        ("rss-peak>*old", "is not a bound"),
        ("rss-peak>10%", "is not a bound"),
        ("rss-peak>4 kB", "is not a bound"),
        ("syscalls>4 KiB", "'4 KiB' is not a bound of syscalls: NUMBER*old, NUMBER*old+AMOUNT, AMOUNT$"),
        ("rss-peak=1", "is not a condition"),
        ("rss-peak>old+", "is not a bound"),
        ("syscalls>old+4 KiB", "is not a bound"),
        ("rss-peak>4 KiB+old", "is not a bound"),
        ("rss-peak>-1*old", "is not a bound"),
        (f"rss-peak>{'9' * 400}*old", "is not a bound"),
    ],
)
def test_a_malformed_condition_is_reported_in_one_line(text, says):
    with pytest.raises(UsageError, match=says.replace("*", r"\*").replace("|", r"\|").replace("+", r"\+")) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
