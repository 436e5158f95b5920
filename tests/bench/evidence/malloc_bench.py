# SPDX-License-Identifier: MIT
"""ClaytonKnittel/malloc-bench's published speeds beside heaptape's figures for its traces: a table for
docs/measurements/published.md.

    python -m tests.bench.evidence.malloc_bench CHECKOUT [TRACE...]

CHECKOUT: a clone of that repository. Its README has operations per second on glibc, tcmalloc and jemalloc: one thread
repeats a trace in one process, touches nothing, drops free(NULL). Of each trace, the time per call relative to glibc's:

- *published*: from the README (September 2024, machine and versions unknown);
- *plain loop*: the same method on this machine (plain_loop.c, which shares nothing with heaptape, and whose operations
  are read by protobuf's rules here, not by the importer);
- *warm*: `heaptape replay --warm --touch none`, cycles of the calls; *instructions*: of the same;
- *default*: `heaptape replay`, cycles of the calls: a fresh process whose objects are touched: another question.

An hour for all on an idle machine. Traces of under 1,000 calls are left out: a README row of them times the loop.
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
from collections.abc import Iterator
from pathlib import Path

from scipy.stats import spearmanr

from tests.bench.harness import heading, in_turns, row
from tests.support import HEAPTAPE

ALLOCATORS = ("jemalloc", "tcmalloc")
PUBLISHED = "published"
COLUMNS = (PUBLISHED, "plain loop", "warm", "instructions", "default")
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


def by_replay(path: Path, scratch: Path, *options: str) -> dict[tuple[str, str], float]:
    """(allocator, metric) -> figure of `heaptape compare --json`."""
    output = scratch / "results.json"
    output.unlink(missing_ok=True)
    chosen = [word for name in ("glibc", *ALLOCATORS) for word in ("-a", name)]
    made = ["--seed", "1", "-n", str(ROUNDS), "-o", str(output)]
    command = [str(HEAPTAPE), "replay", str(path), *chosen, *options, *made]
    subprocess.run(command, capture_output=True, check=True)
    compared = subprocess.run([HEAPTAPE, "compare", output, "--json"], capture_output=True, check=True).stdout
    rows = [one for one in json.loads(compared)["rows"] if one["value"] is not None]
    return {(one["allocator"], one["metric"]): one["value"] for one in rows}


def measured(path: Path, calls: list[tuple[int, int, int]], scratch: Path) -> dict[tuple[str, str], float]:
    """(allocator, column) -> its figure as a share of glibc's, of the columns that are measured here."""
    rounds = str(max(1, LOOP_CALLS // len(calls)))
    loop = by_loop(calls, rounds, scratch)
    warm = by_replay(path, scratch, "--warm", rounds, "--touch", "none", "--passes", "time,instructions")
    default = by_replay(path, scratch, "--passes", "time")
    found = {}
    for a in ALLOCATORS:
        found[a, "plain loop"] = loop[a] / loop["glibc"]
        for column, figures, metric in (
            ("warm", warm, "total_cycles"),
            ("instructions", warm, "total_instructions"),
            ("default", default, "total_cycles"),
        ):
            found[a, column] = figures[a, metric] / figures["glibc", metric]
    return found


def agreement(theirs: list[float], ours: list[float]) -> tuple[str, str, str]:
    """Signs that agree, rank correlation and median of ours / theirs, where theirs are known (else NaN)."""
    pairs = [(x, y) for x, y in zip(theirs, ours, strict=True) if not math.isnan(x)]
    signs = sum((x < 1) == (y < 1) for x, y in pairs)
    rank = spearmanr(*zip(*pairs, strict=True)).statistic
    return f"{signs} of {len(pairs)}", f"{rank:.2f}", f"{statistics.median(y / x for x, y in pairs):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("traces", nargs="*")
    arguments = parser.parse_args()
    speeds = published((arguments.checkout / "README.md").read_text())
    ratios: dict[tuple[str, str], list[float]] = {(a, column): [] for a in ALLOCATORS for column in COLUMNS}
    heading("trace", "calls", *(f"{a}: {column}" for a, column in ratios))
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.traces or sorted(set(speeds["glibc"]) & set(speeds["jemalloc"])):
            path = arguments.checkout / "traces" / f"{name}.trace.gz"
            if not path.exists() or len(calls := operations(path)) < LEAST_CALLS:
                continue
            found = measured(path, calls, Path(folder))
            for a in ALLOCATORS:
                found[a, PUBLISHED] = speeds["glibc"][name] / speeds[a].get(name, math.nan)
            for place, values in ratios.items():
                values.append(found[place])
            row(name, f"{len(calls):,}", *(f"{values[-1]:.2f}" for values in ratios.values()))
    print()
    heading("against published", "signs", "rank correlation", "median of ours / theirs")
    for a, column in ratios:
        if column != PUBLISHED:
            row(f"{a}: {column}", *agreement(ratios[a, PUBLISHED], ratios[a, column]))


if __name__ == "__main__":
    main()
