# SPDX-License-Identifier: MIT
"""The recorded half: marks each test in the recording, reads what it acquired, and enforces its limits.

A test's reports are logged once its figures are known, after its teardown. So a test above its limit is a normal
failure for -x, --lf, JUnit files and xdist, whose workers do all of this themselves.
"""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol  # pytest has no public name for it; pytest-rerunfailures uses it likewise

from heaptape.common.errors import HeaptapeError
from heaptape.features.pytest_plugin import CRASHED, RECORDED
from heaptape.features.pytest_plugin.spans import (
    Collected,
    Limits,
    Lines,
    Recording,
    Span,
    limits_of,
    site_lines,
)

SITES = 8
NAME_BYTES = 200  # of a mark's 255
FIGURES = ("peak_bytes", "growth_bytes", "growth_objects", "allocations", "allocated_bytes")


def begin(config: pytest.Config) -> None:
    """Registers this process's plugins: xdist's workers measure, its controller collects, a lone process does both."""
    worker = hasattr(config, "workerinput")
    controls = not worker and config.getoption("dist", "no") != "no"
    if not controls:
        try:
            recording = Recording()
        except HeaptapeError as error:
            raise pytest.UsageError(f"--heaptape: {error}") from None
        config.pluginmanager.register(Measuring(config, recording), "heaptape-measuring")
    if not worker:
        config.pluginmanager.register(Collected(config), "heaptape-collected")
    if controls:
        config.pluginmanager.register(Crashes(), "heaptape-crashes")


class Crashes:
    """Notes for the parent process that a worker crashed, so that it reads the recordings."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        (Path(os.environ[RECORDED]) / CRASHED).touch()


class Measuring:
    """Runs each test in a span of the recording."""

    def __init__(self, config: pytest.Config, recording: Recording) -> None:
        self._config, self._recording = config, recording
        self._own = False  # is the test's own code running?
        self._limits: dict[str, Limits] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Reads all limits: malformed ones end the run before the first test."""
        self._limits = {item.nodeid: limits_of(item) for item in items}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Starts the recording of this process, after imports and collection."""
        try:
            self._recording.start()
        except HeaptapeError as error:
            pytest.exit(f"--heaptape: {error}", returncode=pytest.ExitCode.USAGE_ERROR)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Stops the recording: reports and the interpreter's end are not needed."""
        self._recording.stop()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Replaces pytest's own, which logs each report before the test's figures are known."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item, nextitem):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _reports(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        limits = self._limits.get(item.nodeid) or limits_of(item)
        warm_up = self._config.getoption("heaptape_warm_up") if limits.warm_up is None else limits.warm_up
        for _ in range(warm_up):
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            if not all(report.passed for report in reports):
                return reports
        reports = self._marked(item, nextitem)
        try:
            span = self._last_span()
        except HeaptapeError as error:
            return _unmeasured(reports, limits, error)
        called = next((report for report in reports if report.when == "call"), None)
        if called and not called.skipped:
            self._judge(item, nextitem, limits, span, reports)
        return reports

    def _marked(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        name = item.nodeid.encode(errors="replace")[:NAME_BYTES]
        gc.collect()
        self._recording.mark(b"heaptape:begin " + name)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        gc.collect()
        self._recording.mark(b"heaptape:end")
        return reports

    def _last_span(self, sites: int = 0) -> Span:
        found = self._recording.spans(sites)
        if not found or not found[-1].ended:
            raise HeaptapeError("the recording lacks the test's marks")
        return found[-1]

    def _judge(
        self,
        item: pytest.Item,
        nextitem: pytest.Item | None,
        limits: Limits,
        span: Span,
        reports: list[pytest.TestReport],
    ) -> None:
        """Adds the figures to the last report, and fails the test if it passed and is above a limit."""
        exceeded = limits.exceeded(span)
        called = next(report for report in reports if report.when == "call")
        if exceeded and called.passed:
            called.outcome = "failed"
            called.longrepr = "\n".join(self._failure(item, nextitem, exceeded, span))
        figures = {name: getattr(span, name) for name in FIGURES}
        last = reports[-1]
        last.heaptape = {  # type: ignore[attr-defined] # xdist hands it on
            **figures,
            "outcome": called.outcome,
            "limits": limits.given(),
            "exceeded": list(exceeded),
        }
        last.user_properties += [(f"heaptape_{name}", value) for name, value in figures.items()]

    def _failure(
        self, item: pytest.Item, nextitem: pytest.Item | None, exceeded: dict[str, str], span: Span
    ) -> Iterator[str]:
        yield from (f"heaptape: {sentence}" for sentence in exceeded.values())
        sites = self._config.getoption("heaptape_sites")
        if sites == "none" or not set(exceeded) & {"peak_bytes", "growth_bytes"}:
            return
        lines = Lines(self._config.rootpath, self._recording.mark) if sites == "lines" else None
        try:
            again = self._again(item, nextitem, lines)
        except HeaptapeError as error:
            yield f"where: not known: {error}"
            return
        yield from site_lines(exceeded, again, lines)

    def _again(self, item: pytest.Item, nextitem: pytest.Item | None, lines: Lines | None) -> Span:
        if lines:
            with lines.marked():
                reports = self._marked(item, nextitem)
        else:
            reports = self._marked(item, nextitem)
        span = self._last_span(SITES)
        if not all(report.passed for report in reports):
            raise HeaptapeError("the test fails when it is run a second time")
        return span

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """From here on acquires count for the test: its fixtures, the test, their teardown. After other plugins."""
        return (yield from self._as_own())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        return (yield from self._as_own())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        return (yield from self._as_own())

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """A fixture that outlives the test does not count for it."""
        if not self._own or fixturedef.scope == "function":
            return (yield)
        self._turn(False)
        try:
            return (yield)
        finally:
            self._turn(True)

    def _as_own(self) -> Generator[None, Any, Any]:
        self._turn(True)
        try:
            return (yield)
        finally:
            self._turn(False)

    def _turn(self, own: bool) -> None:
        self._own = own
        self._recording.mark(b"heaptape:own" if own else b"heaptape:rest")


def _unmeasured(reports: list[pytest.TestReport], limits: Limits, error: HeaptapeError) -> list[pytest.TestReport]:
    """Fails a test whose limits could not be checked; missing figures alone are only reported at the end."""
    for report in reports:
        if report.when == "call" and report.passed and limits.any():
            report.outcome = "failed"
            report.longrepr = f"heaptape: not measured, so its limits are not held: {error}"
    reports[-1].heaptape = {"unmeasured": str(error)}  # type: ignore[attr-defined]
    return reports
