# SPDX-License-Identifier: MIT
"""Who holds the memory: tables, differences, figures and the report's section agree with the layouts."""

import functools
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from heaptape.features.blame import figures as memory_figures
from heaptape.features.blame import views as holders
from heaptape.features.blame.data import of_allocators
from heaptape.features.blame.holders import LEAST_SHOWN, at_position, over_time
from heaptape.results.schema import Results
from heaptape.show.pages import page
from synthetic_blame import make_run, planted

SVG = "{http://www.w3.org/2000/svg}"


@functools.cache
def run_of(allocator, kind, **options):
    """A run; tests do not change it."""
    return make_run(allocator, planted(kind), **options)


def file_of(*kinds, name="prog", **options):
    """A file with one allocator for each kind of layout, named after it."""
    runs = [run_of(kind, kind, **options) for kind in kinds]
    return Results(f"{name}.json", {"workload": {"name": name, "ops": 8000}, "runs": runs})


def view_of(*files, places=("widest",), by=()):
    return holders.View([one for file in files for one in holders.of_results(file)], places, by)


def rows_of(table):
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_groups_that_are_not_shown_are_added_up():
    runs = [run_of("a", "none")]
    file = Results("x.json", {"runs": runs})
    rows = rows_of(holders.tables(view_of(file, by=("age",)))["groups"][0])
    whole = sum(float(cells[1]) for cells in rows.values())
    assert whole == pytest.approx(16 * 64 * 240 / 1024, abs=0.5)


def test_json_has_the_figures_unrounded():
    data = holders.as_json(view_of(file_of("retention", "leak"), by=("thread", "size")))
    assert [(row["allocator"], row["kind"]) for row in data["holders"]] == [
        ("retention", "retention"),
        ("leak", "leak"),
    ]
    first = data["holders"][0]
    held = [row for row in first["groups"] if row["grouping"] == "size"]
    assert sum(row["held_bytes"] for row in held) == sum(row["bytes"] for row in first["states"])
    assert [row["position"] for row in first["over_time"]] == list(range(0, 8001, 1000))


def test_over_time_each_position_has_the_holders_of_that_position():
    (found,) = of_allocators(file_of("retention")).values()
    for row in over_time(found, "site").itertuples():
        groups = at_position(found, "", row.position, "site")
        groups = groups[(groups["kind"] == "group") & (groups["share"] >= LEAST_SHOWN)]
        assert row.holders == list(zip(groups["number"], groups["group"], groups["held_bytes"]))[:3]


def test_the_flame_graph_has_what_each_site_holds():
    one = holders.flame(view_of(file_of("none")).holders, "end", "prog")
    names = {title.text.split(" — ")[0]: title.text for title in ElementTree.fromstring(one).iter(f"{SVG}title")}
    assert {"all", "main", "fill", "make_survivor", "make_temporary"} <= set(names)
    # Rounding only: the OS pages are full. One of 16 objects is a survivor.
    assert names["make_survivor"].split("\n")[0] == "make_survivor — 1.00 KiB, 6.25 %"
    both = holders.flame(view_of(file_of("none", "fragmentation")).holders, "end", "prog")
    names = {title.text.split(" — ")[0] for title in ElementTree.fromstring(both).iter(f"{SVG}title")}
    assert {"all", "none", "fragmentation"} <= names


@pytest.mark.parametrize("by", ["site", "function", "thread", "size", "phase", "age"])
def test_the_figure_reaches_rss(by):
    file = file_of("fragmentation", "none")
    figure = memory_figures.figure_holders(file, ["fragmentation", "none"], by)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["fragmentation", "none"]
    highest = max(
        path.vertices[:, 1].max() for axes in figure.axes for area in axes.collections for path in area.get_paths()
        if len(path.vertices)
    )  # fmt: skip
    assert highest == pytest.approx(0.25)
    assert memory_figures.figure_holders(Results("x.json", {"runs": []}), "glibc") is None


def test_the_report_has_a_section_with_sentences_tables_figure_and_flame_graph():
    runs = [run_of("glibc", "fragmentation")]
    text = page.make([Results("r.json", {"workload": {"name": "w"}, "runs": runs})], "glibc")
    section = text[text.index(">Who holds the memory</h2>") : text.index(">Workload</h2>")]
    assert "fragmentation: 240 KiB are empty space" in section
    assert "#1 make_survivor &lt; fill &lt; main" in text[text.index('id="tables"') :]
    assert section.count('data-kind="layers"') == 1
    assert section.count('class="flame-graph"') == 1
    assert "http://" not in text
    drawn = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])["workloads"][0]["layers"][0]["glibc"]
    sums = [sum(values[at] for _, _, values in drawn["layers"]) for at in range(len(drawn["x"]))]
    assert max(sums) == pytest.approx(0.25, abs=0.05), "the layers add up to RSS"
    assert any("make_survivor" in name for name, _, _ in drawn["layers"])
