# SPDX-License-Identifier: MIT
"""The Python line that each thread is at, as marks in the recording: for a second run of a test above its limit."""

import contextlib
import linecache
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

NOWHERE = b"heaptape:at 0"


class Lines:
    """Lines of files below `root`, except in an environment below it. Acquires of other code count for the line that
    called it. `mark` writes into the recording."""

    def __init__(self, root: Path, mark: Callable[[bytes], None]) -> None:
        self._root = str(root) + "/"
        self._foreign = tuple({str(Path(path)) + "/" for path in (sys.prefix, *sysconfig.get_paths().values())})
        self._mark = mark
        self._wanted: dict[str, bool] = {}
        self._places: dict[tuple[str, int], bytes] = {}

    @contextlib.contextmanager
    def marked(self) -> Iterator[None]:
        """Marks the lines of this thread, and of all Python threads that begin within the context."""
        before, of_threads = sys.gettrace(), threading.gettrace()
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(of_threads)
            self._mark(NOWHERE)

    def where(self, place: int) -> tuple[str, str]:
        """File and line of a place, and the source text of that line."""
        path, line = list(self._places)[place - 1]
        name = path.removeprefix(self._root)
        return f"{name}:{line}", linecache.getline(path, line).strip()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:  # noqa: ANN401
        return self._line if self._wants(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:  # noqa: ANN401
        if event == "line":
            self._mark(self._place(frame))
        elif event == "return":
            self._mark(self._caller(frame))
        return self._line

    def _caller(self, frame: FrameType) -> bytes:
        above = frame.f_back
        while above and not self._wants(above.f_code.co_filename):
            above = above.f_back
        return self._place(above) if above else NOWHERE

    def _place(self, frame: FrameType) -> bytes:
        key = (frame.f_code.co_filename, frame.f_lineno)
        if key not in self._places:
            self._places[key] = b"heaptape:at %d" % (len(self._places) + 1)
        return self._places[key]

    def _wants(self, path: str) -> bool:
        if path not in self._wanted:
            self._wanted[path] = path.startswith(self._root) and not path.startswith(self._foreign)
        return self._wanted[path]
