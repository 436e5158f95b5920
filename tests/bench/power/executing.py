# SPDX-License-Identifier: MIT
"""Which default tests execute a line of the Python product.

    pip install coverage
    python -m tests.bench.power.executing FILE            # writes the map, coverage.py's data file, of a built checkout
    python -m tests.bench.power.executing FILE TESTS...   # adds these files of tests to it

Each file of tests runs in an interpreter of its own, so that no file is left out because another one had imported a
module, or filled a cache or a fixture, before. Started programs are seen too, unless they are killed.
"""

import os
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coverage
from coverage.parser import PythonParser

from .faults import REPOSITORY, run_file

NARROWEST = 20
SETTINGS = """
[run]
source = {source}
data_file = {data}
context = ${{EXECUTING-}}
parallel = true
sigterm = true
patch = _exit, execv
disable_warnings = no-data-collected, module-not-imported, module-not-measured
"""


def pytest_runtest_logstart(nodeid: str) -> None:
    """This module is the plugin, too, that tells coverage.py which test runs, here and in programs that it starts."""
    current = coverage.Coverage.current()
    if current:
        current.switch_context(nodeid)
        os.environ["EXECUTING"] = f"{os.environ['EXECUTING'].partition('|')[0]}|{nodeid}"


class Map:
    """Read from the file that this module writes: each file of tests, with those of its tests that are known."""

    language = "python"

    def __init__(self, path: Path) -> None:
        self.data = coverage.CoverageData(str(path))
        self.data.read()
        self.widths: Counter[str] = Counter()
        for file in self.data.measured_files():
            for contexts in self.data.contexts_by_lineno(file).values():
                self.widths.update(contexts)
        assert self.widths, f"{path}: no map"

    def rounds(self, file: Path, line: int) -> list[list[str]]:
        """Those that execute the statement, narrowest first: some tests, then whole files of them, as tests of a file
        share what one of them computed. Of a line without a statement of its own, such as `else:`, all that execute
        any line of the file; of one that none is known to execute, the narrowest of these, as it may run in a program
        that was killed.
        """
        parser = PythonParser(text=(REPOSITORY / file).read_text())
        parser.parse_source()
        first = parser.first_line(line)
        by_line = self.data.contexts_by_lineno(str(REPOSITORY / file))
        lines = [one for one in by_line if parser.first_line(one) == first] if first in parser.statements else by_line
        contexts = {one for number in lines or by_line for one in by_line[number]}
        pairs = [one.partition("|") for one in sorted(contexts, key=lambda one: self.widths[one])]
        files = list(dict.fromkeys(name for name, _, _ in pairs)) if lines else []
        return [[test for _, _, test in pairs if test][:NARROWEST], files]


def write(path: Path, names: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="executing.") as scratch:
        settings, data = Path(scratch, "coveragerc"), Path(scratch, "map")
        settings.write_text(SETTINGS.format(source=REPOSITORY / "analysis/heaptape", data=data))

        def run(name: str) -> None:
            run_file(name, __spec__.name, {"COVERAGE_PROCESS_START": str(settings), "EXECUTING": name})

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, names))
        if path.exists():
            shutil.copy(path, data)
        combined = coverage.Coverage(data_file=str(data), config_file=False)
        combined.load()
        combined.combine()
        combined.save()
        shutil.move(data, path)


if __name__ == "__main__":
    os.environ |= {"HEAPTAPE_EXAMPLES": "few", "HEAPTAPE_OUT": str(REPOSITORY / "out"), "OPENBLAS_NUM_THREADS": "1"}
    map_path, added = Path(sys.argv[1]).resolve(), sys.argv[2:]
    if not added:
        map_path.unlink(missing_ok=True)
    every = sorted((REPOSITORY / "analysis").rglob("test_*.py"))
    write(map_path, added or [str(one.relative_to(REPOSITORY)) for one in every])
