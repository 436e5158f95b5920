# SPDX-License-Identifier: MIT
"""Tables of sampled data accesses, by hand."""

import pytest
from heaptape.profile.data import Profile
from heaptape.profile.sampled import tables

EVENTS = [{"event": "cpu/mem-loads,ldlat=30/", "period": 1009}, {"event": "page-faults", "period": 1}]
SITES = [
    [3, "load", "l3", False, 30, 1500],
    [3, "load", "memory", True, 50, 20000],
    [3, "store", "l1", False, 7, 0],
    [5, "load", "l3", True, 20, 900],
]


@pytest.fixture
def found() -> Profile:
    about = {"events": EVENTS, "in_objects": 107, "elsewhere": 1234, "by_site": SITES, "by_size": [[48, *SITES[3][1:]]]}
    return Profile({"access_samples": about})


def cells(table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_rows_are_sites_and_kinds_of_access_with_most_samples_first(found):
    by_site, by_size = tables(found, "site {}".format)
    assert by_site.columns == [
        "allocated in",
        "access",
        "samples",
        "% of that access",
        "L1",
        "L3",
        "memory",
        "TLB missed",
    ]
    assert cells(by_site) == [
        ["site 3", "load", "80", "80.0", "0", "30", "50", "50"],
        ["site 5", "load", "20", "20.0", "0", "20", "0", "20"],
        ["site 3", "store", "7", "100.0", "7", "0", "0", "0"],
    ]
    assert cells(by_size) == [["48", "load", "20", "100.0", "20", "20"]]


def test_note_says_one_of_how_many_and_that_they_are_not_counts(found):
    (note,) = tables(found, str)[0].notes
    assert note == (
        "Sampled: cpu/mem-loads,ldlat=30/ (one of 1,009), page-faults (each). 107 samples are in live objects, 1,234 "
        "are not. They are not counts of accesses or of misses."
    )


@pytest.mark.parametrize("data", [{}, {"access_samples": {"events": [], "in_objects": 0, "elsewhere": 0}}])
def test_without_samples_there_are_no_rows(data):
    assert [row for table in tables(Profile(data), str) for row in table.rows] == []
