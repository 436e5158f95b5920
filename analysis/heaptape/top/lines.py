# SPDX-License-Identifier: MIT
"""A sample (`heaptape.top.sample`) as lines of text that fit the room."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from heaptape.common import console
from heaptape.common.quantities import size

SPARKS = " ▁▂▃▄▅▆▇█"
HISTORY = 120  # refreshes
LABEL, VALUE = 11, 19
WIDE, NARROW = 100, 60  # columns: from WIDE on rows have all parts; below NARROW only the main ones
DIM, GOOD, WARN, BAD, ACCENT = "bright_black", "green", "yellow", "bold red", "cyan"
Sample = dict[str, Any]


@dataclass(frozen=True)
class View:
    """The room, and what is shown. `keys`: show the line that names the keys. `by`: the order of sites, "live" or
    "bytes".
    """

    width: int
    height: int
    keys: bool = False
    by: str = "live"


@dataclass
class History:
    """Figures of one process over the last refreshes."""

    calls: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    requests: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def add(self, sample: Sample) -> None:
        process = sample["process"]
        if process and process["events_per_s"] is not None:
            self.calls.append(process["events_per_s"])
            self.requests.append(process["request_bytes_per_s"] or 0)


def lines(sample: Sample, history: History, view: View) -> list[Text]:
    """At most view.height lines of at most view.width columns."""
    process = sample["process"]
    drawn = [_title(sample, view)]
    if process is None:
        drawn += [Text(), Text("no process is being recorded now", style=WARN)]
    else:
        drawn += [_file(process, sample), Text(), *_figures(sample, history, view)]
        left = view.height - len(drawn) - view.keys
        drawn += _tables(sample, view, left)
    drawn = drawn[: max(1, view.height - view.keys)]
    if view.keys and view.height > 1:
        drawn += [Text()] * (view.height - len(drawn) - 1) + [_keys(sample)]
    for line in drawn:
        line.plain = console.printable(line.plain)
        line.truncate(view.width, overflow="ellipsis")
    return drawn


def count(value: float | None) -> str:
    """A number as three digits and a power of a thousand; "-": not known."""
    if value is None:
        return "-"
    for power, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= power:
            return f"{value / power:.{2 if value < 10 * power else 1 if value < 100 * power else 0}f} {unit}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def sparkline(values: deque[float], width: int) -> str:
    """The last values, as heights relative to their maximum."""
    shown = list(values)[-width:]
    most = max(shown, default=0) or 1
    return "".join(SPARKS[round(value / most * (len(SPARKS) - 1))] for value in shown)


def _title(sample: Sample, view: View) -> Text:
    process = sample["process"]
    name = f" {process['name']} {process['pid']} " if process else f" recorder {sample['recorder']} "
    state, style = _state(sample)
    several = f"  {_place(sample)}" if sample["running"] > 1 else ""
    right = f"{several}  over {sample['interval_s']:.3g} s "
    left = Text.assemble(("heaptape top ", "bold"), (name, "bold black on cyan"), " ", (state, style))
    if view.width >= NARROW:
        left.append(" " * max(1, view.width - left.cell_len - len(right)))
        left.append(right, DIM)
    return left


def _place(sample: Sample) -> str:
    pids = [process["pid"] for process in sample["processes"]]
    shown = sample["process"]["pid"] if sample["process"] else None
    number = pids.index(shown) + 1 if shown in pids else "-"
    return f"process {number} of {sample['running']}"


def _state(sample: Sample) -> tuple[str, str]:
    process = sample["process"]
    if sample["ended"] or process is None:
        return "recording has ended" if sample["ended"] else "waiting", WARN
    if process["given_up"]:
        return f"given up: {process['given_up']}", BAD
    return ("recording stopped", WARN) if process["paused"] else ("recording", GOOD)


def _file(process: Sample, sample: Sample) -> Text:
    cpu = sample["recorder_cpu_percent"]
    spent = f", recorder {cpu:.0f} % of a core" if cpu is not None else ""
    return Text(f"{process['trace']}  {size(process['file_bytes'])} written{spent}", style=DIM)


def _figures(sample: Sample, history: History, view: View) -> list[Text]:
    process = sample["process"]
    rows = [
        _row("calls", f"{count(process['events_per_s'])}/s", ACCENT),
        _row("asked for", _per_second(process["request_bytes_per_s"]), ACCENT),
        _row("live", size(process["live_bytes"]), GOOD),
        _row("RSS", _bytes(process["rss_anon_bytes"]), "bold"),
        _row("beside live", _bytes(process["beside_live_bytes"]), WARN),
    ]
    if view.width >= NARROW:
        room = min(40, view.width - LABEL - VALUE - 30)
        for row, values in ((rows[0], history.calls), (rows[1], history.requests)):
            row.append(sparkline(values, room).rjust(room) + "  ", ACCENT)
        rows[0].append(_calls(process))
        rows[1].append(f"{count(process['events'])} calls so far", DIM)
        rows[2].append(_live(process))
        rows[3].append(_bar(process, room))
        rows[4].append(_share(process), DIM)
    missing = _missing(process)
    return [*rows, missing] if missing else rows


def _row(label: str, value: str, style: str) -> Text:
    return Text.assemble((label.ljust(LABEL + 1), DIM), (value.rjust(VALUE - 4), style), "   ")


def _bytes(value: float | None) -> str:
    return "-" if value is None else size(value)


def _per_second(value: float | None) -> str:
    return "-" if value is None else f"{size(value)}/s"


def _calls(process: Sample) -> str:
    shown = [call for call in process["calls"] if call["calls_per_s"]][:4]
    return "  ".join(f"{call['name']} {count(call['calls_per_s'])}" for call in shown)


def _live(process: Sample) -> Text:
    error, objects = process["live_bytes_error"], process["live_objects"]
    near = f"± {size(error)} (a sample)" if error else "all counted"
    return Text(f"{near}, {count(objects)} objects", style=DIM)


def _bar(process: Sample, width: int) -> Text:
    """A bar of live bytes as a part of RSS."""
    rss, live = process["rss_anon_bytes"], process["live_bytes"]
    if not rss or width < 4:
        return Text()
    filled = round(width * min(1.0, live / rss))
    return Text.assemble(("█" * filled, GOOD), ("█" * (width - filled), WARN))


def _share(process: Sample) -> str:
    rss, beside = process["rss_anon_bytes"], process["beside_live_bytes"]
    if not rss:
        return ""
    if beside < 0:
        return "more live than resident: objects that were never touched"
    return f"{100 * beside / rss:.0f} % of RSS: retained, fragmented, headers; the program's own mappings"


def _missing(process: Sample) -> Text | None:
    parts = [
        f"{count(process[key])} {words}"
        for key, words in (("dropped", "dropped"), ("skipped", "in pauses"), ("lost", "not written"))
        if process[key]
    ]
    if not parts:
        return None
    return _row("missing", f"{parts[0]}", BAD) + Text("  ".join([*parts[1:], "live counts what they released"]), DIM)


def _tables(sample: Sample, view: View, room: int) -> list[Text]:
    """Tables of threads and sites. Sites get the lines that threads leave, at least half of them."""
    process = sample["process"]
    threads, sites = process["threads"], process["sites"]
    for_threads = min(len(threads), max(3, room // 3)) if len(threads) > 1 else 0
    drawn: list[Text] = []
    if for_threads and room >= 5:
        drawn += [Text(), _heading("thread", _thread_columns(view)), *_threads(threads, view, for_threads)]
    left = room - len(drawn)
    if left < 4:
        return drawn
    if sites is None:
        return [*drawn, Text(), Text("no sites: record with --stacks to see who acquires", style=DIM)]
    return [*drawn, Text(), _heading("site", _site_columns(view)), *_sites(sites, view, left - 2)]


def _heading(last: str, columns: list[tuple[str, int]]) -> Text:
    return Text("".join(name.rjust(width) for name, width in columns) + f"  {last}", style="bold underline")


def _thread_columns(view: View) -> list[tuple[str, int]]:
    columns = [("calls/s", 9), ("asked for/s", 14), ("calls", 9)]
    return columns if view.width >= NARROW else columns[:1]


def _threads(threads: list[Sample], view: View, room: int) -> list[Text]:
    shown = threads if len(threads) <= room else threads[: room - 1]
    rows = []
    for thread in shown:
        parts = [count(thread["events_per_s"]), _per_second(thread["request_bytes_per_s"]), count(thread["events"])]
        row = _cells(parts, _thread_columns(view))
        rows.append(row.append(f"  {thread['tid']} {thread['name']}"))
    if len(shown) < len(threads):
        rows.append(Text(f"  … {len(threads) - len(shown)} more", style=DIM))
    return rows


def _site_columns(view: View) -> list[tuple[str, int]]:
    columns = [("live", 11), ("±", 11), ("objects", 9), ("calls/s", 9), ("asked for/s", 14), ("±", 7)]
    if view.width >= WIDE:
        return columns
    return [columns[0], columns[4]] if view.width >= NARROW else columns[:1]


def _sites(sites: list[Sample], view: View, room: int) -> list[Text]:
    shown = [site for site in sites if site["live_bytes"] or site["bytes_per_s"]]
    ordered = shown if view.by == "live" else sorted(shown, key=lambda site: -(site["bytes_per_s"] or 0))
    return [_site(site, view) for site in ordered[:room]]


def _site(site: Sample, view: View) -> Text:
    rate, error = site["bytes_per_s"], site["bytes_per_s_error"]
    parts = {
        "live": size(site["live_bytes"]),
        "±live": size(site["live_bytes_error"]) if site["live_bytes_error"] else "",
        "objects": count(site["live_objects"]),
        "calls/s": count(site["calls_per_s"]),
        "asked for/s": _per_second(rate),
        "±": f"{100 * error / rate:.0f} %" if rate and error else "",
    }
    values = list(parts.values())
    if view.width < WIDE:
        values = [values[0], values[4]] if view.width >= NARROW else values[:1]
    return _cells(values, _site_columns(view)).append(f"  {site['name']}")


def _cells(values: list[str], columns: list[tuple[str, int]]) -> Text:
    row = Text()
    for value, (name, width) in zip(values, columns):
        row.append(value.rjust(width), {"live": GOOD, "±": DIM, "objects": DIM, "calls": DIM}.get(name, ACCENT))
    return row


def _keys(sample: Sample) -> Text:
    keys = [("q", "quit, the recording continues"), ("s", "order of sites")]
    if sample["running"] > 1:
        keys.append(("n p", "next, previous process"))
    drawn = Text()
    for key, meaning in keys:
        drawn.append(f" {key} ", "reverse").append(f" {meaning}   ", DIM)
    return drawn
