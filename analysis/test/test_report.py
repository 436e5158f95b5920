"""The report: it stands alone, holds the raw results, and bears results that lack nearly everything."""

import base64
import copy
import gzip
import json
import re
from html.parser import HTMLParser

import pytest
from heaptape import report
from heaptape.compare import choose_baseline
from heaptape.errors import HeaptapeError
from heaptape.results_file import Results, results
from heaptape.summary import sentences, warnings
from heaptape.tables import comparison, render_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_results import make_results


@pytest.fixture(scope="module")
def data():
    return make_results("made <up>", repeats=2)


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
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_report_embeds_the_raw_results(page, data):
    held = json.loads(re.search(r'<script type="application/json" id="raw1">(.*?)</script>', page, re.DOTALL)[1])
    assert held["encoding"] == "gzip+base64"
    assert json.loads(gzip.decompress(base64.b64decode(held["data"]))) == json.loads(json.dumps(data))


def test_ids_in_the_report_are_its_own(page):
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


def test_names_are_escaped(page):
    assert "made &lt;up&gt;" in page
    assert "<up>" not in page


def test_there_is_a_memory_map_per_allocator_and_one_figure_of_progress(page):
    assert page.count("<h4>glibc</h4>") == 1
    assert len(re.findall(r"MiB of addresses were used", page)) == 5
    assert page.count("<h3>Memory over progress</h3>") == 1


def test_report_of_a_published_table_has_its_figures_and_nothing_made_up():
    table = {
        "runs": [
            {"allocator": "pristine", "calls": {"malloc": {"mean": 100}}, "cycles_total": 1000},
            {"allocator": "tcache", "calls": {"malloc": {"mean": 74}}, "cycles_total": 830},
        ]
    }
    page = report.make([Results("published.json", table)], "pristine")
    assert "83.0 ?" in page
    assert "One repetition only of tcache" in page.replace("one", "One")
    assert "Memory over progress" not in page
    assert "<h3>Memory usage by address" not in page


def test_several_workloads_get_their_means(data):
    page = report.make([Results("a", data), Results("b", make_results("other", 5, repeats=2))], "glibc")
    assert "geometric mean" in page
    assert page.count('type="application/json"') == 2


def places(value, path=()):
    """Every place in a JSON value but the raw rows, as a path."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


@pytest.fixture(scope="module")
def slim(data):
    """The same with short rows, so that two hundred copies cost little."""
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


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
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
    report._measured(read[0])
    report._facts(read[0])
    report._allocators(read[0])
    report._latency_tables(read[0], read[0].labels)
