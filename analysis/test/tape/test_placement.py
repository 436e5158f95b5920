# SPDX-License-Identifier: MIT
"""Achievable memory: no two objects that live at a time overlap, the bound is never below the peak, and for few objects
it is close to the least that an exhaustive search finds; lifetimes are those that `convert --to minimalloc` writes.
"""

import csv
import itertools

import numpy as np
import pytest
from heaptape.tape import placement
from heaptape.tape.placement import GRAIN, Lifetimes, best, lifetimes
from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.history_maker import legal
from convert.test.models.history_model import text
from tests.support import CONVERT, REPOSITORY, compile_trace, import_text, succeed


@st.composite
def instances(draw, most=60):
    count = draw(st.integers(1, most))
    lower = np.array(draw(st.lists(st.integers(0, 40), min_size=count, max_size=count)))
    life = np.array(draw(st.lists(st.integers(1, 20), min_size=count, max_size=count)))
    size = np.array(draw(st.lists(st.integers(1, 300), min_size=count, max_size=count)))
    return Lifetimes(lower, lower + life, size)


def grains(found):
    return -(-found.size // GRAIN) * GRAIN


def overlaps(found, placed):
    """Pairs that live together and share a byte."""
    size = grains(found)
    return [
        (a, b)
        for a, b in itertools.combinations(range(len(size)), 2)
        if found.lower[a] < found.upper[b] and found.lower[b] < found.upper[a]
        and placed.offset[a] < placed.offset[b] + size[b] and placed.offset[b] < placed.offset[a] + size[a]
    ]  # fmt: skip


def least(found):
    """The least extent, by placing in every order at the lowest place: one of the orders is by the best addresses."""
    size = grains(found) // GRAIN
    return min(placement._by_order("", found, size, order).bytes for order in itertools.permutations(range(len(size))))


@given(instances())
@pytest.mark.parametrize("offline", [0, 1000])
def test_no_two_live_objects_overlap_and_the_bound_is_not_below_the_peak(offline, found):
    placed = best(found, offline)
    assert overlaps(found, placed) == []
    assert placed.bytes == int((placed.offset + grains(found)).max())
    assert placed.bytes >= Lifetimes(found.lower, found.upper, grains(found)).peak() >= found.peak()


@given(instances(most=6))
def test_of_few_objects_the_bound_is_never_below_the_least_and_rarely_a_quarter_above(found):
    exact = least(found)
    assert exact <= best(found).bytes <= 1.25 * exact + GRAIN


def test_an_instance_that_needs_the_future_is_placed_better_by_its_order():
    # A short object placed first at the bottom, then a long one above it, then one that needs both their room.
    found = Lifetimes(np.array([0, 1, 3]), np.array([2, 9, 9]), np.array([64, 16, 80]))
    assert best(found, 0).bytes > best(found).bytes == 96 == least(found)


@pytest.mark.skipif(not (REPOSITORY / "convert/formats").exists(), reason="without other tools' formats")
@pytest.mark.parametrize("seed", range(6))
def test_lifetimes_of_a_workload_are_those_that_convert_writes_for_other_solvers(tmp_path, seed):
    tape = import_text(tmp_path, text(legal(seed, 1, 120, 8), 1))
    out = tmp_path / "out.csv"
    succeed(CONVERT, "convert", "--to", "minimalloc", tape, out)
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "lower", "upper", "size"]
    found = lifetimes(compile_trace(tape))
    written = Lifetimes(*(np.array([int(row[key]) for row in rows]) for key in ("lower", "upper", "size")))
    assert (written.lower < written.upper).all()
    added = np.maximum(found.size, 1) - written.size  # alignments, which the file has not
    assert len(rows) == len(added)
    assert (added >= 0).all()
    assert abs(written.peak() - found.peak()) <= added.sum() + len(rows)
    # Calls without an object count differently, but objects begin and end in the same order.
    assert overlapping(written) == overlapping(found)


def overlapping(found):
    together = (found.lower[:, None] < found.upper) & (found.upper[:, None] > found.lower)
    return together.tolist()
