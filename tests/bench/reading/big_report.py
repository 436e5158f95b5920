# SPDX-License-Identifier: MIT
"""Results of the size in the report's target: nine workloads under eight allocators, ten repetitions. Synthetic, but as
large and as hard to compress as those of the replay engine: time lines of 2,048 samples, memory maps of 233 positions,
histograms of each call and of each of its size classes.

Modelled on a replay of `heaptape workloads capture phases` under eight allocators, four repetitions: 17 kB of JSON per
time run for two busy calls, 80 kB per time line, 260 kB per memory map, 12 to 27 kB per fragmentation.
"""

import base64
import json
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.support import HEAPTAPE

WORKLOADS, REPEATS, SAMPLES, POSITIONS, REGION_BYTES = 9, 10, 2048, 233, 16384
ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "reference", "hoard", "snmalloc")
# Their memory differs from run to run, so it is measured as often as time.
RESTLESS = ("jemalloc", "mimalloc")
# Exports a heap walk.
WALKED = ("reference",)
CALLS = {"malloc": 90.0, "free": 70.0, "realloc": 210.0, "calloc": 160.0}
SIZE_CLASSES = (32, 64, 128, 256, 512, 1024, 4096, 65536)
OPS = 1_000_000


@dataclass(frozen=True)
class Cost:
    """Cost of one report."""

    seconds: float
    page_bytes: int


def measure(folder: Path) -> Cost:
    """Writes the results into the folder, and makes the report from them as a user would."""
    paths = []
    for number in range(WORKLOADS):
        paths.append(folder / f"w{number}.json")
        paths[-1].write_text(json.dumps(make(f"workload {number + 1}", number), separators=(",", ":")))
    page = folder / "big.html"
    begin = time.monotonic()
    subprocess.run([HEAPTAPE, "report", *paths, "-o", page], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - begin
    return Cost(seconds, page.stat().st_size)


def make(name: str, seed: int) -> dict:
    source = np.random.default_rng(seed)
    runs = []
    for number, allocator in enumerate(ALLOCATORS):
        runs += [_run(allocator, "time", repeat, _time(source, 1 + 0.07 * number)) for repeat in range(REPEATS)]
        runs += [_run(allocator, "bare", repeat, {"wall_ns": int(source.normal(6e7, 1e6))}) for repeat in range(2)]
        memory = _memory(source, number)
        for repeat in range(REPEATS if allocator in RESTLESS else 2):
            runs.append(_run(allocator, "memory", repeat, memory))
            memory = _memory(source, number) if allocator in RESTLESS else memory
    sizes = [[16 << i, 1000 >> i, (24 << i) * (1000 >> i)] for i in range(10)]
    workload = {"name": name, "sha256": f"{seed:064x}", "ops": OPS, "threads": 4, "ideal_rss_bytes": 19_000_000}
    return {
        "schema": 1,
        "machine": {"cpu": "made up", "cores": 2, "kernel": "none"},
        "workload": workload | {"request_sizes": sizes},
        "settings": {"seed": seed, "repeats": {"time": REPEATS}},
        "allocators": [{"name": a, "variant": "default", "version": "0"} for a in ALLOCATORS],
        "runs": runs,
    }


def _run(allocator: str, pass_: str, repeat: int, measured: dict) -> dict:
    about = {"allocator": allocator, "variant": "default", "repeat": repeat, "pass": pass_, "ops": OPS, "threads": 4}
    return about | {"order": "window=4096", "touch": "recorded", "engine_cycles_per_op": 11.0} | measured


def _time(source: np.random.Generator, slowness: float) -> dict:
    calls = {}
    for call, cycles in CALLS.items():
        calls[call] = _latency(source, cycles * slowness, OPS // 4)
        shares = [_latency(source, cycles * slowness, OPS // 32) | {"up_to_bytes": bytes_} for bytes_ in SIZE_CLASSES]
        calls[call]["sizes"] = shares
    slowest = [
        {"call": "malloc", "cycles": int(c), "size_bytes": 750, "thread": 0, "op": int(o), "position": int(o)}
        for c, o in zip(source.integers(20_000, 300_000, 64), source.integers(0, OPS, 64))
    ]
    total = sum(call["cycles_total"] for call in calls.values())
    return {"calls": calls, "cycles_total": total, "slowest": slowest}


def _latency(source: np.random.Generator, mean: float, count: int) -> dict:
    """Log-normal calls: figures, and a histogram of eight buckets per power of two."""
    values = source.lognormal(np.log(mean) - 0.3, 0.8, min(count, 8000))
    lower = 2.0 ** (np.floor(8 * np.log2(values)) / 8)
    buckets, counts = np.unique(lower.astype(int), return_counts=True)
    p50, p99, p999 = np.percentile(values, (50, 99, 99.9))
    scale = count // len(values)
    return {
        "count": count, "cycles_total": int(values.mean() * count), "mean": float(values.mean()), "p50": int(p50),
        "p99": int(p99), "p999": int(p999), "max": int(values.max() * 50),
        "histogram": [[int(b), int(c * scale + source.integers(0, scale + 1))] for b, c in zip(buckets, counts)],
    }  # fmt: skip


def _memory(source: np.random.Generator, number: int) -> dict:
    progress = np.linspace(0, 1, SAMPLES)
    live = 20e6 * np.abs(np.sin(9 * progress)) * progress
    steps = source.integers(0, 30, SAMPLES) * (source.random(SAMPLES) < 0.2)
    rss = (np.maximum.accumulate(live * (1.1 + 0.05 * number)) // 4096 + steps.cumsum()) * 4096
    rows = np.column_stack([progress * OPS, rss, rss * 1.3 + (2 << 20), live]).astype(np.int64)
    regions = 800 + 130 * number
    moves = source.normal(0, 0.1, (POSITIONS, regions)) * (source.random((POSITIONS, regions)) < 0.25)
    filled = np.clip(source.normal(0.6, 0.25, (1, regions)) + moves.cumsum(axis=0), 0, 1)
    used = (np.linspace(0, 1.3, POSITIONS)[:, None] * regions > np.arange(regions)[None, :]) & (filled > 0)
    parts = []
    for position in range(POSITIONS):
        at = np.flatnonzero(used[position])
        cells = np.zeros(len(at), np.dtype([("region", "<u8"), ("live", "<u4"), ("resident", "<u4")]))
        cells["region"] = 0x5555_5555_0000 // REGION_BYTES + at
        cells["live"], cells["resident"] = (filled[position, at] * REGION_BYTES).astype(int) & ~15, REGION_BYTES
        parts += [len(at).to_bytes(4, "little"), cells.tobytes()]
    at = np.linspace(0, SAMPLES - 1, POSITIONS).astype(int)
    return {
        "fragmentation": _fragmentation(source, rows[at], ALLOCATORS[number]),
        "rss_anon_peak_bytes": int(rss.max()), "rss_anon_mean_bytes": int(rss.mean()),
        "vm_size_peak_bytes": int(rows[:, 2].max()), "page_faults": 6000 + number,
        "syscalls": {"mmap": 40, "munmap": 11, "mremap": 0, "madvise": 90, "brk": 200},
        "timeline": rows.tolist(),
        "memory_map": {
            "region_bytes": REGION_BYTES, "positions": np.linspace(0, OPS, POSITIONS).astype(int).tolist(),
            "encoding": "zlib+base64", "columns": ["region", "live_bytes", "resident_bytes"], "residency": "pagemap",
            "cells": base64.b64encode(zlib.compress(b"".join(parts))).decode(),
        },
    }  # fmt: skip


def _fragmentation(source: np.random.Generator, rows: np.ndarray, allocator: str) -> dict:
    """Composition of RSS: parts and fills that vary, as those of real allocators do."""
    rss, live = rows[:, 1], rows[:, 3]
    live_resident = np.minimum(live, rss)
    parts = _shares(source, 5) * (rss - live_resident)[:, None]
    names = ("rounding_bytes", "beside_live_bytes", "empty_bytes", "never_used_bytes")
    columns = {"rss_anon_bytes": rss, "live_bytes": live, "live_resident_bytes": live_resident}
    columns |= {name: parts[:, n].astype(np.int64) & ~15 for n, name in enumerate(names)}
    columns["overlap_bytes"] = np.zeros_like(rss)
    fills = (_shares(source, 12) * (rss // 4096)[:, None]).astype(np.int64)
    classes = ("0", *range(10, 100, 10), "below_100", "100")
    columns |= {f"os_pages_{name}": fills[:, n] for n, name in enumerate(classes)}
    states = ["in use", "header", "thread cache", "bin", "top"] if allocator in WALKED else []
    walked = (_shares(source, 5) * rss[:, None]).astype(np.int64) & ~15
    for n, state in enumerate(states):
        for share, what in ((1, "bytes"), (2, "beside_live_bytes"), (3, "empty_bytes")):
            columns[f"walk_{state}_{what}"] = walked[:, n] // share
    raw = b"".join(column.astype("<i8").tobytes() for column in columns.values())
    return {
        "os_page_bytes": 4096, "positions": rows[:, 0].tolist(), "encoding": "zlib+base64", "columns": list(columns),
        "values": base64.b64encode(zlib.compress(raw)).decode(), "usable_size": True, "walk_states": states,
    }  # fmt: skip


def _shares(source: np.random.Generator, count: int) -> np.ndarray:
    """Shares of a whole that vary from position to position, most of the time not at all."""
    moves = source.normal(0, 0.15, (POSITIONS, count)) * (source.random((POSITIONS, 1)) < 0.5)
    weights = np.exp(moves.cumsum(axis=0) + source.normal(0, 1, count))
    return weights / weights.sum(axis=1, keepdims=True)


if __name__ == "__main__":  # separately: python -m tests.bench.reading.big_report FOLDER
    print(measure(Path(sys.argv[1])))
