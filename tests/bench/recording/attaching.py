# SPDX-License-Identifier: MIT
"""Cost of attaching: python -m tests.bench.recording.attaching [ROUNDS]. Needs redis; three minutes at 10 rounds.

First table: a redis under full load, attached to and detached in each round. Held: how long its threads were stopped,
as the recorder reports (the longest of its three holds except the last). Client: the longest time between a PING and
its answer, of a separate client, while the recorder attaches, and in as long a time before. Target: 50 ms.

Second table: CPU time of a program per pair of malloc and free, attached to, preloaded and bare, alternately; each
figure is of 2,000,000 pairs. Target: attached at most 1.1 times preloaded.
"""

import re
import socket
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from capture.test.attach.attached import Attached, Worker, compile_worker
from capture.test.attach.test_attach_programs import redis
from tests.bench.harness import heading, in_turns, row, spread
from tests.support import RECORD

HELD = re.compile(r"held for ([0-9.]+) ms")
COMMANDS, PAIRS = 200, 10_000


class Pinger:
    """A client that sends PING continuously, in a thread; longest_ms: since the last reading."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.longest_ms, self.ends = 0.0, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.ends:
            begin = time.perf_counter()
            self.connection.sendall(b"PING\r\n")
            self.connection.recv(64)
            self.longest_ms = max(self.longest_ms, 1e3 * (time.perf_counter() - begin))

    def longest(self) -> float:
        longest, self.longest_ms = self.longest_ms, 0.0
        return longest

    def end(self) -> None:
        self.ends = True
        self.thread.join()


def stall(folder: Path) -> tuple[float, float, float]:
    """Milliseconds: held; the client's longest while attaching to a redis for the first time, and before."""
    with redis(folder) as (server, port):
        pinger = Pinger(port)
        time.sleep(2)
        pinger.longest()
        time.sleep(1)
        before = pinger.longest()
        attached = Attached(server.pid, folder / "t.tape")
        time.sleep(0.5)
        during = pinger.longest()
        report = attached.stop()
        pinger.end()
    held = HELD.search(report)
    assert held, report
    return float(held[1]), during, before


def cpu_s(pid: int) -> float:
    """User and system time, in the kernel's ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def cost_ns(worker: Worker, pid: int) -> float:
    before = cpu_s(pid)
    for _ in range(COMMANDS):
        worker.obey("c")
    return 1e9 * (cpu_s(pid) - before) / (COMMANDS * PAIRS)


def attached_cost(programs: tuple[Path, Path], folder: Path) -> float:
    worker = Worker(programs, 0)
    worker.request("c" * 400)  # so that a thread comes by
    attached = Attached(worker.pid, folder / "t.tape")
    for _ in range(400):
        worker.answer()
    cost = cost_ns(worker, worker.pid)
    attached.stop()
    worker.end()
    return cost


def preloaded_cost(programs: tuple[Path, Path], folder: Path) -> float:
    worker = Worker(programs, 0, under=(RECORD, "-o", folder / "t.tape", "--"))
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    cost = cost_ns(worker, int(children[0]))
    worker.end()
    return cost


def bare_cost(programs: tuple[Path, Path], folder: Path) -> float:
    del folder
    worker = Worker(programs, 0)
    cost = cost_ns(worker, worker.pid)
    worker.end()
    return cost


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stalls = [stall(folder) for _ in range(rounds)]
        heading("redis under full load", "median and range, ms")
        for index, what in enumerate(("held", "client, while attaching", "client, before")):
            row(what, spread(one[index] for one in stalls))
        programs = compile_worker(folder)
        ways = {"attached": attached_cost, "preloaded": preloaded_cost, "bare": bare_cost}
        costs = in_turns({way: partial(cost, programs, folder) for way, cost in ways.items()}, rounds)
        print()
        heading("malloc and free", "median and range, ns")
        for way, values in costs.items():
            row(way, spread(values))
        pairs = zip(costs["attached"], costs["preloaded"], strict=True)
        row("attached / preloaded, times", spread(one / other for one, other in pairs))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
