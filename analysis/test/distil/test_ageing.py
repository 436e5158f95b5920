# SPDX-License-Identifier: MIT
"""Heaps that age are distinguished from those that only grow."""

import pytest
from heaptape.distil import measured
from heaptape.results.structs import timeline_frame

FAMILIES = {"glibc": "glibc", "glibc:no-tcache": "glibc", "reference": "reference"}


def growth(*rows):
    """Rows of RSS and live bytes."""
    timeline = [[position, rss, 0, live] for position, (rss, live) in enumerate(rows)]
    return measured.growth_percent(timeline_frame(timeline))


def test_a_heap_whose_rss_follows_its_live_bytes_does_not_age():
    assert growth((10, 10), (50, 50), (100, 100), (60, 50)) == 0


def test_growth_is_that_of_rss_at_as_many_live_bytes():
    assert growth((10, 10), (120, 100), (130, 98), (180, 100), (120, 40)) == pytest.approx(50)


def test_without_samples_or_live_bytes_there_is_no_growth():
    assert growth() == 0
    assert growth((0, 0), (10, 0)) == 0


@pytest.mark.parametrize(
    ("percents", "expected"), [((60, 60, 0), False), ((60, 0, 5), False), ((60, 0, 11), True), ((0, 12, 12), True)]
)
def test_a_heap_ages_if_it_does_on_two_allocators(percents, expected):
    assert measured.ages(dict(zip(FAMILIES, percents, strict=True)), FAMILIES) == expected
