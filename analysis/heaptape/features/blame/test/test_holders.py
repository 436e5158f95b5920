# SPDX-License-Identifier: MIT
"""Who holds the memory: tables, differences, figures and the report's section agree with the layouts."""

import functools
import json
import re
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.blame import figures as memory_figures
from heaptape.features.blame import views as holders
from heaptape.features.blame.data import of_allocators
from heaptape.features.blame.holders import _REASONS, LEAST_SHOWN, at_position, over_time, site_frames
from heaptape.results.schema import Results
from heaptape.show.pages import page
from synthetic_blame import make_run, planted

KINDS = ("leak", "retention", "fragmentation", "none")
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


def test_the_sentences_stand_on_top_one_for_each_allocator():
    lines = holders.sentences(view_of(file_of(*KINDS)))
    assert [line.split(": ")[1] for line in lines[:4]] == [
        "leak, or data that only grow", "retention", "fragmentation",
        "resident memory is mostly live",
    ]  # fmt: skip
    assert len(lines) == 4


def test_pinners_have_what_the_layout_implies():
    found = view_of(file_of("fragmentation"))
    table = holders.tables(found)["groups"][0]
    assert table.title == (
        "fragmentation: by site, at op 4,000, where RSS is most above live bytes: RSS 256.0 KiB, live 15.0 KiB"
    )
    rows = rows_of(table)
    # 64 OS pages, each with one object of 240 bytes and 16 of rounding.
    assert rows == {"#1 make_survivor < fill < main": ["64", "15.0", "1.0", "240.0", "256.0", "100.0"]}
    states = rows_of(holders.tables(found)["states"][0])
    assert states["in partly filled OS pages: caches, bins, headers"] == ["240.0", "99.6"]
    assert states["all"] == ["241.0", "100"]


def test_groups_that_are_not_shown_are_added_up():
    runs = [run_of("a", "none")]
    file = Results("x.json", {"runs": runs})
    rows = rows_of(holders.tables(view_of(file, by=("age",)))["groups"][0])
    whole = sum(float(cells[1]) for cells in rows.values())
    assert whole == pytest.approx(16 * 64 * 240 / 1024, abs=0.5)


def test_without_stacks_it_is_by_thread_size_and_age_and_one_line_says_so():
    found = view_of(file_of("leak", stacks=False))
    assert holders.sentences(found)[1] == (
        "The recording has no call stacks: record with --stacks. By thread, size and age instead."
    )
    titles = [table.title for kind in holders.tables(found).values() for table in kind]
    assert [re.search(r"by (\w+)", title)[1] for title in titles[:3]] == ["thread", "size", "age"]
    with pytest.raises(HeaptapeError, match="record with --stacks"):
        holders.flame(found.holders, "widest", "prog")


def test_two_positions_two_allocators_and_two_files_give_differences():
    of_places = holders.differences(view_of(file_of("fragmentation"), places=("3000", "5000")))
    assert [table.title for table in of_places] == ["fragmentation: from 3000 to 5000, by site"]
    # The temporary objects went: 15 of 16, which held nothing but their rounding.
    assert rows_of(of_places[0])["all"][-1] == "+0.0"
    survivors = rows_of(of_places[0])["make_survivor < fill < main"]
    assert survivors == ["15.0", "15.0", "1.0", "241.0", "+240.0"]
    of_allocators = holders.differences(view_of(file_of("fragmentation", "none")))
    assert [table.title for table in of_allocators] == ["From fragmentation to none, by site"]
    of_files = holders.differences(view_of(file_of("leak", name="a"), file_of("leak", name="b")))
    assert [table.title for table in of_files] == ["From a, leak to b, leak, by site"]
    assert list(rows_of(of_files[0])) == ["all"]


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


def test_results_that_lack_it_or_the_allocator_are_one_line():
    with pytest.raises(
        HeaptapeError, match=r"^r.json: no run says who holds the memory: replay it with --passes blame$"
    ):
        holders.of_results(Results("r.json", {"runs": [{"allocator": "glibc"}]}))
    with pytest.raises(HeaptapeError, match=r"^prog.json: hoard is not in it: there are leak$"):
        holders.of_results(file_of("leak"), ["hoard"])


def test_a_frame_of_a_program_without_names_is_shortened_to_its_offset_below_one_of_the_same_module():
    assert site_frames("gnuplot-nox+0x1cf69 < gnuplot-nox+0x81b33") == ["gnuplot-nox+0x1cf69", "+0x81b33"]
    assert site_frames("libx.so.0.7+0x1 < libx.so.0.7+0x2 < main") == ["libx.so+0x1", "+0x2", "main"]
    assert site_frames("python3.11+0x1 < libx.so+0x2") == ["python3.11+0x1", "libx.so+0x2"]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("rounding", "1.00 MiB (10 % of resident memory) are added to requests to round them up"),
        ("allocator", "2.00 MiB (20 % of resident memory) are metadata, or pages that never held an object"),
    ],
)
def test_what_no_object_holds_is_said_with_its_share_of_the_resident_memory(reason, said):
    mib = {"rounding_bytes": 1.0, "never_used_bytes": 1.5, "beside_table_bytes": 0.5, "rss_anon_bytes": 10.0}
    assert _REASONS[reason](None, pd.Series(mib) * 2**20) == said
