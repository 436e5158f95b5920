# SPDX-License-Identifier: MIT
"""Cost of a fleet's own parts: CPU time of the scheduler per cell, and the wall time that workers did not spend on
cells, with 1, 2 and 4 workers. Cheap cells: a workload of 200 events on glibc under many settings. Prints a row for
each number of workers, and the share of the wall time that this would be at cells of 2 s. Best on an idle machine.

    .venv/bin/python -m tests.bench.fleet.overhead [--cells 1000] [--workers 1,2,4] [--namespaces]

--namespaces: each worker in its own network namespace, as if on its own machine (root, `ip`).
"""

import argparse
import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from heaptape.fleet.cluster import make_keys
from heaptape.fleet.store import open_store

from analysis.test.gate.pieces import make_workload
from tests.support import HEAPTAPE, succeed

FLEET = [str(HEAPTAPE), "fleet"]
NETWORK = "10.213.{number}.{end}"
CELL_S = 2.0


@contextlib.contextmanager
def process(*command: str) -> Iterator[subprocess.Popen]:
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.terminate()
        started.communicate()


@contextlib.contextmanager
def namespace(number: int) -> Iterator[tuple[list[str], str]]:
    """(command prefix that runs a command in it, the address at which it reaches this side)."""
    name, here, there = f"heaptape-fleet{number}", f"htf{number}a", f"htf{number}b"
    near, far = (NETWORK.format(number=number, end=end) for end in (1, 2))
    try:
        for command in (
            f"ip netns add {name}",
            f"ip link add {here} type veth peer name {there} netns {name}",
            f"ip addr add {near}/24 dev {here}",
            f"ip link set {here} up",
            f"ip -n {name} addr add {far}/24 dev {there}",
            f"ip -n {name} link set {there} up",
            f"ip -n {name} link set lo up",
        ):
            succeed(*command.split())
        yield ["ip", "netns", "exec", name], near
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


def measure(workers: int, cells: int, namespaces: bool) -> dict[str, float]:
    """One run of all cells by that many workers of one thread each; seconds."""
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch, contextlib.ExitStack() as ends:
        place = Path(scratch)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        make_keys(place / "keys")
        store, keys = str(place / "store"), ("--keys", str(place / "keys"))
        workload = str(make_workload(place, 200, 2))
        setting = f"glibc:MALLOC_TOP_PAD_=1..{cells - 1}"
        replay = [*FLEET, "replay", workload, "-a", "glibc", "-a", setting, "--passes", "memory", "--store", store]
        succeed(*replay, "--slurm-script", "-")
        host = "0.0.0.0" if namespaces else "127.0.0.1"
        scheduler = ends.enter_context(process(*FLEET, "scheduler", f"tls://{host}:0", *keys))
        assert scheduler.stdout
        port = scheduler.stdout.readline().strip().rpartition(":")[2]
        for number in range(workers):
            inside, near = ends.enter_context(namespace(number)) if namespaces else ([], "127.0.0.1")
            options = ["--store", store, "--threads", "1", "--machine", f"m{number}"]
            ends.enter_context(process(*inside, *FLEET, "worker", f"tls://{near}:{port}", *options, *keys))
        while len(open_store(store).running()) < workers:
            time.sleep(0.1)
        time.sleep(5)
        of_scheduler = psutil.Process(scheduler.pid)
        before, begun = sum(of_scheduler.cpu_times()[:2]), time.monotonic()
        succeed(*replay, "--scheduler", f"tls://127.0.0.1:{port}", *keys, timeout_s=3600)
        wall, after = time.monotonic() - begun, sum(of_scheduler.cpu_times()[:2])
        records = list(open_store(store).records())
    assert len(records) == cells
    return {"wall": wall, "scheduler": after - before, "busy": sum(record.seconds for record in records)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--namespaces", action="store_true")
    arguments = parser.parse_args()
    print("workers  wall s  cells/s  scheduler ms/cell  cell s  beside cells ms/cell  of wall at cells of 2 s")
    for workers in map(int, arguments.workers.split(",")):
        found = measure(workers, arguments.cells, arguments.namespaces)
        beside = (found["wall"] * workers - found["busy"]) / arguments.cells
        print(
            f"{workers:7} {found['wall']:7.1f} {arguments.cells / found['wall']:8.1f} "
            f"{1000 * found['scheduler'] / arguments.cells:18.2f} {found['busy'] / arguments.cells:7.3f} "
            f"{1000 * beside:21.1f} {100 * beside / (CELL_S + beside):23.2f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
