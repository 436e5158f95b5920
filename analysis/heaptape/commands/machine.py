# SPDX-License-Identifier: MIT
"""`heaptape machine`: what misses, faults and instructions cost here."""

import argparse
import json
from typing import TYPE_CHECKING

from heaptape.commands.outcome import add_format_option
from heaptape.common.errors import UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json, write_text

if TYPE_CHECKING:
    from heaptape.common.tables import Table
    from heaptape.results.model.penalties import Penalties, Penalty

SUMMARY = "measure what misses, page faults and instructions cost on this machine"
DESCRIPTION = (
    "Measures what instructions, cache and TLB misses, page faults and system calls cost here, by dependent and "
    "independent loads, and keeps the result (~/.cache/heaptape/machine.json) for the predictions of `heaptape "
    "compare`. Takes a few seconds; best on an idle machine."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--again", action="store_true", help="measure even if there is a result for this processor")
    parser.add_argument(
        "--rounds", type=int, default=30, help="samples of each figure, 3 to 1024, interleaved (default 30)"
    )
    parser.add_argument("--json", action="store_true", help="the raw measurement, with its quantiles")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the raw measurement there, as --json prints it")
    add_format_option(parser)


def run(arguments: argparse.Namespace) -> int:
    from heaptape.results.model.penalties import penalties
    from heaptape.run import machine as measuring
    from heaptape.show.tables.latex import render

    if not 3 <= arguments.rounds <= 1024:
        raise UsageError("machine --rounds: between 3 and 1024")
    if arguments.output:
        check_writable(arguments.output)
    measured = None if arguments.again else measuring.known_costs()
    measured = measured or measuring.measure_costs(arguments.home, arguments.rounds)
    if arguments.output:
        write_json(arguments.output, measured)
    if arguments.json:
        print(json.dumps(measured, indent=1))
    elif arguments.output != STANDARD_OUTPUT:
        write_text(STANDARD_OUTPUT, render([_table(penalties(measured))], arguments.format))
    return 0


def _table(known: "Penalties") -> "Table":
    from heaptape.common.phrases import capacity
    from heaptape.common.tables import Cell, Table
    from heaptape.results.model.penalties import Geometry, geometry_of, levels

    measured = known.measured
    geometry = geometry_of(measured) or Geometry()
    rows = [
        ("instruction of a program", known.program_instruction),
        ("instruction of an allocator", known.allocator_instruction),
    ]
    if known.string_instruction and known.string_byte:
        rows.append(("string instruction (rep stos, rep movs) of one line", known.string_instruction))
        rows.append(("byte of a longer one", known.string_byte))
    for inner, outer in levels([level.capacity for level in geometry.caches]):
        where = f"hits {capacity(outer)}" if outer else "goes to memory"
        rows.append((f"load that misses {capacity(inner)} and {where}", known.cache_miss(inner, outer)))
        rows.append((f"the same in an OS page just used, {capacity(inner)}", known.near_miss(inner, outer)))
        rows.append((f"the same in order of address, {capacity(inner)}", known.sequential_miss(inner, outer)))
    for entries, more in levels([level.capacity for level in geometry.tlbs]):
        where = f"hits {more:,}" if more else "walks the page table"
        rows.append((f"load that misses {entries:,} TLB entries and {where}", known.tlb_miss(entries, more)))
    rows.append(("page fault of fresh memory", known.page_fault))
    if known.huge_page:
        rows.append(("page fault of 2 MiB, a huge page", known.huge_page))
    if known.start_up:
        rows.append(("instruction while a process starts", known.start_up.instruction))
        rows.append(("page fault while a process starts", known.start_up.page_fault))
        rows.append(("system call while a process starts", known.start_up.system_call))
    rows += [(f"system call {name}", penalty) for name, penalty in known.system_calls.items()]
    cells = [[Cell(name), *_cells(penalty)] for name, penalty in rows]
    cycle = f", a cycle {of.median:.3f} ns" if (of := measured.code.cycle_ns) else ""
    notes = [
        f"{measured.cpu}{cycle}. Misses: beyond a hit in the first level. At least: the first "
        "quartile of independent loads; at most: the third quartile of dependent ones. In order of address: from "
        "loads in that order to the least of other loads."
    ]
    if not all(row.huge_pages for row in measured.working_sets):
        notes.append("The kernel gave no huge pages: cache misses include some TLB misses.")
    return Table("What things cost on this machine, ns", ["", "at least", "middle", "at most"], cells, notes)


def _cells(penalty: "Penalty") -> list:
    from heaptape.common.tables import Cell, rounded

    return [Cell(rounded(value), value) for value in (penalty.low, penalty.middle, penalty.high)]
