# SPDX-License-Identifier: MIT
"""Flame graphs: widths are the weights, exactly; the SVG is well-formed whatever functions are called."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.profile import flame_graph
from heaptape.profile.data import SITES
from heaptape.profile.flame_graph import WEIGHTS, WIDTH, layout, render, tree
from heaptape.tape.stack_names import Frame
from hypothesis import given
from hypothesis import strategies as st

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
