# SPDX-License-Identifier: MIT
"""What a test acquires: the figures of the spans that the recorded program marked (convert's `spans`), the limits that
the marker `heap` sets, and the Python line that each thread is at, as marks in the recording: for a second run of a
test above its limit.
"""

import contextlib
import json
import linecache
import os
import re
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.common.quantities import size


@dataclass(frozen=True)
class Site:
    """Objects acquired at one place. `place`: the number that the program gave it, or None. `frames`: of the C call
    stack, innermost first, as text; empty where none was recorded. Bytes are requested bytes."""

    size_bytes: int
    objects: int
    place: int | None
    frames: tuple[str, ...]


@dataclass(frozen=True)
class Span:
    """A span's figures. Bytes are requested bytes; growth is what lives at its end. `peak_sites`, `growth_sites`: the
    largest first, where `read` was called with `sites`."""

    name: str
    ended: bool
    allocations: int
    allocated_bytes: int
    peak_bytes: int
    peak_objects: int
    growth_bytes: int
    growth_objects: int
    peak_sites: tuple[Site, ...] = field(default=())
    growth_sites: tuple[Site, ...] = field(default=())


def read_spans(tape: Path, from_byte: int = 0, sites: int = 0) -> tuple[list[Span], int]:
    """The spans of a trace, which may still be being written, and how many calls are missing from the whole trace.
    `from_byte`: begin of a block before which no event matters. Raises HeaptapeError with the reader's one line."""
    options = ("--from-byte", str(from_byte), "--sites", str(sites))
    command = [str(default_home().program("convert")), "spans", str(tape), *options]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise HeaptapeError(done.stderr.strip().removeprefix("heaptape: ") or f"{tape}: can't be read")
    output = json.loads(done.stdout)
    return [_span(found) for found in output["spans"]], output["dropped"]


def _span(found: dict[str, Any]) -> Span:
    lists = {key: tuple(_site(site) for site in found.get(key, ())) for key in ("peak_sites", "growth_sites")}
    return Span(**{**found, **lists})


def _site(found: dict[str, Any]) -> Site:
    frames = tuple(_frame(frame) for frame in found["frames"])
    return Site(found["bytes"], found["objects"], found["place"], frames)


def _frame(frame: dict[str, Any]) -> str:
    where = f" at {frame['file']}:{frame['line']}" if frame.get("file") else ""
    return f"{frame.get('function', '?')}{where} in {frame.get('module', '?')}"


UNITS = {"": 1, "b": 1, "bytes": 1, "byte": 1}
UNITS |= {f"{letter}ib": 1 << power for letter, power in (("k", 10), ("m", 20), ("g", 30))}
UNITS |= {f"{letter}b": 1000**power for letter, power in (("k", 1), ("m", 2), ("g", 3))}
QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


@dataclass(frozen=True)
class Limits:
    """Limits of one test; None: no limit. `warm_up`: None where the option decides."""

    peak_bytes: int | None = None
    growth_bytes: int | None = None
    allocations: int | None = None
    warm_up: int | None = None

    def any(self) -> bool:
        return self.given() != {}

    def given(self) -> dict[str, int]:
        limits = {"peak_bytes": self.peak_bytes, "growth_bytes": self.growth_bytes, "allocations": self.allocations}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def exceeded(self, span: Span) -> dict[str, str]:
        """name -> a sentence, for each limit that the test exceeds."""
        found = {}
        for name, limit in self.given().items():
            measured = getattr(span, name)
            if measured > limit:
                found[name] = f"{name.removesuffix('_bytes')} {_words(name, measured)}, limit {_words(name, limit)}"
        return found


def limits_of(item: pytest.Item) -> Limits:
    """The item's limits by its markers, the closest first. Raises UsageError where a marker is malformed."""
    given: dict[str, Any] = {}
    for marker in item.iter_markers("heap"):
        if marker.args or not set(marker.kwargs) <= {"peak", "growth", "allocations", "warm_up"}:
            raise pytest.UsageError(f"{item.nodeid}: heap() takes peak, growth, allocations and warm_up by name alone")
        for name, value in marker.kwargs.items():
            given.setdefault(name, _number(item, name, value))
    return Limits(given.get("peak"), given.get("growth"), given.get("allocations"), given.get("warm_up"))


def _number(item: pytest.Item, name: str, value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    found = QUANTITY.fullmatch(value) if isinstance(value, str) and name in ("peak", "growth") else None
    if not found or found[2].lower() not in UNITS:
        expected = 'bytes, as a whole number or as "20 MiB"' if name in ("peak", "growth") else "a whole number"
        raise pytest.UsageError(f"{item.nodeid}: heap({name}={value!r}): expected {expected}")
    return int(float(found[1]) * UNITS[found[2].lower()])


def _words(name: str, value: int) -> str:
    """A value as text; with the exact number of bytes, as a limit may be exceeded by one byte."""
    if name == "allocations":
        return f"{value:,}"
    return size(value) if value < 1 << 10 else f"{size(value)} ({value:,} bytes)"


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
