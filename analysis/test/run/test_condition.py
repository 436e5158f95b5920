# SPDX-License-Identifier: MIT
"""Conditions on a figure: their meaning, and the errors for malformed ones."""

import operator

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
