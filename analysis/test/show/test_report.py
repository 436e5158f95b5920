# SPDX-License-Identifier: MIT
"""The report: it is self-contained, holds the raw results, and accepts results that lack nearly everything."""

import base64
import copy
import gzip
import html
import json
import re
from html.parser import HTMLParser
from importlib import resources
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.common.tables import render_text
from heaptape.decide.answer import answer
from heaptape.results.comparing.compare import choose_baseline
from heaptape.results.comparing.summary import sentences, warnings
from heaptape.results.schema import Results, all_results, results
from heaptape.show.pages import charts
from heaptape.show.pages import methods as report_methods
from heaptape.show.pages import page as report
from heaptape.show.tables.usual import comparison
from heaptape.tape.embedded import ENCODING, TYPE, pack, unpack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_results import make_results, write

from tests.examples import examples
from tests.support import call_heaptape


@pytest.fixture(scope="module")
def data():
    return make_results("made <up>", repeats=2, allocators=("glibc", "jemalloc"))


@pytest.fixture(scope="module")
def page(data):
    return report.make([Results("r.json", data)], "glibc")


class Links(HTMLParser):
    """Everything in a page that a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster") and not (
                value or ""
            ).startswith(("#", "data:")):
                self.found.append((tag, name, value))


def test_report_needs_nothing_from_elsewhere(page):
    links = Links()
    links.feed(page)
    assert links.found == []
    library = resources.files("heaptape.show.pages") / "vendor" / "uPlot.iife.min.js"
    assert library.read_text().rstrip() in page
    page = page.replace(library.read_text().rstrip(), "")  # its first line names its home page
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "Copyright (c) 2022 Leon Sorokin" in page


def test_the_whole_report_embeds_the_raw_results(data):
    page = report.make([Results("r.json", data)], "glibc", whole=True)
    assert list(unpack("report.html", page.encode())) == [json.loads(json.dumps(data))]


def test_ids_in_the_report_are_its_own(page):
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


def test_no_name_ends_a_script_or_begins_an_element():
    name = '</script><img src=x onerror="alert(1)"><!--'
    data = json.loads(
        json.dumps(make_results("w", repeats=2, allocators=("glibc", "jemalloc"))).replace("jemalloc", "J")
    )
    hostile = json.loads(json.dumps(data).replace('"J"', json.dumps(name)).replace('"w"', json.dumps(name)))
    page = report.make([Results("r.json", hostile), Results("s.json", data)], "glibc")
    elements = Links()
    elements.feed(page)
    assert elements.found == []
    assert "<img src=x" not in page
    assert page.count("<script") == page.count("</script>") == 5
    drawn = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert name in drawn["colours"]


def test_without_a_blame_pass_no_section_says_who_holds_the_memory(page):
    assert "Who holds the memory" not in page


def drawn(page):
    """What the browser draws."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_answer_comes_first_with_all_choices_and_what_follows_from_them(page, data):
    found = answer([Results("r.json", data)], "glibc")
    first = page[page.index('id="answer"') : page.index("Memory over time")]
    rows = re.findall(r'<th scope="row">(?:<i[^>]*></i>)?([^<]+)(?:<span[^>]*>([^<]*)</span>)?</th>', first)
    assert ["".join(row) for row in rows] == [row.name for row in found.rows]
    for sentence in found.sentences:
        assert html.escape(sentence, quote=False) in html.unescape(first)


def test_there_is_one_line_per_allocator_and_its_map_in_two_pickers(page, data):
    (workload,) = drawn(page)["workloads"]
    whole = Results("r.json", data).timelines()
    assert [label for label, _ in workload["memory"]["lines"]] == ["glibc", "jemalloc"]
    for label, line in workload["memory"]["lines"]:
        assert len(line) == len(workload["memory"]["x"]) <= 2 * charts.DRAWN_POINTS
        assert max(line) == round(whole[label]["rss_anon_bytes"].max() / 2**20, 2), "the peak is not thinned away"
    assert set(workload["maps"]) == {"glibc", "jemalloc"}
    for picture in workload["maps"].values():
        svg = ElementTree.fromstring(unquote(picture.removeprefix("data:image/svg+xml,")))
        texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert {"progress, ops", "addresses, MiB", "0"} <= set(texts)
        (image,) = svg.iter("{http://www.w3.org/2000/svg}image")
        assert image.get("href").startswith("data:image/png;base64,")
    assert page.count("<option selected>") == 2


@pytest.fixture(scope="module")
def page_of_two(data):
    """A report of two workloads; the second one's results carry an error of replaying."""
    timed = data | {"runs": [run for run in data["runs"] if run["pass"] == "time"]}
    other = timed | {"workload": {"name": "other"}}
    return report.make([Results("a", timed), Results("b", other)], "glibc")


def test_several_workloads_get_their_means(page_of_two):
    assert "geometric mean" in page_of_two
    assert page_of_two.count(f'type="{TYPE}"') == 2


def test_several_workloads_get_a_heat_map_whose_cells_open_them(page_of_two):
    heat = page_of_two[page_of_two.index('<table class="heat">') :]
    heat = heat[: heat.index("</table>")]
    assert heat.count('href="#w1"') >= 2
    assert heat.count('href="#w2"') >= 2
    assert '<details class="workload" id="w2">' in page_of_two


def test_a_report_is_read_as_the_results_that_it_holds(page, data, tmp_path):
    (tmp_path / "report.html").write_text(page)
    file = write(tmp_path / "r.json", data)
    for form in ("text", "csv", "json"):
        printed = [call_heaptape("compare", path, "--format", form) for path in (tmp_path / "report.html", file)]
        named = [one.stdout.replace("report.html", "r.json") for one in printed]
        before_more = [text.partition("\nMore:")[0] for text in named]
        assert before_more[0] == before_more[1] != ""


def test_several_workloads_have_their_memory_over_time_on_the_first_page(data):
    page = report.make([Results("a", data), Results("b", data | {"workload": {"name": "other"}})], "glibc")
    first = page[: page.index('<details class="workload"')]
    assert [f'data-kind="small" data-of="{number}"' in first for number in range(3)] == [True, True, False]


def test_the_first_page_maps_the_workload_whose_peak_changes_most(data):
    other = copy.deepcopy(data) | {"workload": data["workload"] | {"name": "other"}}
    for run in other["runs"]:
        if run["allocator"] == "jemalloc" and run["pass"] == "memory":
            run["rss_anon_peak_bytes"] *= 9
    for files, number in (([data, other], 1), ([other, data], 0)):
        page = report.make([Results("r", file) for file in files], "glibc")
        first = page[page.index("Where it lies") : page.index('<details class="workload"')]
        assert f'<a href="#w{number + 1}">other</a>, jemalloc +' in first
        assert f'<div class="columns maps" data-of="{number}">' in first
        assert re.findall("<option selected>(.*?)</option>", first) == ["glibc", "jemalloc"]


def test_a_report_of_several_workloads_gives_all_of_them(page_of_two, tmp_path):
    (tmp_path / "both.html").write_text(page_of_two)
    assert [file.name for file in all_results(tmp_path / "both.html")] == ["made <up>", "other"]
    with pytest.raises(HeaptapeError, match="holds the results of 2 workloads"):
        results(tmp_path / "both.html")


@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied", "other encoding", "no results"])
def test_a_damaged_report_is_one_error_that_names_the_place(page, tmp_path, harm):
    at = page.index('"data":"') + 8
    hurt = {
        "cut": page[: at + 4000] + page[page.index('"', at + 4000) :],
        "flipped": page[: at + 400] + "AAAA" + page[at + 404 :],
        "emptied": page[:at] + page[page.index('"', at) :],
        "other encoding": page.replace(ENCODING, "lzma+base64"),
        "no results": page.replace(TYPE, "text/plain"),
    }[harm]
    path = tmp_path / "hurt.html"
    path.write_text(hurt)
    done = call_heaptape("compare", path)
    assert done.status == 1
    assert done.stdout == ""
    assert re.fullmatch(rf"heaptape: {re.escape(str(path))}: .+\n", done.stderr)
    assert ("offset" in done.stderr) == (harm != "no results")


def held(text):
    """A page with these raw results only."""
    packed = base64.b64encode(gzip.compress(text)).decode()
    return f'<script type="{TYPE}">{json.dumps({"name": "x", "encoding": ENCODING, "data": packed})}</script>'.encode()


def test_raw_results_are_gzipped_json_and_nothing_else():
    assert list(unpack("p", held(b'{"runs":[1.50,"a"]}'))) == [{"runs": [1.5, "a"]}]
    with pytest.raises(FormatError, match="can't be read"):
        list(unpack("p", held(b'{"runs":[')))


def test_raw_results_that_are_far_too_large_are_refused(monkeypatch):
    monkeypatch.setattr("heaptape.tape.embedded.MAX_RAW_BYTES", 10_000)
    with pytest.raises(FormatError, match="too large"):
        list(unpack("p", held(b" " * 20_000)))


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.text(max_size=3), junk, max_size=3), max_size=3))
def test_whatever_is_packed_comes_back_to_the_letter(runs):
    data = {"runs": [*runs, *runs]}
    back = list(unpack("p", f'<script type="{TYPE}">{pack(data, "n</script>")}</script>'.encode()))
    assert [json.dumps(each) for each in back] == [json.dumps(data)]


def test_page_and_results_say_what_is_left_out(page, data):
    runs = next(unpack("p", page.encode()))["runs"]
    assert "Left out, as they would make the page large: memory maps" in page
    for run, kept in zip(data["runs"], runs):
        assert ("memory_map" in run) == ("memory_map" in kept.get("left_out", []))
        gone = {"left_out", "timeline", *kept.get("left_out", [])}
        assert {key: value for key, value in run.items() if key not in gone} == {
            key: value for key, value in kept.items() if key not in gone
        }
    lines = [run["timeline"] for run in runs if run.get("timeline")]
    assert len(lines) == 2
    assert all(len(line) <= report.KEPT_SAMPLES for line in lines)


def places(value, path=()):
    """Every place in a JSON value except the raw rows, as a path."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@pytest.fixture(scope="module")
def slim(data):
    """The same with short rows, so that copies and comparisons cost little."""
    cut = copy.deepcopy(data)
    cut["workload"]["recorded"] = cut["workload"]["recorded"][:3]
    for run in cut["runs"]:
        run.pop("memory_map", None)
        run["timeline"] = run.get("timeline", [])[:3]
        for call in run.get("calls", {}).values():
            call["histogram"] = call["histogram"][:2]
    return cut


def replaced(data, path, value):
    data = copy.deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@examples(60)
@given(chooser=st.data())
def test_results_with_anything_in_any_place_give_tables_or_one_line(tmp_path_factory, slim, chooser):
    path = chooser.draw(st.sampled_from([p for p in places(slim) if p]))
    file = tmp_path_factory.getbasetemp() / "junk.json"
    file.write_text(json.dumps(replaced(slim, path, chooser.draw(junk))))
    try:
        read = [results(file)]
        baseline = choose_baseline(read, None)
    except HeaptapeError:
        return
    render_text(comparison(read, baseline), 100)
    warnings(read)
    sentences(read[0], baseline)
    report_methods.methods(read)
    report_methods.allocators(read)
    charts.latencies(read[0], read[0].labels)
    charts.memory(read[0], read[0].labels)
