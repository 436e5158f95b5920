# SPDX-License-Identifier: MIT
"""Proposals follow from layouts: packing objects that hold their OS pages alone saves the empty bytes there; other
objects are not proposed.
"""

from dataclasses import replace

import pandas as pd
import pytest
from heaptape.features.blame import data as blame
from heaptape.features.blame import holders, proposals
from heaptape.features.blame import pass_table as holders_table
from heaptape.features.blame.test.blames import decoded
from heaptape.results.schema import Results
from synthetic_blame import OS_PAGE, Layout, Thing, make_run, planted

PAGES = 256


def estimates_of(layouts, **options):
    found = decoded(make_run("glibc", layouts, **options))
    return proposals.estimates(found, "glibc", blame.widest(found))


def promising_of(layouts, **options):
    return proposals.promising(estimates_of(layouts, **options))


def test_one_object_in_each_os_page_is_proposed_to_be_segregated_first():
    """240 bytes and 16 of rounding in each of 256 OS pages: packed closely they need 16 OS pages."""
    rows = promising_of(planted("fragmentation", pages=PAGES))
    first = rows.iloc[0]
    assert first["experiment"] == "size=224..255=segregate" or first["experiment"] == "function=make_survivor=segregate"
    assert first["first"]
    assert first["saving_bytes"] == pytest.approx((PAGES - PAGES / 16) * OS_PAGE, rel=0.05)
    assert first["rss_bytes"] == PAGES * OS_PAGE
    # RSS was as large before the other objects went, and is so at the end: at the peak nothing is saved.
    assert first["peak_saving_bytes"] <= 0.1 * first["saving_bytes"]
    assert 0 < first["mean_saving_bytes"] < first["saving_bytes"]
    assert rows["action"].tolist() == ["segregate"]  # the number of objects that came and went is not known


def test_full_os_pages_and_those_that_objects_left_promise_nothing():
    for kind in ("none", "retention"):
        rows = promising_of(planted(kind, pages=PAGES))
        assert rows.empty


def two_kinds(count):
    """In each OS page a survivor and a temporary object, which stay, and nothing else."""
    things = [
        Thing(number * OS_PAGE + 2048 * other, 240, site=1 + other, birth=number)
        for number in range(count)
        for other in (0, 1)
    ]
    pages = frozenset(range(count))
    return [Layout(1000 * step, things if step else [], pages, pages) for step in range(3)]


def test_a_group_that_shares_all_its_os_pages_is_not_proposed():
    assert promising_of(two_kinds(64)).empty


def test_live_data_are_proposed_to_be_removed_only_where_they_grow_as_a_leak_does():
    assert "remove" not in set(estimates_of(planted("fragmentation", pages=PAGES))["action"])
    rows = promising_of(planted("leak", pages=PAGES))
    assert rows["action"].tolist() == ["remove"]
    assert rows["group"].tolist() == ["function=make_temporary"]


def test_without_stacks_it_is_sizes_threads_and_phases():
    """The survivors are one thread's; all objects have one size, which is not a group."""
    layouts = [
        replace(layout, things=[replace(thing, thread=thing.site % 2) for thing in layout.things])
        for layout in planted("fragmentation", pages=PAGES)
    ]
    rows = promising_of(layouts, stacks=False)
    assert rows["experiment"].tolist() == ["thread=1=segregate"]
    assert proposals.best(rows, 3) == ["thread=1=segregate"]


def test_the_whole_program_is_no_group_to_remove_or_to_blame():
    """All objects grow, are one thread's, and have one size, as has nearly all memory."""
    tiny = [Thing((10**6 + number) * OS_PAGE, 8) for number in range(400)]  # not resident
    small = [replace(layout, things=[*layout.things, *tiny]) for layout in planted("leak", pages=PAGES)]
    for layouts in (planted("leak", pages=PAGES), small):
        found = decoded(make_run("glibc", layouts, stacks=False))
        assert proposals.estimates(found, "glibc", blame.widest(found)).empty
        said = holders.verdict(found, blame.widest(found)).sentence
        assert said.endswith("of the growth belong to objects of 224 to 255 bytes")
    of_two = [
        replace(layout, things=[replace(thing, thread=number % 2) for number, thing in enumerate(layout.things)])
        for layout in planted("leak", pages=PAGES)
    ]
    assert set(promising_of(of_two, stacks=False)["experiment"]) <= {"thread=0=remove", "thread=1=remove"}


def test_names_that_group_expressions_can_not_have_get_asterisks():
    run = make_run("glibc", planted("fragmentation", pages=PAGES))
    run["blame"]["functions"] = run["blame"]["functions"] | {"1": "f<int, char&>"}
    found = decoded(run)
    first = proposals.estimates(found, "glibc", blame.widest(found)).iloc[0]
    assert first["group"] == "function=f<int* char*>"


def test_what_came_and_went_makes_pools_and_early_births_worse():
    few = {row.action: row.saving_bytes for row in _with_births(PAGES).itertuples()}
    many = {row.action: row.saving_bytes for row in _with_births(32 * PAGES).itertuples()}
    assert many["segregate"] == few["segregate"]
    assert many["pool=65536"] < few["pool=65536"] - 8 * OS_PAGE
    assert many["early"] < 0 < few["early"]


def _with_births(births):
    run = make_run("glibc", planted("fragmentation", pages=PAGES))
    run["blame"]["sites"]["1"] |= {"births": births}
    found = decoded(run)
    rows = proposals.estimates(found, "glibc", blame.widest(found))
    return rows[rows["group"] == "function=make_survivor"]


def test_results_are_beside_their_estimates_the_best_first():
    """The experiment's memory is full OS pages; its position 4,000 is the recording's 4,000."""
    before, after = planted("fragmentation", pages=PAGES), planted("none", pages=PAGES // 16)
    runs = [make_run("glibc", before), make_run("glibc", after) | {"variant": "function=make_survivor=segregate"}]
    names = ["function=make_survivor=segregate", "function=make_survivor=early"]
    about = [
        {"name": name, "groups": [], "labels": {"glibc": f"glibc:{name}"}, "positions": [[4000, 4000]]}
        for name in names
    ]
    file = Results("r.json", {"workload": {"name": "w"}, "runs": runs, "whatif": about})
    found = decoded(runs[0])
    rows = proposals.tried(file, proposals.estimates(found, "glibc", 4000), {"glibc": 4000})
    assert rows["experiment"].tolist() == names
    assert rows["found_saving_bytes"].iloc[0] == (PAGES - PAGES // 16) * OS_PAGE
    assert rows["found_left_bytes"].iloc[0] == 0
    assert pd.isna(rows["found_saving_bytes"].iloc[1])
    table = holders_table.ranking(rows)
    assert [row[1].text for row in table.rows] == names
    assert table.rows[1][3].text == "–"
