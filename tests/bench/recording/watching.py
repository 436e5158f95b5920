# SPDX-License-Identifier: MIT
"""Cost of `heaptape top`: python -m tests.bench.recording.watching [--rounds N] [--seconds S] [--only counts|times].

First table, exact on a busy machine too (needs Valgrind): instructions of the recorder per event, by callgrind
(capture/bench/drain_cost.c), and those of them that sample live objects.
Second table, on an idle machine only: larson at full rate, recorded alternately with and without a watcher for S
seconds (default 20, 5 rounds). Events per second, the recorder's CPU time per event, and the CPU time of `heaptape top`
on a terminal, refreshing each second, less its start: percent of one core. Targets: top at most 2 % of a core.
"""

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from heaptape.run.ctl import command

from tests.bench.harness import heading, row, spread
from tests.support import HEAPTAPE, OUT, RECORD, succeed, workload

DRAIN = OUT / "bench" / "drain_cost"
FEW, MANY = 400_000, 1_200_000  # events
FUNCTION = re.compile(r"^\s*([\d,]+) .*estimates\.[ch]:", re.MULTILINE)
TOTAL = re.compile(r"^\s*([\d,]+) .*PROGRAM TOTALS", re.MULTILINE)
ROWS, COLUMNS = 40, 120


@dataclass
class Span:
    """Figures of some seconds of a recording."""

    events_per_s: float
    recorder_ns_per_event: float


def instructions(objects: int, events: int) -> tuple[int, int]:
    """Instructions of the whole bench program, and of sampling live objects, except the tests in the loop of events."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "count"
        succeed(
            "valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", DRAIN, str(objects), str(events),
            Path(name) / "t.tape",
        )  # fmt: skip
        annotated = succeed("callgrind_annotate", "--auto=no", "--show-percs=no", "--threshold=100", out).stdout
    total = TOTAL.search(annotated)
    assert total
    return int(total[1].replace(",", "")), sum(int(found.replace(",", "")) for found in FUNCTION.findall(annotated))


def print_counts() -> None:
    subprocess.run(["make", "-s", str(DRAIN.relative_to(Path.cwd()))], check=True)
    heading("live objects", "recorder, instructions per event", "of which the sample of live objects")
    for objects in (100, 100_000):
        few, many = instructions(objects, FEW), instructions(objects, MANY)
        each = [(after - before) / (MANY - FEW) for before, after in zip(few, many)]
        row(f"{objects:,}", f"{each[0]:.1f}", f"{each[1]:.2f}")


@contextmanager
def recording(folder: Path, *options: str) -> Iterator[int]:
    """A recording of larson that does not end by itself; its recorder's process."""
    program = [workload("larson"), "--threads=2", "--slots=50000", "--rounds=4000000000", "--quiet=1"]
    started = subprocess.Popen(
        [str(word) for word in (RECORD, "-o", folder / "t.tape", *options, "--", *program)], stderr=subprocess.DEVNULL
    )
    try:
        while not Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split():
            time.sleep(0.1)
        time.sleep(3)
        yield started.pid
    finally:
        started.terminate()
        started.wait()


def cpu_ns(pid: int) -> int:
    """Processor time of all threads of a process so far."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def span(recorder: int, seconds: float) -> Span:
    before, cpu = command("counts", recorder), cpu_ns(recorder)
    time.sleep(seconds)
    after, spent = command("counts", recorder), cpu_ns(recorder) - cpu
    events = after["processes"][0]["events"] - before["processes"][0]["events"]
    return Span(events / ((after["time_ns"] - before["time_ns"]) / 1e9), spent / events)


def top_cpu_s(recorder: int, refreshes: int) -> float:
    """Processor time of `heaptape top` on a terminal, with that many refreshes."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(HEAPTAPE, [str(HEAPTAPE), "top", str(recorder), "-n", str(refreshes), "--interval", "1"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:  # it has ended
        pass
    _, _, usage = os.wait4(pid, 0)
    return usage.ru_utime + usage.ru_stime


def watched(recorder: int, seconds: int) -> tuple[Span, float]:
    """The same with a watcher, and the watcher's CPU time in percent of a core, less that of one refresh."""
    start_s = top_cpu_s(recorder, 1)
    spent: list[float] = []
    watcher = threading.Thread(target=lambda: spent.append(top_cpu_s(recorder, seconds + 1)))
    watcher.start()
    found = span(recorder, seconds)
    watcher.join()
    return found, 100 * (spent[0] - start_s) / seconds


def print_times(rounds: int, seconds: int) -> None:
    heading("recorded with", "events/s", "recorder, ns per event", "watched, ns per event", "top, % of a core")
    for options in ((), ("--stacks",)):
        with tempfile.TemporaryDirectory() as name, recording(Path(name), *options) as recorder:
            alone, beside, cost = [], [], []
            for _ in range(rounds):
                alone.append(span(recorder, seconds))
                found, percent = watched(recorder, seconds)
                beside.append(found)
                cost.append(percent)
        row(
            " ".join(options) or "nothing more",
            f"{median(one.events_per_s for one in alone + beside):,.0f}",
            f"{median(one.recorder_ns_per_event for one in alone):.1f}",
            f"{median(one.recorder_ns_per_event for one in beside):.1f}",
            spread(cost, 2),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--only", choices=["counts", "times"])
    arguments = parser.parse_args()
    if arguments.only != "times":
        print_counts()
        print()
    if arguments.only != "counts":
        print_times(arguments.rounds, arguments.seconds)


if __name__ == "__main__":
    main()
