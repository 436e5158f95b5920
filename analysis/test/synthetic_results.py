# SPDX-License-Identifier: MIT
"""Results files made up for tests: not measured, but in the format of the replay engine."""

import base64
import functools
import json
import math
import random
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc")
CALLS = {"malloc": 90.0, "calloc": 160.0, "realloc": 210.0, "free": 70.0}


def deflated(raw: bytes) -> str:
    """The engine's encoding of binary tables. Level 1, as compression took half of the time for making results."""
    return base64.b64encode(zlib.compress(raw, 1)).decode()


def encode_resident_map(region_bytes: int, positions: list[int], cells: list[dict[int, tuple[int, int]]]) -> dict:
    """The engine's encoding: per position u32 n, then n x (u64 region, u32 live bytes, u32 resident bytes)."""
    raw = b"".join(
        struct.pack("<I", len(c)) + b"".join(struct.pack("<QII", r, *both) for r, both in sorted(c.items()))
        for c in cells
    )
    return {
        "region_bytes": region_bytes,
        "positions": positions,
        "encoding": "zlib+base64",
        "columns": ["region", "live_bytes", "resident_bytes"],
        "residency": "pagemap",
        "cells": deflated(raw),
    }


def encode_memory_map(region_bytes: int, positions: list[int], cells: list[dict[int, int]]) -> dict:
    """The engine's encoding where residency was not measured."""
    table = encode_resident_map(region_bytes, positions, [{r: (live, 0) for r, live in c.items()} for c in cells])
    return table | {"residency": "none"}


def encode_fragmentation(positions: Iterable[int], rows: list[dict[str, int]], walk_states: Iterable[str] = ()) -> dict:
    """The engine's encoding: columns one after another, a little-endian u64 for each position."""
    columns = list(rows[0])
    raw = b"".join(struct.pack(f"<{len(rows)}q", *(row[name] for row in rows)) for name in columns)
    return {
        "os_page_bytes": 4096,
        "positions": list(positions),
        "columns": columns,
        "encoding": "zlib+base64",
        "values": deflated(raw),
        "usable_size": True,
        "walk_states": list(walk_states),
    }


def histogram(random_source: random.Random, mean: float, count: int) -> list[list[int]]:
    """A log-linear histogram with about the mean `mean`: [lower bound in cycles, count]."""
    buckets: dict[int, int] = {}
    for _ in range(400):
        value = random_source.lognormvariate(math.log(mean) - 0.3, 0.8)
        power = max(0, math.floor(math.log2(max(value, 1))) - 2)
        lower = int(value) >> power << power
        buckets[lower] = buckets.get(lower, 0) + count // 400
    return [[lower, n] for lower, n in sorted(buckets.items())]


def make_run(allocator: str, pass_: str, repeat: int, ops: int, source: random.Random) -> dict:
    """One run, as the engine would report it."""
    slowness = 1.0 + 0.12 * ALLOCATORS.index(allocator)
    noise = source.uniform(0.985, 1.015)
    run: dict = {"allocator": allocator, "variant": "default", "repeat": repeat, "pass": pass_}
    run |= {
        "order": "recorded" if pass_ == "memory" else "window=64",
        "touch": "recorded",
        "engine_cycles_per_op": 11.0,
    }
    run |= {
        "cycles_hz": 2.4e9,
        "counter_overhead_cycles": 38,
        "wall_ns": int(ops * 60 * slowness * noise),
        "threads": 4,
    }
    if pass_ == "time":
        run["calls"] = {}
        for call, cycles in CALLS.items():
            count, mean = ops // 4, cycles * slowness * source.uniform(0.98, 1.02)
            run["calls"][call] = {"count": count, "cycles_total": int(count * mean), "mean": mean, "p50": mean * 0.7}
            run["calls"][call] |= {"p99": mean * 4, "p999": mean * 20, "max": mean * 4000}
            run["calls"][call]["histogram"] = histogram(source, mean, count)
        run["cycles_total"] = sum(c["cycles_total"] for c in run["calls"].values())
    if pass_ == "memory":
        run |= make_memory(ALLOCATORS.index(allocator), ops, source)
    return run


def make_memory(number: int, ops: int, source: random.Random) -> dict:
    """Time line, memory map and system calls of a program that grows, shrinks, and grows again."""
    live_at = [int(20e6 * abs(math.sin(3 * i / 1000)) * i / 1000) for i in range(1001)]
    rss, timeline = 0.0, []
    for i, live in enumerate(live_at):
        rss = max(live * (1.1 + 0.05 * number), rss * (0.9995 - 0.0008 * number))
        timeline.append([i * ops // 1000, int(rss), int(rss * 1.3 + (2 << 20)), live])
    region = 65536
    cells = []
    for i in range(0, 1001, 4):
        filled = {}
        for r in range(live_at[i] // region):
            low = 0x5555_0000_0000 // region if r < 150 else 0x7FFF_0000_0000 // region
            filled[low + r * 2] = int(region * source.uniform(0.3, 1.0))
        cells.append(filled)
    return {
        "rss_anon_peak_bytes": max(t[1] for t in timeline),
        "rss_anon_mean_bytes": sum(t[1] for t in timeline) // len(timeline),
        "mean_over": "wall time",
        "vm_size_peak_bytes": max(t[2] for t in timeline),
        "syscalls": {
            "mmap": 40 + number,
            "munmap": 11,
            "mremap": 0,
            "madvise": 90 * number,
            "brk": 200 // (number + 1),
        },
        "page_faults": 6000 + 500 * number,
        "timeline": timeline,
        "memory_map": encode_memory_map(region, [i * ops // 1000 for i in range(0, 1001, 4)], cells),
    }


def make_results(
    name: str = "synthetic",
    seed: int = 1,
    repeats: int = 3,
    ops: int = 1_000_000,
    allocators: Sequence[str] | None = None,
) -> dict:
    """A complete results object, of all ALLOCATORS or of some: each adds a second to making a page."""
    return json.loads(_results_text(name, seed, repeats, ops, tuple(ALLOCATORS if allocators is None else allocators)))


@functools.cache
def _results_text(name: str, seed: int, repeats: int, ops: int, allocators: tuple[str, ...]) -> str:
    """The results as text: tests change their copy, and many use the same."""
    source = random.Random(seed)
    runs = []
    for repeat in range(repeats):
        for pass_ in ("time", "memory", "bare"):
            runs += [make_run(a, pass_, repeat, ops, source) for a in allocators if pass_ == "time" or repeat < 2]
    return json.dumps(
        {
            "schema": 1,
            "heaptape": {"version": "0", "commit": None},
            "machine": {"cpu": "made up", "cores": 2, "kernel": "none", "cycles_hz": 2.4e9},
            "workload": {
                "name": name,
                "sha256": f"{seed:064x}",
                "ops": ops,
                "threads": 4,
                "ideal_rss_bytes": 19_000_000,
                "request_sizes": [[16 << i, 1000 >> i, (24 << i) * (1000 >> i)] for i in range(10)],
                "recorded": [
                    [i * ops // 100, int(20e6 * abs(math.sin(3 * i / 100)) * i / 100) + 2_000_000, 40_000_000]
                    for i in range(101)
                ],
            },
            "settings": {"seed": seed},
            "allocators": [{"name": a, "variant": "default", "version": "0", "environment": {}} for a in allocators],
            "runs": runs,
        }
    )


def write(path: Path, data: dict) -> Path:
    """Writes results as a file."""
    path.write_text(json.dumps(data))
    return path
