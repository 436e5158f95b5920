# SPDX-License-Identifier: MIT
"""Reads this process's own recording so far, and reports all tests' figures: the section at the end, the JSON file."""

import ctypes
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import write_bytes
from heaptape.common.quantities import size
from heaptape.pytest_plugin.spans import Lines, Site, Span, read_spans
from heaptape.run import ctl

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
        for name in ctl.recorder_sockets():
            reply = ctl.ask(name, "start", self._process)
            if reply and reply.get("ok"):
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
