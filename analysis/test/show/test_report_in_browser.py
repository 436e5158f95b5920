# SPDX-License-Identifier: MIT
"""The report in a real browser: it makes no requests, sorts, zooms, saves its raw data, and can be read in both colour
schemes, at 800 pixels and on a phone. Screenshots are left in out/screenshots. The profile's page and the flame graph:
they are self-contained, zoom, change weights and search. Long: each size of the report in the other scheme.
"""

import json
import math
import re
import time

import pandas as pd
import pytest
from heaptape.profile import flame_graph
from heaptape.profile.data import SITES, Profile
from heaptape.results.schema import Results
from heaptape.show.pages import page as report
from heaptape.show.pages.profile_page import make as profile_page_of
from heaptape.tape.stack_names import Frame, StackNames
from synthetic_results import make_results

from tests.support import call_heaptape

browser_module = pytest.importorskip("browser", reason="selenium is not installed")
if browser_module.MISSING:
    pytest.skip(browser_module.MISSING, allow_module_level=True)

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

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


SIZES = {"desk": (1280, 900), "800": (800, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def chromium():
    with browser_module.browser() as found:
        yield found


@pytest.fixture(scope="module")
def files():
    some = ("glibc", "jemalloc", "mimalloc")
    first = make_results("phases of a server", repeats=2, allocators=some)
    second = make_results("a second one", 5, repeats=2, allocators=some)
    first["workload"]["lacks"] = ["usable_size"]
    second["runs"] = [run for run in second["runs"] if run["pass"] == "time"]
    return [Results("a.json", first), Results("b.json", second)]


@pytest.fixture(scope="module")
def page(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.make(files, "glibc"))
    return path


@pytest.fixture(scope="module")
def opened(chromium, page):
    chromium.open(page)
    return chromium


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        ("desk", "light"),
        ("800", "light"),
        ("phone", "dark"),
        *[pytest.param(*one.split(), marks=pytest.mark.long) for one in ("desk dark", "800 dark", "phone light")],
    ],
)
def test_page_is_quiet_asks_nobody_and_never_scrolls_sideways(chromium, page, out, size, scheme):
    chromium.open(page, *SIZES[size], scheme)
    wide = chromium.ask(
        "return [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg') &&"
        " !e.matches('.skip') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 90))"
    )
    assert wide == []
    assert chromium.ask("return document.documentElement.scrollWidth") <= SIZES[size][0]
    folder = out / "screenshots"
    folder.mkdir(exist_ok=True)
    for name, selector in (("top", "header"), ("figures", "figure.zoom"), ("methods", "#methods")):
        chromium.ask(f"document.querySelector('{selector}').scrollIntoView({{behavior: 'instant'}})")
        chromium.driver.save_screenshot(str(folder / f"report-{size}-{scheme}-{name}.png"))
    assert chromium.said() == []
    assert [url for url in chromium.requests() if not url.startswith(("file:", "data:", "blob:"))] == []
    assert chromium.ask("return performance.getEntriesByType('resource').map(e => e.name)") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(chromium, page, scheme):
    chromium.open(page, scheme=scheme)
    ground = chromium.ask("return getComputedStyle(document.body).backgroundColor")
    assert luminance(ground) > 0.9 if scheme == "light" else luminance(ground) < 0.02
    pairs = chromium.ask("""
        const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
          if (!/, 0\\)$|transparent/.test(c)) return c; } };
        return [...document.querySelectorAll("p, li, td, th, caption, figcaption, a, button, h1, h2, h3, summary")]
          .filter(e => e.textContent.trim()).map(e => [e.tagName, e.className, getComputedStyle(e).color, ground(e)]);
    """)
    faint = {tuple(pair) for pair in pairs if contrast(pair[2], pair[3]) < 4.5}
    assert faint == set()


def luminance(colour):
    parts = [int(n) / 255 for n in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def column(browser, number):
    return browser.ask(
        "const rows = [...document.querySelector('table.sortable').tBodies[0].rows];"
        "return rows.map(r => r.cells[arguments[0]].dataset.value ?? r.cells[arguments[0]].textContent)",
        number,
    )


def test_a_click_on_a_head_sorts_by_number_down_and_back(opened):
    head = opened.driver.find_element(By.CSS_SELECTOR, "table.sortable thead th:nth-child(2)")
    before = column(opened, 1)
    for state, wanted in (
        ("ascending", sorted(before, key=number)),
        ("descending", sorted(before, key=lambda text: (math.isinf(number(text)), -number(text)))),
        (None, before),
    ):
        opened.ask("arguments[0].querySelector('button').click()", head)
        assert head.get_attribute("aria-sort") == state
        assert column(opened, 1) == wanted
    assert column(opened, 1) != sorted(before, key=number), "the table must begin unsorted for this to prove anything"


def number(text):
    try:
        return float(text)
    except ValueError:
        return math.inf


def test_heads_sort_by_keyboard_one_at_a_time_and_text_by_its_numbers(opened):
    heads = opened.driver.find_elements(By.CSS_SELECTOR, "table.sortable:first-of-type thead th")[:3]
    for head in heads[:2]:
        head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert [head.get_attribute("aria-sort") for head in heads] == [None, "ascending", None]
    heads[0].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert [head.get_attribute("aria-sort") for head in heads] == ["ascending", None, None]
    names = column(opened, 0)
    assert names == sorted(names)


@pytest.fixture
def figure(chromium, page):
    """The first figure, in view and whole; and a function that returns the shown part of it."""
    chromium.open(page)
    element = chromium.driver.find_element(By.CSS_SELECTOR, "figure.zoom")
    chromium.ask("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    view = element.find_element(By.CSS_SELECTOR, ".view")

    def box():
        text = chromium.ask("return arguments[0].querySelector('svg').getAttribute('viewBox')", view)
        return [float(part) for part in text.split()]

    return chromium, element, view, box


def wheel(browser, view, delta):
    ActionChains(browser.driver).scroll_from_origin(ScrollOrigin.from_element(view), 0, delta).perform()


def test_the_wheel_zooms_a_figure_once_it_is_clicked_and_the_page_before(figure):
    browser, _, view, box = figure
    whole, top = box(), browser.ask("return scrollY")
    wheel(browser, view, 200)
    until = time.monotonic() + 120
    while browser.ask("return scrollY") <= top:
        assert time.monotonic() < until
    assert box() == whole
    browser.ask("scrollTo({top: arguments[0], behavior: 'instant'})", top)
    ActionChains(browser.driver).click(view).perform()
    wheel(browser, view, -400)
    near = box()
    assert near[2] < whole[2] * 0.7
    assert near[2] / near[3] == pytest.approx(whole[2] / whole[3], rel=1e-3)
    assert near[0] > whole[0]
    assert near[0] + near[2] < whole[0] + whole[2]
    assert browser.ask("return scrollY") == top
    ActionChains(browser.driver).double_click(view).perform()
    assert box() == whole


def test_a_rectangle_zooms_in_and_a_drag_then_moves(figure):
    browser, element, view, box = figure
    whole = box()
    ActionChains(browser.driver).move_to_element_with_offset(view, -100, -40).click_and_hold().move_by_offset(
        120, 50
    ).release().perform()
    near = box()
    assert whole[2] / 10 < near[2] < whole[2] / 2
    assert "zoomed" in element.get_attribute("class")
    ActionChains(browser.driver).drag_and_drop_by_offset(view, 60, 0).perform()
    moved = box()
    assert moved[0] < near[0]
    assert moved[1:] == pytest.approx(near[1:], abs=0.01)
    view.send_keys(Keys.ESCAPE)
    assert box() == whole


def test_keys_and_buttons_zoom_too_and_a_figure_fills_the_window(figure):
    browser, element, view, box = figure
    whole = box()
    view.send_keys("++")
    assert box()[2] == pytest.approx(whole[2] / 1.6**2, rel=1e-3)
    view.send_keys(Keys.ARROW_LEFT)
    view.send_keys("0")
    assert box() == whole
    tools = {tool.get_attribute("aria-label"): tool for tool in element.find_elements(By.CSS_SELECTOR, ".tools button")}
    tools["Zoom in"].click()
    assert box()[2] < whole[2]
    tools["Show all of it"].click()
    assert box() == whole
    tools["Fill the window"].click()
    assert tools["Fill the window"].get_attribute("aria-pressed") == "true"
    assert element.size["width"] == browser.ask("return innerWidth")
    assert element.size["height"] == browser.ask("return innerHeight")
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert tools["Fill the window"].get_attribute("aria-pressed") == "false"


def test_the_saved_raw_data_are_the_results_file_to_the_byte(chromium, page, files):
    chromium.open(page)
    button = chromium.driver.find_elements(By.CSS_SELECTOR, "button.save")[0]
    chromium.ask("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button)
    button.click()
    saved = chromium.downloads / "phases-of-a-server.results.json"
    wanted = json.dumps(files[0].data, separators=(",", ":")) + "\n"
    deadline = time.monotonic() + 120
    while not (saved.exists() and saved.read_text() == wanted) and time.monotonic() < deadline:
        time.sleep(0.2)  # the file appears before it is complete
    assert saved.read_text() == wanted
    assert chromium.said() == []


def test_a_browser_that_cannot_unpack_the_raw_data_says_so(chromium, page):
    chromium.open(page)
    chromium.ask("delete window.DecompressionStream; document.querySelector('button.save').click()")
    deadline = time.monotonic() + 120
    while not chromium.ask("return document.getElementById('saving').textContent") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "too old to unpack" in chromium.ask("return document.getElementById('saving').textContent")
    assert chromium.said() == []


def test_everything_has_a_name_and_a_place(opened):
    assert opened.ask("return ['header', 'nav', 'main', 'h1'].map(n => document.querySelectorAll(n).length)") == [
        1, 1, 1, 1,
    ]  # fmt: skip
    assert opened.ask("return [...document.querySelectorAll('table')].filter(t => !t.caption).length") == 0
    assert opened.ask("return [...document.querySelectorAll('.view')].filter(v => !v.ariaLabel).length") == 0
    nameless = (
        "return [...document.querySelectorAll('button')].filter(b => !b.ariaLabel && !b.textContent.trim()).length"
    )
    assert opened.ask(nameless) == 0
    targets = opened.ask(
        "return [...document.querySelectorAll('nav a')].filter(a => !document.querySelector(a.hash)).map(a => a.hash)"
    )
    assert targets == []
    levels = opened.ask("return [...document.querySelectorAll('h1, h2, h3, h4')].map(h => Number(h.tagName[1]))")
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))


def test_print_hides_what_only_a_screen_can_use(chromium, page):
    chromium.open(page)
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = chromium.ask("return ['.contents', '.tools', '.button'].map(s => document.querySelector(s).offsetParent)")
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert hidden == [None, None, None]


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    sites = pd.DataFrame(ROWS, columns=SITES)
    path = tmp_path_factory.mktemp("flame") / "flame.svg"
    path.write_text(flame_graph.render(flame_graph.tree(sites, NAMES.stack), "prog"))
    return path


@pytest.fixture(scope="module")
def profile_page(tmp_path_factory, small_tape):
    data = json.loads(call_heaptape("profile", small_tape, "--format", "json").stdout)
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
