# SPDX-License-Identifier: MIT
"""What `heaptape observe --simulate` prints of a program."""

from heaptape.commands.observe import cell
from heaptape.common.phrases import capacity
from heaptape.common.tables import Cell, Table


def table(found: dict) -> Table:
    """A row for each figure, whose name is long; a column for each of the three sides."""
    sides = [found, found.get("allocator") or {}, found.get("program") or {}]
    rows = []
    for key in ("instructions", "data_accesses", "syscalls", "page_faults"):
        if key in found:
            rows.append([Cell(key.replace("_", " ")), *[cell(side.get(key), 1) for side in sides]])
    if "instruction_cache" in found:
        cells = [cell((side.get("instruction_cache") or {}).get("misses"), 1) for side in sides]
        rows.append([Cell("instruction cache misses"), *cells])
    for kind, size in (("caches", "bytes"), ("tlbs", "entries")):
        for index, level in enumerate(found.get(kind) or []):
            name = f"misses of {capacity(level[size])}" if kind == "caches" else f"TLB misses, {level[size]:,} entries"
            levels = [(side.get(kind) or [{}] * (index + 1))[index] for side in sides]
            rows.append([Cell(name), *[cell(one.get("misses"), 1) for one in levels]])
    return Table(
        f"{found.get('name', '?')} ({found.get('pid', '?')}), simulated",
        ["figure", "all", "allocator", "program"],
        rows,
    )
