# SPDX-License-Identifier: MIT
"""All tests' figures: the section at the end, and the JSON file."""

import json
from typing import Any

import pytest

from heaptape.common.output import write_bytes
from heaptape.pytest_plugin import text

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
        lines = [*text.table(self._tests, self._config.getoption("heaptape_top")), *text.unmeasured(self._unmeasured)]
        if lines:
            terminalreporter.section("heaptape: what tests acquired")
            for line in lines:
                terminalreporter.write_line(line)
