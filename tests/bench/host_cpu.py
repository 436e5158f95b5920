"""What recording costs a program: its own CPU time with heaptape minus without, per event; and bytes per event on disk.

The program's user and system time are read inside it when it exits (preload/cpu_at_exit.c), so the collector is not in
them. Bare and recorded runs alternate; each pair gives one difference, and the median pair is reported with the range.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support import OUT, RECORD, info, workload

CPU_AT_EXIT = OUT / "test-lib" / "libcpu_at_exit.so"
SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500000)"
    " insert into t select i, 'x' || i from n; create index q on t(b);"
    " select count(*), sum(length(b)) from t where b like '%7%';"
)
PYTHON = "import json; [json.loads(json.dumps({str(i): [i, str(i)] for i in range(20000)})) for _ in range(12)]"
# Requests come 16 at a time, so that the server computes instead of polling: how often it polls depends on the machine.
REDIS_LOAD = (
    "-t",
    "set,get,lpush,lpop,sadd,hset",
    "-n",
    "150000",
    "-r",
    "100000",
    "-d",
    "100",
    "-c",
    "20",
    "-P",
    "16",
    "-q",
)

Load = Callable[[], None]


@dataclass
class Subject:
    """A program to record. target_ns: host CPU per event at most; None: that of rival_options, measured in turns."""

    name: str
    command: tuple[str, ...]
    pairs: int
    target_bytes: float
    target_ns: float | None = 12.0
    rival_options: tuple[str, ...] = ()
    port: int | None = None


@dataclass
class Cost:
    """Of recording a subject: ns per event of each pair, events and bytes per event of the last recording."""

    pairs_ns: list[float]
    rival_pairs_ns: list[float]
    events: int
    bytes_per_event: float

    @property
    def median_ns(self) -> float:
        """The figure to report."""
        return statistics.median(self.pairs_ns)

    @property
    def rival_median_ns(self) -> float:
        """The figure with rival_options; only where the subject has them."""
        return statistics.median(self.rival_pairs_ns)


def subjects() -> list[Subject]:
    """The programs measured, in the order of the table."""
    xmalloc = (str(workload("xmalloc")), "--batches=4000", "--quiet=1")
    redis = ("redis-server", "--port", "17379", "--save", "", "--dir", tempfile.gettempdir())
    return [
        Subject("cfrac", (str(workload("cfrac")), "--steps=2000000", "--quiet=1"), 7, 2),
        Subject("larson", (str(workload("larson")), "--rounds=400000", "--quiet=1"), 7, 4),
        Subject("xmalloc", xmalloc, 7, 4, target_ns=None, rival_options=("--stamp", "every")),
        Subject("sqlite3", ("sqlite3", ":memory:", SQL), 5, 2),
        Subject("python3", (sys.executable, "-c", PYTHON), 5, 2),
        Subject("redis-server", redis, 5, 2, port=17379),
    ]


def put_load_on_redis(port: int) -> None:
    """Waits for the server, then runs the load generator to its end."""
    for _ in range(200):
        ping = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, check=False)
        if ping.stdout.strip() == b"PONG":
            break
        time.sleep(0.05)
    subprocess.run(["redis-benchmark", "-p", str(port), *REDIS_LOAD], stdout=subprocess.DEVNULL, check=True)


def cpu_ns(command: tuple[str, ...], folder: Path, port: int | None, preload: dict[str, str]) -> float:
    """Runs the command and gives the CPU time of the program in it."""
    told = folder / "cpu"
    told.unlink(missing_ok=True)
    environment = {**os.environ, "CPU_AT_EXIT": str(told), "PYTHONMALLOC": "malloc", **preload}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, **quiet) as program:
        if port:
            put_load_on_redis(port)
            program.send_signal(signal.SIGTERM)
        if program.wait() != 0:
            raise RuntimeError(f"{command[0]} exited with {program.returncode}")
    return float(told.read_text()) * 1000


def recorded_cpu_ns(subject: Subject, folder: Path, options: tuple[str, ...]) -> float:
    """Records the subject into t.tape and gives the CPU time of the program in it."""
    recorder = (str(RECORD), "-o", str(folder / "t.tape"), "--preload", str(CPU_AT_EXIT), *options, "--")
    return cpu_ns(recorder + subject.command, folder, subject.port, {})


def measure(subject: Subject, folder: Path) -> Cost:
    """Alternates bare runs, recorded runs and, where it has them, runs recorded with the rival's options."""
    pairs: list[float] = []
    rival_pairs: list[float] = []
    for _ in range(subject.pairs):
        bare_ns = cpu_ns(subject.command, folder, subject.port, {"LD_PRELOAD": str(CPU_AT_EXIT)})
        rival_ns = recorded_cpu_ns(subject, folder, subject.rival_options) if subject.rival_options else 0.0
        recorded_ns = recorded_cpu_ns(subject, folder, ())
        about = info(folder / "t.tape")
        pairs.append((recorded_ns - bare_ns) / about["events"])
        if subject.rival_options:
            rival_pairs.append((rival_ns - bare_ns) / about["events"])
    return Cost(pairs, rival_pairs, about["events"], about["bytes_per_event"])
