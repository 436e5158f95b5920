# SPDX-License-Identifier: MIT
"""Planted faults: which share of small changes to the product the default tests of the changed part notice.

    pip install universalmutator
    python -m tests.bench.power FOLDER [--faults N] [--seed N]   # plants them in the checkout: use a built copy
    python -m tests.bench.power.executing MAP && python -m tests.bench.power FOLDER --map MAP   # Python only
    python -m tests.bench.power.blocks MAP.npz && python -m tests.bench.power FOLDER --map MAP.npz   # C only

With a map of Python the checkout keeps its files: only the tests see the fault, so several are judged at a time.

Plans N faults in C and N in Python (100; FOLDER/planned.jsonl), then, with one fault at a time, runs the tests of its
part until one fails (FOLDER/judged.jsonl; the same command continues), and prints the shares. With a map, the tests
that execute the faulty line: others can't notice it. The shares are lower bounds: other parts' tests do not judge. Of
what fails, the test is run once more without the fault, and with a map of Python with it; one that fails in the first
or passes in the second is left out from there on.
"""

import argparse
import ctypes
import functools
import importlib
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from scipy.stats import binomtest

from .faults import MARKS, REPOSITORY, RULES, plan, planted

SPARE_KB = 2 << 20  # a fault that takes all memory but this is undecided
# As `make test`, but file by file in the order in which they are named.
AT_A_TIME = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
NEW_PIDS, NEW_MOUNTS = 0x20000000, 0x20000  # flags of unshare(2)
PRIVATE, BIND = 0x4000 | 0x40000, 0x1000  # flags of mount(2): MS_REC | MS_PRIVATE, MS_BIND


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class FirstFailure:
    """A plugin that writes the name of the first test that fails."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.path.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.path.write_text(report.nodeid or "an import")


def available_kb() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def contained(function: Callable[[], int], log: Path, limit_s: float, instead: dict[Path, Path]) -> int | None:
    """The function's status, from a fork that sees only its own PIDs: a faulty kill reaches nothing else. `instead`:
    files, and what it sees in their place. None at the limits.
    """
    libc = ctypes.CDLL(None)
    outside = os.fork()
    if outside == 0:
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with its parent
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
            os.dup2(file, stream)
        if libc.unshare(NEW_PIDS | NEW_MOUNTS) != 0:
            os._exit(os.EX_OSERR)
        inside = os.fork()
        if inside != 0:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inside, 0)[1]) & 255)
        libc.prctl(1, signal.SIGKILL)  # and all others inside with it
        os.setsid()
        multiprocessing.current_process().daemon = False  # tests start processes, too
        libc.mount(b"none", b"/", None, PRIVATE, None)
        libc.mount(b"proc", b"/proc", b"proc", 0, None)
        for path, seen in instead.items():
            if libc.mount(bytes(seen), bytes(path), None, BIND, None) != 0:
                os._exit(os.EX_OSERR)
        status: int = os.EX_SOFTWARE
        try:
            status = function()
        finally:
            sys.stdout.flush()
            os._exit(status)
    ends = time.monotonic() + limit_s
    while True:
        done, wait_status = os.waitpid(outside, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(wait_status)
        if time.monotonic() > ends or available_kb() < SPARE_KB:
            os.kill(outside, signal.SIGKILL)
            os.waitpid(outside, 0)
            return None
        time.sleep(0.1)


def tests_of(file: Path) -> list[str]:
    """Of the part that the file belongs to."""
    part, folders = file.parts[0], ["tests/recording"] if file.parts[0] == "capture" else []
    if part == "analysis":
        of_folder = Path("analysis/test", file.parts[2])
        if file.parts[2] == "features" and len(file.parts) > 4:
            of_folder = Path(*file.parts[:4], "test")
        docstrings = "analysis/test/commands/test_python_interface.py"
        return nearest_first([str(of_folder), docstrings] if of_folder.is_dir() else [str(of_folder.parent)], file)
    if part == "core":  # what starts programs; what Python reads with; what reads and writes files
        near = {"system": "replay/test/passes", "reader": "analysis/test/tape"}
        folders = [near.get(file.parts[1], "convert/test")]
    own = [part] if (REPOSITORY / part / "test").is_dir() or part == "core" else []
    return ["tests/test_c_programs.py", *own, *folders, "-k", f"not test_program or {part}/"]  # the fast ones first


def nearest_first(tests: list[str], file: Path) -> list[str]:
    """The same tests and those of the part that import the faulty module, file by file, which come first."""
    package = re.escape(".".join(file.parent.parts[1:]))
    naming = re.compile(rf"\b{package}(\.{file.stem}\b| import .*\b{file.stem}\b)")
    first = [str(one) for one in sorted(Path("analysis").rglob("test_*.py")) if naming.search(one.read_text())]
    rest = [str(one) for name in tests for one in (sorted(Path(name).rglob("test_*.py")) or [Path(name)])]
    return list(dict.fromkeys([*first, *rest]))


def verdict(tests: list[str], limit_s: float, fault: dict | None = None) -> tuple[str, str]:
    """(verdict, the test that noticed), in the tree as it is, or with a fault that only they see."""
    with tempfile.TemporaryDirectory(prefix="fault.", ignore_cleanup_errors=True) as scratch:
        failed, instead = Path(scratch) / "failed", {}
        if fault:
            path = REPOSITORY / fault["file"]
            instead[path] = Path(scratch) / path.name
            instead[path].write_text(planted(path.read_text(), fault))

        def run() -> int:
            os.environ["TMPDIR"] = tempfile.tempdir = scratch
            # Of a fault in Python, too: the one before may have been in C.
            build = ["make", "-s", "-j2", "everything", "programs"]
            if not fault and subprocess.run(build, check=False).returncode != 0:
                failed.write_text("the build")
                return 1
            several = len(tests) > 1 and "::" not in tests[0] and not fault
            options = ["-x", "-q", "-p", "no:cacheprovider", "-m", MARKS, *(AT_A_TIME if several else [])]
            return pytest.main([*options, *tests], [FirstFailure(failed)])

        status = contained(run, REPOSITORY / "out/fault.log", limit_s, instead)
        if failed.exists() and status is not None:
            return "caught", failed.read_text()
    if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return "not caught", ""
    if status is None:
        return "undecided", ""
    if status == pytest.ExitCode.USAGE_ERROR:  # a conftest.py that can't be imported; or a test that is not there
        return "caught", NONE_STARTS
    return "caught", "a crash"  # or another program in pytest's place


NONE_STARTS = "no test starts"
UNFIT: list[str] = []  # tests that fail without a fault
FIT: set[str] = set()  # tests that noticed one, and pass without
USED = ("hypothesis", "matplotlib.figure", "pandas", "pyarrow", "rich.console", "scipy.stats")  # by most tests


def judge(asked: tuple[dict, list[list[str]], bool], limit_s: float) -> dict:
    """A fault with its verdict, by rounds of tests. It is planted in the checkout, or only seen by the tests."""
    fault, rounds, seen_only = asked
    path = REPOSITORY / fault["file"]
    text = path.read_text()
    began = time.monotonic()
    if not seen_only:
        path.write_text(planted(text, fault))
    found, by = "not caught", ""
    try:
        for tests in filter(None, rounds):
            if found == "not caught":
                left_s = limit_s - (time.monotonic() - began)
                tests = [*tests, *(f"--deselect={test}" for test in UNFIT)]
                found, by = verdict(tests, left_s, fault if seen_only else None)
    finally:
        if not seen_only:
            path.write_text(text)
    if by == NONE_STARTS and verdict(tests, limit_s)[1] == by:
        found, by = "undecided", ""
    if "::" in by and by not in FIT:
        with_it = verdict([by], limit_s, fault)[0] if seen_only else "caught"
        if verdict([by], limit_s)[0] != "not caught" or with_it == "not caught":
            UNFIT.append(by)
            return judge(asked, limit_s)
        FIT.add(by)
    return {**fault, "verdict": found, "by": by, "seconds": round(time.monotonic() - began)}


def table(judged: list[dict]) -> None:
    print("| | faults | caught | not caught | undecided | share caught, 95 % |")
    print("|---|---|---|---|---|---|")
    for language in ("c", "py"):
        counts = Counter(row["verdict"] for row in judged if row["file"].endswith(f".{language}"))
        decided = counts.total() - counts["undecided"]
        if decided:
            interval = binomtest(counts["caught"], decided).proportion_ci()
            share = f"{counts['caught'] / decided:.0%} ({interval.low:.0%} to {interval.high:.0%})"
            numbers = (counts[kind] for kind in ("caught", "not caught", "undecided"))
            print(f"| {language} | {counts.total()} | {' | '.join(map(str, numbers))} | {share} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--faults", type=int, default=100, help="in each language")
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--map", type=Path, help="which tests execute a line (executing.py, blocks.py)")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a fault; then it is undecided")
    parser.add_argument("--at-a-time", type=int, default=1, help="faults that are judged; with a map of Python")
    given = parser.parse_args()
    executing = None
    if given.map:
        kind = "blocks" if given.map.suffix == ".npz" else "executing"  # of coverage.py; not a dependency of tests
        executing = importlib.import_module(f".{kind}", __package__).Map(given.map.resolve())
        for name in USED:  # not in the fork of each fault
            importlib.import_module(name)
    folder = given.folder.resolve()
    folder.mkdir(exist_ok=True)
    planned, judged = (folder / f"{name}.jsonl" for name in ("planned", "judged"))
    os.chdir(REPOSITORY)
    os.environ |= {"HEAPTAPE_EXAMPLES": "few", "HEAPTAPE_OUT": str(REPOSITORY / "out"), "OPENBLAS_NUM_THREADS": "1"}
    if not planned.exists():
        faults = [
            fault
            for language in ([executing.language] if executing else RULES)
            for fault in plan(language, given.faults, given.seed)
        ]
        random.Random(given.seed).shuffle(faults)  # any first part of them is a sample
        planned.write_text("".join(json.dumps(fault) + "\n" for fault in faults))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; the planted fault is taken out"))
    known = [{key: row[key] for key in ("file", "line", "before", "after")} for row in rows(judged)]
    seen_only = executing is not None and executing.language == "python"
    asked = [
        (fault, (executing and executing.rounds(file, fault["line"])) or [tests_of(file)], seen_only)
        for fault in rows(planned)
        if fault not in known
        for file in [Path(fault["file"])]
    ]
    with multiprocessing.get_context("fork").Pool(given.at_a_time if seen_only else 1) as pool:
        for row in pool.imap_unordered(functools.partial(judge, limit_s=given.limit), asked):
            with judged.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(f"{row['verdict']:12} {row['seconds']:4} s  {row['file']}:{row['line']}  {row['by']}", flush=True)
    table(rows(judged))
    return 0


if __name__ == "__main__":
    sys.exit(main())
