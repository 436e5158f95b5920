# SPDX-License-Identifier: MIT
"""Shows successive samples of a recording, until it ends or the user quits. The recording continues.

A sample (recording.py) becomes lines of text that fit the room.
"""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.control import Control
from rich.text import Text

from heaptape.common import console
from heaptape.common.home import Home
from heaptape.common.phrases import size
from heaptape.features.top.recording import Names, Reading, Recording, cpu_s, memory, sample, thread_name

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
        _row("requested", _per_second(process["request_bytes_per_s"]), ACCENT),
        _row("live", size(process["live_bytes"]), GOOD),
        _row("RSS", _bytes(process["rss_anon_bytes"]), "bold"),
        _row("not live", _bytes(process["beside_live_bytes"]), WARN),
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
    return f"{100 * beside / rss:.0f} % of RSS is not live: retained, fragmented, headers, the program's own mappings"


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
    columns = [("calls/s", 9), ("requested/s", 14), ("calls", 9)]
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
    columns = [("live", 11), ("±", 11), ("objects", 9), ("calls/s", 9), ("requested/s", 14), ("±", 7)]
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
        "requested/s": _per_second(rate),
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


PLAIN_WIDTH, PLAIN_HEIGHT = 120, 60  # where there is no terminal
BUSY_S = 0.5  # between requests to a recorder that does not answer


class Watch:
    """A recording and its process that is shown: reads, and makes samples."""

    def __init__(self, home: Home, recording: Recording, pid: int) -> None:
        self.recording = recording
        self._pid = pid
        self._names = Names(home, recording)
        self._threads: dict[int, str] = {}
        self._histories: dict[int, History] = {}
        self._before: Reading | None = None

    def read(self) -> Reading | None:
        """The counts now; None: the recording has ended."""
        while (counts := self.recording.counts(self.recording.recorder)) is None:
            if self.recording.has_ended():
                return None
            time.sleep(BUSY_S)
        pids = [process["pid"] for process in counts["processes"]]
        if self._pid not in pids:
            self._pid = pids[0] if pids else self.recording.recorder
        one = counts if len(pids) == 1 else self.recording.counts(self._pid) if pids else None
        recorder_s = cpu_s(self.recording.recorder)
        return Reading(counts, one, memory(self._pid) if pids else memory(0), recorder_s)

    def next(self) -> dict[str, Any] | None:
        """A sample from the previous reading (the first call makes it) to now; None: the recording has ended."""
        before, after = self._before, self.read()
        self._before = after
        if after is None:
            return None
        process = after.process
        names: dict[int, str] = {}
        if process:
            names = self._names.of_sites(process)
            tids = [thread["tid"] for thread in process.get("threads", [])]
            # A thread that has ended keeps its last name.
            self._threads = {tid: thread_name(process["pid"], tid) or self._threads.get(tid, "") for tid in tids}
        made = sample(before or after, after, names, self._threads)
        self.history(made).add(made)
        return made

    def history(self, made: dict[str, Any]) -> History:
        return self._histories.setdefault(made["process"]["pid"] if made["process"] else 0, History())

    def choose(self, step: int, made: dict[str, Any]) -> None:
        """Shows the process that is `step` after this one, from the next sample on."""
        pids = [process["pid"] for process in made["processes"]]
        if pids:
            at = pids.index(self._pid) if self._pid in pids else 0
            self._pid = pids[(at + step) % len(pids)]


def samples(watch: Watch, interval_s: float, refreshes: int | None) -> Iterator[dict[str, Any]]:
    """`refreshes` samples, each over `interval_s`; until the recording ends if None."""
    if watch.next() is None:
        return
    made = 0
    while refreshes is None or made < refreshes:
        time.sleep(interval_s)
        one = watch.next()
        if one is None:
            return
        made += 1
        yield one


def plain(watch: Watch, made: dict[str, Any]) -> str:
    """A sample as text without colours."""
    view = View(PLAIN_WIDTH, PLAIN_HEIGHT)
    return "\n".join(line.plain.rstrip() for line in lines(made, watch.history(made), view)) + "\n"


@dataclass
class _Shown:
    view: View
    sample: dict[str, Any]


class Screen:
    """The terminal: redraws in place, reads keys, and follows its size."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._size = (0, 0)

    def draw(self, drawn: list[Text]) -> None:
        width, height = self._console.size
        if (width, height) != self._size:
            self._console.control(Control.clear())
            self._size = (width, height)
        self._console.control(Control.home())
        whole = Text("\n").join([*drawn, *[Text()] * (height - len(drawn))][:height])
        padded = Text("\n").join(_padded(line, width) for line in whole.split("\n", allow_blank=True))
        self._console.print(padded, end="", no_wrap=True, crop=False, overflow="crop", highlight=False)

    def view(self) -> View:
        width, height = self._console.size
        return View(width, height, keys=True)


def _padded(line: Text, width: int) -> Text:
    line.pad_right(max(0, width - line.cell_len))
    return line


@contextmanager
def _key_presses() -> Iterator[int]:
    """Keys arrive unbuffered, and a change of size ends a wait for them: yields a descriptor that is readable then."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before_wakeup = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    before_handler = signal.signal(signal.SIGWINCH, lambda number, frame: None)
    state = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    try:
        if state:
            tty.setcbreak(sys.stdin)
        yield woken
    finally:
        if state:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, state)
        signal.signal(signal.SIGWINCH, before_handler)
        signal.set_wakeup_fd(before_wakeup)
        os.close(woken)
        os.close(wake)


def show(watch: Watch, interval_s: float, refreshes: int | None, console: Console) -> dict[str, Any] | None:
    """Shows samples on a terminal until the user quits, the recording ends, or `refreshes` were shown. Returns the last
    sample if the recording ended.
    """
    made = watch.next()
    if made is None:
        return None
    screen = Screen(console)
    with console.screen(hide_cursor=True), _key_presses() as woken:
        shown = _Shown(screen.view(), made)
        drawn, due = 0, time.monotonic() + min(interval_s, BUSY_S)  # rates need a second reading
        while True:
            shown.view = replace(screen.view(), by=shown.view.by)
            screen.draw(lines(shown.sample, watch.history(shown.sample), shown.view))
            key = _wait(woken, due)
            if key == "q":
                return None
            _obey(key, watch, shown)
            if time.monotonic() < due and key not in ("n", "p"):
                continue
            if drawn == refreshes:
                return None
            due = time.monotonic() + interval_s
            after = watch.next()
            if after is None:
                return shown.sample
            shown.sample = after
            drawn += 1


def _obey(key: str, watch: Watch, shown: _Shown) -> None:
    if key in ("n", "p"):
        watch.choose(1 if key == "n" else -1, shown.sample)
    elif key == "s":
        shown.view = replace(shown.view, by="bytes" if shown.view.by == "live" else "live")


def _wait(woken: int, due: float) -> str:
    """The key that was pressed; empty: `due` has come, or the terminal's size changed."""
    keyboard = [sys.stdin.fileno()] if sys.stdin.isatty() else []
    ready, _, _ = select.select([*keyboard, woken], [], [], max(0.0, due - time.monotonic()))
    if woken in ready:
        os.read(woken, 4096)
    if not set(ready) & set(keyboard):
        return ""
    pressed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
    return "q" if not pressed or pressed[:1] in "qQ\x04" else pressed[:1].lower()
