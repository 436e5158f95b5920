# SPDX-License-Identifier: MIT
"""`make suites`: test suites and start-ups of real programs, bare and recorded, on our own allocators (`--on`), or with
what a feature does to programs (`test/suite.py` of its folder); the verdicts must be the same.

Each suite is a part that runs in a few minutes, named here before it was first run. Needs Debian packages that
`tools/setup` does not install (see NEEDS), and for redis and sqlite3 the package sources, which it fetches into
out/suites. Every trace of a recorded run is checked. Prints one line per suite; exit 1 if any differs.

    python -m tests.suites [--on ALLOCATOR]... [programs] [cpython] [redis] [sqlite3] [libreoffice] [chromium]
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from heaptape import features

from tests.support import CONVERT, OUT, RECORD, REPOSITORY

FOLDER = OUT / "suites"
TIMEOUT_S = 1800
NEEDS = {
    "programs": "nothing",
    "cpython": "libpython3.11-testsuite",
    "redis": "redis-server redis-tools tcl, and the source package redis",
    "sqlite3": "tcl-dev, and the source package sqlite3",
    "libreoffice": "libreoffice-writer-nogui",
    "chromium": "chromium",
}
CPYTHON = [
    "test_list", "test_dict", "test_set", "test_bytes", "test_unicode", "test_array", "test_json", "test_threading",
    "test_thread", "test_subprocess", "test_signal", "test_fork1", "test_mmap", "test_gc", "test_zlib", "test_pickle",
    "test_io", "test_concurrent_futures",
]  # fmt: skip
REDIS = [
    "unit/type/string", "unit/type/list", "unit/type/set", "unit/type/zset", "unit/type/hash", "unit/expire",
    "unit/scan", "unit/multi", "unit/pubsub", "unit/dump",
]  # fmt: skip
SQLITE = [
    "select1", "select4", "insert", "index", "join", "where", "func", "trigger1", "wal", "thread001", "fts3aa",
    "rtree", "malloc", "alter", "vacuum", "expr",
]  # fmt: skip


@dataclass
class Outcome:
    """Outcome of one run: exit status, the lines that are its verdict, how long it took."""

    status: int
    verdict: list[str]
    seconds: float


Runner = Callable[[list[str | Path]], Outcome]


class UnavailableError(Exception):
    """Something that a suite needs is missing."""


def outcome(command: list[str | Path], pattern: str, cwd: Path, env: dict[str, str] | None = None) -> Outcome:
    """Runs a command; the verdict is all matches of the pattern in its output."""
    begin = time.monotonic()
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
    )
    return Outcome(done.returncode, re.findall(pattern, done.stdout), time.monotonic() - begin)


def source(package: str) -> Path:
    """The unpacked source package, fetched into out/suites if it is not there."""
    found = sorted(FOLDER.glob(f"{package}-*/"))
    if found:
        return found[0]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (FOLDER / "sources.list").write_text(f"deb-src [signed-by={key}] http://deb.debian.org/debian bookworm main\n")
    options = ["-o", f"Dir::Etc::SourceList={FOLDER}/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null"]
    options += ["-o", f"Dir::State::Lists={FOLDER}/lists"]
    for words in (["update"], ["source", "--download-only", package]):
        done = subprocess.run(["apt-get", *options, *words], cwd=FOLDER, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise UnavailableError(done.stderr.splitlines()[-1] if done.stderr else "apt-get failed")
    archive = next(path for path in sorted(FOLDER.glob(f"{package}_*.orig.tar.*")))
    subprocess.run(["tar", "xf", archive], cwd=FOLDER, check=True)
    return sorted(FOLDER.glob(f"{package}-*/"))[0]


def programs() -> Runner:
    """Real programs with some small work each (real_programs.py)."""
    command: list[str | Path] = [sys.executable, "-m", "tests.real_programs"]
    return lambda before: outcome([*before, *command], r"(?m)^\d+ programs|^[\w+-]+: exit .+$", REPOSITORY)


def cpython() -> Runner:
    """CPython's own tests on the C library's malloc."""
    python = "/usr/bin/python3"
    if not Path("/usr/lib/python3.11/test/test_list.py").exists():
        raise UnavailableError("no test modules")
    FOLDER.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [python, "-m", "test", *CPYTHON]
    pattern = r"(?m)^(?:All \d+ tests OK|\d+ tests? failed).*$"
    return lambda before: outcome([*before, *command], pattern, FOLDER, {"PYTHONMALLOC": "malloc"})


def redis() -> Runner:
    """redis's own tests on Debian's server."""
    folder = source("redis")
    for name in ("server", "cli", "benchmark", "check-aof", "check-rdb"):
        path = shutil.which(f"redis-{name}")
        link = folder / "src" / f"redis-{name}"
        if not path:
            raise UnavailableError(f"no redis-{name}")
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    command: list[str | Path] = ["./runtest", "--clients", "2"]
    for unit in REDIS:
        command += ["--single", unit]
    colour = r"(?:\x1b\[[0-9;]*m)?"
    pattern = rf"All tests passed without errors|\[{colour}err{colour}\]: .*"
    return lambda before: outcome([*before, *command], pattern, folder)


def sqlite3() -> Runner:
    """sqlite3's own tests; testfixture is built once."""
    folder = source("sqlite3")
    if not (folder / "testfixture").exists():
        for command in (["./configure"], ["make", "testfixture", "OPTS=-O1"]):
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=TIMEOUT_S)
            if done.returncode != 0:
                raise UnavailableError("testfixture can't be built")
    script = "for t in " + " ".join(SQLITE) + "; do ./testfixture test/$t.test || exit 1; done"
    pattern = r"(?m)^\d+ errors out of \d+ tests|^! .*"
    return lambda before: outcome([*before, "sh", "-c", script], pattern, folder)


def libreoffice() -> Runner:
    """Start-up, and one conversion."""
    if not shutil.which("soffice"):
        raise UnavailableError("no soffice")
    folder = FOLDER / "libreoffice"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "in.txt").write_text("\n".join(map(str, range(300))))
    command: list[str | Path] = ["soffice", "--headless", "--convert-to", "pdf", "in.txt"]

    def go(before: list[str | Path]) -> Outcome:
        shutil.rmtree(folder / ".config", ignore_errors=True)
        (folder / "in.pdf").unlink(missing_ok=True)
        done = outcome([*before, *command], "using filter.*", folder, {"HOME": str(folder)})
        # Without its date and the hashes that depend on it.
        pdf = re.sub(rb"D:[0-9]{14}|[0-9A-F]{32}", b"", (folder / "in.pdf").read_bytes())
        done.verdict.append(f"{len(pdf)} bytes of PDF, {hashlib.sha256(pdf).hexdigest()[:16]}")
        return done

    return go


def chromium() -> Runner:
    """Start-up, and one page. Chromium defines malloc itself: only its helpers' calls are recorded."""
    if not shutil.which("chromium"):
        raise UnavailableError("no chromium")
    folder = FOLDER / "chromium"
    folder.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--screenshot=page.png"]
    command.append("data:text/html,<h1>page</h1>")
    return lambda before: outcome([*before, *command], r"\d+ bytes written to file", folder, {"HOME": str(folder)})


SUITES = {
    "programs": programs,
    "cpython": cpython,
    "redis": redis,
    "sqlite3": sqlite3,
    "libreoffice": libreoffice,
    "chromium": chromium,
}


def checked(folder: Path) -> tuple[int, int, int, list[str]]:
    """Traces of a folder: their number, events, dropped events, and the names of those without a legal history."""

    count = events = dropped = 0
    wrong = []
    for path in sorted(folder.glob("*.tape")):
        done = subprocess.run([CONVERT, "check", path, "--json"], capture_output=True, text=True, timeout=TIMEOUT_S)
        count += 1
        if done.returncode != 0:
            wrong.append(path.name)
        if done.stdout:
            proof = json.loads(done.stdout)
            events += proof["events"]
            dropped += proof["dropped"]
    return count, events, dropped, wrong


def is_same(name: str, how: str, bare: Outcome, other: Outcome, found: str = "") -> bool:
    """Prints a line for a run beside the bare one, and the differences."""
    same = bare.status == other.status and bare.verdict == other.verdict
    print(
        f"{name} {how}: {'same verdict' if same else 'DIFFERENT'}: {'; '.join(other.verdict[:3])}; "
        f"{bare.seconds:.0f} s bare, {other.seconds:.0f} s {how}{found}",
        flush=True,
    )
    if not same:
        for kind, run, not_in in (("bare", bare, other), (how, other, bare)):
            print(f"  {kind}: exit {run.status}", *(line for line in run.verdict if line not in not_in.verdict))
    return same


def is_same_recorded(name: str, bare: Outcome, run: Runner) -> bool:
    """Runs a suite recorded. True: the verdict is that of the bare run, and all traces are legal."""
    traces = FOLDER / f"{name}-traces"
    shutil.rmtree(traces, ignore_errors=True)
    traces.mkdir(parents=True)
    recorded = run([RECORD, "--all-processes", "-o", traces / f"{name}.tape", "--"])
    count, events, dropped, wrong = checked(traces)
    found = f"; {count} traces, {events:,} events, {dropped:,} dropped, {len(wrong)} not legal"
    same = is_same(name, "recorded", bare, recorded, found)
    for line in wrong:
        print(f"  {line}")
    shutil.rmtree(traces)
    return same and not wrong


def is_same_on(name: str, allocator: str, bare: Outcome, run: Runner) -> bool:
    """Runs a suite on one of our allocators. True: the verdict is that of the bare run."""
    return is_same(name, f"on {allocator}", bare, run(["env", f"LD_PRELOAD={OUT}/lib/lib{allocator}.so"]))


def compare(name: str, allocators: list[str], way: str) -> bool:
    """Runs one suite bare, and on each of the allocators, in a feature's way, or recorded. True: all were as bare."""
    try:
        run = SUITES[name]()
    except UnavailableError as reason:
        print(f"{name}: not available ({reason}); needs {NEEDS[name]}")
        return True
    bare = run([])
    if way:
        same: bool = import_module(f"heaptape.features.{way}.test.suite").is_same(name, bare, run)
        return same
    if not allocators:
        return is_same_recorded(name, bare, run)
    same = [is_same_on(name, allocator, bare, run) for allocator in allocators]
    return all(same)


def main() -> int:
    """Runs and prints; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", action="append", metavar="ALLOCATOR", default=[], help="ours: instead of recording")
    for way in features.having("test/suite"):
        words = f"with heaptape {way}: instead of recording"
        parser.add_argument(f"--{way}", dest="way", action="store_const", const=way, default="", help=words)
    parser.add_argument("suites", nargs="*", choices=SUITES, metavar="SUITE", help="default: all")
    arguments = parser.parse_args()
    results = [compare(name, arguments.on, getattr(arguments, "way", "")) for name in arguments.suites or SUITES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
