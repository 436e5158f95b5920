# SPDX-License-Identifier: MIT
"""Cost of recording: CPU time per event of the program and of the collector, wall time, bytes per event on disk; and
the program's instructions per event, which repeat to a few percent on a busy machine, too (needs Valgrind).

The program's user and system time are read inside it when it exits (preload/cpu_at_exit.c), so the collector is not in
them; the collector's are the recorder's, children included, less the program's, less the same of the bare run. Each
round of bare and recorded runs has one difference; the medians are reported. A server and its load have the first
processor, its recorder the second.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from tests.bench.harness import before_others, figure, in_turns, row
from tests.support import OUT, RECORD, REPOSITORY, info, run, succeed, workload

CPU_AT_EXIT = OUT / "test-lib" / "libcpu_at_exit.so"
SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500000)"
    " insert into t select i, 'x' || i from n; create index q on t(b);"
    " select count(*), sum(length(b)) from t where b like '%7%';"
)
PYTHON = "import json; [json.loads(json.dumps({str(i): [i, str(i)] for i in range(20000)})) for _ in range(12)]"
SERVER, PORT = "redis-server", "17379"
# Requests come 16 at a time, so that the server computes instead of polling: how often it polls depends on the machine.
LOAD = ["-t", "set,get,lpush,lpop,sadd,hset", "-n", "150000", "-r", "100000", "-d", "100", "-c", "20", "-P", "16", "-q"]
ROUNDS = 7
BARE, RECORDED = "bare", "recorded"
RIVAL = "--stamp every"  # of xmalloc, in which every free is remote: recording must cost no more than this
RIVAL_OF, MOST_NS = "xmalloc", 8.0
# Every free of xmalloc is remote; cfrac has one thread; larson's threads take over each other's objects.
COUNTED = {"cfrac": "--steps=40000", "larson": "--rounds=4000", "xmalloc": "--batches=100"}

Spent = tuple[float, float, float]  # ns: CPU of the program, CPU of all else, wall (of the load of a server)


def cc1(folder: Path) -> list[str | Path]:
    """The command of the C compiler proper on a source file of ours; nothing where there is none."""
    compiler = run("gcc", "-print-prog-name=cc1").stdout.strip() if shutil.which("gcc") else ""
    source = folder / "input.i"
    if compiler:
        options = ("-E", "-std=gnu11", "-D_GNU_SOURCE", f"-I{REPOSITORY}")
        succeed("gcc", *options, "-o", source, REPOSITORY / "convert/history/history.c")
    return [compiler, "-quiet", "-O2", "-fpreprocessed", source, "-o", "/dev/null"] if compiler else []


def subjects(folder: Path) -> dict[str, Sequence[str | Path]]:
    found: dict[str, Sequence[str | Path]] = {
        "cfrac": (workload("cfrac"), "--steps=2000000", "--quiet=1"),
        "larson": (workload("larson"), "--rounds=400000", "--quiet=1"),
        "xmalloc": (workload("xmalloc"), "--batches=4000", "--quiet=1"),
        "sqlite3": ("sqlite3", ":memory:", SQL),
        "python3": (sys.executable, "-c", PYTHON),
        SERVER: (SERVER, "--port", PORT, "--save", "", "--dir", tempfile.gettempdir()),
        "cc1 -O2": cc1(folder),
    }
    return {name: command for name, command in found.items() if command}


def put_load_on_server(recorder: int | None) -> int:
    """Waits for the server, moves its recorder (a process; None: there is none) to the second processor, then runs the
    load generator to its end; returns when that began, in ns of the monotonic clock.
    """
    for _ in range(200):
        if run("redis-cli", "-p", PORT, "ping").stdout.strip() == "PONG":
            break
        time.sleep(0.05)
    if recorder:
        for thread in Path(f"/proc/{recorder}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {1})
    began = time.monotonic_ns()
    # Of lower priority than the server: it polls while it waits for answers.
    load = [*before_others(10, "0"), "redis-benchmark", "-p", PORT, *LOAD]
    subprocess.run(load, stdout=subprocess.DEVNULL, check=True)
    return began


def run_once(command: Sequence[str | Path], tape: Path, options: Sequence[str] | None) -> Spent:
    """Runs the command, recorded with these options, or bare (None)."""
    cpu_file = tape.with_name("cpu")
    cpu_file.unlink(missing_ok=True)
    environment = {**os.environ, "CPU_AT_EXIT": str(cpu_file), "PYTHONMALLOC": "malloc"}
    is_server = command[0] == SERVER
    whole: list[str | Path] = [*(before_others(20, "0") if is_server else ()), *command]
    if options is None:
        environment["LD_PRELOAD"] = str(CPU_AT_EXIT)
    else:
        at = len(whole) - len(command)
        whole[at:at] = [RECORD, "-o", tape, "--preload", CPU_AT_EXIT, *options, "--"]
    began = time.monotonic_ns()
    with subprocess.Popen(whole, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        if is_server:
            began = put_load_on_server(None if options is None else program.pid)
            wall_ns = time.monotonic_ns() - began
            program.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        if not is_server:
            wall_ns = time.monotonic_ns() - began
    if program.returncode != 0:
        raise RuntimeError(f"{command[0]} exited with {program.returncode}")
    host_ns = float(cpu_file.read_text()) * 1000
    return host_ns, (usage.ru_utime + usage.ru_stime) * 1e9 - host_ns, wall_ns


def measure(name: str, command: Sequence[str | Path], folder: Path, rounds: int) -> tuple[float, float, float]:
    """Prints a subject's rows; medians of host CPU and collector's CPU in ns per event, and bytes per event."""
    tape, beside = folder / "t.tape", folder / "rival.tape"
    ways = {BARE: partial(run_once, command, tape, None), RECORDED: partial(run_once, command, tape, ())}
    if name == RIVAL_OF:
        ways[RIVAL] = partial(run_once, command, beside, RIVAL.split())
    runs, about = in_turns(ways, rounds), info(tape)

    def per_event(way: str, part: int) -> list[float]:
        return [(one[part] - bare[part]) / about["events"] for bare, one in zip(runs[BARE], runs[way])]

    host_ns, all_ns = median(per_event(RECORDED, 0)), per_event(RECORDED, 0)
    most_ns = median(per_event(RIVAL, 0)) if RIVAL in runs else MOST_NS
    what = f"record {name}, {about['events'] / 1e6:.1f} M events"
    if min(all_ns) < 0 or max(all_ns) - min(all_ns) > 2 * most_ns:
        ends = f"{host_ns:.1f} ns ({min(all_ns):.1f} to {max(all_ns):.1f})"
        row(f"{what}: host CPU per event", ends, "", "not resolved: rounds differ too much")
    else:
        rival = f" ({RIVAL} in turns)" if RIVAL in runs else ""
        figure(f"{what}: host CPU per event{rival}", host_ns, "ns", most_ns if RIVAL in runs else None)
    collector_ns = median(per_event(RECORDED, 1))
    figure(f"{what}: collector's CPU per event", collector_ns, "ns")
    figure(f"{what}: bytes per event", about["bytes_per_event"], "bytes")
    if name == SERVER:
        ratio = median(one[2] / bare[2] for bare, one in zip(runs[BARE], runs[RECORDED]))
        figure(f"{what}: wall time of its load, recorded over bare", ratio, "times", most=1.15)
    return host_ns, collector_ns, about["bytes_per_event"]


def instructions(folder: Path, *recorder: str | Path) -> Iterator[tuple[str, int]]:
    """(program, its instructions), by callgrind; `recorder`: the start of a command that records it."""
    for name, length in COUNTED.items():
        counting = ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={folder}/count")
        succeed(*recorder, *counting, workload(name), length, "--quiet=1")
        total = re.search(r"^totals: (\d+)", (folder / "count").read_text(), re.MULTILINE)
        assert total
        yield name, int(total[1])


def print_rows(folder: Path, rounds: int = ROUNDS) -> None:
    found = {name: measure(name, command, folder, rounds) for name, command in subjects(folder).items()}
    usual = [costs for name, costs in found.items() if name != RIVAL_OF]
    for what, unit, most, values in zip(
        ("host CPU per event", "collector's CPU per event", "bytes per event"),
        ("ns", "ns", "bytes"), (MOST_NS, 40, 0.8), zip(*usual),
    ):  # fmt: skip
        figure(f"median of {len(usual)} programs without {RIVAL_OF}: {what}", median(values), unit, most)
    if not shutil.which("valgrind"):
        return
    recorded = folder / "counted"
    recorded.mkdir()
    bare = dict(instructions(folder))
    for name, count in instructions(folder, RECORD, "--all-processes", "-o", recorded / "t.tape", "--"):
        events = max(info(tape)["events"] for tape in recorded.iterdir())  # the others are Valgrind's starters
        figure(f"record {name}: instructions per event", (count - bare[name]) / events, "instructions")
        for tape in recorded.iterdir():
            tape.unlink()
