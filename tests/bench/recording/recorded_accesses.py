# SPDX-License-Identifier: MIT
"""Cost of recording data accesses: time against `valgrind --tool=none` on the same program, and bytes on disk.

    python -m tests.bench.recording.recorded_accesses [--rounds N] [--copies N] [OUT...]

OUT: builds to compare (out). In each round every program runs once under `none` and once recorded by each build, in
turn; a ratio is the mean of the rounds' logarithms, with Student's 95 % interval. `tool` is the processor time of the
recorded program under Valgrind, `recorder` that of the process beside it, both read from /proc every 20 ms. Then each
build records cc1 once, on `--copies` copies of the functions of compiler_input.py (200: about 2 x 10^10 instructions;
0: not at all). PYTHON: the python3 to record.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from heaptape.results.comparing.intervals import LogRatio
from heaptape.tape.trace import open_trace

from tests.bench.recording.compiler_input import c_source

PROGRAMS = Path(__file__).parents[3] / "observe" / "valgrind" / "bench"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TOOL, RECORDER = "heaptape-amd64-linux", "heaptape-record"


@dataclass
class Spent:
    """Seconds of one run: wall time; processor time, by the executable's name."""

    wall_s: float
    cpu_s: dict[str, float]


def programs() -> dict[str, list[str]]:
    python = (
        os.environ.get("PYTHON")
        or subprocess.check_output(["python3", "-c", "import sys; print(sys.executable)"], text=True).strip()
    )
    return {
        "perl": ["perl", str(PROGRAMS / "program.pl")],
        "python3": [python, "-E", "-S", str(PROGRAMS / "program.py")],
        "sqlite3": ["sqlite3", ":memory:", f".read {PROGRAMS / 'program.sql'}"],
    }


def descendants(process: int) -> list[int]:
    found = [process]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:
                continue
    return found


def watch(process: subprocess.Popen, seconds: dict[int, tuple[str, float]]) -> None:
    """Until the process ends, keeps the executable's name and processor seconds of it and its descendants, by pid."""
    while process.poll() is None:
        for pid in descendants(process.pid):
            try:
                name = Path(f"/proc/{pid}/exe").readlink().name
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            seconds[pid] = (name, (int(fields[11]) + int(fields[12])) / TICKS_PER_S)
        time.sleep(0.02)


def run(command: list[str]) -> Spent:
    begin = time.monotonic()
    environment = {**os.environ, "PERL_HASH_SEED": "0", "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    seconds: dict[int, tuple[str, float]] = {}
    watcher = threading.Thread(target=watch, args=(process, seconds))
    watcher.start()
    status = process.wait()
    wall_s = time.monotonic() - begin
    watcher.join()
    if status != 0:
        sys.exit(f"{' '.join(command)} exited with {status}")
    cpu_s: dict[str, float] = {}
    for name, spent in seconds.values():
        cpu_s[name] = cpu_s.get(name, 0) + spent
    return Spent(wall_s, cpu_s)


def ratio(ours: list[float], none: list[float]) -> str:
    logs = np.log(np.array(ours) / np.array(none))
    mean, count = float(logs.mean()), len(logs)
    if count < 2:
        return f"{math.exp(mean):.2f}"
    low, high = LogRatio(mean, float(logs.var(ddof=1)) / count, count - 1, count).interval()
    return f"{math.exp(mean):.2f} ({low:.2f}–{high:.2f})"


def on_disk(tape: Path) -> str:
    """Instructions, share of the accesses that is kept, MB, and MB per 10^9 instructions."""
    with open_trace(tape) as trace:
        assert trace.footer
        counts = trace.footer["accesses"]
    instructions = counts["program_instructions"] + counts["allocator_instructions"]
    kept = (counts["objects"] + counts["other"]) / counts["program_accesses"]
    size_bytes = tape.stat().st_size
    return f"{instructions / 1e9:.2f} G | {kept:.1%} | {size_bytes / 1e6:.1f} | {size_bytes / instructions * 1000:.1f}"


def record(out: str, tape: Path, command: list[str]) -> Spent:
    return run([f"{out}/libexec/{RECORDER}", "-o", str(tape), "--accesses", "--", *command])


def compare(name: str, command: list[str], outs: list[str], rounds: int, tape: Path) -> None:
    none: list[float] = []
    spent: dict[str, list[Spent]] = {out: [] for out in outs}
    disk: dict[str, str] = {}
    none_cpu: list[float] = []
    for _ in range(rounds):
        of_none = run(["valgrind", "-q", "--tool=none", *command])
        none.append(of_none.wall_s)
        none_cpu.append(sum(of_none.cpu_s.values()))
        for out in outs:
            spent[out].append(record(out, tape, command))
            disk[out] = on_disk(tape)
    for out in outs:
        wall = [one.wall_s for one in spent[out]]
        tool = [one.cpu_s[TOOL] for one in spent[out]]
        recorder = float(np.median([one.cpu_s[RECORDER] for one in spent[out]]))
        print(
            f"| {name} | {out} | {np.median(none):.2f} | {np.median(wall):.2f} | {np.median(tool):.2f} | {recorder:.2f}"
            f" | {ratio(wall, none)} | {ratio(tool, none_cpu)} | {disk[out]} |",
            flush=True,
        )


def compile_once(out: str, copies: int, folder: Path) -> None:
    cc1 = subprocess.check_output(["gcc", "-print-prog-name=cc1"], text=True).strip()
    source = folder / "source.c"
    source.write_text(c_source(copies))
    tape = folder / "cc1.tape"
    spent = record(out, tape, [cc1, "-quiet", "-O2", "-o", "/dev/null", str(source)])
    print(
        f"| cc1 -O2, {copies} copies | {out} | | {spent.wall_s:.1f} | {spent.cpu_s[TOOL]:.1f} |"
        f" {spent.cpu_s[RECORDER]:.1f} | | | {on_disk(tape)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=200)
    parser.add_argument("outs", nargs="*", default=["out"])
    arguments = parser.parse_args()
    print(
        "| program | build | none, s | recorded, s | tool, CPU s | recorder, CPU s | recorded / none | tool / none, CPU"
        " | instructions | kept | MB | MB per 10^9 |"
    )
    print("|" + "---|" * 12)
    folder = Path(tempfile.mkdtemp(prefix="heaptape-bench-"))
    try:
        for name, command in programs().items():
            compare(name, command, arguments.outs, arguments.rounds, folder / "a.tape")
        for out in arguments.outs if arguments.copies else []:
            compile_once(out, arguments.copies, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
