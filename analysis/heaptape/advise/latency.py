# SPDX-License-Identifier: MIT
"""Latencies that a server's load prints: wrk --latency, ab, redis-benchmark, memtier_benchmark, pgbench, dnsperf.

Each prints another table. What isn't printed is left out, so the result of an unknown load is empty. Where a load
prints several tests (redis-benchmark -t set,get), each figure is the largest.
"""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence

MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}
NUMBER = r"(\d+(?:\.\d+)?)"
SHARE = re.compile(rf"^\s+{NUMBER}%\s+{NUMBER}(us|ms|s|m)?\b", re.MULTILINE)  # wrk; ab, in ms
OF_WRK, OF_AB = "Latency Distribution", "Percentage of the requests served within"
SUMMARY = re.compile(r"latency summary \(msec\):\s*\n([\w .]+)\n([\d .]+)")  # redis-benchmark
QUIET = re.compile(rf"requests per second, p50={NUMBER} msec")  # redis-benchmark -q
AVERAGE = re.compile(rf"^latency average = {NUMBER} ms|^\s*Average Latency \(s\):\s+{NUMBER}", re.MULTILINE)
HEADER = re.compile(r"^Type .*Latency.*$", re.MULTILINE)  # memtier_benchmark
COLUMN = re.compile(r"(\S+) Latency|\S+")
TOTALS = re.compile(r"^Totals\s+(.*)$", re.MULTILINE)
NAMES = {"Avg.": "mean", "avg": "mean"}


def printed_ms(text: str) -> dict[str, float]:
    """ "mean", "p50", "p99.9", … -> ms."""
    found: dict[str, float] = {}
    for name, value in _all(text):
        if re.fullmatch(r"mean|p\d+(\.\d+)?", name):
            found[name] = max(value, found.get(name, 0.0))
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def _order(name: str) -> float:
    return -1.0 if name == "mean" else float(name[1:])


def _all(text: str) -> Iterator[tuple[str, float]]:
    if OF_WRK in text or OF_AB in text:
        for share, value, unit in SHARE.findall(text):
            if share != "100":
                yield f"p{float(share):g}", float(value) * MS[unit or "ms"]
    for names, values in SUMMARY.findall(text):
        yield from ((NAMES.get(name, name), float(value)) for name, value in zip(names.split(), values.split()))
    yield from (("p50", float(value)) for value in QUIET.findall(text))
    for in_ms, in_s in AVERAGE.findall(text):
        yield "mean", float(in_ms) if in_ms else 1e3 * float(in_s)
    header, totals = HEADER.search(text), TOTALS.search(text)
    if header and totals:
        columns = [found[1] for found in COLUMN.finditer(header[0].partition(" ")[2])]
        for name, value in zip(columns, totals[1].split()):
            if name and re.fullmatch(NUMBER, value):
                yield NAMES.get(name, name), float(value)


def in_words(before: Sequence[Mapping[str, float]], after: Sequence[Mapping[str, float]]) -> str:
    """Medians of the runs of two allocators, each with the least and the most of its runs; empty: none was printed."""
    names = [name for name in (before[0] if before else {}) if all(name in one for one in (*before, *after)) and after]
    names = [name for name in names if name in ("mean", "p50", "p99")] or names[-1:]
    parts = [f"{name} {_of([one[name] for one in before])} to {_of([one[name] for one in after])}" for name in names]
    return f"Latency of the load, ms: {', '.join(parts)}." if parts else ""


def _of(values: Sequence[float]) -> str:
    spread = f" ({min(values):.3g}-{max(values):.3g})" if len(values) > 1 else ""
    return f"{statistics.median(values):.3g}{spread}"
