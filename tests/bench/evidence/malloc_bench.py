# SPDX-License-Identifier: MIT
"""ClaytonKnittel/malloc-bench's published speeds beside heaptape's figures for its traces: a table for
docs/measurements/accounts.md.

    python -m tests.bench.evidence.malloc_bench CHECKOUT [--exact] [--results F.csv] [TRACE...]

CHECKOUT: a clone of that repository. Its README has operations per second on glibc, tcmalloc and jemalloc: one thread
repeats a trace in one process, touches nothing, drops free(NULL). Of each trace, the time per call relative to glibc's:

- *published*: from the README (September 2024, machine and versions unknown);
- *plain loop*: the same method on this machine (plain_loop.c, which shares nothing with heaptape, and whose operations
  are read by protobuf's rules here, not by the importer);
- *warm*: `heaptape replay --warm --touch none`, cycles of the calls; *instructions*: of the same;
- *prediction*: by the model of time from counts of the same: those instructions, and the page faults and memory system
  calls that further rounds of the trace add in one process;
- *default*: `heaptape replay`, cycles of the calls: a fresh process whose objects are touched: another question.

An hour for all on an idle machine. Traces of under 1,000 calls are left out: a README row of them times the loop.
--exact: only counts, which need no idle machine. --results keeps the figures: those of traces that are named are
replaced, and the table is of all in it.
"""

import argparse
import gzip
import json
import math
import re
import statistics
import struct
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
from heaptape.results import schema
from heaptape.results.model.counts import INSTRUCTIONS, Term, of_calls, of_misses
from heaptape.results.model.time_model import penalties_of
from heaptape.results.structs import Misses

from tests.bench.harness import agreement, heading, in_turns, on_allocator, row
from tests.support import HEAPTAPE, succeed

ALLOCATORS = ("jemalloc", "tcmalloc")
PUBLISHED = "published"
COLUMNS = (PUBLISHED, "plain loop", "warm", "instructions", "prediction", "default")
LEAST_CALLS, LOOP_CALLS, ROUNDS = 1000, 1_000_000, 5
LOOP = Path(__file__).with_name("plain_loop.c")
MALLOC, FREE, REALLOC, CALLOC = 1, 2, 3, 4


def published(readme: str) -> dict[str, dict[str, float]]:
    """allocator -> trace -> millions of operations a second."""
    found: dict[str, dict[str, float]] = {}
    name = ""
    for line in readme.splitlines():
        if line.startswith("#"):
            title = re.match(r"#+ (\w+) (?:malloc )?results:", line)
            name = title[1].lower() if title else "other"
        if cells := re.match(r"\|[ *]traces/(\S+)\.trace\s*\|\s*Y \|\s*([0-9.]+) \|", line):
            found.setdefault(name, {})[cells[1]] = float(cells[2])
    return found


def fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(field, number, bytes) of a protobuf message: varints and delimited fields."""
    at = 0

    def varint() -> int:
        nonlocal at
        end = next(i for i in range(at, len(data)) if data[i] < 0x80) + 1
        value = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(data[at:end]))
        at = end
        return value

    while at < len(data):
        key, value = varint(), varint()
        if key & 7 == 2:
            yield key >> 3, 0, data[at : at + value]
            at += value
        else:
            yield key >> 3, value, b""


def operations(path: Path) -> list[tuple[int, int, int]]:
    """The trace's calls as (kind, object, bytes) of plain_loop.c; free(NULL), and what has no result, are dropped."""
    objects: dict[int, int] = {}
    free: list[int] = []
    made = []

    def place(name: int) -> int:
        objects[name] = free.pop() if free else len(objects)
        return objects[name]

    for field, _, line in fields(gzip.decompress(path.read_bytes())):
        if field != 1:
            continue
        ((kind, _, call),) = fields(line)
        got = {number: value for number, value, _ in fields(call)}
        if kind == FREE and 1 in got:
            made.append((3, objects[got[1]], 0))
            free.append(objects.pop(got[1]))
        elif kind == REALLOC and 2 in got:
            objects[got[1]] = objects.pop(got[2])
            made.append((2, objects[got[1]], got.get(3, 0)))
        elif kind in (MALLOC, REALLOC) and 1 in got:
            made.append((0, place(got[1]), got.get(2 if kind == MALLOC else 3, 0)))
        elif kind == CALLOC and 1 in got:
            made.append((1, place(got[1]), got.get(2, 0) * got.get(3, 0)))
    return made


def by_loop(calls: list[tuple[int, int, int]], rounds: str, scratch: Path) -> dict[str, float]:
    """allocator -> ns per call of the plain loop: the median of runs in turns."""
    ops, program = scratch / "ops", scratch / "plain_loop"
    ops.write_bytes(b"".join(struct.pack("=QQQ", *call) for call in calls))
    if not program.exists():
        succeed("cc", "-O2", "-o", program, LOOP)

    def timed(name: str) -> float:
        return float(succeed(program, ops, rounds, env=on_allocator(name)).stdout)

    ways = {name: partial(timed, name) for name in ("glibc", *ALLOCATORS)}
    return {name: statistics.median(times) for name, times in in_turns(ways, ROUNDS).items()}


def replayed(path: Path, output: Path, *options: str) -> Path:
    """`output`: results of `heaptape replay` on all allocators."""
    output.unlink(missing_ok=True)
    chosen = [word for name in ("glibc", *ALLOCATORS) for word in ("-a", name)]
    succeed(HEAPTAPE, "replay", path, *chosen, *options, "--seed", "1", "-o", output, timeout_s=3600)
    return output


def compared(results: Path) -> dict[tuple[str, str], float]:
    """(allocator, metric) -> figure of `heaptape compare --json`."""
    printed = json.loads(succeed(HEAPTAPE, "compare", results, "--json").stdout)
    rows = [one for one in printed["rows"] if one["value"] is not None]
    return {(one["allocator"], one["metric"]): one["value"] for one in rows}


def write_rounds(calls: list[tuple[int, int, int]], rounds: int, path: Path) -> None:
    """A recording in text that makes the calls so many times. No address is used again."""
    places: dict[int, int] = {}
    top = 1 << 20
    with path.open("w") as text:
        text.write("# heaptape-text 1 clock=ordinal\n")
        for at, (kind, name, size) in enumerate(calls * rounds):
            if kind == 3:
                text.write(f"{at} 0 free({places.pop(name):#x})\n")
                continue
            call = (f"malloc({size})", f"calloc(1, {size})", f"realloc({places.get(name, 0):#x}, {size})")[kind]
            places[name] = top
            text.write(f"{at} 0 {call} = {top:#x}\n")
            top += size + 64 & ~15


def predicted(calls: list[tuple[int, int, int]], warm: Path, scratch: Path) -> dict[str, float]:
    """allocator -> predicted ns of a round of the calls in a process that has made them before. `warm`: results with
    the round's instructions.
    """

    def ns(term: Term) -> float:
        return term.count * term.penalty.middle

    counted = schema.results(warm)
    known = penalties_of(counted)
    assert known is not None
    rounds = max(1, LOOP_CALLS // len(calls))
    kernel: dict[str, float] = dict.fromkeys(("glibc", *ALLOCATORS), 0.0)
    for number, sign in ((1, -1), (1 + rounds, 1)):
        write_rounds(calls, number, scratch / "rounds.txt")
        made = replayed(scratch / "rounds.txt", scratch / "rounds.json", "--touch", "none", "--passes", "memory")
        for run in schema.results(made).measured:
            if run.pass_ == "memory":
                kernel[run.label] += sign * sum(map(ns, of_misses(Misses(), run, known).terms)) / rounds
    own = {name: [one for one in of_calls(name, counted, known).terms if one.part == INSTRUCTIONS] for name in kernel}
    return {name: sum(map(ns, own[name])) + kernel[name] for name in kernel}


def measured(path: Path, calls: list[tuple[int, int, int]], scratch: Path, exact: bool) -> dict[tuple[str, str], float]:
    """(allocator, column) -> its figure as a share of glibc's, of the columns that are measured here; `exact`: of those
    that are counted.
    """
    rounds = str(max(1, LOOP_CALLS // len(calls)))
    grown = ("--warm", rounds, "--touch", "none", "-n", "1" if exact else str(ROUNDS))
    output = scratch / "warm.json"
    warm = compared(replayed(path, output, *grown, "--passes", "instructions" if exact else "time,instructions"))
    expected = predicted(calls, output, scratch)
    found = {}
    for a in ALLOCATORS:
        found[a, "instructions"] = warm[a, "total_instructions"] / warm["glibc", "total_instructions"]
        found[a, "prediction"] = expected[a] / expected["glibc"]
    if not exact:
        loop = by_loop(calls, rounds, scratch)
        default = compared(replayed(path, scratch / "default.json", "--passes", "time", "-n", str(ROUNDS)))
        for a in ALLOCATORS:
            found[a, "plain loop"] = loop[a] / loop["glibc"]
            for column, of in (("warm", warm), ("default", default)):
                found[a, column] = of[a, "total_cycles"] / of["glibc", "total_cycles"]
    return found


def print_tables(table: pd.DataFrame) -> None:
    heading("trace", *table.columns)
    for name, values in table.iterrows():
        row(str(name), f"{values['calls']:,.0f}", *("–" if math.isnan(x) else f"{x:.2f}" for x in values.iloc[1:]))
    print()
    heading("against published", "signs", "rank correlation", "median of ours / theirs")
    for a in ALLOCATORS:
        for column in COLUMNS[1:]:
            ours, theirs = table[f"{a}: {column}"], table[f"{a}: {PUBLISHED}"]
            *agreed, _ = agreement(zip(theirs - 1, ours - 1))
            row(f"{a}: {column}", *agreed, f"{(ours / theirs).median():.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--results", type=Path, metavar="F.csv")
    parser.add_argument("traces", nargs="*")
    arguments = parser.parse_intermixed_args()
    kept, speeds = arguments.results, published((arguments.checkout / "README.md").read_text())
    table = pd.DataFrame(columns=["calls", *(f"{a}: {column}" for a in ALLOCATORS for column in COLUMNS)], dtype=float)
    if kept and kept.exists():
        table = pd.read_csv(kept, index_col="trace")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.traces or sorted(set(speeds["glibc"]) & set(speeds["jemalloc"])):
            path = arguments.checkout / "traces" / f"{name}.trace.gz"
            if not path.exists() or len(calls := operations(path)) < LEAST_CALLS:
                continue
            table.loc[name, "calls"] = len(calls)
            for (a, column), value in measured(path, calls, Path(folder), arguments.exact).items():
                table.loc[name, f"{a}: {column}"] = value
            for a in ALLOCATORS:
                table.loc[name, f"{a}: {PUBLISHED}"] = speeds["glibc"][name] / speeds[a].get(name, math.nan)
            if kept:
                table.to_csv(kept, index_label="trace", float_format="%.3f")
    print_tables(table)


if __name__ == "__main__":
    main()
