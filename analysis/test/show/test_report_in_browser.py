# SPDX-License-Identifier: MIT
"""The report in a real browser: the answer is on its first screen, charts show values, toggle and zoom by mouse and
keyboard, pickers pick, cells of the heat map open their workload; it makes no requests, sorts, saves its raw data, and
can be read in both colour schemes, at 800 pixels and on a phone, and without scripts. Screenshots are left in
out/screenshots. Long: each size of the report in the other scheme.
"""

import html
import json
import math
import re
import time

import pytest
from heaptape.results.schema import Results
from heaptape.show.pages import page as report
from synthetic_results import make_results

browser_module = pytest.importorskip("browser", reason="selenium is not installed")
if browser_module.MISSING:
    pytest.skip(browser_module.MISSING, allow_module_level=True)

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

# Of the report of two workloads: a scatter and memory of both; scatter and memory of the first (the second has times
# only).
CHARTS = 4
LONG_SIZES = ("800 light", "desk dark", "800 dark", "phone light")
PAPER_WIDTH = 680  # of report.js
SIZES = {"desk": (1400, 900), "800": (800, 900), "phone": (400, 844)}


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
def page_of_one(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "one.html"
    path.write_text(report.make(files[:1], "glibc"))
    return path


@pytest.fixture(scope="module")
def opened(chromium, page):
    chromium.open(page)
    chromium.ask(OPEN_ALL)
    return chromium


OPEN_ALL = "document.querySelectorAll('details').forEach(part => { part.open = true; })"


def wait_for(browser, condition, *arguments):
    """The first true value of the JavaScript: charts are made after layout."""
    until = time.monotonic() + 120
    while not (found := browser.ask(condition, *arguments)):
        assert time.monotonic() < until, condition
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        ("desk", "light"),
        ("phone", "dark"),
        *[pytest.param(*one.split(), marks=pytest.mark.long) for one in LONG_SIZES],
    ],
)
def test_page_is_quiet_asks_nobody_and_never_scrolls_sideways(chromium, page, out, size, scheme):
    chromium.open(page, *SIZES[size], scheme)
    chromium.ask(OPEN_ALL)
    wait_for(chromium, "return document.querySelectorAll('.chart .uplot').length === arguments[0]", CHARTS)
    wide = chromium.ask(
        "return [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg') &&"
        " !e.matches('.skip') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 90))"
    )
    assert wide == []
    assert chromium.ask("return document.documentElement.scrollWidth") <= SIZES[size][0]
    folder = out / "screenshots"
    folder.mkdir(exist_ok=True)
    for name, selector in (("top", "header"), ("figures", "[data-kind=memory]"), ("methods", "#methods")):
        chromium.ask(f"document.querySelector('{selector}').scrollIntoView({{behavior: 'instant'}})")
        chromium.driver.save_screenshot(str(folder / f"report-{size}-{scheme}-{name}.png"))
    assert chromium.said() == []
    assert [url for url in chromium.requests() if not url.startswith(("file:", "data:", "blob:"))] == []
    assert chromium.ask("return performance.getEntriesByType('resource').map(e => e.name)") == []


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_text_stands_out_from_its_ground(chromium, page, scheme):
    chromium.open(page, scheme=scheme)
    chromium.ask(OPEN_ALL)
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
    numbers = [float(number) for number in re.findall(r"[\d.]+", colour)[:3]]
    parts = numbers if colour.startswith("color(srgb") else [number / 255 for number in numbers]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def column(browser, number):
    return browser.ask(
        "const rows = [...document.querySelector('#tables table.sortable').tBodies[0].rows];"
        "return rows.map(r => r.cells[arguments[0]].dataset.value ?? r.cells[arguments[0]].textContent)",
        number,
    )


def test_a_click_on_a_head_sorts_by_number_down_and_back(opened):
    head = opened.driver.find_element(By.CSS_SELECTOR, "#tables table.sortable thead th:nth-child(2)")
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
    heads = opened.driver.find_elements(By.CSS_SELECTOR, "#tables table.sortable thead th")[:3]
    for head in heads[:2]:
        head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert [head.get_attribute("aria-sort") for head in heads] == [None, "ascending", None]
    heads[0].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert [head.get_attribute("aria-sort") for head in heads] == ["ascending", None, None]
    names = column(opened, 0)
    assert names == sorted(names)


def test_the_first_screen_has_the_answer_and_the_page_is_short(chromium, page_of_one):
    chromium.open(page_of_one, *SIZES["desk"])
    wait_for(chromium, "return document.querySelectorAll('.chart .uplot').length === 2")
    ends = "return [...document.querySelectorAll('#answer *')].map(e => e.getBoundingClientRect().bottom)"
    assert max(chromium.ask(ends)) < 600
    assert chromium.ask("return document.querySelector('#answer table').getBoundingClientRect().right") < 900
    assert chromium.ask("return document.documentElement.scrollHeight") < 4000
    assert chromium.ask("return [...document.querySelectorAll('details')].every(part => !part.open)")


def canvas(browser, host):
    """What a chart shows: a picture as text."""
    return browser.ask("return arguments[0].querySelector('canvas').toDataURL()", host)


@pytest.fixture
def chart(chromium, page_of_one):
    """Memory over time, in view; and a function that returns the first and last number of its x axis."""
    chromium.open(page_of_one, *SIZES["desk"])
    host = chromium.driver.find_element(By.CSS_SELECTOR, "[data-kind=memory]")
    wait_for(chromium, "return arguments[0].querySelector('.u-over')", host)
    chromium.ask("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", host)
    return chromium, host, host.find_element(By.CSS_SELECTOR, ".u-over")


VALUES = "return [...arguments[0].querySelectorAll('.u-value')].map(value => value.textContent)"


def test_a_line_per_allocator_shows_its_values_under_the_cursor(chart, files):
    browser, host, over = chart
    names = [name.text for name in host.find_elements(By.CSS_SELECTOR, ".u-series .u-label")]
    assert names == ["ops", "live", "recorded process", "glibc", "jemalloc", "mimalloc"]
    assert set(browser.ask(VALUES, host)) == {"–"}
    ActionChains(browser.driver).move_to_element(over).perform()
    values = dict(zip(names, wait_for(browser, VALUES, host)))
    lines = files[0].timelines()
    at = lines["glibc"].set_index("position")["rss_anon_bytes"]
    middle = at[at.index <= 500_000].iloc[-1] / 2**20
    assert float(values["glibc"].removesuffix(" MiB")) == pytest.approx(middle, rel=0.05)
    assert values["ops"].endswith("K")


def test_a_click_on_a_name_hides_its_line_and_a_key_shows_it_again(chart):
    browser, host, _ = chart
    before = canvas(browser, host)
    name = host.find_elements(By.CSS_SELECTOR, ".u-series th")[3]
    name.click()
    hidden = "return arguments[0].querySelectorAll('.u-series.u-off').length"
    assert browser.ask(hidden, host) == 1
    wait_for(browser, "return arguments[0].querySelector('canvas').toDataURL() !== arguments[1]", host, before)
    name.send_keys(Keys.ENTER)
    assert browser.ask(hidden, host) == 0
    wait_for(browser, "return arguments[0].querySelector('canvas').toDataURL() === arguments[1]", host, before)


def test_a_drag_zooms_and_escape_or_a_double_click_shows_all_again(chart):
    browser, host, over = chart
    before = canvas(browser, host)
    changed = "return (arguments[0].querySelector('canvas').toDataURL() !== arguments[1]) === arguments[2]"
    for reset in (
        lambda: host.send_keys(Keys.ESCAPE),
        lambda: ActionChains(browser.driver).double_click(over).perform(),
    ):
        ActionChains(browser.driver).move_to_element_with_offset(over, -150, 0).click_and_hold().move_by_offset(
            120, 20
        ).release().perform()
        wait_for(browser, changed, host, before, True)
        reset()
        wait_for(browser, changed, host, before, False)


def test_arrows_move_the_cursor_of_a_chart(chart):
    browser, host, _ = chart
    host.send_keys(Keys.ARROW_RIGHT * 3)
    first = wait_for(browser, VALUES, host)
    assert "–" not in first
    host.send_keys(Keys.ARROW_RIGHT * 200)
    assert browser.ask(VALUES, host) != first


def test_each_picker_shows_the_address_map_that_is_picked(chromium, page_of_one):
    chromium.open(page_of_one, *SIZES["desk"])
    shown = "return [...document.querySelectorAll('.maps img')].map(picture => [picture.src, picture.alt])"
    (first, _), (second, words) = chromium.ask(shown)
    assert first != second
    choice = chromium.driver.find_elements(By.CSS_SELECTOR, ".maps select")[1]
    choice.send_keys("mimalloc")
    chromium.ask("arguments[0].dispatchEvent(new Event('change'))", choice)
    (same, _), (third, words) = chromium.ask(shown)
    assert same == first
    assert words.endswith("mimalloc")
    assert chromium.ask("return document.querySelectorAll('.maps img')[1].naturalWidth") > 500


def test_a_cell_of_the_heat_map_opens_its_workload_and_draws_its_charts(chromium, page):
    chromium.open(page, *SIZES["desk"])
    assert chromium.ask("return document.querySelectorAll('.workload[open]').length") == 0
    charts = "return document.querySelectorAll('.workload .uplot').length"
    assert chromium.ask(charts) == 0
    chromium.driver.find_element(By.CSS_SELECTOR, "table.heat tbody tr td a").send_keys(Keys.ENTER)
    wait_for(chromium, "return document.querySelector('#w1').open")
    wait_for(chromium, f"{charts} >= 2")
    assert chromium.ask("return document.querySelector('#w2').open") is False
    assert chromium.said() == []


def test_the_line_to_run_is_copied(chromium, page_of_one, tmp_path):
    line = "LD_PRELOAD=/usr/lib/<libjemalloc>.so.2 prog"
    text = page_of_one.read_text().replace(
        '<p class="verdict">',
        f'<p class="command"><code>{html.escape(line)}</code> <button class="button copy">Copy</button></p>'
        '<p class="verdict">',
        1,
    )
    (tmp_path / "copy.html").write_text(text)
    chromium.open(tmp_path / "copy.html")
    button = chromium.driver.find_element(By.CSS_SELECTOR, "button.copy")
    button.click()
    wait_for(chromium, "return document.querySelector('button.copy').textContent === 'Copied'")
    chromium.ask("document.body.insertAdjacentHTML('afterbegin', '<textarea id=field></textarea>')")
    chromium.driver.find_element(By.ID, "field").send_keys(Keys.CONTROL, "v")
    assert chromium.ask("return document.querySelector('#field').value") == line


def test_hostile_names_are_text_in_charts_too(chromium, tmp_path):
    name = '</script><img src=x onerror="document.title = 1">'
    data = make_results("w", repeats=2, allocators=("glibc", "jemalloc"))
    data = json.loads(json.dumps(data).replace('"jemalloc"', json.dumps(name)))
    (tmp_path / "hostile.html").write_text(report.make([Results("a.json", data)], "glibc"))
    chromium.open(tmp_path / "hostile.html")
    wait_for(chromium, "return document.querySelectorAll('.chart .uplot').length === 2")
    assert chromium.driver.title == "heaptape: w"
    assert chromium.ask("return [...document.images].every(picture => picture.src.startsWith('data:'))")
    labels = chromium.ask("return [...document.querySelectorAll('.u-label')].map(label => label.textContent)")
    assert name in labels
    assert chromium.said() == []


def test_without_scripts_the_tables_stand(chromium, page_of_one):
    chromium.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.open(page_of_one, *SIZES["desk"])
        rows = chromium.driver.find_elements(By.CSS_SELECTOR, "#answer tbody tr")
        assert all(row.is_displayed() for row in rows)
        assert len(rows) == 3
        part = chromium.driver.find_element(By.CSS_SELECTOR, "#tables")
        part.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
        assert part.find_element(By.TAG_NAME, "table").is_displayed()
    finally:
        chromium.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_saved_raw_data_are_the_results_file_to_the_byte(chromium, files, tmp_path):
    path = tmp_path / "whole.html"
    path.write_text(report.make(files[:1], "glibc", whole=True))
    chromium.open(path)
    chromium.ask(OPEN_ALL)
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
    assert opened.ask("return ['header', 'main', 'h1'].map(n => document.querySelectorAll(n).length)") == [1, 1, 1]
    assert (
        opened.ask("return [...document.querySelectorAll('table:not(.u-legend)')].filter(t => !t.caption).length") == 0
    )
    assert opened.ask("return [...document.querySelectorAll('.chart')].filter(c => !c.ariaLabel).length") == 0
    nameless = (
        "return [...document.querySelectorAll('button')].filter(b => !b.ariaLabel && !b.textContent.trim()).length"
    )
    assert opened.ask(nameless) == 0
    targets = opened.ask(
        "return [...document.querySelectorAll('a')].filter(a => a.hash && !document.querySelector(a.hash))"
        ".map(a => a.hash)"
    )
    assert targets == []
    levels = opened.ask("return [...document.querySelectorAll('h1, h2, h3, h4')].map(h => Number(h.tagName[1]))")
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))


def test_print_draws_the_charts_of_each_workload_within_paper_and_hides_what_only_a_screen_can_use(chromium, page):
    chromium.open(page, *SIZES["desk"])
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    drawn = chromium.ask(
        "window.dispatchEvent(new Event('beforeprint'));"
        "return Promise.resolve().then(() => [...document.querySelectorAll('.uplot')].map(e => e.clientWidth))"
    )
    assert len(drawn) == CHARTS
    assert min(drawn) > 200
    assert max(drawn) <= PAPER_WIDTH
    hidden = chromium.ask("return ['.screen', '.button'].map(s => document.querySelector(s).offsetParent)")
    chromium.ask("window.dispatchEvent(new Event('afterprint'))")
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert hidden == [None, None]
    assert chromium.ask("return document.querySelectorAll('.workload[open], #tables[open]').length") == 0


MANY = 7


@pytest.fixture(scope="module")
def page_of_many(tmp_path_factory):
    some, path = ("glibc", "jemalloc"), tmp_path_factory.mktemp("report") / "many.html"
    names = [f"workload {number} with a name that is longer than a phone is wide" for number in range(MANY)]
    data = [make_results(name, number, repeats=2, allocators=some) for number, name in enumerate(names)]
    path.write_text(report.make([Results(f"{one['workload']['name']}.json", one) for one in data], "glibc"))
    return path


def test_of_many_workloads_a_phone_shows_figures_beside_names_and_print_opens_none(chromium, page_of_many):
    chromium.open(page_of_many, *SIZES["phone"])
    cells = chromium.ask(
        "return [...document.querySelectorAll('.heat tbody td')].map(e => e.getBoundingClientRect().right)"
    )
    assert len([right for right in cells if right <= SIZES["phone"][0]]) >= 2 * MANY
    chromium.ask("window.dispatchEvent(new Event('beforeprint'))")
    assert chromium.ask("return document.querySelectorAll('main details[open]').length") == 0
    chromium.ask("window.dispatchEvent(new Event('afterprint'))")
