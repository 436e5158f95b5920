# SPDX-License-Identifier: MIT
"""Marking Python lines leaves other tools' tracing as it was."""

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from heaptape.pytest_plugin.spans import Lines


def trace_of_threads(frame: FrameType, event: str, argument: Any) -> None:  # noqa: ANN401
    """The trace function of another tool: a debugger, or a coverage tool."""


def test_tracing_of_threads_and_of_this_one_is_as_before(tmp_path: Path) -> None:
    before, of_threads = sys.gettrace(), threading.gettrace()
    threading.settrace(trace_of_threads)
    try:
        with Lines(tmp_path, lambda mark: None).marked():
            assert threading.gettrace() is not trace_of_threads
        assert threading.gettrace() is trace_of_threads
        assert sys.gettrace() is before
    finally:
        threading.settrace(of_threads)  # type: ignore[arg-type]
