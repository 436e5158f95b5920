# SPDX-License-Identifier: MIT
"""Planted faults: which share of small changes to the product the default tests notice.

    pip install coverage universalmutator
    python -m tests.bench.power FOLDER plan reach judge    # in a built copy of the checkout: faults are planted there

The stages continue from FOLDER's files. plan: 100 faults in C and 100 in Python. reach: one run of the default tests
shows which of them execute each fault's line. judge: with one fault at a time, runs those tests until one fails: its
own part's first, then the shortest, as many as took a minute; resumes; prints the shares. capture/host/ is judged by
the tests of capture/ and recordings. So a share is a lower bound: tests that execute no line of a fault do not judge.
"""

import argparse
import ctypes
import importlib
import json
import os
import random
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

from .faults import REPOSITORY, plan, planted
from .reach import prepare, selections

SEED = 41
MOST_S = 60.0
LIMIT_S = 600.0  # of one fault; then it is undecided
SPARE_KB = 2 << 20  # likewise for a fault that takes all memory but this
MARKS = "not long and not packages and not aarch64"
NEW_PIDS, NEW_MOUNTS = 0x20000000, 0x20000  # flags of unshare(2)
PRIVATE = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
LARGE = ("hypothesis", "pandas", "scipy.stats", "matplotlib.pyplot", "pyarrow", "jsonschema", "jinja2", "rich")


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


def contained(function: Callable[[], int], log: Path) -> int | None:
    """The function's status, from a process that sees only its own PIDs: a faulty kill reaches nothing else. None at
    the limits. A fork: this process has imported what tests import.
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
        libc.mount(b"none", b"/", None, PRIVATE, None)
        libc.mount(b"proc", b"/proc", b"proc", 0, None)
        status: int = os.EX_SOFTWARE
        try:
            status = function()
        finally:
            sys.stdout.flush()
            os._exit(status)
    ends = time.monotonic() + LIMIT_S
    while True:
        done, wait_status = os.waitpid(outside, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(wait_status)
        if time.monotonic() > ends or available_kb() < SPARE_KB:
            os.kill(outside, signal.SIGKILL)
            os.waitpid(outside, 0)
            return None
        time.sleep(0.1)


def build(tests: list[str]) -> bool:
    """Builds what these tests run."""
    files = sorted({test.partition("::")[0] for test in tests} - {"tests/test_c_programs.py"})
    programs = ["out/test/" + test.partition("[")[2][:-1] for test in tests if "test_c_programs.py" in test]
    need = ["tools/tests-need", "out", *files] if files else ["true"]
    listed = subprocess.run(need, capture_output=True, text=True, check=True).stdout.split()
    short = [name for name in listed if "/fuzz-corpus/" not in name and "/sanitize/" not in name]
    return subprocess.run(["make", "-s", "-j2", "everything", *programs, *short], check=False).returncode == 0


def verdict(tests: list[str]) -> tuple[str, str]:
    """(verdict, the test that noticed), in the tree as it is."""
    with tempfile.TemporaryDirectory(prefix="fault.") as scratch:
        failed = Path(scratch) / "failed"

        def run() -> int:
            os.environ["TMPDIR"] = tempfile.tempdir = scratch
            if not build(tests):  # of a fault in Python, too: the one before may have been in C
                failed.write_text("the build")
                return 1
            return pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", MARKS, *tests], [FirstFailure(failed)])

        status = contained(run, REPOSITORY / "out/fault.log")
        if failed.exists() and status is not None:
            return "caught", failed.read_text()
    if status is not None and status > 128:  # by a signal
        return "caught", "a crash"
    return ("not caught" if status == 0 else "undecided"), ""


def judge(fault: dict) -> dict:
    path = REPOSITORY / fault["file"]
    text = path.read_text()
    began = time.monotonic()
    path.write_text(planted(text, fault))
    try:
        found, by = verdict(fault["tests"]) if fault["tests"] else ("not executed", "")
    finally:
        path.write_text(text)
    if "::" in by and verdict([by])[0] != "not caught":
        found = "undecided"  # the test fails without the fault, too
    return {**fault, "verdict": found, "by": by, "seconds": round(time.monotonic() - began)}


def table(judged: list[dict]) -> None:
    print("| | faults | caught | not caught | executed by no test | undecided | share caught, 95 % |")
    print("|---|---|---|---|---|---|---|")
    for language in ("c", "py"):
        counts = Counter(row["verdict"] for row in judged if row["file"].endswith(f".{language}"))
        decided = counts.total() - counts["undecided"]
        if decided:
            interval = binomtest(counts["caught"], decided).proportion_ci()
            share = f"{counts['caught'] / decided:.0%} ({interval.low:.0%} to {interval.high:.0%})"
            numbers = (counts[kind] for kind in ("caught", "not caught", "not executed", "undecided"))
            print(f"| {language} | {counts.total()} | {' | '.join(map(str, numbers))} | {share} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("stages", nargs="+", choices=("plan", "reach", "judge"))
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(exist_ok=True)
    planned, selected, judged = (folder / f"{name}.jsonl" for name in ("planned", "selected", "judged"))
    os.chdir(REPOSITORY)
    os.environ |= {"HEAPTAPE_EXAMPLES": "few", "HEAPTAPE_OUT": str(REPOSITORY / "out"), "OPENBLAS_NUM_THREADS": "1"}
    if "plan" in given.stages:
        faults = [fault for language in ("c", "python") for fault in plan(language, 100, SEED)]
        random.Random(SEED).shuffle(faults)  # any first part of them is a sample
        planned.write_text("".join(json.dumps(fault) + "\n" for fault in faults))
    if "reach" in given.stages:
        os.environ |= {"HEAPTAPE_OUT": str(prepare(folder, rows(planned))), "HEAPTAPE_REACH": str(folder)}
        command = [sys.executable, "-m", "pytest", "-p", "tests.bench.power.reach", "-q", "-n", "2", "-m", MARKS]
        subprocess.run(command, check=False)  # a test that fails because lines are counted did execute some
        found = selections(folder, rows(planned), MOST_S)
        selected.write_text("".join(json.dumps(fault) + "\n" for fault in found))
    if "judge" in given.stages:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; the planted fault is taken out"))
        for name in LARGE:
            importlib.import_module(name)
        for fault in rows(selected)[len(rows(judged)) :]:
            row = judge(fault)
            with judged.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['verdict']:12} {row['seconds']:4} s  {row['file']}:{row['line']}  {row['by']}", flush=True)
        table(rows(judged))
    return 0


if __name__ == "__main__":
    sys.exit(main())
