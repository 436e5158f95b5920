# SPDX-License-Identifier: MIT
"""Data accesses for tests, independent of heaptape's own code: a random sequence of accesses between the calls of a
history, the blocks of core/trace/FORMAT.md section 6a, and the file of core/workload/WORKLOAD.md that compile makes of
them.
"""

import json
import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from convert.test.models.history_model import ACQUIRES, Event
from convert.test.models.tape_maker import GAP, Block, Column, Tape
from tests.leb import Reader, leb, unzigzag, zigzag

ACCESSES, LIST_PLACES, PAGE_GRANULES, NEAR_PAGES = 10, 64, 256, 127
TOTALS = ("program_instructions", "allocator_instructions", "program_accesses", "program_syscalls")


@dataclass(frozen=True)
class Row:
    """A call (thread, acquires, stack_pointer), an access to an object (object, granule) or other memory (granule)."""

    kind: str
    thread: int = 0
    acquires: bool = False
    stack_pointer: int = 0
    object: int = 0
    granule: int = 0


def call_row(event: Event, number: int) -> Row:
    """The row of the thread's event with that number: the stack pointer identifies both."""
    return Row("call", event.thread, event.hands_out, stack_pointer(event.thread, number))


def stack_pointer(thread: int, number: int) -> int:
    return 0x7FFF00000000 - (thread << 24) - 16 * number


def made_rows(seed: int, events: Iterable[Event], most: int) -> list[Row]:
    """The calls in that order; before, between and after them up to `most` accesses to what is live there."""
    source = random.Random(seed)
    live: dict[int, int] = {}
    calls: dict[int, int] = {}
    rows: list[Row] = []
    acquired = 0

    def access() -> None:
        for _ in range(source.randint(0, most)):
            if live and source.random() < 0.6:
                number = source.choice(list(live.values()))
                rows.append(Row("object", object=number, granule=source.choice([0, 0, 1, 5, 300, -1, -(1 << 40)])))
            else:
                page = source.choice([0x400, 0x7FFFF, 0x800 + source.randrange(200), source.randrange(1 << 36)])
                rows.append(Row("other", granule=page * PAGE_GRANULES + source.randrange(PAGE_GRANULES)))

    access()
    for event in events:
        rows.append(call_row(event, calls.get(event.thread, 0)))
        calls[event.thread] = calls.get(event.thread, 0) + 1
        if event.releases:
            live.pop(event.released, None)
        if event.hands_out:
            live[event.acquired] = acquired
            acquired += 1
        access()
    return rows


def _place(recent: list, key: int, code: int, fresh: int) -> tuple[int, bool]:
    """The code of an access to key, and whether key was added. The list holds [key, granule]."""
    for place, entry in enumerate(recent):
        if entry[0] == key:
            recent.insert(0, recent.pop(place))
            return code + place, False
    recent.insert(0, [key, 0])
    del recent[LIST_PLACES:]
    return fresh, True


def block_of(rows: list[Row], acquired: int) -> Block:
    """One ACCESSES block; acquired: calls that acquired before it."""
    columns = {number: bytearray() for number in (1, 2, 3, 4, 6, 8, 9, 10)}
    objects: list[list[int]] = []  # of each entry of the list: object, last granule, number of the entry
    pages: dict[int, int] = {}
    offsets: list[bytearray] = []  # by number of the list entry
    steps: list[bytearray] = []  # by number of the OS page
    places: list[int] = []  # last ones, likewise
    first, stack, last_page = acquired, 0, 0
    for row in rows:
        if row.kind == "call":
            columns[1].append(int(row.acquires))
            columns[2] += leb(row.thread)
            columns[3] += leb(zigzag(row.stack_pointer // 8 - stack))
            stack = row.stack_pointer // 8
            acquired += row.acquires
        elif row.kind == "object":
            code, fresh = _place(objects, row.object, 64, 2)
            columns[1].append(code)
            if fresh:
                columns[4] += leb(acquired - row.object)
                objects[0].append(len(offsets))
                offsets.append(bytearray())
            offsets[objects[0][2]] += leb(zigzag(row.granule - objects[0][1]))
            objects[0][1] = row.granule
        else:
            page = row.granule // PAGE_GRANULES
            if page not in pages:
                pages[page] = len(pages)
                steps.append(bytearray())
                places.append(0)
                columns[1].append(3)
                columns[6] += leb(zigzag(page - last_page))
                last_page = page
            elif pages[page] < NEAR_PAGES:
                columns[1].append(128 + pages[page])
            else:
                columns[1].append(255)
                columns[8] += leb(pages[page] - NEAR_PAGES)
            place = row.granule % PAGE_GRANULES
            steps[pages[page]].append((place - places[pages[page]]) % 256)
            places[pages[page]] = place
    columns[9] += b"".join(offsets)
    columns[10] += b"".join(steps)
    return Block(
        ACCESSES,
        [Column(number, bytes(raw)) for number, raw in columns.items() if raw],
        rows=len(rows),
        first_stamp=first,
        last_stamp=acquired,
    )


def add_accesses(tape: Path, rows: list[Row], block_rows: int = 100, totals: dict[str, int] | None = None) -> None:
    """Gives a trace these data accesses."""
    changed = Tape.read(tape)
    info, footer = changed.blocks[0].columns[0], changed.blocks[-1].columns[0]
    acquired = 0
    for begin in range(0, len(rows), block_rows):
        block = block_of(rows[begin : begin + block_rows], acquired)
        acquired = block.last_stamp
        changed.before_footer(block)
    counts = {
        "calls": sum(row.kind == "call" for row in rows),
        "objects": sum(row.kind == "object" for row in rows),
        "other": sum(row.kind == "other" for row in rows),
    }
    info.raw = json.dumps(json.loads(info.raw) | {"accesses": {"granule_bytes": 16, "filter_bytes": 4096}}).encode()
    footer.raw = json.dumps(json.loads(footer.raw) | {"accesses": counts | (totals or {})}).encode()
    changed.blocks[-1].columns[1:] = []  # the index
    changed.write(tape)


def add_gap(tape: Path, thread: int, dropped: int) -> None:
    """Adds a GAP of `dropped` events before the thread's first."""
    changed = Tape.read(tape)
    for block in changed.blocks:
        if block.type in (2, GAP) and block.thread == thread:
            block.sequence += 1
    gap = Block(GAP, [Column(1, json.dumps({"dropped": dropped, "why": "test"}).encode())], thread=thread)
    changed.blocks.insert(1, gap)
    footer = changed.blocks[-1].columns[0]
    footer.raw = json.dumps(json.loads(footer.raw) | {"dropped": dropped}).encode()
    changed.write(tape)


def compiled_rows(path: Path) -> tuple[int, list[Row], dict[str, int]]:
    """The contents of the file beside a workload: the filter's bytes, the rows (objects by slot), the totals."""
    data = path.read_bytes()
    magic, version, filter_bytes = struct.unpack_from("<8sII", data)
    assert (magic, version) == (b"HEAPACCS", 1)
    numbers = Reader(data, 16)
    stack, slot, other = 0, 0, 0
    rows, totals = [], {}
    while numbers.more:
        first = numbers.leb()
        kind, first = first & 3, first >> 2
        if kind == 0:
            assert first == 0, "a thread, or an acquire"
            stack += numbers.signed()
            rows.append(Row("call", stack_pointer=stack * 8))
        elif kind == 1:
            slot += unzigzag(first)
            rows.append(Row("object", object=slot, granule=numbers.signed()))
        elif kind == 2:
            other += unzigzag(first)
            rows.append(Row("other", granule=other))
        else:
            totals[TOTALS[first]] = numbers.leb()
    return filter_bytes, rows, totals


def gives_op(event: Event) -> bool:
    """In a legal history, all calls give an op except failed ones."""
    return event.hands_out or event.call not in ACQUIRES or event.releases
