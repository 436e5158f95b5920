# SPDX-License-Identifier: MIT
"""Which default tests execute a line of the product's C; of which share of its lines with code none does.

    python -m tests.bench.power.blocks FILE   # builds into out/blocks, writes the map; as root

Each file of tests has an interpreter and a mount namespace of its own, in which /tmp/blocks holds a file per program
and library; there each basic block that runs leaves a mark (blocks.h), whatever becomes of its process.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from .faults import REPOSITORY, product_files, run_file

FOLDER = Path("/tmp/blocks")
TESTS = ["tests/test_c_programs.py", "tests/recording", "analysis/test/tape"]
TESTS += ["core", "convert", "replay", "capture", "allocators", "place", "observe"]
FIRST_S = 60.0  # of tests that are run before whole files of them
OUT = REPOSITORY / "out/blocks"


def programs() -> dict[str, Path]:
    """By the names that blocks.h gives them."""
    found = {}
    for path in sorted(OUT.rglob("*")):
        if path.suffix in ("", ".so") and path.is_file() and not path.is_symlink():
            head = path.open("rb").read(64)
            if head[:4] == b"\x7fELF":
                name = 0xCBF29CE484222325
                for byte in path.open("rb").read(64 + 56 * int.from_bytes(head[56:58], "little")):
                    name = (name ^ byte) * 0x100000001B3 & (1 << 64) - 1
                found[f"{name:016x}"] = path
    return found


class Marks:
    """A plugin that writes which blocks each test executed, and in what time."""

    def __init__(self) -> None:
        self.began = 0.0

    def taken(self) -> dict[str, list[int]]:
        """The places of this folder's marks, which are gone then."""
        found = {}
        for path in FOLDER.iterdir():
            with path.open("r+b") as file:
                if file.read(1) == b"\1":
                    file.seek(0)
                    found[path.name] = np.flatnonzero(np.frombuffer(file.read(), np.uint8)).tolist()
                    file.seek(0)
                    file.write(bytes(path.stat().st_size))
        return found

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.taken()
        self.began = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        with Path(os.environ["BLOCKS"]).open("a") as out:
            out.write(json.dumps([nodeid, time.monotonic() - self.began, self.taken()]) + "\n")


def pytest_configure(config: object) -> None:
    config.pluginmanager.register(Marks())  # type: ignore[attr-defined]


def lines_of(program: Path) -> dict[int, set[str]]:
    """The product's lines, file:line, of each block."""
    command = ["objdump", "-d", "-l", "--no-show-raw-insn", str(program)]
    lines, line, block, called = defaultdict(set), "", 0, False
    for text in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if text.startswith("/"):
            path, _, number = text.partition(" ")[0].rpartition(":")
            line = f"{os.path.relpath(path, REPOSITORY)}:{number}"
        elif text.startswith(" "):
            if called:
                block = int(text.partition(":")[0], 16)
            called = "<__sanitizer_cov_trace_pc>" in text
            if block and not called:
                lines[block].add(line)
        elif text.endswith(">:"):
            block = 0
    return lines


class Map:
    """Read from the file that this module writes."""

    language = "c"

    def __init__(self, path: Path) -> None:
        held = np.load(path)
        self.tests, self.seconds = held["tests"].tolist(), held["seconds"].tolist()
        self.lines = {line: number for number, line in enumerate(held["lines"].tolist())}
        self.bits = np.unpackbits(held["bits"], axis=1, count=len(self.tests)).astype(bool)

    def rounds(self, file: Path, line: int) -> list[list[str]]:
        """Those that execute the line: the fastest of each file of tests and so on, then whole files, as tests of a
        file share what one of them computed. The part's own first. Of a line without code of its own, all that execute
        any line of the file; none: of the file nothing is known.
        """
        of_file = [number for name, number in self.lines.items() if name.rpartition(":")[0] == str(file)]
        if not self.bits[of_file].any():
            return []
        number = self.lines.get(f"{file}:{line}")
        executing = np.flatnonzero(self.bits[of_file if number is None else [number]].any(axis=0)).tolist()
        own = (f"{file.parts[0]}/", f"{TESTS[0]}::test_program[{file.parts[0]}/")
        ranks: Counter[str] = Counter()
        ranked = []
        whole: defaultdict[str, float] = defaultdict(float)
        for test in sorted(executing, key=lambda test: self.seconds[test]):
            name = self.tests[test].partition("::")[0]
            ranks[name] += name != TESTS[0]
            ranked.append((ranks[name], not self.tests[test].startswith(own), self.seconds[test], self.tests[test]))
        for test, seconds in zip(self.tests, self.seconds):
            whole[test.partition("::")[0]] += seconds
        first, spent = [], 0.0
        for _, _, seconds, test in sorted(ranked):
            if spent + seconds < FIRST_S:
                first.append(test)
                spent += seconds
        files = sorted(ranks.keys() - {TESTS[0]}, key=lambda name: (not name.startswith(own), whole[name]))
        programs = [test for *_, test in ranked if test.startswith(TESTS[0]) and test not in first]
        return [first, [*files, *programs]]


def write(path: Path) -> None:
    command = ["make", "-s", "-j2", f"OUT={OUT}", "OPT=-O1 -g1", "everything", "c-programs"]
    flags = f"CFLAGS=-include {Path(__file__).with_name('blocks.h')} -fsanitize-coverage=trace-pc"
    subprocess.run([*command, flags], cwd=REPOSITORY, check=True)
    names = [str(one) for test in TESTS for one in (sorted(Path(test).rglob("test_*.py")) or [Path(test)])]
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="blocks.") as scratch:
        known = programs()

        def run(name: str) -> None:
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                Path(folder).chmod(0o777)
                for program, file in known.items():
                    (Path(folder) / program).write_bytes(bytes(file.stat().st_size))
                    (Path(folder) / program).chmod(0o666)
                environment = {"BLOCKS": f"{scratch}/blocks.jsonl", "HEAPTAPE_OUT": str(OUT)}
                inside = f'mount --bind "{folder}" {FOLDER} && exec "$@"'
                run_file(name, __spec__.name, environment, "unshare", "-m", "sh", "-c", inside, "sh")

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(run, names))
        rows = [json.loads(line) for line in Path(scratch, "blocks.jsonl").read_text().splitlines()]
        with ThreadPoolExecutor(2) as pool:
            lines = dict(zip(known, pool.map(lines_of, known.values())))
    every = sorted({line for blocks in lines.values() for of_block in blocks.values() for line in of_block})
    number = {line: at for at, line in enumerate(every)}
    bits = np.zeros((len(every), len(rows)), bool)
    for test, (_, _, marks) in enumerate(rows):
        for program, places in marks.items():
            executed = {number[line] for place in places for line in lines[program].get(place, ())}
            bits[list(executed), test] = True
    product = {str(one) for one in product_files("c")}
    parts: defaultdict[str, list[bool]] = defaultdict(list)
    for line, executed in zip(every, np.asarray(bits.any(axis=1)).tolist()):
        if line.rpartition(":")[0] in product:
            parts[line.partition("/")[0]].append(executed)
    for part, lines_of_part in parts.items():
        print(f"{part}: no test executes {1 - np.mean(lines_of_part):.1%} of {len(lines_of_part):,} lines with code")
    tests, seconds, _ = zip(*rows)
    with path.open("wb") as out:
        np.savez_compressed(out, tests=tests, seconds=seconds, lines=every, bits=np.packbits(bits, axis=1))


if __name__ == "__main__":
    os.environ |= {"HEAPTAPE_EXAMPLES": "few", "OPENBLAS_NUM_THREADS": "1"}
    os.chdir(REPOSITORY)
    write(Path(sys.argv[1]).resolve())
