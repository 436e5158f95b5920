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
from heaptape.common.home import Home
from heaptape.features.profile import flame_graph
from heaptape.features.profile.data import (
    SITES,
    Profile,
)
from heaptape.features.profile.flame_graph import WEIGHTS, WIDTH, layout, render, tree
from heaptape.tape.stack_names import Frame
from hypothesis import given
from hypothesis import strategies as st

from tests.support import HEAPTAPE_HERE, OUT, call_heaptape, published, succeed


def made_up(**keys) -> Profile:
    data = {
        "program": "p", "ops": 20, "sizes": {}, "lifetimes_bytes": [], "lifetimes_ns": [], "windows": [],
        "thread_pairs": [], "pairs_left_out": 0,
        "reallocs": {"calls": 0, "in_place": 0, "grew": 0, "shrank": 0, "copied_bytes": 0, "chains": []},
    }  # fmt: skip
    return Profile(data | keys)


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


def test_a_call_of_the_module_takes_what_its_function_takes(small_tape, tmp_path):
    assert library.profile(small_tape, home=Home(OUT)).acquired == library.profile(small_tape).acquired
    with pytest.raises(HeaptapeError, match="heaptape-convert is missing"):
        library.profile(small_tape, home=Home(tmp_path))


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
