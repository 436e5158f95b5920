# SPDX-License-Identifier: MIT
"""What a test acquires: the figures of the spans that the recorded program marked (convert's `spans`), the limits that
the marker `heap` sets, and the Python line that each thread is at, as marks in the recording: for a second run of a
test above its limit.

Reads this process's own recording so far, and reports all tests' figures: the section at the end, the JSON file.
"""

import contextlib
import ctypes
import json
import linecache
import os
import re
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from heaptape.common.errors import HeaptapeError, did_you_mean
from heaptape.common.home import default_home
from heaptape.common.output import write_bytes
from heaptape.common.phrases import size
from heaptape.run import ctl


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
    done = subprocess.run(command, capture_output=True, errors="replace", env=environment)
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


ARGUMENTS = ("peak", "growth", "allocations", "warm_up")


def limits_of(item: pytest.Item) -> Limits:
    """The item's limits by its markers, the closest first. Raises UsageError where a marker is malformed."""
    given: dict[str, Any] = {}
    for marker in item.iter_markers("heap"):
        if marker.args:
            raise pytest.UsageError(
                f"{item.nodeid}: heap{marker.args}: limits have names: heap(peak={marker.args[0]!r})"
            )
        for name in marker.kwargs.keys() - set(ARGUMENTS):
            near = did_you_mean(name, ARGUMENTS) or f": it takes {', '.join(ARGUMENTS)}"
            raise pytest.UsageError(f"{item.nodeid}: heap() takes no {name}{near}")
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


FRAMES = 8
WHAT = {"peak_bytes": "lived at the peak", "growth_bytes": "was left"}


def site_lines(exceeded: Iterable[str], span: Span, lines: Lines | None) -> Iterator[str]:
    """Where the objects beyond each limit were acquired. `lines`: by Python lines, else by C call stacks."""
    how = "by the Python line that was running, in a second run of the test" if lines else "by C call stack"
    for name, found in (("peak_bytes", span.peak_sites), ("growth_bytes", span.growth_sites)):
        if name in exceeded:
            total = getattr(span, name)
            largest = _largest(found, total)
            yield f"{WHAT[name]}, {how} ({size(total)} there):"
            yield from _by_line(largest, lines) if lines else _by_stack(largest)


def _largest(found: Sequence[Site], total_bytes: int) -> Iterator[Site]:
    """The sites with at least 1 % of the bytes: smaller ones are usually pytest's."""
    return (site for site in found if site.size_bytes * 100 >= total_bytes)


def _by_line(found: Iterable[Site], lines: Lines) -> Iterator[str]:
    for site in found:
        where, line = lines.where(site.place) if site.place else ("elsewhere", "")
        yield f"  {size(site.size_bytes):>12} in {site.objects:>7,} objects  {where}  {line}".rstrip()


def _by_stack(found: Iterable[Site]) -> Iterator[str]:
    for site in found:
        yield f"  {size(site.size_bytes):>12} in {site.objects:>7,} objects"
        yield from (f"      {frame}" for frame in site.frames[:FRAMES])


def table_lines(tests: Sequence[dict[str, Any]], count: int) -> Iterator[str]:
    most = sorted(tests, key=lambda test: -test["peak_bytes"])[:count]
    if most:
        yield f"{'peak':>12}  {'growth':>12}  {'allocations':>11}  test"
    for test in most:
        peak, growth = size(test["peak_bytes"]), size(test["growth_bytes"])
        yield f"{peak:>12}  {growth:>12}  {test['allocations']:>11,}  {test['name']}"
    if len(tests) > count:
        yield f"{len(tests) - count:,} more: --heaptape-top N"


def unmeasured_lines(tests: Iterable[tuple[str, str]]) -> Iterator[str]:
    """One line for each reason, with the names."""
    for reason, names in groupby(sorted(tests, key=lambda test: test[1]), key=lambda test: test[1]):
        listed = [name for name, _ in names]
        yield f"not measured: {reason}: {listed[0]}" + (f" and {len(listed) - 1} more" if len(listed) > 1 else "")


class Recording:
    """The recording of the process that makes this object; a recorder must have it paused, else HeaptapeError. Not for
    children by fork."""

    def __init__(self) -> None:
        # PyDLL keeps the interpreter's lock: a mark takes less time than another thread would need to take over.
        library = ctypes.PyDLL(None)
        if not hasattr(library, "heaptape_lib_mark"):
            raise HeaptapeError("this process is not recorded, as libheaptape.so was not loaded into it")
        self.mark = library.heaptape_lib_mark
        self.mark.argtypes = [ctypes.c_char_p]
        self.mark.restype = None
        self._process = os.getpid()
        self._recorder = ""
        self._written = self._dropped = 0

    def start(self) -> None:
        """Makes the recorder start recording this process, unless it has."""
        if not self._recorder:
            self._recorder = self._started()
            self._written = self._flush()[1]

    def stop(self) -> None:
        """Stops recording this process. No error where the recorder has ended."""
        if self._recorder:
            ctl.ask(self._recorder, "stop", self._process)

    def _started(self) -> str:
        for name, reply in ctl.asked("start", self._process):
            if reply.get("ok"):
                return name
        raise HeaptapeError("the recorder of this process does not answer")

    def _flush(self) -> tuple[Path, int]:
        """The trace, and how many bytes of it are written: everything that happened before is in them."""
        reply = ctl.ask(self._recorder, "flush", self._process)
        if not reply or not reply.get("ok") or not reply["processes"]:
            raise HeaptapeError(f"the recorder does not answer: {(reply or {}).get('error', 'it has ended')}")
        process = reply["processes"][0]
        if process["state"] != "recording":
            raise HeaptapeError(f"recording is {process['state']}")
        return Path(process["trace"]), process["file_bytes"]

    def spans(self, sites: int = 0) -> list[Span]:
        """The spans marked since the last call. HeaptapeError also if an event since then is missing."""
        start, missing = self._written, self._dropped
        tape, self._written = self._flush()
        found, self._dropped = read_spans(tape, start, sites)
        if self._dropped > missing:
            raise HeaptapeError(f"{self._dropped - missing:,} calls are missing from the recording")
        return found


SCHEMA = 1


class Collected:
    """Collects the figures from the reports of this process's or its workers' tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: list[dict[str, Any]] = []
        self._unmeasured: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test's last report has its figures."""
        figures = getattr(report, "heaptape", None)
        if not figures:
            return
        if "unmeasured" in figures:
            self._unmeasured.append((report.nodeid, figures["unmeasured"]))
        else:
            self._tests.append({"name": report.nodeid, **figures, "worker": getattr(report, "worker_id", None)})

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        path = self._config.getoption("heaptape_json")
        if path:
            unmeasured = [{"name": name, "reason": reason} for name, reason in self._unmeasured]
            content = {"schema": SCHEMA, "tests": self._tests, "unmeasured": unmeasured}
            write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        lines = [*table_lines(self._tests, self._config.getoption("heaptape_top")), *unmeasured_lines(self._unmeasured)]
        if lines:
            terminalreporter.section("heaptape: what tests acquired")
            for line in lines:
                terminalreporter.write_line(line)
