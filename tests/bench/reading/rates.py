# SPDX-License-Identifier: MIT
"""Rates of the steps after recording: compile, check and info; the engine with the null allocator; the report."""

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.harness import before_others
from tests.support import CONVERT, HEAPTAPE, OUT, REPLAY, record, succeed, workload

UNCALIBRATED = [str(REPLAY), "--engine-cycles-per-op", "0"]
SHOWN_CHARACTERS = 4000  # of standard error, the last


@dataclass
class Spent:
    """Used by a program: wall time, peak RSS, CPU time."""

    seconds: float
    peak_rss_bytes: int
    cpu_seconds: float


def spend(*command: str | Path) -> Spent:
    """Runs a program that must exit with 0: otherwise the error has the end of its standard error."""
    words = [str(word) for word in command]
    with tempfile.TemporaryFile() as errors:  # not a pipe, which would have to be read meanwhile
        began = time.monotonic()
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors) as program:
            _, status, usage = os.wait4(program.pid, 0)
            program.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        if program.returncode != 0:
            errors.seek(0)
            text = errors.read().decode(errors="replace")[-SHOWN_CHARACTERS:]
            raise RuntimeError(f"{words} ended with {program.returncode}:\n{text}")
    return Spent(seconds, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)


def instructions(folder: Path, *command: str | Path) -> int:
    """Instructions of all threads of a program that must exit with 0, by callgrind."""
    out = folder / "callgrind.out"
    succeed("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *command, timeout_s=900)
    total = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    if total is None:
        raise RuntimeError(f"{out}: no total")
    return int(total[1])


def ten_million_events(folder: Path) -> Path:
    """A trace of about 10 M events of two threads with random sizes and victims."""
    tape = folder / "larson.tape"
    record(tape, workload("larson"), "--threads=2", "--rounds=250000", "--generations=10", "--quiet=1")
    return tape


# Options for a few million events of each synthetic pattern whose default is shorter.
WRITTEN = {
    "alignment_storm": ("--rounds=2000000",),
    "arenas": ("--tasks=4000",),
    "false_sharing": ("--rounds=500000",),
    "groups": ("--rounds=15000",),
    "growing_reallocs": ("--rounds=10000",),
    "heirs": ("--heirs=100",),
    "huge_objects": ("--rounds=2000000",),
    "lru_cache": ("--requests=3000000",),
    "many_threads": ("--turns=200",),
    "mtmalloc": ("--rounds=1000",),
    "phases": ("--objects=200000",),
    "pipeline": ("--batches=10000",),
    "random_mix": ("--rounds=3000000",),
    "random_mix_live": ("--rounds=4000000",),
    "remote_storm": ("--rounds=500000",),
    "ring": ("--rounds=5000",),
    "string_building": ("--lines=200000",),
    "thread_per_request": ("--requests=10000",),
}


def written_per_second(name: str, folder: Path) -> tuple[int, float]:
    """Events of a synthetic pattern written as a workload file, and events per second of CPU: the median of 3 runs."""
    path = folder / "written.work"
    command = (workload(name), *WRITTEN.get(name, ()), f"--work={path}", "--quiet=1")
    seconds = statistics.median(spend(*command).cpu_seconds for _ in range(3))
    events = json.loads(succeed(CONVERT, "info", path, "--json").stdout)["ops"]
    path.unlink()
    return events, events / seconds


def synthetic_trace(folder: Path, events: int, sites: int = 0) -> Path:
    """A trace of that many events of 4 threads and 200,000 live objects (convert/bench/bench_trace.c)."""
    tape = folder / "synthetic.tape"
    succeed(OUT / "bench/bench_trace", tape, str(events), "4", "200000", "16", str(sites), timeout_s=3600)
    return tape


def single_thread_workload(folder: Path) -> tuple[Path, int]:
    """A compiled workload of one thread, and its ops."""
    tape, work = folder / "cfrac.tape", folder / "cfrac.work"
    record(tape, workload("cfrac"), "--steps=1700000", "--quiet=1")
    compiled = succeed(CONVERT, "compile", tape, "-o", work, "--json")
    return work, json.loads(compiled.stdout)["witness"]["ops"]


def engine_ns_per_op(work: Path, ops: int) -> float:
    """The engine alone: bare pass over the null allocator, median of 5 runs, in ns per op."""
    times = []
    for _ in range(5):
        printed = succeed(REPLAY, "--pass", "bare", "--null", "--touch", "none", "--order", "causal", work).stdout
        run = json.loads(printed)
        times.append(run["cycles_total"] / run["cycles_hz"] * 1e9 / ops)
    return statistics.median(times)


def generated(folder: Path, name: str, **shape: int) -> Path:
    path = folder / f"{name}.work"
    succeed(OUT / "test-programs" / "make_workload", path, *(f"{key}={value}" for key, value in shape.items()))
    return path


def wall_ns_per_op(work: Path, order: str, *, pass_: str = "bare", null: bool = True, processors: str = "") -> float:
    """Wall time of the replay per op, least of 3 runs, on those processors (as taskset takes them; empty: all)."""
    command = [*UNCALIBRATED, "--pass", pass_, "--order", order, *(["--null"] if null else [])]
    runs = [json.loads(succeed(*before_others(10, processors), *command, work).stdout) for _ in range(3)]
    return min(run["wall_ns"] / run["ops"] for run in runs)


def cpu_ns_per_op(work: Path, order: str, *, null: bool = True) -> float:
    """CPU time of the streams per op, waits left out, least of 3 runs."""
    command = [*UNCALIBRATED, "--pass", "bare", "--order", order, *(["--null"] if null else [])]
    runs = [json.loads(succeed(*command, work).stdout) for _ in range(3)]
    return min(run["cpu_ns"] / run["ops"] for run in runs)


def engine_peak_rss_bytes(work: Path) -> int:
    """Peak RSS of the engine's process with the null allocator, everything shared included."""
    spent = spend(REPLAY, "--pass", "bare", "--null", "--order", "window", "--engine-cycles-per-op", "0", work)
    return spent.peak_rss_bytes


def replay_and_report(work: Path, folder: Path) -> tuple[float, float, dict]:
    """Seconds of one `heaptape replay` under every allocator, seconds of `heaptape report`, and the results."""
    results = folder / "r.json"
    replayed = spend(HEAPTAPE, "replay", "-n", "1", "--passes", "time,memory", "-o", results, work)
    reported = spend(HEAPTAPE, "report", results, "-o", folder / "r.html")
    return replayed.seconds, reported.seconds, json.loads(results.read_text())
