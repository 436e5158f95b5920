# SPDX-License-Identifier: MIT
"""The profile in words and tables agrees with the counts, and lacks sentences for what is not there. Sites of a
recording with call stacks, against counting each event with the other reader. Flame graphs: widths are the weights,
exactly; the SVG is well-formed whatever functions are called.
"""

import json
import re
import xml.etree.ElementTree as ElementTree

import heaptape as library
import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.profile import flame_graph
from heaptape.features.profile.data import (
    SITES,
    Profile,
    large_share,
    remote_share,
    sizes_for_share,
    swing,
    young_share,
)
from heaptape.features.profile.flame_graph import WEIGHTS, WIDTH, layout, render, tree
from heaptape.features.profile.text import MADE_UP_LIFETIMES, hardness, tables, tables_by_name
from heaptape.tape.stack_names import Frame
from hypothesis import given
from hypothesis import strategies as st

from tests.support import HEAPTAPE_HERE, call_heaptape, published, succeed


def made_up(**keys) -> Profile:
    data = {
        "program": "p", "ops": 20, "sizes": {}, "lifetimes_bytes": [], "lifetimes_ns": [], "windows": [],
        "thread_pairs": [], "pairs_left_out": 0,
        "reallocs": {"calls": 0, "in_place": 0, "grew": 0, "shrank": 0, "copied_bytes": 0, "chains": []},
    }  # fmt: skip
    return Profile(data | keys)


def window(position: int, live_bytes: int) -> list[int]:
    return [position, 0, 10, 5, 5, 100, live_bytes, 1]


def test_remote_share_by_hand():
    pairs = {"thread_pairs": [[0, 0, 6, 60], [0, 1, 3, 30]], "pairs_left_out": 1, "lifetimes_bytes": [[8, 0, 10, 100]]}
    assert remote_share(made_up(**pairs)) == pytest.approx(0.4)


def test_variety_is_how_many_sizes_hold_the_share():
    found = made_up(sizes={"malloc": [[8, 90, 720], [16, 6, 96]], "calloc": [[16, 4, 64]]})
    assert sizes_for_share(found, 0.9) == 1
    assert sizes_for_share(found, 0.91) == 2
    assert sizes_for_share(made_up(), 0.9) == 0


def test_shares_by_hand():
    found = made_up(
        sizes={"malloc": [[8, 8, 64], [1 << 20, 2, 2 << 20]]}, lifetimes_bytes=[[8, 16, 4, 32], [8, 1 << 16, 2, 16]]
    )
    assert young_share(found, 1 << 16) == pytest.approx(0.4)
    assert large_share(found, 1 << 17) == pytest.approx((2 << 20) / (64 + (2 << 20)))


def test_swing_is_the_deepest_fall_after_a_peak():
    live = [10, 100, 60, 80, 200, 150]
    found = made_up(windows=[window(number, bytes_) for number, bytes_ in enumerate(live)])
    assert swing(found) == (pytest.approx(0.25), 200)
    assert swing(made_up()) == (0.0, 0)


def test_nothing_is_said_of_what_is_not_there():
    assert hardness(made_up()) == []
    assert tables(made_up()) == []


def test_made_up_lifetimes_are_called_so_wherever_ages_are_printed():
    ages = {"lifetimes_bytes": [[16, 8, 90, 900]], "sites": [[1] * len(SITES)], "sizes": {"malloc": [[16, 90, 900]]}}
    known, unknown = made_up(**ages), made_up(**ages, lacks=["addresses", "lifetimes"])
    for found, doubted in ((known, False), (unknown, True)):
        notes = {table.title.split(" ")[0]: MADE_UP_LIFETIMES in table.notes for table in tables(found)}
        assert notes["Lifetimes"] == notes["Sites"] == doubted
        assert any(MADE_UP_LIFETIMES in sentence for sentence in hardness(found)) == doubted
        assert any("Lifetimes: 100" in sentence for sentence in hardness(found)) != doubted


def test_sites_are_named_and_ranked():
    sites = [
        [1, 5, 1 << 20, 0, 0, 1 << 20, 90 << 20, 4, 0, 0],
        [2, 6, 2 << 20, 1, 4096, 1 << 20, 50 << 20, 0, 4096, 1],
        [0, 1, 8, 0, 0, 8, 0, 0, 0, 0],
    ]
    names = {1: ["parse", "main"], 2: []}
    by_bytes, by_objects, by_lifetime, leaks = tables(made_up(sites=sites), lambda node: names.get(node, []))
    assert [row[0].text for row in by_bytes.rows] == ["stack 2", "parse < main", "no stack known"]
    assert by_bytes.rows[1][-1].text == "80.0 %"
    assert [row[0].text for row in by_objects.rows] == ["stack 2", "parse < main", "no stack known"]
    assert [(row[0].text, row[-2].text) for row in by_lifetime.rows] == [("parse < main", "18.0"), ("stack 2", "10.0")]
    assert [row[0].text for row in leaks.rows] == ["stack 2"]


def test_a_hard_workload_comes_with_its_reasons():
    found = made_up(
        sizes={"malloc": [[64, 10, 640]], "realloc": [[128, 4, 512]]},
        lifetimes_bytes=[[64, 1 << 20, 8, 512]],
        thread_pairs=[[0, 1, 8, 512]],
        reallocs={"calls": 4, "in_place": 1, "grew": 4, "shrank": 0, "copied_bytes": 1 << 20, "chains": [[1, 4, 4, 8]]},
    )
    text = " ".join(hardness(found))
    assert "100.0 % of the frees are by a thread other than" in text
    assert "only 0.0 % of the objects are freed before 64 KiB more are allocated" in text
    assert "of which 75.0 % moved" in text
    assert "2 of 10 objects are never freed" in text
    assert [table.title for table in tables(found)][-1] == "Reallocs of one object"


@pytest.fixture(scope="module")
def tape(tmp_path_factory, heaptape, out):
    path = tmp_path_factory.mktemp("sites") / "mix.tape"
    done = heaptape(
        "record",
        "--stacks",
        "-o",
        path,
        "--",
        out / "workloads/random_mix",
        "--rounds=3000",
        "--slots=100",
        "--quiet=1",
    )
    assert done.returncode == 0, done.stderr
    return path


def count_one_by_one(path) -> dict[int, dict]:
    """By stack of birth: the columns of Profile.sites, for a recording of one thread."""
    sites: dict[int, dict] = {}
    live: dict[int, list] = {}  # address: site, bytes, allocated bytes before it
    allocated = peak = 0
    with library.open(path) as trace:
        events = [row for frame in trace.frames() for row in frame.to_dict("records")]
    for event in events:
        acquired, moved = event["acquired_address"], None
        acquires = acquired == acquired and acquired is not None and isinstance(acquired, int)
        if event["releases"]:
            moved = live.pop(event["released_address"])
            if not acquires:
                site = sites[moved[0]]
                site["live_objects"] -= 1
                site["live_bytes"] -= moved[1]
                site["lifetime_bytes"] += allocated - moved[2]
        if acquires:
            request = event["request_bytes"]
            if moved:
                site = sites[moved[0]]
                site["bytes"] += max(request - moved[1], 0)
                site["live_bytes"] += request - moved[1]
                live[acquired] = [moved[0], request, moved[2]]
            else:
                site = sites.setdefault(int(event["stack"]), dict.fromkeys(
                    ("objects", "bytes", "live_objects", "live_bytes", "peak_live_bytes", "lifetime_bytes"), 0
                ) | {"bytes_at_peak": 0, "objects_at_peak": 0})  # fmt: skip
                site["objects"] += 1
                site["bytes"] += request
                site["live_objects"] += 1
                site["live_bytes"] += request
                live[acquired] = [int(event["stack"]), request, allocated]
            site["peak_live_bytes"] = max(site["peak_live_bytes"], site["live_bytes"])
            allocated += request
        total = sum(site["live_bytes"] for site in sites.values())
        if total > peak:
            peak = total
            for site in sites.values():
                site["bytes_at_peak"], site["objects_at_peak"] = site["live_bytes"], site["live_objects"]
    return sites


def test_sites_are_what_counting_each_event_gives(tape):
    found = Profile(published("profile", succeed(HEAPTAPE_HERE, "profile", tape, "--format", "json").stdout))
    counted = count_one_by_one(tape)
    assert len(counted) > 5
    rows = {row["node"]: row for row in found.sites.to_dict("records")}
    assert set(rows) == set(counted)
    for node, site in counted.items():
        assert {key: rows[node][key] for key in site} == site, node
    assert found.sites["bytes_at_peak"].sum() == found.data["witness"]["peak_live_bytes"]


def test_profile_draws_the_flame_graph(tape, tmp_path):
    path = tmp_path / "flame.svg"
    done = call_heaptape("profile", tape, "--format", "svg", "-o", path)
    assert done.status == 0, done.stderr
    assert done.stdout == ""
    text = path.read_text()
    assert text.startswith("<svg")
    assert "main — " in text
    assert 'aria-pressed="true" data-weight="0"' in text


def test_without_stacks_there_is_no_flame_graph(small_tape):
    done = call_heaptape("profile", small_tape, "--format", "svg")
    assert done.status == 1
    assert "--stacks" in done.stderr
    assert done.stderr.count("\n") == 1


SVG = "{http://www.w3.org/2000/svg}"
WHOLE = WIDTH - 2 * flame_graph.MARGIN


def site(node: int, objects: int = 0, bytes_: int = 0, leaked: int = 0, peak: int = 0) -> dict:
    row = dict.fromkeys(SITES, 0)
    return row | {"node": node, "objects": objects, "bytes": bytes_, "live_bytes": leaked, "bytes_at_peak": peak}


def stacks(named: dict[int, str]):
    """'main;parse' of each node, outermost first."""

    def stack(node):
        return [Frame(name, None, 0, "prog", 0) for name in reversed(named.get(node, "").split(";")) if name]

    return stack


def drawn(text: str) -> dict[str, tuple[float, float, float]]:
    """Function -> x, y, width of its rectangle; hidden ones left out."""
    found = {}
    for group in ElementTree.fromstring(text).iter(f"{SVG}g"):
        if group.get("class") == "frame" and group.get("visibility") != "hidden":
            name = group.find(f"{SVG}title").text.split(" — ")[0]
            rect = group.find(f"{SVG}rect")
            found[name] = tuple(float(rect.get(key)) for key in ("x", "y", "width"))
    return found


def test_a_frame_is_as_wide_as_what_is_below_it_weighs():
    sites = pd.DataFrame([site(1, 3, 600, 100, 300), site(2, 1, 200), site(3, 6, 200, 0, 100)])
    top = tree(sites, stacks({1: "main;parse;new_node", 2: "main;parse", 3: "main;print"}))
    found = drawn(render(top, "prog"))
    assert {name: round(width / WHOLE, 4) for name, (_, _, width) in found.items()} == {
        "all": 1, "main": 1, "parse": 0.8, "new_node": 0.6, "print": 0.2
    }  # fmt: skip
    assert found["new_node"][1] - found["parse"][1] == flame_graph.ROW
    assert found["print"][0] == pytest.approx(found["parse"][0] + found["parse"][2], abs=0.02)
    objects = drawn(render(top, "prog", "objects"))
    assert objects["parse"][2] == pytest.approx(WHOLE * 0.4, abs=0.01)
    assert "print" not in drawn(render(top, "prog", "leaked"))
    assert drawn(render(top, "prog", "peak"))["print"][2] == pytest.approx(WHOLE / 4, abs=0.01)


def test_the_allocators_own_functions_are_left_out_and_a_missing_stack_is_named():
    top = tree(pd.DataFrame([site(1, 1, 8), site(0, 1, 8)]), stacks({1: "main;malloc"}))
    assert set(top.below) == {("main", "prog"), ("no stack known", "")}
    assert not top.below["main", "prog"].below


paths = st.lists(st.sampled_from("abcde"), min_size=1, max_size=6)
weighted = st.lists(st.tuples(paths, *[st.integers(0, 1000)] * 4), min_size=1, max_size=20)


@given(weighted, st.sampled_from(list(WEIGHTS)))
def test_boxes_lie_within_their_callers_and_add_up(rows, weight):
    sites = pd.DataFrame([site(number, *values) for number, (_, *values) in enumerate(rows, 1)])
    top = tree(sites, stacks({number: ";".join(path) for number, (path, *_) in enumerate(rows, 1)}))
    column, chosen = WEIGHTS[weight][1], list(WEIGHTS).index(weight)
    assert top.weights[chosen] == sites[column].sum()
    boxes = layout(top, chosen)
    below: dict[int, list] = {}
    for box in boxes[1:]:
        below.setdefault(box.parent, []).append(box)
        caller = boxes[box.parent]
        assert box.depth == caller.depth + 1
        assert box.x >= caller.x - 1e-6
        assert box.x + box.width <= caller.x + caller.width + 1e-6
    for called in below.values():
        ends = [box.x + box.width for box in called]
        assert all(box.x == pytest.approx(end) for box, end in zip(called[1:], ends))
    total = sites[column].sum()
    for box in boxes:
        assert box.width == pytest.approx(WHOLE * box.node.weights[chosen] / total if total else 0)


@given(st.lists(st.text(min_size=1, max_size=20).filter(lambda t: t.strip()), min_size=1, max_size=5))
def test_any_name_gives_a_well_formed_picture(names):
    """C++ symbols contain < and &; damaged ones any character, also those that XML can't represent."""
    top = tree(pd.DataFrame([site(1, 1, 8)]), lambda node: [Frame(name, None, 0, name, 0) for name in reversed(names)])
    text = render(top, "a < b & c")
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    about = json.loads(next(s.text for s in root.iter(f"{SVG}script") if s.get("class") == "data"))
    frames = [g for g in root.iter(f"{SVG}g") if g.get("class") == "frame"]
    assert len(about["frames"]) == len(frames)


def test_nothing_comes_from_elsewhere():
    top = tree(pd.DataFrame([site(1, 1, 8)]), stacks({1: "main"}))
    text = render(top, "prog")
    addresses = set(re.findall(r"[a-z]+://[^\s\"']+", text))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    assert not re.search(r"(src|href)=|@import|url\(", text)


def test_what_no_eye_could_see_is_not_drawn():
    rows = [site(number, 1, 1) for number in range(1, 20_000)] + [site(20_000, 1, 20_000)]
    top = tree(pd.DataFrame(rows), stacks({n: f"main;f{n}" for n in range(1, 20_001)}))
    text = render(top, "prog")
    assert set(drawn(text)) == {"all", "main", "f20000"}
    assert len(text) < 30_000


def test_no_stacks_are_an_error_that_says_what_to_do():
    with pytest.raises(HeaptapeError, match="--stacks"):
        render(tree(pd.DataFrame(columns=SITES), stacks({})), "prog")


def test_tables_of_threads_and_reallocs_have_shares_of_the_whole():
    data = {"thread_pairs": [[0, 1, 75, 3 << 20], [1, 0, 25, 1 << 20]], "pairs_left_out": 9}
    found = tables_by_name(Profile(data | {"reallocs": {"chains": [[1, 10, 100, 250], [64, 2, 0, 7]]}}))
    (pairs,) = found["threads"]
    assert [[cell.text for cell in row] for row in pairs.rows] == [
        ["0 → 1", "75", "75.0", "3.00"], ["1 → 0", "25", "25.0", "1.00"]
    ]  # fmt: skip
    assert pairs.notes == ["9 objects are of further pairs of threads."]
    (chains,) = found["reallocs"]
    assert [[cell.text for cell in row] for row in chains.rows] == [["1", "10", "2.50"], ["64+", "2", "–"]]
    one = {"thread_pairs": data["thread_pairs"][:1]}
    assert tables_by_name(Profile(one))["threads"] == []
