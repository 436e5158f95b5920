# SPDX-License-Identifier: MIT
"""Cost of the optional columns to the program, beside heaptrack where it is installed. Not in `make bench`, because it
takes minutes: python -m tests.bench.recording.optional_columns [ROUNDS].

Bare and recorded runs alternate. CPU time is the program's own, as in host_cpu.py; a figure is the median over the
rounds of the difference to the bare run of its round, per event, and the bytes per event of the last recording. Stacks
are taken 64 frames deep, as heaptrack does; heaptrack's output goes to /dev/null.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench.harness import heading, row
from tests.bench.recording.host_cpu import CPU_AT_EXIT, Subject, record_once, run_once, subjects
from tests.support import info

HEAPTRACK = Path("/usr/lib/heaptrack/libheaptrack_preload.so")
VARIANTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "--latency": ("--latency",),
    "--usable": ("--usable",),
    "--stacks=64": ("--stacks=64",),
    "--stacks=64 --unwind fp": ("--stacks=64", "--unwind", "fp"),
    "--stacks=64 --unwind libunwind": ("--stacks=64", "--unwind", "libunwind"),
}


def measure(subject: Subject, folder: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Variant -> host CPU ns per event and bytes per event (nan: none are written)."""
    differences: dict[str, list[float]] = {}
    size: dict[str, float] = {}
    for _ in range(rounds):
        bare = run_once(subject.command, folder, subject.port, {"LD_PRELOAD": str(CPU_AT_EXIT)})
        events = 1
        for name, options in VARIANTS.items():
            spent = record_once(subject, folder, options)
            about = info(folder / "t.tape")
            events, size[name] = about["events"], about["bytes_per_event"]
            differences.setdefault(name, []).append((spent.host_ns - bare.host_ns) / events)
        if HEAPTRACK.exists():
            preload = {"LD_PRELOAD": f"{HEAPTRACK}:{CPU_AT_EXIT}", "DUMP_HEAPTRACK_OUTPUT": "/dev/null"}
            spent = run_once(subject.command, folder, subject.port, preload)
            differences.setdefault("heaptrack", []).append((spent.host_ns - bare.host_ns) / events)
    return {name: (statistics.median(pairs), size.get(name, float("nan"))) for name, pairs in differences.items()}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wanted = ("cfrac", "sqlite3", "python3", "redis-server", "cc1 -O2")
        found = [subject for subject in subjects(folder) if subject.name in wanted]
        rows = [*VARIANTS, *(["heaptrack"] if HEAPTRACK.exists() else [])]
        heading("host CPU ns per event, bytes per event", *(subject.name for subject in found))
        tables = [measure(subject, folder, rounds) for subject in found]
        for name in rows:
            cells = [f"{table[name][0]:.0f}, {table[name][1]:.2f}" for table in tables]
            row(name, *(cell.removesuffix(", nan") for cell in cells))


if __name__ == "__main__":
    main()
