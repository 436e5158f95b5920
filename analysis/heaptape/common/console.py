# SPDX-License-Identifier: MIT
"""Lines on standard error, and the options for them, --color and --quiet, which every command takes. For the C
programs, core/command/diagnostics.h does the same.

Errors and warnings are always printed; notes and progress are not with --quiet. With --color auto, there is colour at
a terminal that is not "dumb", unless NO_COLOR is set and not empty; so never in a pipe or a file.
"""

import argparse
import errno
import math
import os
import re
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


Kind = Literal["error", "warning", "note", "good"]

COLOURS: dict[Kind, str] = {"error": "1;31", "warning": "1;33", "good": "1;32"}
WHEN = ("auto", "always", "never")


@dataclass
class _Wanted:
    color: str = "auto"
    quiet: bool = False


_wanted = _Wanted()


class _Color(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:  # noqa: ANN401
        _wanted.color = values


class _Quiet(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:  # noqa: ANN401
        _wanted.quiet = True


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the two options. They take effect as soon as they are read, even if the rest of the line is wrong."""
    group = parser.add_argument_group("messages")
    group.add_argument(
        "--color",
        action=_Color,
        choices=WHEN,
        default=argparse.SUPPRESS,
        help="colour tables, errors and warnings: at a terminal (auto, unless NO_COLOR is set), always or never",
    )
    group.add_argument(
        "--quiet",
        action=_Quiet,
        nargs=0,
        default=argparse.SUPPRESS,
        help="no progress and no notes on standard error; errors and warnings are still printed",
    )


def reset() -> None:
    """Sets the options to their defaults."""
    _wanted.color, _wanted.quiet = "auto", False


def printable(text: str) -> str:
    """The text with an escape for each character that would control a terminal or is not printable: names, paths, marks
    and messages from files pass it before they are shown. `\\x1b[31m`, not the colour.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


# What moves a terminal's cursor, colours or turns text, and what no UTF-8 is; lines and tabs stay.
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_COLOUR = r"\x1b\[[0-9;]*m"
_CONTROLS_BUT_COLOURS = re.compile(f"(?!{_COLOUR}){_CONTROLS.pattern}")


def uncontrolled(text: str) -> str:
    """All of a command's standard output, whose layout and colours stay: no text in it that nobody has escaped controls
    a terminal.
    """
    controls = _CONTROLS_BUT_COLOURS if is_coloured(sys.stdout) else _CONTROLS
    return controls.sub(lambda one: printable(one[0]), text)


def is_quiet() -> bool:
    return _wanted.quiet


def words() -> list[str]:
    """The options as another command or C program takes them."""
    return [f"--color={_wanted.color}"] * (_wanted.color != "auto") + ["--quiet"] * _wanted.quiet


def split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The options before the command, and the words after them."""
    count = 0
    while count < len(argv) and (argv[count] in ("--quiet", "--color") or argv[count].startswith("--color=")):
        count += 2 if argv[count] == "--color" else 1
    return argv[:count], argv[count:]


def is_coloured(stream: IO[str]) -> bool:
    if _wanted.color != "auto":
        return _wanted.color == "always"
    return not os.environ.get("NO_COLOR") and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def rich_console(stream: IO[str], width: int | None = None) -> "Console":
    """A console of rich, coloured as `is_coloured` decides: rich alone would also read other environment variables."""
    from rich.console import Console

    coloured = is_coloured(stream)
    return Console(
        file=stream,
        width=width,
        highlight=False,
        force_terminal=True if coloured else None,
        color_system="auto" if coloured and stream.isatty() else "standard" if coloured else None,
        no_color=not coloured,
    )


def line(kind: Kind, text: str, name: str = "heaptape") -> str:
    """`NAME: TEXT`, one line, the name in the colour of that kind; control characters in the text are escaped. Where
    the text ends with what a limit, or the lack of /proc, can cause, that is named.
    """
    text = printable(text) + _limit(text)
    if kind not in COLOURS or not is_coloured(sys.stderr):
        return f"{name}: {text}"
    return f"\033[{COLOURS[kind]}m{name}:\033[0m {text}"


def _limit(text: str) -> str:
    """A thread that finds no address space for its stack fails with EAGAIN, too. /proc may be missing instead.
    print_limit of core/command/diagnostics.c says the same for the C programs: what has no memory loads no library to
    share it.
    """
    if text.endswith(os.strerror(errno.ENOENT)) and not os.path.lexists("/proc/self"):
        return " (needs /proc: mount -t proc proc /proc)"
    processes = text.endswith((os.strerror(errno.EAGAIN), "can't start a thread"))
    if not processes and not text.endswith((os.strerror(errno.ENOMEM), "out of memory")):
        return ""
    space, most = resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if space != resource.RLIM_INFINITY:
        return f" (ulimit -v is {space // 1024} KiB)"
    return f" (ulimit -u is {most})" if processes and most != resource.RLIM_INFINITY else ""


def error(text: str) -> None:
    """Prints why the command, or a part of its work, ended."""
    print(line("error", text), file=sys.stderr, flush=True)


def warning(text: str) -> None:
    """Prints what the user should know before trusting the result."""
    print(line("warning", text), file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Prints what is in progress, or done."""
    if not _wanted.quiet:
        print(line("note", text), file=sys.stderr, flush=True)


def verdict(text: str, good: bool) -> None:
    """Prints the verdict of a command whose exit status shows it, too; with --quiet only a bad one."""
    if not (good and _wanted.quiet):
        print(line("good" if good else "error", text), file=sys.stderr, flush=True)


QUIET_S = 2.0
LINE_S = 10.0
LEAST_SHARE, AGREE = 0.05, 2.0  # the time left is known from this share on, where two estimates agree by that factor


class Counted(float):
    """A share by number, of parts that take unlike times, of which not each kind is known: tells no time left."""


class WorkProgress:
    """Shows what is in progress and the time left, on stderr: a bar at a terminal for work that takes more than
    QUIET_S; elsewhere at most a line every LINE_S, none twice. Where `share` falls, another part of the work begins,
    and the time left is by that part's speed. `ends`: of time.monotonic(), when the whole is to end.
    """

    def __init__(self) -> None:
        self._begin = self._part_begin = time.monotonic()
        self._share, self._part_share, self.ends = 0.0, 0.0, math.inf
        self._counted = False
        self._at_terminal = sys.stderr.isatty()
        self._wanted = not is_quiet()
        self._last_line = self._begin
        self._said: set[str] = set()
        self._last_left_s, self._left = 0.0, ""
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> "WorkProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, what: str, share: float | None = None) -> None:
        """Shows that `what` is in progress, and `share` (0 to 1) of the whole is done; None: how much is not known."""
        now = time.monotonic()
        counted_before, self._counted = self._counted, isinstance(share, Counted)
        if share is None or share < self._share or self._counted or counted_before:
            self._last_left_s, self._left = 0.0, ""
            self._part_begin, self._part_share = now, share or 0.0
        self._share = share or 0.0
        if not self._wanted or now - self._begin < QUIET_S:
            return
        due = now - self._last_line >= LINE_S
        if due:
            self._last_line, self._left = now, self._time_left(now, self._share)
        if self._at_terminal:
            if self._bar is None or self._task is None:
                self._bar, self._task = _started()
            self._bar.tasks[0].total = None if share is None else 1.0  # which `update` takes for "as it was"
            self._bar.update(self._task, completed=self._share, description=what, left=self._left.removeprefix(", "))
        elif due:
            known = share is not None and share < 1
            text = f"{what}: {int(100 * self._share + 1e-6)} % done{self._left}" if known else what
            if text not in self._said:
                note(text)
            self._said.add(text)

    def _time_left(self, now: float, share: float) -> str:
        """ ", 3 min left"; empty until it is known."""
        done = share - self._part_share
        if done <= LEAST_SHARE:
            return ""
        left_s, before_s = (now - self._part_begin) * (1 - share) / done, self._last_left_s
        left_s = min(left_s, max(self.ends - now, 0.0))
        self._last_left_s = left_s
        known = before_s and max(left_s, before_s) <= AGREE * (min(left_s, before_s) + LINE_S)
        return f", {duration(left_s)} left" if known else ""

    def note(self, text: str) -> None:
        with self._hidden():
            note(text)

    def error(self, text: str) -> None:
        with self._hidden():
            error(text)

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """Hides the bar for the context, and draws it again below what was printed."""
        if self._bar:
            self._bar.stop()
        yield
        if self._bar:
            self._bar.start()


SECONDS = {"s": 1, "m": 60, "h": 3600}  # in a unit, as --budget takes them


def duration(seconds: float) -> str:
    """ "40 s", "3 min", "2 h 5 min", "2.5 days"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes >= 48 * 60:
        return f"{minutes / 1440:.1f} days"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _started() -> "tuple[Progress, TaskID]":
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    bar = Progress(*columns, TextColumn("{task.fields[left]}"), console=rich_console(sys.stderr), transient=True)
    task = bar.add_task("", total=1.0, left="")
    bar.start()
    return bar, task
