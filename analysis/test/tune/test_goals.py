# SPDX-License-Identifier: MIT
"""Objectives, limits and weights as written on the command line."""

from fractions import Fraction

import pytest
from heaptape.common.errors import UsageError
from heaptape.tune import goals
from hypothesis import given
from hypothesis import strategies as st


def test_objectives_are_named_once():
    assert goals.objectives("rss,instructions,rss-peak") == ("rss-peak", "instructions")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: goals.objectives("rss-peak,speed"), "unknown figure 'speed': there are rss-peak"),
        (lambda: goals.objectives(","), "none: there are rss-peak"),
        (lambda: goals.limits(["speed<=1*default"]), "unknown figure 'speed'"),
        (lambda: goals.limits(["rss<1*default"]), "'rss<1\\*default' is neither"),
        (lambda: goals.limits(["rss<=default"]), "is neither"),
        (lambda: goals.limits(["rss<=-1*default"]), "is neither"),
        (lambda: goals.limits([""]), "'' is neither"),
        (lambda: goals.weights(["a", "b"], "1"), "1 for 2 workloads"),
        (lambda: goals.weights(["a"], "x"), "'x' is not a list of numbers"),
        (lambda: goals.weights(["a"], "nan"), "more than 0"),
        (lambda: goals.weights(["a", "b"], "1,0"), "more than 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(call, says):
    with pytest.raises(UsageError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_limits_in_bytes_have_binary_units():
    (limit,) = goals.limits(["rss <= 64m"])
    assert (limit.figure, limit.most, limit.of_default) == ("rss-peak", 64 << 20, False)
    assert goals.limits(["rss<=64MiB"])[0].most == 64 << 20


@given(st.integers(1, 2**60), st.integers(0, 2**60), st.integers(0, 500))
def test_a_limit_is_kept_exactly(default, value, percent):
    (limit,) = goals.limits([f"rss<={percent / 100:.2f}*default"])
    figures = [{"w": {"rss-peak": float(one)}} for one in (value, default)]
    exactly = Fraction(float(value)) * 100 <= percent * Fraction(float(default))
    assert (limit.excess(*figures) <= 0) == exactly


def test_a_limit_holds_on_each_workload():
    (limit,) = goals.limits(["rss<=1.05*default"])
    default = {"a": {"rss-peak": 100.0}, "b": {"rss-peak": 100.0}}
    assert limit.excess({"a": {"rss-peak": 50.0}, "b": {"rss-peak": 105.0}}, default) == 0
    assert limit.excess({"a": {"rss-peak": 50.0}, "b": {"rss-peak": 105.1}}, default) > 0
