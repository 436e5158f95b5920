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
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from heaptape.results import schema
from heaptape.results.model.counts import INSTRUCTIONS, Term, of_calls, of_misses
from heaptape.results.model.time_model import penalties_of
from heaptape.results.structs import Misses
from scipy.stats import spearmanr

from tests.bench.harness import heading, in_turns, row
from tests.support import HEAPTAPE

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
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        value = varint()
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


def libraries() -> dict[str, str]:
    """allocator -> what to preload."""
    listed = json.loads(subprocess.run([HEAPTAPE, "allocators", "--json"], capture_output=True, check=True).stdout)
    paths = {one["name"]: one["path"] for one in listed["allocators"] if one.get("path")}
    return {"glibc": "", **{name: paths[name] for name in ALLOCATORS}}


def by_loop(calls: list[tuple[int, int, int]], rounds: str, scratch: Path) -> dict[str, float]:
    """allocator -> ns per call of the plain loop: the median of runs in turns."""
    ops, program = scratch / "ops", scratch / "plain_loop"
    ops.write_bytes(b"".join(struct.pack("=QQQ", *call) for call in calls))
    if not program.exists():
        subprocess.run(["cc", "-O2", "-o", program, LOOP], check=True)

    def timed(preload: str) -> float:
        environment = {"LD_PRELOAD": preload} if preload else {}
        return float(subprocess.run([program, ops, rounds], env=environment, capture_output=True, check=True).stdout)

    ways = {name: lambda preload=preload: timed(preload) for name, preload in libraries().items()}
    return {name: statistics.median(times) for name, times in in_turns(ways, ROUNDS).items()}


def replayed(path: Path, output: Path, *options: str) -> Path:
    """`output`: results of `heaptape replay` on all allocators."""
    output.unlink(missing_ok=True)
    chosen = [word for name in ("glibc", *ALLOCATORS) for word in ("-a", name)]
    command = [str(HEAPTAPE), "replay", str(path), *chosen, *options, "--seed", "1", "-o", str(output)]
    subprocess.run(command, capture_output=True, check=True)
    return output


def compared(results: Path) -> dict[tuple[str, str], float]:
    """(allocator, metric) -> figure of `heaptape compare --json`."""
    printed = subprocess.run([HEAPTAPE, "compare", results, "--json"], capture_output=True, check=True).stdout
    rows = [one for one in json.loads(printed)["rows"] if one["value"] is not None]
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


def ns(terms: Sequence[Term]) -> float:
    return sum(term.count * term.penalty.middle for term in terms)


def predicted(calls: list[tuple[int, int, int]], warm: Path, scratch: Path) -> dict[str, float]:
    """allocator -> predicted ns of a round of the calls in a process that has made them before. `warm`: results with
    the round's instructions.
    """
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
                kernel[run.label] += sign * ns(of_misses(Misses(), run, known).terms) / rounds
    own = {
        name: ns([term for term in of_calls(name, counted, known).terms if term.part == INSTRUCTIONS])
        for name in kernel
    }
    return {name: own[name] + kernel[name] for name in kernel}


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
            found[a, "warm"] = warm[a, "total_cycles"] / warm["glibc", "total_cycles"]
            found[a, "default"] = default[a, "total_cycles"] / default["glibc", "total_cycles"]
    return found


def agreement(theirs: Sequence[float], ours: Sequence[float]) -> tuple[str, str, str]:
    """Signs that agree, rank correlation and median of ours / theirs, where both are known (else NaN)."""
    pairs = [(x, y) for x, y in zip(theirs, ours, strict=True) if not math.isnan(x + y)]
    signs = sum((x < 1) == (y < 1) for x, y in pairs)
    rank = spearmanr(*zip(*pairs, strict=True)).statistic if len(pairs) > 2 else math.nan
    return (
        f"{signs} of {len(pairs)}",
        f"{rank:.2f}",
        f"{statistics.median([y / x for x, y in pairs] or [math.nan]):.2f}",
    )


def print_tables(table: pd.DataFrame) -> None:
    heading("trace", *table.columns)
    for name, values in table.iterrows():
        row(str(name), f"{values['calls']:,.0f}", *("–" if math.isnan(x) else f"{x:.2f}" for x in values.iloc[1:]))
    print()
    heading("against published", "signs", "rank correlation", "median of ours / theirs")
    for a in ALLOCATORS:
        for column in COLUMNS[1:]:
            row(f"{a}: {column}", *agreement(list(table[f"{a}: {PUBLISHED}"]), list(table[f"{a}: {column}"])))


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
