# SPDX-License-Identifier: MIT
"""Shows successive samples of a recording, until it ends or the user quits. The recording continues."""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.control import Control
from rich.text import Text

from heaptape.common.home import Home
from heaptape.top.lines import History, View, lines
from heaptape.top.recording import Names, Recording, cpu_s, memory, thread_name
from heaptape.top.sample import Reading, sample

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
            tids = [thread["tid"] for thread in process["threads"]]
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
def _keys() -> Iterator[int]:
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
    with console.screen(hide_cursor=True), _keys() as woken:
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
