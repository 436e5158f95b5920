# SPDX-License-Identifier: MIT
"""The profile's page and the flame graph in a real browser: self-contained, they zoom, change weights and search."""

import json

import pandas as pd
import pytest
from heaptape.features.profile import flame_graph
from heaptape.features.profile.data import SITES, Profile
from heaptape.features.profile.page import make as profile_page_of
from heaptape.tape.stack_names import Frame, StackNames

from tests.support import HEAPTAPE_HERE, succeed

browser_module = pytest.importorskip("browser", reason="selenium is not installed")
if browser_module.MISSING:
    pytest.skip(browser_module.MISSING, allow_module_level=True)

WHOLE = flame_graph.WIDTH - 2 * flame_graph.MARGIN
# main calls parse and print; parse calls node: 600 of 1000 bytes; all that is never freed is print's.
FRAMES = [[], *([Frame(name, "a<b>.c", 1, "prog", 0)] for name in ("main", "parse", "node", "print"))]
NAMES = StackNames([0, 0, 1, 2, 1], FRAMES)
ROWS = [
    [3, 3, 600, 0, 0, 600, 0, 0, 300, 1],
    [2, 1, 200, 0, 0, 200, 0, 0, 0, 0],
    [4, 6, 200, 6, 200, 200, 0, 0, 100, 1],
]
WIDTHS = """
return Object.fromEntries([...document.querySelectorAll(".flame-graph .frame")].map(frame =>
  [frame.querySelector("title").textContent.split(" — ")[0],
   frame.getAttribute("visibility") === "hidden" ? 0 : Number(frame.querySelector("rect").getAttribute("width"))]));
"""
CLICK = """
const frame = [...document.querySelectorAll(".flame-graph .frame")].find(f => f.textContent.startsWith(arguments[0]));
frame.dispatchEvent(new MouseEvent("click", {bubbles: true}));
"""


@pytest.fixture(scope="module")
def chromium():
    with browser_module.browser() as found:
        yield found


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    sites = pd.DataFrame(ROWS, columns=SITES)
    path = tmp_path_factory.mktemp("flame") / "flame.svg"
    path.write_text(flame_graph.render(flame_graph.tree(sites, NAMES.stack), "prog"))
    return path


@pytest.fixture(scope="module")
def profile_page(tmp_path_factory, small_tape):
    data = json.loads(succeed(HEAPTAPE_HERE, "profile", small_tape, "--format", "json").stdout)
    path = tmp_path_factory.mktemp("profile") / "profile.html"
    path.write_text(profile_page_of(Profile(data | {"sites": ROWS}), NAMES))
    return path


def shares(chromium) -> dict[str, float]:
    return {name: round(width / WHOLE, 3) for name, width in chromium.ask(WIDTHS).items()}


@pytest.mark.parametrize("where", ["picture", "profile_page"])
def test_flame_graph_zooms_weighs_and_searches(chromium, request, where):
    """Alone and inside the page."""
    chromium.open(request.getfixturevalue(where))
    drawn = {"all": 1, "main": 1, "parse": 0.8, "node": 0.6, "print": 0.2}
    assert shares(chromium) == drawn
    chromium.ask(CLICK, "parse")
    assert shares(chromium) == {"all": 1, "main": 1, "parse": 1, "node": 0.75, "print": 0}
    chromium.ask("document.querySelector('.reset').dispatchEvent(new MouseEvent('click'))")
    assert shares(chromium) == drawn
    chromium.ask("document.querySelector('.weight[data-weight=\"1\"]').dispatchEvent(new MouseEvent('click'))")
    assert shares(chromium) == {"all": 1, "main": 1, "parse": 0.4, "node": 0.3, "print": 0.6}
    chromium.ask(
        "const box = document.querySelector('.flame-graph input'); box.value = 'node|print';"
        "box.dispatchEvent(new Event('input'))"
    )
    assert "2 frames found, 9 objects, 90.00 %" in chromium.ask("return document.querySelector('.status').textContent")
    assert chromium.ask("return document.querySelectorAll('.frame.found').length") == 2
    assert chromium.said() == []


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_the_profiles_page_needs_nothing_else_and_fits(chromium, profile_page, scheme, width):
    chromium.open(profile_page, width=width, scheme=scheme)
    assert chromium.said() == []
    assert [address for address in chromium.requests() if not address.startswith("data:")] == [profile_page.as_uri()]
    assert chromium.ask("return document.documentElement.scrollWidth") <= width
    assert chromium.ask("return document.querySelectorAll('figure svg').length") >= 4
    dark = chromium.ask("return getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(255, 255, 255)") == (scheme == "light")


def test_raw_data_of_the_profiles_page_are_the_profile(chromium, profile_page):
    chromium.open(profile_page)
    encoded = chromium.ask("return document.querySelector('a.button[download]').href.split(',')[1]")
    assert json.loads(chromium.ask("return atob(arguments[0])", encoded))["sites"] == ROWS
