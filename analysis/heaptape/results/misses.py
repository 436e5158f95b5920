# SPDX-License-Identifier: MIT
"""Figures of the pass `misses`: a run's "misses" object as metrics, and their names.

A metric is "misses/SIDE/COUNT": SIDE is all, program or allocator; COUNT is cache_BYTES, tlb_ENTRIES, page_faults or
instructions.
"""

from collections.abc import Iterator, Mapping

import numpy as np

SIDES = ("all", "program", "allocator")
OF_ALL = "misses/all/"
PAGE_FAULTS, INSTRUCTIONS = "page_faults", "instructions"


def figures(misses: Mapping) -> Iterator[tuple[str, str, float]]:
    """Metric, unit and count for each figure that the "misses" object of a run has. For a recording in bursts, a
    burst's first accesses are left out: it is not known whether they missed, or were page faults.
    """
    for side in SIDES:
        counts = misses if side == "all" else misses.get(side) or {}
        for name, unit, value in _of_side(counts):
            if isinstance(value, int):
                yield f"misses/{side}/{name}", unit, float(value)


def of_levels(misses: Mapping) -> dict[str, float]:
    """Metric -> misses of both sides, for each cache and TLB."""
    return {metric: value for metric, unit, value in figures(misses) if metric.startswith(OF_ALL) and unit == "misses"}


def until(metric: str, windows: Mapping) -> np.ndarray:
    """Misses of both sides up to each position of `windows`, including those of the start-up. Raises KeyError if
    `windows` does not have that cache or TLB.
    """
    rows = {f"cache_{level['bytes']}": level["misses"] for level in windows["caches"]}
    rows |= {f"tlb_{level['entries']}": level["misses"] for level in windows["tlbs"]}
    return np.array(rows[metric.removeprefix(OF_ALL)], np.float64)


def _of_side(counts: Mapping) -> Iterator[tuple[str, str, object]]:
    for level in counts.get("caches") or []:
        yield f"cache_{level['bytes']}", "misses", _less(level.get("misses"), level.get("first_misses"))
    for level in counts.get("tlbs") or []:
        yield f"tlb_{level['entries']}", "misses", _less(level.get("misses"), level.get("first_misses"))
    unsure = (counts.get("bursts") or counts).get("unsure_page_faults")
    yield PAGE_FAULTS, "faults", _less(counts.get("page_faults"), unsure)
    program, allocator = counts.get("program_instructions"), counts.get("allocator_instructions")
    whole = program + allocator if isinstance(program, int) and isinstance(allocator, int) else None
    yield INSTRUCTIONS, "instructions", counts.get("instructions", whole)


def _less(count: object, unsure: object) -> object:
    return count - unsure if isinstance(count, int) and isinstance(unsure, int) else count


def place(count: str) -> tuple[int, int]:
    """Sort key of a count: caches and TLBs by size, page faults, instructions."""
    kind, _, size = count.rpartition("_")
    order = ("cache", "tlb")
    return (order.index(kind), int(size)) if kind in order else (2 + (count != PAGE_FAULTS), 0)


def heading(count: str) -> str:
    """The heading of a table's column: "256 KiB", "TLB 64", "page faults"."""
    kind, _, size = count.rpartition("_")
    if kind == "tlb":
        return f"TLB {int(size):,}"
    if kind != "cache":
        return count.replace("_", " ")
    return f"{int(size) >> 20} MiB" if int(size) >= 1 << 20 else f"{int(size) >> 10} KiB"
