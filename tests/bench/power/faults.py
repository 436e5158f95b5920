# SPDX-License-Identifier: MIT
"""Planted faults: which share of small changes to the product the tests notice.

    python -m tests.bench.power.faults plan -l c -n 100 FAULTS.jsonl    # a seeded sample
    python -m tests.bench.power.faults run FAULTS.jsonl VERDICTS.jsonl  # in this built checkout; resumes
    python -m tests.bench.power.faults table VERDICTS.jsonl...

Faults are those of universalmutator (`pip install universalmutator`; Groce et al., ICSE 2018), on lines drawn evenly
from all product files. A fault that does not compile, or to the same object code (the same bytecode, in Python), is
not one. Headers are left out. Near tests, those of the fault's own part, run first, then the default run (`--whole`:
the long tests, too), each until the first failure, in a PID namespace, so that a faulty `kill` reaches nothing else.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]

RULES = {"c": ["universal.rules", "c_like.rules", "c.rules"], "python": ["universal.rules", "python.rules"]}
NOT_PRODUCT = ("test", "tests", "fuzz", "bench", "packaging", "tools")
COMPILE = "gcc -std=gnu11 -D_GNU_SOURCE -I. -O2 -w -S -o - -x c -"
LIMIT_S = 1800  # of one fault's run: a fault that makes tests hang is noticed by then
SPARE_KB = 4 << 20  # a fault that takes all memory but this is ended, and noticed


def product_files(language: str) -> list[Path]:
    suffix = {"c": ".c", "python": ".py"}[language]
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    paths = [Path(line) for line in listed.splitlines() if line.endswith(suffix)]
    paths = [path for path in paths if not set(path.parts[:-1]) & set(NOT_PRODUCT) and path.name != "conftest.py"]
    skip = ("observe", "workloads")  # built by Valgrind's rules, or programs that are measured
    return [path for path in paths if language == "python" or path.parts[0] not in skip]


def meaning(path: Path, text: str) -> bytes | None:
    """What the compiler makes of it; None where it refuses."""
    if path.suffix == ".c":
        done = subprocess.run(
            [*shlex.split(COMPILE), f"-I{path.parent}"],
            input=text.encode(),
            cwd=REPOSITORY,
            capture_output=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else None
    try:
        return repr(bytecode(compile(text, str(path), "exec", optimize=2))).encode()  # 2: without docstrings
    except (SyntaxError, ValueError):
        return None


def bytecode(code: types.CodeType) -> tuple:
    """The code without its line numbers."""
    inner = [bytecode(value) if isinstance(value, types.CodeType) else value for value in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_exceptiontable, inner


def mutants(line: str, language: str) -> list[str]:
    from universalmutator import mutator  # only to plan; not a dependency of tests

    with contextlib.redirect_stdout(io.StringIO()):
        return [found[1] for found in mutator.mutants_regexp([line], ruleFiles=RULES[language], ignorePatterns=[])]


def plan(language: str, number: int, seed: int) -> Iterator[dict]:
    rng = random.Random(f"{seed} {language}")
    texts = {path: (REPOSITORY / path).read_text() for path in product_files(language)}
    places = [(path, line) for path, text in texts.items() for line in range(1, text.count("\n") + 1)]
    while number:
        path, line = rng.choice(places)
        lines = texts[path].splitlines(True)
        choices = mutants(lines[line - 1], language)
        if not choices or lines[line - 1].strip().startswith(("//", "#", "*")):
            continue
        after = rng.choice(choices)
        changed = "".join([*lines[: line - 1], after, *lines[line:]])
        was, now = meaning(path, texts[path]), meaning(path, changed)
        if was is None or now is None or was == now:
            continue
        number -= 1
        yield {"file": str(path), "line": line, "before": lines[line - 1], "after": after}


def near_tests(path: Path) -> list[str]:
    """The tests of the fault's own part."""
    if path.parts[0] == "analysis":
        package = path.parts[2] if len(path.parts) > 3 else ""
        folder = Path("analysis/test") / package
        return [str(folder)] if (REPOSITORY / folder).is_dir() else ["analysis/test"]
    return [f"{path.parts[0]}/test", "tests/test_c_programs.py"]


def available_kb() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def contained(command: str, folder: Path, limit_s: float) -> bool:
    """Whether the shell command succeeds, with PIDs and a folder for temporary files of its own, within the limit."""
    log_path = folder / "out/fault.log"
    with tempfile.TemporaryDirectory(prefix="fault.", dir="/var/tmp") as scratch, log_path.open("ab") as log:
        process = subprocess.Popen(
            ["unshare", "-pf", "--mount-proc", "--kill-child", "bash", "-c", command],
            cwd=folder, env={**os.environ, "TMPDIR": scratch}, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        ends = time.monotonic() + limit_s
        try:
            while process.poll() is None and time.monotonic() < ends and available_kb() > SPARE_KB:
                time.sleep(0.5)
        finally:  # an end by a signal, too
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return process.wait() == 0


def steps(folder: Path, near: list[str], whole: bool) -> list[tuple[str, str]]:
    """(name, shell command) of what may notice a fault, in their order."""
    pytest = f"HEAPTAPE_EXAMPLES=few HEAPTAPE_OUT={folder}/out .venv/bin/python -m pytest -x -q -n 2 --dist worksteal"
    marks = '-m "not packages and not aarch64 and not long"'
    listed = [
        ("build", "make -s programs 2>&1"),
        *([("near", f"{pytest} {marks} {' '.join(near)}")] if near else []),
        ("default", f"{pytest} {marks}"),
    ]
    if whole:
        listed.append(("whole", f'make -s long-programs && {pytest} -m "not packages and not aarch64"'))
    return listed


def first_failure(folder: Path, near: list[str], whole: bool) -> str:
    """The name of the first step that fails, or nobody."""
    listed = steps(folder, near, whole)
    return next((name for name, command in listed if not contained(command, folder, LIMIT_S)), "nobody")


def verdict(fault: dict, folder: Path, whole: bool) -> str:
    """Which step noticed the fault: build, near, default or whole; or nobody."""
    path = folder / fault["file"]
    text = path.read_text()
    lines = text.splitlines(True)
    assert lines[fault["line"] - 1] == fault["before"], f"{path}: not the tree that the faults were planned for"
    path.write_text("".join([*lines[: fault["line"] - 1], fault["after"], *lines[fault["line"] :]]))
    try:
        return first_failure(folder, near_tests(Path(fault["file"])), whole)
    finally:
        path.write_text(text)


def run(faults: Path, into: Path, folder: Path, whole: bool, at_most: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended: the fault that was planted is taken out"))
    failing = first_failure(folder, [], whole)
    if failing != "nobody":
        sys.exit(
            f"without a fault the step {failing} fails, too: no verdict would mean anything ({folder}/out/fault.log)"
        )
    judged = [json.loads(line) for line in into.read_text().splitlines()] if into.exists() else []
    for fault in [json.loads(line) for line in faults.read_text().splitlines()][len(judged) : at_most]:
        began = time.monotonic()
        fault["noticed_by"] = verdict(fault, folder, whole)
        fault["seconds"] = round(time.monotonic() - began)
        with into.open("a") as file:
            file.write(json.dumps(fault) + "\n")
        print(f"{fault['noticed_by']:8} {fault['seconds']:5} s  {fault['file']}:{fault['line']}", flush=True)


def table(paths: list[Path]) -> None:
    print("| verdicts | faults | near | default | whole | nobody | noticed |\n|---|---|---|---|---|---|---|")
    for path in paths:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        by = {
            name: sum(row["noticed_by"] == name for row in rows)
            for name in ("build", "near", "default", "whole", "nobody")
        }
        noticed = 100 * (len(rows) - by["nobody"]) / max(1, len(rows))
        counts = f"{by['near'] + by['build']} | {by['default']} | {by['whole']} | {by['nobody']}"
        print(f"| {path.name} | {len(rows)} | {counts} | {noticed:.0f} % |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    planned = kinds.add_parser("plan")
    planned.add_argument("-l", "--language", choices=sorted(RULES), required=True)
    planned.add_argument("-n", "--number", type=int, default=100)
    planned.add_argument("--seed", type=int, default=41)
    planned.add_argument("faults", type=Path)
    ran = kinds.add_parser("run")
    ran.add_argument("faults", type=Path)
    ran.add_argument("verdicts", type=Path)
    ran.add_argument(
        "--folder", type=Path, default=REPOSITORY, help="a built copy of the checkout; faults are planted there"
    )
    ran.add_argument("--whole", action="store_true")
    ran.add_argument("--at-most", type=int, default=1 << 30, help="end with this one of the faults")
    tabled = kinds.add_parser("table")
    tabled.add_argument("verdicts", type=Path, nargs="+")
    given = parser.parse_args()
    if given.kind == "plan":
        given.faults.write_text(
            "".join(json.dumps(fault) + "\n" for fault in plan(given.language, given.number, given.seed))
        )
    elif given.kind == "run":
        run(given.faults, given.verdicts, given.folder.resolve(), given.whole, given.at_most)
    else:
        table(given.verdicts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
