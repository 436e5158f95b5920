# SPDX-License-Identifier: MIT
"""Progress with an estimate of the time left, on stderr: a bar at a terminal for work that takes more than two seconds;
elsewhere a line every ten seconds.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from heaptape.common import console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_S = 2.0
LINE_S = 10.0


class WorkProgress:
    """Shows what is in progress and the time left."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._at_terminal = sys.stderr.isatty()
        self._wanted = not console.is_quiet()
        self._last_line = self._begin
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, what: str, share: float) -> None:
        """Shows that `what` is in progress, and `share` (0 to 1) of the whole is done."""
        now = time.monotonic()
        if not self._wanted or now - self._begin < QUIET_S:
            return
        if not self._at_terminal:
            if now - self._last_line >= LINE_S:
                self._last_line = now
                left = (now - self._begin) * (1 - share) / share if share > 0 else 0.0
                console.note(
                    f"{what}: {100 * share:.0f} % done" + (f", {duration(left)} left" if 0 < share < 1 else "")
                )
            return
        if self._bar is None or self._task is None:
            self._bar, self._task = _started()
        self._bar.update(self._task, completed=share, description=what)

    def note(self, text: str) -> None:
        with self._hidden():
            console.note(text)

    def error(self, text: str) -> None:
        with self._hidden():
            console.error(text)

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """Hides the bar for the context, and draws it again below what was printed."""
        if self._bar:
            self._bar.stop()
        yield
        if self._bar:
            self._bar.start()


def duration(seconds: float) -> str:
    """ "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _started() -> "tuple[Progress, TaskID]":
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TextColumn("left"))
    bar = Progress(
        *columns,
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console.rich_console(sys.stderr),
        transient=True,
    )
    task = bar.add_task("", total=1.0)
    bar.start()
    return bar, task
