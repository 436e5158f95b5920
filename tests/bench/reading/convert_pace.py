# SPDX-License-Identifier: MIT
"""compile, check, info and profile: events per second, on two processors and on one, and instructions per event; beside
another build in alternating runs. Four minutes on a quiet machine; with --count six more, which need no quiet.

python -m tests.bench.reading.convert_pace [--against OTHER_OUT] [--count]: OTHER_OUT is the `out` of another checkout;
--count: instructions only. Needs `make out/bench/bench_trace`.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.reading import rates
from tests.support import CONVERT, OUT, REPOSITORY, info, record, workload

RUNS, COUNTED_EVENTS, PROFILED_EVENTS = 5, 1_000_000, 20_000_000


@dataclass(frozen=True)
class Row:
    """A command on a trace. one: on one processor. by_cpu: the rate is by CPU time, not by wall time."""

    command: str
    tape: Path
    events: int
    one: bool
    by_cpu: bool = False

    def rate(self, program: Path) -> float:
        pinned = ("taskset", "-c", "0") if self.one else ()
        output = ("-o", self.tape.with_suffix(".work")) if self.command == "compile" else ()
        spent = rates.spend(*pinned, program, self.command, self.tape, *output)
        return self.events / (spent.cpu_seconds if self.by_cpu else spent.seconds)


def rows(folder: Path) -> Iterator[Row]:
    """The commands that are timed; makes the traces."""
    larson = rates.ten_million_events(folder)
    events = info(larson)["events"]
    for command in ("compile", "check", "info"):
        for one in (False, True):
            yield Row(command, larson, events, one)
    yield Row("profile", larson, events, one=False, by_cpu=True)
    yield Row("profile", rates.synthetic_trace(folder, PROFILED_EVENTS), PROFILED_EVENTS, one=False, by_cpu=True)


def time_all(programs: dict[str, Path], folder: Path) -> None:
    """Prints a table of medians, least and most."""
    print("| M events/s | " + " | ".join(programs) + " |\n|---|" + "---|" * len(programs))
    for row in rows(folder):
        found: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(RUNS):
            for name, program in programs.items():
                found[name].append(row.rate(program) / 1e6)
        cells = (f"{statistics.median(r):.1f} ({min(r):.1f} to {max(r):.1f})" for r in found.values())
        where = "one processor" if row.one else f"{os.cpu_count()} processors"
        what = f"{row.command}, {row.tape.stem}, {where}{', by CPU time' if row.by_cpu else ''}"
        print(f"| {what} | {' | '.join(cells)} |", flush=True)


def counted(program: Path, command: str, tape: Path, folder: Path) -> float:
    """Instructions per event."""
    output = ("-o", folder / "counted.work") if command == "compile" else ()
    return rates.instructions(folder, program, command, tape, *output) / info(tape)["events"]


def count_all(programs: dict[str, Path], folder: Path) -> None:
    larson, synthetic = folder / "larson.tape", rates.synthetic_trace(folder, COUNTED_EVENTS)
    record(larson, workload("larson"), "--threads=2", "--rounds=25000", "--generations=10", "--quiet=1")
    corpus = REPOSITORY / "workloads/corpus"
    print("| instructions per event | " + " | ".join(programs) + " |\n|---|" + "---|" * len(programs))
    for tape in (larson, synthetic, corpus / "perl.tape", corpus / "redis.tape"):
        for command in ("info", "compile", "profile"):
            cells = (f"{counted(program, command, tape, folder):.0f}" for program in programs.values())
            print(f"| {command}, {tape.stem} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, metavar="OTHER_OUT", help="another build, by its `out`")
    parser.add_argument("--count", action="store_true", help="instructions per event instead of rates")
    arguments = parser.parse_args()
    programs = {"here": Path(CONVERT)}
    if arguments.against:
        programs = {"against": arguments.against / Path(CONVERT).relative_to(OUT), **programs}
    with tempfile.TemporaryDirectory(prefix="heaptape-bench-") as name:
        (count_all if arguments.count else time_all)(programs, Path(name))


if __name__ == "__main__":
    main()
