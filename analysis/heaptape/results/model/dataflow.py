# SPDX-License-Identifier: MIT
"""CPU time from simulated cycles: the processor's parameters, from the measurement of heaptape-machine, and what page
faults and system calls add.

A load takes the time of a chain over a working set that just fits into the cache that it hits. Behind the second cache
the simulated ones are powers of four of it, not the machine's own, as neighbours of a virtual machine use the last
level, too: how long a load takes that comes back after so much other memory is what a chain over that much measures.
So is how long a walk takes after so many other OS pages: the page tables need the caches, too.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from heaptape.results.model.penalties import Geometry, Level, Penalties, geometry_of, levels, os_pages_between

OUTER = 2  # caches behind the second one, and TLBs behind the last, each four times as large as the one before
MOST_BYTES = 256 << 20  # chains over more measure the misses of huge pages' TLBs
OVERLAPS = 1.5  # two loads that take less than so many times one overlap


def simulated(geometry: Geometry) -> Geometry:
    """The caches and TLBs that are simulated for cycles on a machine with these.

    >>> [level.capacity >> 20 for level in simulated(Geometry()).caches[1:]]
    [0, 1, 4]
    """
    first, second = geometry.caches[:2]
    return Geometry((first, *_with_outer(second)), (*geometry.tlbs[:-1], *_with_outer(geometry.tlbs[-1])))


def _with_outer(level: Level) -> list[Level]:
    return [Level(level.capacity << (2 * step), level.ways) for step in range(OUTER + 1)]


def options(measured: Mapping[str, Any]) -> list[str]:
    """The options of `heaptape-observe --simulate` with which it counts cycles; none if the measurement, of an earlier
    version or another processor, lacks a parameter.
    """
    own, core = geometry_of(dict(measured)), measured.get("core") or {}
    cycle = _cycle_ns(measured)
    window, loads = (
        _overlapping([(row["instructions"], row["pair_ns"]["median"]) for row in core.get(kind, ())])
        for kind in ("pairs", "waiting_loads")
    )
    if own is None or not cycle or not window or not loads or "taken_ns" not in core:
        return []
    geometry = simulated(own)
    width = max(round(cycle / measured["code"]["arithmetic"]["instruction_ns"]["quarter"]), 1)
    # Every second one of branch_random is mispredicted.
    branch = 2 * (core["branch_random_ns"]["quarter"] - core["branch_known_ns"]["quarter"])
    start = measured["strings"]["fill"]["line_ns"]["quarter"]
    taken = core["taken_ns"]["quarter"]
    numbers = (width, window, loads, round(max(branch, 0) / cycle), round(start / cycle), round(10 * taken / cycle))
    second = geometry.caches[1].capacity
    sets = [_latencies(measured, size, second, cycle) for size in _working_sets(geometry)]
    latencies = ",".join(":".join(map(str, one)) for one in sets)
    tlbs = ",".join(str(_tlb_cycles(measured, pair, cycle)) for pair in levels([one.capacity for one in geometry.tlbs]))
    return [*geometry.options, "--core", ":".join(map(str, numbers)), "--latencies", latencies, "--tlb-latencies", tlbs]


def cpu_ns(found: Mapping[str, Any], costs: Penalties) -> float:
    """Of a simulated process: its cycles, and what its page faults and system calls take in the kernel."""
    calls = dict(found["syscalls_by_kind"])
    kernel = sum(calls.pop(name, 0) * cost.middle for name, cost in costs.system_calls.items())
    kernel += sum(calls.values()) * costs.other_system_call.low
    return found["cycles"] * _cycle_ns(costs.measured) + found["page_faults"] * costs.page_fault.middle + kernel


def _cycle_ns(measured: Mapping[str, Any]) -> float:
    return float(measured["code"]["cycle_ns"]["median"])


def _overlapping(pairs: Sequence[tuple[int, float]]) -> int:
    """Between the most instructions behind each load with which two loads still overlap, and the next larger number.
    0: not measured.
    """
    if not pairs:
        return 0
    least = min(ns for _, ns in pairs)
    if least <= 0:
        return 0
    within = max(count for count, ns in pairs if ns < OVERLAPS * least)
    beyond = min((count for count, _ in pairs if count > within), default=within)
    return round(math.sqrt(within * beyond))


def _working_sets(geometry: Geometry) -> list[int]:
    """Of each cache half its size, and of memory four times the last."""
    sizes = [level.capacity for level in geometry.caches]
    return [*(size // 2 for size in sizes), 4 * sizes[-1]]


def _latencies(measured: Mapping[str, Any], size: int, second: int, cycle: float) -> tuple[int, ...]:
    """In cycles: of a load in any line, in the other line of a pair just loaded, and of one that a prefetcher foresees,
    which has then been brought into the second cache, of `second` bytes, but no faster than a stream goes. Of a chain
    in four OS pages at a time every second load is in the other line. The first two caches are the core's own: other
    processes only disturb them, so the quartile counts; the others are shared, as they are.
    """
    quantile = "quarter" if size <= second // 2 else "median"

    def ns(bytes_: int, key: str) -> float:
        rows = [row for row in measured["working_sets"] if row["bytes"] <= MOST_BYTES]
        return float(min(rows, key=lambda row: abs(math.log(row["bytes"] / bytes_)))[key][quantile])

    any_line = ns(size, "dependent_ns")
    brought = max(ns(second // 2, "near_dependent_ns"), ns(size, "stream_ns"))
    near = max(2 * ns(size, "near_dependent_ns") - any_line, brought)
    return tuple(round(min(one, any_line) / cycle) for one in (any_line, near, brought))


def _tlb_cycles(measured: Mapping[str, Any], pair: tuple[int, int | None], cycle: float) -> int:
    pages = os_pages_between(*pair)
    row = min(measured["os_page_sets"], key=lambda one: abs(math.log(one["os_pages"] / pages)))
    apart, dense = (row[key]["dependent_ns"]["median"] for key in ("one_per_os_page", "side_by_side"))
    return max(round((apart - dense) / cycle), 0)
