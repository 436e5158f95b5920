# SPDX-License-Identifier: MIT
"""The atlas's page in a real browser: the heat map shows the picked figure, sorts by a column, marks the least, and a
cell opens what it consists of; no requests, no messages, readable on a phone. The committed page holds the committed
data.
"""

import json

import msgspec
import pytest
from heaptape.common.home import CHECKOUT
from heaptape.features.fleet import atlas, atlas_page
from heaptape.features.fleet.atlas import Failure
from heaptape.features.fleet.test.test_atlas import made_up

browser_module = pytest.importorskip("browser", reason="selenium is not installed")
if browser_module.MISSING:
    pytest.skip(browser_module.MISSING, allow_module_level=True)

COLUMN = """
return [...document.querySelectorAll("#map tbody tr")].map(row => row.cells[arguments[0]].textContent);
"""
PICK = """
const choice = document.getElementById(arguments[0]);
choice.value = arguments[1];
choice.dispatchEvent(new Event("change"));
"""
MIB = 1 << 20


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    one = made_up({"a": [4 * MIB, 2 * MIB, 9 * MIB], "b<i>": [MIB, 5 * MIB, MIB]})
    for number, of_program in enumerate(one.cells.values()):
        of_program["page_faults"] = [10 + number, 0, None]
    failures = [Failure("y", "", "instructions", "it was killed")]
    path = tmp_path_factory.mktemp("atlas") / "index.html"
    path.write_text(atlas_page.make(msgspec.structs.replace(one, failures=failures)))
    return path


@pytest.fixture(scope="module")
def chromium():
    with browser_module.browser() as found:
        yield found


def test_the_heat_map_shows_changes_values_and_another_figure(page, chromium):
    chromium.open(page)
    assert chromium.ask(COLUMN, 0) == ["a", "b<i>"]
    assert chromium.ask(COLUMN, 1) == ["4.00 MiB", "1.00 MiB"]
    assert chromium.ask(COLUMN, 2) == ["−50", "×5.0"]
    assert chromium.ask("return [...document.querySelectorAll('#map .best')].map(cell => cell.textContent)") == [
        "−50", "1.00 MiB", "+0",
    ]  # fmt: skip
    chromium.ask(PICK, "shown", "value")
    assert chromium.ask(COLUMN, 2) == ["2.00 MiB", "5.00 MiB"]
    chromium.ask(PICK, "figure", "page_faults")
    assert [chromium.ask(COLUMN, at) for at in (1, 2, 3)] == [["10", "11"], ["0", "0"], ["–", "–"]]
    assert not chromium.said()
    assert [url for url in chromium.requests() if not url.startswith(("file:", "data:"))] == []


def test_a_head_sorts_and_a_cell_opens_what_it_consists_of(page, chromium):
    chromium.open(page)
    click = "document.querySelectorAll('#map thead button')[arguments[0]].click()"
    chromium.ask(click, 3)
    assert chromium.ask(COLUMN, 0) == ["b<i>", "a"]
    chromium.ask(click, 3)
    assert chromium.ask(COLUMN, 0) == ["a", "b<i>"]
    chromium.ask("document.querySelectorAll('#map tbody button')[2].click()")
    text = chromium.ask("return document.getElementById('detail').innerText")
    assert "a on y 1.0" in text
    assert "9.00 MiB" in text
    assert "Not measured, instructions: it was killed." in text


def test_the_page_does_not_scroll_sideways_on_a_phone(page, chromium):
    chromium.open(page, 400, 844, "dark")
    assert chromium.ask("return document.documentElement.scrollWidth <= innerWidth")
    assert chromium.ask("return getComputedStyle(document.body).backgroundColor") == "rgb(21, 22, 26)"


def test_the_committed_page_holds_the_committed_data_which_are_small():
    folder = CHECKOUT / "docs" / "atlas"
    assert (folder / "atlas.json").stat().st_size < 1 << 20
    text = (folder / "index.html").read_text().partition('id="atlas-data">')[2].partition("</script>")[0]
    assert json.loads(text)["atlas"] == msgspec.to_builtins(atlas.read(str(folder / "atlas.json")))
