# SPDX-License-Identifier: MIT
"""The public accounts and what is computed of them."""

import tomllib
from math import nan

import pytest

from tests.bench.evidence import accounts
from tests.bench.harness import agreement


def test_each_account_has_its_source_and_can_be_run_or_says_why_not() -> None:
    for one in tomllib.loads(accounts.ACCOUNTS.read_text())["account"]:
        assert one["source"].startswith("https://"), one["name"]
        assert {"date", "quote"} <= one.keys(), one["name"]
        assert ("run" in one) != ("why" in one), one["name"]
        assert all(figure[0] in ("peak", "cpu", "wall") for figure in one.get("figures", [])), one["name"]


def test_changes_are_against_the_allocator_that_the_account_left() -> None:
    found = {
        "predicted": {"a": {"peak": 100, "cpu": -20.0}, "b": {"peak": 150, "cpu": -60.0}},
        "live": {"a": {"peak": 200, "cpu": 4.0}, "b": {"peak": 240, "cpu": 3.0}},
    }
    assert accounts.changes(["peak", "a", "b", 10, 15], found) == pytest.approx((50, 25, 20))
    assert accounts.changes(["wall", "a", "b", 10, 5], found) == pytest.approx((-50, -50, -25))


def test_signs_count_where_theirs_is_a_change() -> None:
    pairs = [(10.0, 1.0), (-10.0, 1.0), (1.0, -1.0)]
    assert agreement([*pairs, (nan, 1.0)], accounts.LEAST_PERCENT) == ("1 of 2", "0.00", pairs)
