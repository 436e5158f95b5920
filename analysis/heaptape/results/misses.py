# SPDX-License-Identifier: MIT
"""Figures of the pass `misses`: a run's "misses" object as metrics, and their names.

A metric is "misses/SIDE/COUNT": SIDE is all, program or allocator; COUNT is cache_BYTES, tlb_ENTRIES, page_faults or
instructions.
"""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from heaptape.results.structs import Misses, SimulatedSide

SIDES = ("all", "program", "allocator")
OF_ALL = "misses/all/"
PAGE_FAULTS, INSTRUCTIONS = "page_faults", "instructions"


def figures(misses: Misses) -> Iterator[tuple[str, str, float]]:
    """Metric, unit and count for each figure that the "misses" object of a run has. For a recording in bursts, a
    burst's first accesses are left out: it is not known whether they missed, or were page faults.
    """
    program, allocator = misses.program_instructions, misses.allocator_instructions
    both = program + allocator if program is not None and allocator is not None else None
    bursts = misses.bursts
    yield from _of_side("all", misses, both, bursts.unsure_page_faults if bursts else None)
    for side, counts in (("program", misses.program), ("allocator", misses.allocator)):
        if counts:
            yield from _of_side(side, counts, counts.instructions, counts.unsure_page_faults)


def of_levels(misses: Mapping) -> dict[str, float]:
    """Metric -> misses of both sides, for each cache and TLB. `misses`: the object as JSON."""
    found = figures(msgspec.convert(misses, Misses))
    return {metric: value for metric, unit, value in found if metric.startswith(OF_ALL) and unit == "misses"}


def until(metric: str, windows: Mapping) -> np.ndarray:
    """Misses of both sides up to each position of `windows`, including those of the start-up. Raises KeyError if
    `windows` does not have that cache or TLB.
    """
    rows = {f"cache_{level['bytes']}": level["misses"] for level in windows["caches"]}
    rows |= {f"tlb_{level['entries']}": level["misses"] for level in windows["tlbs"]}
    return np.array(rows[metric.removeprefix(OF_ALL)], np.float64)


def _of_side(
    side: str, counts: Misses | SimulatedSide, instructions: int | None, unsure: int | None
) -> Iterator[tuple[str, str, float]]:
    found = [(f"cache_{level.bytes}", "misses", level.misses, level.first_misses) for level in counts.caches or []]
    found += [(f"tlb_{level.entries}", "misses", level.misses, level.first_misses) for level in counts.tlbs or []]
    found += [(PAGE_FAULTS, "faults", counts.page_faults, unsure), (INSTRUCTIONS, "instructions", instructions, None)]
    for name, unit, count, left_out in found:
        if count is not None:
            yield f"misses/{side}/{name}", unit, float(count - (left_out or 0))


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
