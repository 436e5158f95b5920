# SPDX-License-Identifier: MIT
"""`make test PYTEST='-p tools.cpu_of_tests'`: a table of the tests that take most CPU time, including their set-up.

CPU time is more informative than wall time where something else runs. Children are those that were waited for.
"""

import resource
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest

LISTED = 30
PROPERTY = "cpu_seconds"


def cpu_seconds() -> tuple[float, float]:
    """CPU time of this process, and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, children = (one.ru_utime + one.ru_stime for one in used)
    return own, children


class Meter:
    """CPU time since the last reading."""

    def __init__(self) -> None:
        self.last = cpu_seconds()

    def read(self) -> tuple[float, float]:
        now, before = cpu_seconds(), self.last
        self.last = now
        return now[0] - before[0], now[1] - before[1]


_meter = Meter()


def pytest_collection_finish() -> None:
    _meter.read()  # collecting belongs to no test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Each phase of a test has a report, which workers send to the process that prints the table."""
    report = yield
    report.user_properties.append((PROPERTY, _meter.read()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    files: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    tests: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for report in (one for reports in terminalreporter.stats.values() for one in reports):
        for own, children in (value for name, value in getattr(report, "user_properties", ()) if name == PROPERTY):
            for sums, key in ((files, report.nodeid.partition("::")[0]), (tests, report.nodeid)):
                sums[key][0] += own
                sums[key][1] += children
    own, children = (sum(one[side] for one in tests.values()) for side in (0, 1))
    terminalreporter.section(f"CPU seconds: {own:.0f} in the tests' processes, {children:.0f} in their children")
    for sums in (files, tests):
        for name, used in sorted(sums.items(), key=lambda item: -sum(item[1]))[:LISTED]:
            terminalreporter.line(f"{sum(used):8.2f} = {used[0]:7.2f} + {used[1]:7.2f}  {name}")
        terminalreporter.line("")
