# SPDX-License-Identifier: MIT
"""Cost of recording: CPU time per event of the program and of the collector, wall time, and bytes per event on disk.

The program's user and system time are read inside it when it exits (preload/cpu_at_exit.c), so the collector is not in
them; the collector's are the recorder's, children included, less the program's, less the same of the bare run. Bare and
recorded runs alternate; each pair has one difference, and the median pair is reported with the range. A server and its
load have the first processor, its recorder the second.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.harness import before_others
from tests.bench.recording.compiler_input import c_source
from tests.support import OUT, RECORD, info, workload

CPU_AT_EXIT = OUT / "test-lib" / "libcpu_at_exit.so"
SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500000)"
    " insert into t select i, 'x' || i from n; create index q on t(b);"
    " select count(*), sum(length(b)) from t where b like '%7%';"
)
PYTHON = "import json; [json.loads(json.dumps({str(i): [i, str(i)] for i in range(20000)})) for _ in range(12)]"
# Requests come 16 at a time, so that the server computes instead of polling: how often it polls depends on the machine.
REDIS_LOAD = ["-t", "set,get,lpush,lpop,sadd,hset", "-n", "150000", "-r", "100000", "-d", "100"]
REDIS_LOAD += ["-c", "20", "-P", "16", "-q"]


@dataclass
class Subject:
    """A program to record. target_ns: host CPU per event at most; None: that of rival_options, measured alternately."""

    name: str
    command: tuple[str, ...]
    pairs: int
    target_ns: float | None = 8.0
    rival_options: tuple[str, ...] = ()
    port: int | None = None


@dataclass
class Spent:
    """Used by one run: CPU time of the program, of the rest (the recorder; in bare runs, too, the end of the program),
    and wall time (of its load if it has one).
    """

    host_ns: float
    rest_ns: float
    wall_ns: float


@dataclass
class Cost:
    """Cost of recording a subject: per event and pair the CPU time of host, rival and collector, in ns; recorded wall
    time over bare; events and bytes per event of the last recording.
    """

    pairs_ns: list[float]
    rival_pairs_ns: list[float]
    collector_ns: float
    wall_ratio: float
    events: int
    bytes_per_event: float

    @property
    def median_ns(self) -> float:
        return statistics.median(self.pairs_ns)

    @property
    def rival_median_ns(self) -> float:
        """The figure with rival_options; only where the subject has them."""
        return statistics.median(self.rival_pairs_ns)


def cc1(folder: Path) -> list[Subject]:
    """The C compiler proper, where there is one, on a file written into folder."""
    if not shutil.which("gcc"):
        return []
    path = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
    source = folder / "source.c"
    source.write_text(c_source(60))
    return [Subject("cc1 -O2", (path, "-quiet", "-O2", "-o", "/dev/null", str(source)), 7)]


def subjects(folder: Path) -> list[Subject]:
    """The programs measured, in the order of the table. folder: for the input of those that need input."""
    xmalloc = (str(workload("xmalloc")), "--batches=4000", "--quiet=1")
    redis = ("redis-server", "--port", "17379", "--save", "", "--dir", tempfile.gettempdir())
    return [
        Subject("cfrac", (str(workload("cfrac")), "--steps=2000000", "--quiet=1"), 7),
        Subject("larson", (str(workload("larson")), "--rounds=400000", "--quiet=1"), 7),
        Subject("xmalloc", xmalloc, 7, target_ns=None, rival_options=("--stamp", "every")),
        Subject("sqlite3", ("sqlite3", ":memory:", SQL), 5),
        Subject("python3", (sys.executable, "-c", PYTHON), 5),
        Subject("redis-server", redis, 5, port=17379),
        *cc1(folder),
    ]


def put_load_on_redis(port: int, recorder: int | None) -> int:
    """Waits for the server, moves its recorder (a process; None: there is none) to the second processor, then runs the
    load generator to its end; returns when that began, in ns of the monotonic clock.
    """
    for _ in range(200):
        ping = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, check=False)
        if ping.stdout.strip() == b"PONG":
            break
        time.sleep(0.05)
    if recorder:
        for thread in Path(f"/proc/{recorder}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {1})
    began = time.monotonic_ns()
    # Of lower priority than the server: it polls while it waits for answers.
    load = [*before_others(10, "0"), "redis-benchmark", "-p", str(port), *REDIS_LOAD]
    subprocess.run(load, stdout=subprocess.DEVNULL, check=True)
    return began


def run_once(
    command: tuple[str, ...],
    folder: Path,
    port: int | None,
    preload: dict[str, str],
) -> Spent:
    """Runs the command; it, or the program in it, must exit with 0."""
    cpu_file = folder / "cpu"
    cpu_file.unlink(missing_ok=True)
    environment = {**os.environ, "CPU_AT_EXIT": str(cpu_file), "PYTHONMALLOC": "malloc", **preload}
    began = time.monotonic_ns()
    command = (*before_others(20, "0"), *command) if port else command
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        if port:
            began = put_load_on_redis(port, program.pid if str(RECORD) in command else None)
            wall_ns = time.monotonic_ns() - began
            program.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        if not port:
            wall_ns = time.monotonic_ns() - began
    if program.returncode != 0:
        raise RuntimeError(f"{command[0]} exited with {program.returncode}")
    host_ns = float(cpu_file.read_text()) * 1000
    return Spent(host_ns, (usage.ru_utime + usage.ru_stime) * 1e9 - host_ns, wall_ns)


def record_once(subject: Subject, folder: Path, options: tuple[str, ...]) -> Spent:
    recorder = (str(RECORD), "-o", str(folder / "t.tape"), "--preload", str(CPU_AT_EXIT), *options, "--")
    return run_once(recorder + subject.command, folder, subject.port, {})


def measure(subject: Subject, folder: Path) -> Cost:
    """Alternates bare runs, recorded runs and, where it has them, runs recorded with the rival's options."""
    pairs: list[float] = []
    rival_pairs: list[float] = []
    collector: list[float] = []
    walls: list[float] = []
    for _ in range(subject.pairs):
        bare = run_once(subject.command, folder, subject.port, {"LD_PRELOAD": str(CPU_AT_EXIT)})
        rival = record_once(subject, folder, subject.rival_options) if subject.rival_options else None
        recorded = record_once(subject, folder, ())
        about = info(folder / "t.tape")
        pairs.append((recorded.host_ns - bare.host_ns) / about["events"])
        collector.append((recorded.rest_ns - bare.rest_ns) / about["events"])
        walls.append(recorded.wall_ns / bare.wall_ns)
        if rival:
            rival_pairs.append((rival.host_ns - bare.host_ns) / about["events"])
    return Cost(
        pairs,
        rival_pairs,
        statistics.median(collector),
        statistics.median(walls),
        about["events"],
        about["bytes_per_event"],
    )
