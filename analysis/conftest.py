# SPDX-License-Identifier: MIT
"""Fixtures of the package's tests, and of its features'."""

import atexit
import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

from tests.examples import FEW
from tests.support import call_heaptape, made_once

# No test is timed: on a busy machine any example may take long. `make test` tries fewer.
hypothesis.settings.register_profile("heaptape", deadline=None, max_examples=20 if FEW else 100)
hypothesis.settings.load_profile("heaptape")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent / "test"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """DuckDB's binding prints a list of its own types, as leaked, when a worker's interpreter ends, below the summary
    of the tests. It has no switch for that in Python; nothing else writes after atexit's functions.
    """
    if "duckdb" in sys.modules and hasattr(config, "workerinput"):
        atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))


@pytest.fixture(scope="session")
def out() -> Path:
    """The build directory."""
    return Path(os.environ.get("HEAPTAPE_OUT", ROOT / "out"))


@pytest.fixture(scope="session")
def write_random_trace(out):
    """Calls the C writer: (seed, events, path) -> the C reader's output, as CSV text."""
    program = out / "test-programs" / "write_random_trace"

    def write(seed, events, path):
        command = [program, str(seed), str(events), str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return write


@pytest.fixture(scope="session")
def heaptape(out):
    """Runs the command: arguments -> CompletedProcess with text."""

    def run(*arguments, **options):
        command = [str(out / "bin" / "heaptape"), *map(str, arguments)]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.run(command, text=True, timeout=120, **(streams | options))

    return run


@pytest.fixture(scope="session")
def small_tape(tmp_path_factory):
    """A small trace, written as text: two threads alternately, 4,000 objects that come and go."""
    lines, live, address = ["# heaptape-text 1 clock=ordinal"], [], 0x10000
    for i in range(4000):
        thread = 1 + i // 40 % 2  # with turns of one call, half of a replay in recorded order is waking threads
        lines.append(f"{len(lines)} {thread} malloc({16 + i % 900}) = {address:#x}")
        live.append(address)
        address += 1024
        if i % 3:
            lines.append(f"{len(lines)} {thread} free({live.pop(i * 7 % len(live)):#x})")
    path = tmp_path_factory.mktemp("tape") / "small.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def small_results(tmp_path_factory, small_tape):
    """Real results of the small trace on two allocators."""

    def make(path):
        done = call_heaptape("replay", small_tape, "-a", "glibc", "-a", "glibc:no-tcache", "-n", "2", "-o", path)
        assert done.status == 0, done.stderr

    return made_once(tmp_path_factory, "small.json", make)
