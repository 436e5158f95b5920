# SPDX-License-Identifier: MIT
"""Cost of recording to redis, by counts, on which other work on the machine has little influence:
python -m tests.bench.recording.redis_counts. Needs Valgrind, perf with its tracepoints, redis; takes two minutes.

Instructions in user mode by callgrind; system calls, context switches and page faults by the kernel (perf stat), all of
the server with its threads and without the recorder. Per request: the difference between a load and one of twice as
many requests, by the difference in requests, so that start and end do not count. One client sends 16 requests at a time
and waits, so that each iteration of the server's loop serves 16; twenty clients are a load as in host_cpu.py.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.harness import heading, row
from tests.bench.recording.host_instructions import TOTAL, callgrind, recorder
from tests.support import info

PORT = 17391
KINDS = "set,get,lpush,lpop,sadd,hset"
EVENTS = ("raw_syscalls:sys_enter", "context-switches", "minor-faults")
SERVER = ("redis-server", "--port", str(PORT), "--save", "", "--dir", tempfile.gettempdir())
CLI = ("redis-cli", "-p", str(PORT))


def serve(command: list[str | Path], requests: int, clients: int) -> None:
    """Runs the server by that command, with that many requests of each kind."""
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        load = ["-t", KINDS, "-n", str(requests), "-r", "1000", "-d", "100", "-c", str(clients), "-P", "16", "-q"]
        try:
            wait = "for i in $(seq 600); do redis-cli -p $0 ping >/dev/null 2>&1 && exit; sleep 0.1; done; exit 1"
            subprocess.run(["sh", "-c", wait, str(PORT)], check=True)
            subprocess.run(["redis-benchmark", "-p", str(PORT), *load], stdout=subprocess.DEVNULL, check=True)
        finally:
            subprocess.run([*CLI, "shutdown", "nosave"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if server.wait() != 0:
            sys.exit(f"{' '.join(words)} failed")


def counts(options: tuple[str, ...] | None, requests: int, clients: int) -> dict[str, float]:
    """Figure -> its number in a server's life, bare (options: None) or recorded; `events`: of the recording."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        serve([*recorder(folder, options), *callgrind(folder), *SERVER], requests, clients)
        total = TOTAL.search((folder / "count").read_text())
        assert total
        found: dict[str, float] = {"instructions": int(total[1])}
        found["events"] = max((info(tape)["events"] for tape in folder.glob("*.tape")), default=0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        perf: list[str | Path] = ["perf", "stat", "-x,", "-o", folder / "perf", "-e", ",".join(EVENTS), "--"]
        serve([*recorder(folder, options), *perf, *SERVER], requests, clients)
        for number, event in re.findall(r"^(\d+),[^,]*,([^,]+),", (folder / "perf").read_text(), re.MULTILINE):
            found[event] = int(number)
    return found


def per_request(options: tuple[str, ...] | None, requests: int, clients: int) -> dict[str, float]:
    """Figure -> its number per request."""
    few, many = counts(options, requests, clients), counts(options, 2 * requests, clients)
    return {what: (many[what] - few[what]) / (requests * len(KINDS.split(","))) for what in many}


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    for clients in (1, 20):
        bare, recorded = per_request(None, requests, clients), per_request((), requests, clients)
        heading(f"per request, clients: {clients}", "bare", "recorded", "ratio")
        for what in filter(bare.get, bare):
            row(what, f"{bare[what]:.4g}", f"{recorded[what]:.4g}", f"{recorded[what] / bare[what]:.3f}")
        row("events recorded", "", f"{recorded['events']:.4g}", "")
        print()


if __name__ == "__main__":
    main()
