# SPDX-License-Identifier: MIT
"""Which tests execute a fault's line: a plugin for one run of the tests, and what is read from its files.

Python's lines are counted by coverage.py, C's by gcov, both in started programs, too: what these write when they end
goes to a folder of the test that runs. Only files with faults are counted.
"""

import ast
import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from .faults import REPOSITORY

Lines = dict[str, dict[int, set[str]]]  # file -> line -> tests

# gcc, which counts the lines of {sources}. The engine on the planted clock must not count its own output.
COMPILER = """#!/bin/bash
for word; do
  case $word in
    {sources}) [[ " $* " = *planted_clock* ]] || exec gcc "$@" -O0 --coverage ;;
    -c) exec gcc "$@" ;;
  esac
done
exec gcc "$@" --coverage
"""


class Reach:
    """Of one worker."""

    def __init__(self, folder: Path, worker: str) -> None:
        self.folder = folder / worker
        self.present = self.folder / "present"
        self.present.mkdir(parents=True)
        settings = str(folder / "coverage.rc")
        self.coverage = coverage.Coverage(data_file=str(self.folder / "in-process"), config_file=settings)
        self.coverage.start()
        os.environ |= {
            "COVERAGE_PROCESS_START": settings,
            "COVERAGE_FILE": str(self.present / "python"),
            "GCOV_PREFIX": str(self.present / "c"),
        }
        self.number = 0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        began = time.monotonic()
        yield
        row = {"test": item.nodeid, "number": self.number, "seconds": time.monotonic() - began}
        self.present.rename(self.folder / str(self.number))
        self.present.mkdir()
        with (self.folder / "tests.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        self.number += 1

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # the tests run in workers
        config.pluginmanager.register(Reach(Path(os.environ["HEAPTAPE_REACH"]), config.workerinput["workerid"]))


def prepare(folder: Path, faults: list[dict]) -> Path:
    """Makes settings of coverage, and a build that counts; its place."""
    python = sorted({str(REPOSITORY / fault["file"]) for fault in faults if fault["file"].endswith(".py")})
    settings = "[run]\nparallel = true\npatch = _exit\ndisable_warnings = no-data-collected\ninclude =\n"
    (folder / "coverage.rc").write_text(settings + "".join(f"    {name}\n" for name in python))
    compiler = folder / "gcc-coverage"
    compiler.write_text(COMPILER.format(sources="|".join(sorted(counted_in_c(faults)))))
    compiler.chmod(0o755)
    command = ["make", "-s", "-j2", "programs", f"CC={compiler}", f"OUT={folder / 'out'}"]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return folder / "out"


def counted_in_c(faults: list[dict]) -> set[str]:
    """Not capture/host/: it runs inside other programs, whose memory and calls gcov would change."""
    named = {fault["file"] for fault in faults}
    return {name for name in named if name.endswith(".c") and not name.startswith("capture/host/")}


def python_lines(worker: Path, names: dict[str, str]) -> Iterator[tuple[str, int, str]]:
    """(file, line, test that executes it) of a worker's tests and what they started."""
    for path in worker.glob("in-process*"):
        data = coverage.CoverageData(basename=str(path))
        data.read()
        for file in data.measured_files():
            by_line = data.contexts_by_lineno(file)
            yield from ((file, line, test) for line, tests in by_line.items() for test in tests if test)
    for path, test in [(path, test) for number, test in names.items() for path in worker.glob(f"{number}/python*")]:
        data = coverage.CoverageData(basename=str(path))
        data.read()
        for file in data.measured_files():
            yield from ((file, line, test) for line in data.lines(file) or [])


def c_lines(folder: Path) -> Iterator[tuple[str, int, int]]:
    """(file, line, times executed) by the processes of one test."""
    counts = list(folder.rglob("*.gcda"))
    for path in counts:
        notes = path.with_suffix(".gcno")
        if not notes.exists():
            notes.symlink_to(Path("/") / notes.relative_to(folder))
    command = ["gcov", "-j", "-t", *map(str, counts)]
    written = subprocess.run(command, capture_output=True, text=True, check=False).stdout if counts else ""
    for document in written.splitlines():
        for file in json.loads(document)["files"]:
            yield from ((file["file"], line["line_number"], line["count"]) for line in file["lines"])


def executed(folder: Path, files: set[str]) -> tuple[Lines, dict[str, float]]:
    """Which tests executed which lines, of those that code was made for; how long each test took."""
    lines: Lines = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    for path in folder.glob("*/tests.jsonl"):
        tests = [json.loads(line) for line in path.read_text().splitlines()]
        seconds |= {row["test"]: row["seconds"] for row in tests}
        for file, line, test in python_lines(path.parent, {str(row["number"]): row["test"] for row in tests}):
            lines[str(Path(file).relative_to(REPOSITORY))][line].add(test)
        for row in tests:
            for file, line, count in c_lines(path.parent / str(row["number"]) / "c"):
                if file in files:
                    lines[file][line].update([row["test"]] if count else [])
    return lines, seconds


def statement(path: Path, line: int) -> range | None:
    """The lines of the statement that the line is in; None where that runs when its module is imported."""
    found, local = range(line, line + 1), False
    functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    for node, inside in todo:  # grows: what is within comes later
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            after = body[0].lineno if body and body[0].lineno > node.lineno else (node.end_lineno or line) + 1
            found, local = range(node.lineno, after) if line < after else range(line, line + 1), inside
        todo += [(child, inside or isinstance(node, functions)) for child in ast.iter_child_nodes(node)]
    return found if local else None


def part(name: str) -> str:
    """Of a product file, or of a test."""
    program = name.partition("test_c_programs.py::test_program[")[2]
    folders = (program or name).split("/")
    return "/".join(folders[:3:2] if folders[0] == "analysis" else folders[:1])


def selection(fault: dict, lines: Lines, seconds: dict[str, float]) -> set[str]:
    """The tests that execute the fault's line."""
    file, line = fault["file"], fault["line"]
    if file.startswith("capture/host/"):
        return {test for test in seconds if part(test) == "capture" or test.startswith("tests/recording/")}
    if file.endswith(".c"):  # gcov has the first line of what spans several
        return lines[file][max((known for known in lines[file] if known <= line), default=0)]
    within = statement(REPOSITORY / file, line)
    return set().union(*(lines[file][known] for known in within or list(lines[file])))


def selections(folder: Path, faults: list[dict], most_s: float) -> Iterator[dict]:
    """The faults with the tests that judge them, in their order, and how many more execute them."""
    lines, seconds = executed(folder, counted_in_c(faults))
    for fault in faults:
        own = part(fault["file"])
        able = sorted(
            selection(fault, lines, seconds) & seconds.keys(), key=lambda test: (part(test) != own, seconds[test])
        )
        chosen, total_s = [], 0.0
        for test in able:
            if not chosen or total_s + seconds[test] <= most_s:
                chosen.append(test)
                total_s += seconds[test]
        yield {**fault, "tests": chosen, "left_out": len(able) - len(chosen)}
