# SPDX-License-Identifier: MIT
"""The Python reader of traces: events per second of CPU time, of recordings and of archives, beside another checkout's
in alternating runs; and the cost to a process before its first event. A few minutes.

python -m tests.bench.reading.python_reader [--against CHECKOUT]. Needs `make out/bench/bench_trace`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.reading import rates
from tests.support import CONVERT, REPOSITORY, succeed

RUNS, PROGRAMS, SYNTHETIC_EVENTS = 3, ("python3", "perl", "redis", "git"), 1_000_000
# Of one process: CPU seconds of the imports, of the first read, of the second; events.
READ = """
import sys, time
began = time.process_time()
from heaptape.tape.trace import open_trace
times = [time.process_time() - began]
for _ in range(2):
    began = time.process_time()
    with open_trace(sys.argv[1]) as trace:
        events = sum(batch.num_rows for batch in trace.events())
    times.append(time.process_time() - began)
print(*times, events)
"""


def traces(folder: Path) -> Iterator[Path]:
    """Recordings of the corpus and a synthetic trace of four threads, each plain and as an archive in today's form."""
    for name in PROGRAMS:
        plain = folder / f"{name}.tape"
        succeed(CONVERT, "convert", REPOSITORY / "workloads/corpus" / plain.name, plain)
        yield from (plain, _archived(plain))
    plain = rates.synthetic_trace(folder, SYNTHETIC_EVENTS)
    yield from (plain, _archived(plain))


def _archived(plain: Path) -> Path:
    archive = plain.with_name(f"{plain.stem}, archive.tape")
    succeed(CONVERT, "convert", "--archive", plain, archive)
    return archive


def read(checkout: Path, tape: Path) -> tuple[float, float, float, int]:
    """The output of READ with that checkout's reader."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "analysis")}
    command = [sys.executable, "-c", READ, str(tape)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    imports, first, second, events = done.stdout.split()
    return float(imports), float(first), float(second), int(events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout")
    against = parser.parse_args().against
    checkouts = ({"against": against} if against else {}) | {"here": REPOSITORY}
    with tempfile.TemporaryDirectory(prefix="heaptape-bench-") as name:
        print("| M events/s of CPU | " + " | ".join(checkouts) + " |\n|---|" + "---|" * len(checkouts))
        smallest, least = Path(), 1 << 62
        for tape in traces(Path(name)):
            found: dict[str, list[float]] = {who: [] for who in checkouts}
            for _ in range(RUNS):
                for who, checkout in checkouts.items():
                    *_, seconds, events = read(checkout, tape)
                    found[who].append(events / seconds / 1e6)
            cells = (f"{statistics.median(r):.1f} ({min(r):.1f} to {max(r):.1f})" for r in found.values())
            print(f"| {tape.stem}, {events:,} events | {' | '.join(cells)} |", flush=True)
            smallest, least = (tape, events) if events < least else (smallest, least)
        for who, checkout in checkouts.items():
            imports, first, second, _ = read(checkout, smallest)
            print(
                f"\n{who}: imports {imports:.2f} s of CPU; the first read of a process takes {first - second:.2f} s"
                " more than the next."
            )


if __name__ == "__main__":
    main()
