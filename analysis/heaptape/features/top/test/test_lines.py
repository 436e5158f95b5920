# SPDX-License-Identifier: MIT
"""A sample as text: in any size of terminal, with figures in words that fit, and faults reported first."""

import pytest
from heaptape.features.top.recording import Function, Memory, Reading, sample, site_name
from heaptape.features.top.screen import History, View, count, lines, sparkline


def counts(time_s: float, scale: int, **more: object) -> dict:
    """A reading of one process whose counts are multiples of scale."""
    process = {
        "pid": 7, "name": "server", "trace": "t.tape", "forked": False, "calls": {"malloc": 3 * scale, "free": scale},
        "events": 4 * scale, "request_bytes": 300 * scale, "threads_recorded": 2, "dropped": 0, "skipped": 0, "lost": 0,
        "file_bytes": 5, "live_bytes": 1000.0, "live_objects": 10.0, "live_bytes_variance": 100.0,
        "live_objects_variance": 4.0, "live_share": 0.5, "given_up": None, "paused": False, "stacks": True,
        "threads": [
            {"thread": thread, "tid": 100 + thread, "events": (thread + 1) * scale, "request_bytes": 0}
            for thread in range(20)
        ],
        "sites": [
            {
                "node": node, "frames": [node], "calls": node * scale, "bytes": 50.0 * node * scale,
                "calls_variance": float(node * scale), "bytes_variance": float(scale), "live_bytes": 5.0 * node,
                "live_objects": 1.0, "live_bytes_variance": 0.0, "live_objects_variance": 0.0,
            }
            for node in range(1, 30)
        ],
    } | more  # fmt: skip
    return {
        "recorder": 6, "time_ns": time_s * 1e9, "recorded": 1, "running": 1, "ended": False, "processes": [process]
    }  # fmt: skip


def made(before: dict, after: dict, rss: int | None = 4000) -> dict:
    """A sample from one reading to the other."""
    first, second = (Reading(one, one, Memory(rss, 0), 1.0) for one in (before, after))
    return sample(first, second, {node: f"site_{node}" for node in range(1, 30)}, {100: "main"})


def test_a_reading_without_threads_and_sites_is_a_sample_without_them() -> None:
    reading = counts(1, 100)
    for what in ("threads", "sites"):
        del reading["processes"][0][what]
    shown = made(counts(0, 100), reading)["process"]
    assert shown["threads"] == shown["sites"] == []


SAMPLE = made(counts(1, 100), counts(3, 200))


def text(found: dict, width: int = 120, height: int = 40) -> str:
    """The text shown."""
    history = History()
    history.add(found)
    return "\n".join(line.plain for line in lines(found, history, View(width, height, keys=True)))


def test_rates_and_errors_follow_from_two_readings() -> None:
    process = SAMPLE["process"]
    assert process["events_per_s"] == 200
    assert process["calls"] == [
        {"name": "malloc", "calls": 600, "calls_per_s": 150},
        {"name": "free", "calls": 200, "calls_per_s": 50},
    ]
    assert process["live_bytes_error"] == pytest.approx(19.6)
    assert process["beside_live_bytes"] == 3000
    site = next(site for site in process["sites"] if site["name"] == "site_4")
    assert site["calls_per_s"] == 200
    assert site["calls_per_s_error"] == pytest.approx(1.96 * 20 / 2)


def test_what_cannot_be_compared_has_no_rate() -> None:
    another = counts(1, 100)
    another["processes"][0]["pid"] = 8
    for before in (another, counts(1, 300)):  # another process; the same number taken by a new one
        process = made(before, counts(3, 200))["process"]
        assert process["events_per_s"] is None
        assert process["threads"][0]["events_per_s"] is None
        assert process["sites"][0]["calls_per_s"] is None


def test_a_new_thread_has_made_no_calls_before() -> None:
    before = counts(1, 100)
    del before["processes"][0]["threads"][3]
    threads = {thread["thread"]: thread for thread in made(before, counts(3, 200))["process"]["threads"]}
    assert threads[3]["events_per_s"] == 400
    assert threads[4]["events_per_s"] == 250


@pytest.mark.parametrize("width", [1, 7, 40, 60, 80, 99, 100, 200])
@pytest.mark.parametrize("height", [1, 2, 5, 9, 14, 24, 60])
def test_lines_fit_into_any_terminal(width: int, height: int) -> None:
    for found in (SAMPLE, SAMPLE | {"process": None}, made(counts(1, 100), counts(3, 200, sites=[], stacks=False))):
        drawn = lines(found, History(), View(width, height, keys=True))
        assert len(drawn) <= height
        assert max(line.cell_len for line in drawn) <= width


def test_what_is_missing_is_reported() -> None:
    assert "missing" not in text(SAMPLE)
    shown = text(made(counts(1, 100), counts(3, 200, dropped=5, skipped=7000)))
    assert "5 dropped" in shown
    assert "7.00 k in pauses" in shown


def test_names_of_the_program_move_no_terminal() -> None:
    process = SAMPLE["process"]
    threads = [thread | {"name": "\x1b]0;title\x07\n\x9b2J"} for thread in process["threads"]]
    sites = [site | {"name": "f\x1b[2J"} for site in process["sites"]]
    shown = text(SAMPLE | {"process": process | {"name": "a\x1b[31m", "threads": threads, "sites": sites}})
    assert shown.replace("\n", "").isprintable()
    assert "\\x1b]0;title" in shown
    assert "f\\x1b[2J" in shown


def test_more_live_than_resident_is_reported_in_words() -> None:
    assert "never touched" in text(made(counts(1, 100), counts(3, 200), rss=500))
    assert "not live" in text(made(counts(1, 100), counts(3, 200), rss=None))


def test_a_recording_that_has_ended_or_given_up_says_so() -> None:
    assert "recording has ended" in text(SAMPLE | {"ended": True})
    assert "given up: cannot be written" in text(made(counts(1, 100), counts(3, 200, given_up="cannot be written")))
    assert "no process is being recorded now" in text(SAMPLE | {"process": None})
    assert "--stacks" in text(made(counts(1, 100), counts(3, 200, stacks=False)))


def test_sites_come_in_the_order_that_is_asked_for() -> None:
    assert text(SAMPLE).index("site_29") < text(SAMPLE).index("site_28")
    assert "site_29" in text(SAMPLE, 80, 24)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0, "0"), (0.25, "0.2"), (7, "7"), (999, "999"), (1000, "1.00 k"), (12_345, "12.3 k")]
    + [(5_012_345, "5.01 M"), (123_456_789, "123 M"), (2e9, "2.00 G")],
)
def test_counts_have_three_digits(value: float | None, shown: str) -> None:
    assert count(value) == shown


def test_a_sparkline_shows_the_last_values_beside_their_greatest() -> None:
    history = History()
    history.calls.extend([100, 0, 4, 8])
    assert sparkline(history.calls, 3) == " ▄█"
    assert sparkline(History().calls, 3) == ""


def test_a_site_is_called_by_who_asked_for_memory() -> None:
    wrapper = Function("xmalloc", "a", wrapper=True)
    frames = [[wrapper], [Function("(anonymous namespace)::parse(char const*)", "a")]]
    assert site_name([*frames, [Function(module="libx.so", offset="0x12")], []]) == (
        "(anonymous namespace)::parse < libx.so+0x12"
    )
    assert site_name([[wrapper]]) == "xmalloc"
    assert site_name([[Function("list::operator()(int)", "a")]]) == "list::operator()"
    assert site_name([[], []]) == ""
