# SPDX-License-Identifier: MIT
"""The report: it is self-contained, holds the raw results, and accepts results that lack nearly everything."""

import base64
import copy
import gzip
import itertools
import json
import random
import re
from html.parser import HTMLParser

import pytest
from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.common.tables import render_text
from heaptape.results.comparing.compare import choose_baseline
from heaptape.results.comparing.summary import sentences, warnings
from heaptape.results.schema import Results, all_results, results
from heaptape.show.pages import methods as report_methods
from heaptape.show.pages import page as report
from heaptape.show.tables.usual import comparison
from heaptape.tape.embedded import COLUMNS, SHORTENED, TYPE, pack, unpack, without_maps
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
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_report_embeds_the_raw_results(page, data):
    assert list(unpack("report.html", page.encode())) == [json.loads(json.dumps(data))]


def test_ids_in_the_report_are_its_own(page):
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


def test_figures_have_a_rule_for_each_class_and_no_group_that_says_nothing(page):
    drawn = re.findall(r'<div class="view"[^>]*>(<svg.*?</svg>)', page, re.DOTALL)
    assert len(drawn) > 5
    rules = re.findall(r"\.(s[0-9a-f]{8})\{([^{}]*)\}", page[: page.index("</head>")])
    assert len(rules) == len(dict(rules)) == len({said for _, said in rules})
    assert {name for svg in drawn for name in re.findall(r'class="([^"]*)"', svg)} == set(dict(rules))
    for svg in drawn:
        assert "<style" not in svg
        assert "<g>" not in svg
        assert len(re.findall(r"<g ", svg)) == svg.count("</g>") + len(re.findall(r"<g [^>]*/>", svg))


def test_names_are_escaped(page):
    assert "made &lt;up&gt;" in page
    assert "<up>" not in page


def test_without_a_blame_pass_no_section_says_who_holds_the_memory(page):
    assert "Who holds the memory" not in page


def test_there_is_a_memory_map_per_allocator_and_one_figure_of_progress(page):
    assert page.count("<h4>glibc</h4>") == 1
    assert len(re.findall(r"MiB of addresses were used", page)) == 2
    assert page.count("<h3>Memory over progress</h3>") == 1
    assert page.count('<figure class="zoom">') == len(re.findall(r'role="img" aria-label="[^"]{20,}"', page))


def test_report_of_a_published_table_has_its_figures_and_nothing_made_up():
    table = {
        "runs": [
            {"allocator": "pristine", "calls": {"malloc": {"mean": 100}}, "cycles_total": 1000},
            {"allocator": "tcache", "calls": {"malloc": {"mean": 74}}, "cycles_total": 830},
        ]
    }
    page = report.make([Results("published.json", table)], "pristine")
    assert "83.0 ?" in page
    assert "only one repetition of tcache" in page.lower()
    assert "Memory over progress" not in page
    assert "<h3>Memory usage by address" not in page


@pytest.fixture(scope="module")
def page_of_two(data):
    """A report of two workloads; the second one's results carry an error of replaying."""
    timed = data | {"runs": [run for run in data["runs"] if run["pass"] == "time"]}
    other = timed | {"workload": {"name": "other"}, "fidelity": {"rss_error_percent": 3.25}}
    return report.make([Results("a", timed), Results("b", other)], "glibc")


def test_several_workloads_get_their_means(page_of_two):
    assert "geometric mean" in page_of_two
    assert page_of_two.count(f'type="{TYPE}"') == 2


def test_a_report_is_read_as_the_results_that_it_holds(page, data, tmp_path):
    (tmp_path / "report.html").write_text(page)
    file = write(tmp_path / "r.json", data)
    assert results(tmp_path / "report.html").data == results(file).data
    for form in ("text", "csv", "json"):
        printed = [call_heaptape("compare", path, "--format", form) for path in (tmp_path / "report.html", file)]
        before_more = [one.stdout.partition("\nMore:")[0] for one in printed]
        assert before_more[0] == before_more[1] != ""


def test_a_report_of_several_workloads_gives_all_of_them(page_of_two, tmp_path):
    (tmp_path / "both.html").write_text(page_of_two)
    assert [file.name for file in all_results(tmp_path / "both.html")] == ["made <up>", "other"]
    with pytest.raises(HeaptapeError, match="holds the results of 2 workloads"):
        results(tmp_path / "both.html")


@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied", "other encoding", "no results"])
def test_a_damaged_report_is_one_error_that_names_the_place(page, tmp_path, harm):
    at = page.index('"data": "') + 9
    hurt = {
        "cut": page[: at + 4000] + page[page.index('"', at + 4000) :],
        "flipped": page[: at + 400] + "AAAA" + page[at + 404 :],
        "emptied": page[:at] + page[page.index('"', at) :],
        "other encoding": page.replace(COLUMNS, "lzma+base64"),
        "no results": page.replace(TYPE, "text/plain"),
    }[harm]
    path = tmp_path / "hurt.html"
    path.write_text(hurt)
    done = call_heaptape("compare", path)
    assert done.status == 1
    assert done.stdout == ""
    assert re.fullmatch(rf"heaptape: {re.escape(str(path))}: .+\n", done.stderr)
    assert ("offset" in done.stderr) == (harm != "no results")


def held(raw, encoding=COLUMNS):
    """A page with these raw results only."""
    to_text = base64.b85encode if encoding == COLUMNS else base64.b64encode
    packed = to_text(gzip.compress(raw)).decode().replace("<", ",")
    return f'<script type="{TYPE}">{json.dumps({"name": "x", "encoding": encoding, "data": packed})}</script>'.encode()


def columns_of(skeleton, *columns, planes=b"", shared=0, texts=0):
    """Raw results as their parts."""
    head = {"text_bytes": len(skeleton), "shared": shared, "texts": texts, "columns": columns}
    return json.dumps(head).encode() + b"\n" + skeleton + planes


def test_raw_results_are_put_together_as_the_format_says():
    skeleton = (
        b'"a string"\n1.50 2e9\n{"r":\x04'
        + b'0,c1,c2;,"l":\x05'
        + b'0,v1;,"n":[\x01'
        + b"3;,\x020;,\x020;,\x03"
        + b"0;]}"
    )
    # Two lengths; differences 3 and -1; the distinct 2 and 300 (4 and 600 folded) alternately; one less than that.
    columns = [[0, 2, 1, 0, 0], [1, 2, 1, 0, 0], [0, 2, 1, 2, 2], [2, 2, 1, 0, 0]]
    planes = b"\x04\x04" + b"\x06\x01" + b"\x04\x54\x00\x02" + b"\x01\x00" + b"\x01\x01"
    (found,) = unpack("p", held(columns_of(skeleton, *columns, planes=planes, shared=1, texts=1)))
    assert found == {"r": [[3, 300], [2, 2]], "l": [300, 2], "n": [299, 1.5, 2e9, "a string"]}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        columns_of(b'{"a":\x010;}'),
        columns_of(b'{"a":\x010;}', [0, 9, 1, 0, 0], planes=b"\1"),
        columns_of(b'{"a":\x010;}', [0, 1, 10**9, 0, 0], planes=b"\1"),
        columns_of(b'{"a":\x010;}', [0, 1, 1, 1, 1], planes=b"\1\2"),
        columns_of(b'{"a":\x010;}', [0, -1, 1, 0, 0], planes=b"\1"),
        columns_of(b'{"a":\x010;}', [0, "1", 1, 0, 0], planes=b"\1"),
        columns_of(b'{"a":\x010;}', 7),
        columns_of(b'{"a":\x020;}'),
        columns_of(b'" "\n{"a":\x040,v0;}', [0, 1, 1, 0, 0], planes=b"\0", shared=1),
        columns_of(b'{"a":\x050,c0;}', [0, 1, 1, 0, 0], planes=b"\2"),
        columns_of(b'{"a":\x050;}', [0, 1, 1, 0, 0], planes=b"\2"),
        columns_of(b'{"a":\x03-;}'),
        columns_of(b"{}", shared=2),
        columns_of(b"{}", texts=-1),
    ],
)
def test_raw_results_whose_columns_are_wrong_are_refused(raw):
    with pytest.raises(FormatError, match="can't be read"):
        list(unpack("p", held(raw)))


def test_pages_of_earlier_versions_are_read():
    lines = ["[1,2,-1]", '{"b":[]}', '{"runs":[{"a":{"$deltas":[{"$shared":0},[5,0,0]]},"b":{"$shared":1}}]}']
    assert list(unpack("p", held("\n".join(lines).encode(), SHORTENED))) == [
        {"runs": [{"a": [[1, 5], [3, 5], [2, 5]], "b": {"b": []}}]}
    ]
    assert list(unpack("p", held(b'{"runs":[]}', "gzip+base64"))) == [{"runs": []}]


def test_raw_results_that_refer_to_nothing_or_to_far_too_much_are_refused(monkeypatch):
    with pytest.raises(FormatError, match="can't be read"):
        list(unpack("p", held(b'{"runs":[{"a":{"$shared":7}}]}', SHORTENED)))
    monkeypatch.setattr("heaptape.tape.embedded.MAX_RAW_BYTES", 10_000)
    bomb = ["[" + "1," * 3000 + "1]", '{"runs":[' + '{"$shared":0},' * 5 + "0]}"]
    with pytest.raises(FormatError, match="too large"):
        list(unpack("p", held("\n".join(bomb).encode(), SHORTENED)))
    bomb = b"9" * 3000 + b'\n{"runs":[' + b"\x030;," * 5 + b"0]}"
    with pytest.raises(FormatError, match="too large"):
        list(unpack("p", held(columns_of(bomb, shared=1))))


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


numbers = st.integers(-9, 9) | st.integers(-(2**53), 2**53) | st.just(2**70)
matrices = st.tuples(st.integers(0, 3), st.integers(6, 10), numbers).map(
    lambda t: [[t[2] * i] * t[0] for i in range(t[1])]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "\x01;"]), matrices | junk, max_size=3), max_size=3))
def test_whatever_is_packed_comes_back_to_the_letter(runs):
    data = {"runs": [*runs, *runs]}
    back = list(unpack("p", f'<script type="{TYPE}">{pack(data, "n")}</script>'.encode()))
    assert [json.dumps(each) for each in back] == [json.dumps(data)]


def test_results_with_a_mark_in_a_name_of_theirs_come_back_as_they_were():
    data = {"runs": [{"allocator": "\x010;", "t": list(range(400)), "\x031;": "\x020;" * 600} for n in range(3)]}
    packed = pack(data, "n")
    assert list(unpack("p", f'<script type="{TYPE}">{packed}</script>'.encode())) == [data]


def test_columns_that_time_lines_have_in_common_are_stored_once_and_come_back():
    steps = random.Random(3)
    positions = list(itertools.accumulate(steps.randrange(1, 10**6) for _ in range(2000)))
    rows = [[[at, number] for at in positions] for number in range(8)]
    data = {"runs": [{"timeline": each} for each in [*rows, rows[0]]], "workload": {}}
    packed = pack(data, "n")
    assert list(unpack("p", f'<script type="{TYPE}">{packed}</script>'.encode())) == [data]
    assert len(packed) < 1.3 * len(pack({"runs": data["runs"][:1]}, "n"))


def test_of_fragmentation_the_first_run_of_each_allocator_stays():
    runs = [{"allocator": name, "variant": "default", "fragmentation": {"n": n}} for n, name in enumerate("aabb")]
    kept = without_maps({"runs": [*runs, {"allocator": "a", "fragmentation": None}]})["runs"]
    assert [run.get("fragmentation") for run in kept] == [{"n": 0}, None, {"n": 2}, None, None]
    assert [run.get("left_out") for run in kept] == [None, ["fragmentation"], None, ["fragmentation"], None]


def test_maps_too_large_for_the_page_are_left_out_and_page_and_results_say_so(data, monkeypatch):
    data = data | {"runs": [run for run in data["runs"] if run["allocator"] == "glibc" and run["pass"] == "memory"]}
    files = [Results("a", data)]
    monkeypatch.setattr(report, "MAP_BYTES_LIMIT", 1000)
    page = report.make(files, "glibc")
    runs = next(unpack("p", page.encode()))["runs"]
    assert "are left out, as they would make the page too large" in page
    assert [run.get("left_out") for run in runs] == [
        ["memory_map"] if "memory_map" in run else None for run in data["runs"]
    ]
    assert next(unpack("p", report.make(files, "glibc", whole=True).encode())) == json.loads(json.dumps(data))


def test_facts_that_differ_between_workloads_stand_side_by_side(data):
    other = make_results("other", 5, repeats=2, allocators=("glibc", "jemalloc"))
    other["machine"] = data["machine"] | {"kernel": "another"}
    by_title = {facts.title: facts for facts in report_methods.methods([Results("a", data), Results("b", other)])}
    rows = dict(by_title["Machine"].rows)
    assert rows["kernel"] == ["none", "another"]
    assert rows["cores"] == ["2"]


def test_an_error_of_replaying_that_the_results_carry_is_shown(page_of_two):
    assert re.search(r"error of replaying: rss error percent</th>.*?<td>3.25", page_of_two)


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
    report._latency_tables(read[0], read[0].labels)
