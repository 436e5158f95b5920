# SPDX-License-Identifier: MIT
"""Scripts for a hostile host (hostile_host.c): a request to attach, and what it writes into the memory that it shares
with its recorder: records of every kind, positions, counters, stacks, accesses.

Layouts are those of capture/wire/ring.h, linked.h and stack_area.h.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz.mutants import edge, of_list
from tests.leb import leb

REQUEST = struct.Struct("<QQQIIIii64s64sI3Q10QI4x")
MAGIC = 0x32656C7465737161
PROCESS, BANK, STACK_AREA, ACCESS_STREAM = 1, 2, 3, 4

RING_BYTES, RECORDS_BYTES = 256 << 10, (256 << 10) - 2048
BANK_FIELDS = {"used": 0, "stop": 4, "paused": 8, "bursts": 12, "filters": 16, "sandboxed": 20, "lost": 24}
BANK_FIELDS |= {"children": 40, "sandboxing": 44, "noted": 48, "notes lost": 52}
BANK_FIELDS |= {"note's state": 56, "pid": 60, "outlook": 64, "tick": 68, "path": 72}
RING_FIELDS = {"lap": 0, "waiting": 4, "owner": 8, "waits_ended": 12, "tail": 64, "drained": 68, "stopped": 72}
RING_COUNTERS = {"nested": 16, "dropped": 24, "skipped": 32, "marks_lost": 40, "large_stamps": 48}
RING_COUNTERS |= {"waited_stamps": 56}
FIRST_RINGS, MORE_RINGS, RINGS_AT, RING_HEAD_BYTES = 16, 256, 32832, 128  # hostile_host.c asserts them
STACK_FIELDS = {"used": 0, "lost": 4, "generation": 8, "requested": 12, "answered": 16, "lock": 20, "index_log": 24}
NODES_AT = 4096 + (16 << 13)

MALLOC, FREE, CALLOC, REALLOC, MEMALIGN = 0, 1, 2, 3, 6
TEXT, MARK, COLUMNS, LATENCY = 61, 61 | 0x40, 61 | 0x80, 61 | 0xC0
PARAM, STAMP, BEGIN, JUMP, THREAD, DROPPED, TOUCHED, LIVE = 62, 63, 126, 127, 190, 191, 254, 255


@dataclass
class Record:
    """op, address (56 bits) and word (64 bits); quick: in that form."""

    op: int
    address: int = 0
    word: int = 0
    quick: bool = False

    def packed(self) -> bytes:
        """As it is in a ring."""
        if self.quick:
            return struct.pack("<QQ", self.address, 0xFFFFFFFF80000000 | (self.op & 0x7F) << 24 | self.word % (1 << 24))
        return struct.pack("<QQ", self.word, self.address | self.op << 56)


def request(kind: int, linked: bool = False) -> bytes:
    """A request that is right in all: the host fills in what only it knows."""
    place = [1, 1, 1] if linked else [0, 0, 0]
    hooks = [0x1000 * number for number in range(1, 11)]
    return REQUEST.pack(MAGIC, 0, 0, kind, 0, 0, 0, 1, b"libc.so.6", b"hostile", 0, *place, *hooks, 0)


def attach(kind: int = PROCESS, linked: bool = False) -> bytes:
    """The command for it."""
    text = request(kind, linked)
    return b"A" + struct.pack("<BI", 1, len(text)) + text


def put(area: int, offset: int, content: bytes) -> bytes:
    """The command that writes there."""
    return b"W" + struct.pack("<BQI", area, offset, len(content)) + content


def ring_at(ring: int, rings: int = FIRST_RINGS) -> int:
    """Where its records begin in its bank."""
    return (RINGS_AT + rings * RING_HEAD_BYTES + 4095) // 4096 * 4096 + ring * RING_BYTES


def records(source: random.Random, count: int, serial: int = 1) -> list[Record]:
    """A legal history of a thread, of so many calls and some records of other kinds."""
    made, live = [Record(STAMP, 0, 1000)], list[int]()
    for number in range(count):
        place = 0x7F0000000000 + serial * (1 << 32) + 64 * number
        match source.randrange(12):
            case 0 | 1 if live:
                made.append(Record(FREE, live.pop(), 0, quick=source.random() < 0.5))
            case 2 if live:
                made += [Record(BEGIN, live.pop(), 0), Record(REALLOC, place, 50)]
                live.append(place)
            case 3:
                made += [Record(PARAM, 0, 3), Record(CALLOC, place, 8)]
                live.append(place)
            case 4:
                made += [Record(TEXT, 0x64636261, 0), Record(MARK, 4, 2000 + number)]
            case 5 if live:
                made += [Record(TOUCHED, live[-1], 3 << 32 | 2), Record(FREE, live.pop(), 0)]
            case 6:
                made += [Record(COLUMNS, 1 | 90 << 32, 7), Record(MALLOC, place, 24)]
                live.append(place)
            case 7 if live:
                made += [Record(FREE, address := live.pop(), 0), Record(LATENCY, address, 300)]
            case 8:
                made += [Record(LIVE, place, 1), Record(DROPPED, 0, 0)]
            case _:
                made.append(Record(MALLOC, place, 16 + number, quick=source.random() < 0.5))
                live.append(place)
    return made


def changed(source: random.Random, record: Record) -> Record:
    """The record with one part of it another."""
    match source.randrange(4):
        case 0:
            op = source.choice([source.randrange(256), TEXT, MARK, COLUMNS, PARAM, BEGIN, JUMP, THREAD, DROPPED, LIVE])
            return Record(op, record.address, record.word, record.quick)
        case 1:
            return Record(record.op, edge(source, 56, record.address), record.word)
        case 2:
            return Record(record.op, record.address, edge(source, 64, record.word), record.quick)
        case _:
            place = source.choice([0, 16, 4096, RECORDS_BYTES - 16, RECORDS_BYTES, RING_BYTES - 16, RING_BYTES])
            return Record(JUMP, source.choice([place, 16 * source.randrange(1 << 14), edge(source, 56)]))


def legal(source: random.Random, count: int = 40, linked: bool = False) -> list[bytes]:
    """A script of a host that keeps the rules."""
    made = b"".join(record.packed() for record in records(source, count))
    return [
        attach(linked=linked),
        put(0, ring_at(0), made),
        put(0, RINGS_AT, struct.pack("<I", RECORDS_BYTES)),
        put(0, 0, struct.pack("<I", 1)),
    ]


def _requests(source: random.Random) -> bytes:
    """One whose numbers are others, or that is shorter or longer."""
    parts = list(REQUEST.unpack(request(source.choice([PROCESS] * 3 + [BANK, STACK_AREA]), source.random() < 0.5)))
    for _ in range(source.choice([0, 1, 1, 3])):
        at = source.randrange(len(parts))
        if isinstance(parts[at], bytes):
            parts[at] = source.choice([b"", b"\xff" * 64, b"../../x\x1b[31m\0", b"%s" * 32, b"\0"])
        elif at in (6, 7):
            parts[at] = edge(source, 31)
        else:
            parts[at] = edge(source, 64 if at < 3 or at > 10 and at != 24 else 32, parts[at])
    text = REQUEST.pack(*parts)
    if source.random() < 0.1:
        text = source.choice([text[: source.randrange(len(text))], text + b"x" * 200])
    return b"A" + struct.pack("<BI", source.random() < 0.95, len(text)) + text


def _positions(source: random.Random, area: int) -> bytes:
    """A field of a bank or of one of its rings."""
    ring = RINGS_AT + RING_HEAD_BYTES * source.choice([0, 0, 1, 15])
    offsets = [*BANK_FIELDS.values(), *(ring + at for at in RING_FIELDS.values())]
    if source.random() < 0.3:
        at = source.choice([32, *(ring + counter for counter in RING_COUNTERS.values())])
        return put(area, at, struct.pack("<Q", edge(source, 64)))
    near = source.choice([0, 16, RECORDS_BYTES, RING_BYTES, FIRST_RINGS])
    return put(area, source.choice(offsets), struct.pack("<I", edge(source, 32, near)))


def _history(source: random.Random, area: int) -> bytes:
    """Records, mostly changed, at some place of a ring."""
    rows: list[Any] = records(source, source.choice([3, 40, 400]), source.randrange(4))
    for _ in range(source.choice([0, 1, 3, 30])):
        of_list(source, rows, lambda record: changed(source, record))
    made = b"".join(row.packed() for row in rows)
    if source.random() < 0.1:
        made = source.randbytes(len(made) or 16)
    if source.random() < 0.05:
        made = Record(source.choice([THREAD, DROPPED, JUMP]), 0, source.randrange(9)).packed() * (RECORDS_BYTES // 16)
    ring = source.choice([0, 0, 0, 1, 15])
    place = ring_at(ring) + source.choice([0, 0, 16, RECORDS_BYTES - len(made), RING_BYTES - len(made)])
    bits = put(area, ring_at(ring) + RECORDS_BYTES, source.randbytes(2048)) if source.random() < 0.1 else b""
    used = put(area, 0, struct.pack("<I", ring + 1))
    lap = put(area, RINGS_AT + RING_HEAD_BYTES * ring, struct.pack("<I", RECORDS_BYTES))
    return bits + put(area, max(0, place), made) + lap + used


def _stacks(source: random.Random, area: int) -> bytes:
    """Nodes of a tree, and the numbers before it."""
    nodes = b""
    for number in range(source.choice([4, 60])):
        parent = number if source.random() < 0.8 else edge(source, 32, number)
        nodes += struct.pack("<QII", source.choice([edge(source, 64), 0x400000 + number]), parent, 0)
    at = source.choice([0, 0, (1 << 21) - 70])
    field = source.choice([*STACK_FIELDS.values()])
    used = put(area, 0, struct.pack("<I", source.choice([4, 60, 1 << 21, edge(source, 32)])))
    scribble = put(area, field, struct.pack("<I", edge(source, 32, 13))) if source.random() < 0.7 else b""
    return put(area, NODES_AT + 16 * at, nodes) + used + scribble


def _accesses(source: random.Random, area: int) -> bytes:
    """Items of a stream of accesses, or bytes."""
    items = [leb(edge(source, 64) if source.random() < 0.5 else source.randrange(200)) for _ in range(90)]
    return put(area, 0, b"".join(items) if source.random() < 0.8 else source.randbytes(500))


def hostile(source: random.Random) -> bytes:
    """A script of a host that does not."""
    script = [_requests(source)] if source.random() < 0.3 else legal(source, 20, source.random() < 0.2)
    kinds = [PROCESS]
    writers: dict[int, Callable[[random.Random, int], bytes]] = {
        BANK: _history,
        STACK_AREA: _stacks,
        ACCESS_STREAM: _accesses,
    }
    for kind in (STACK_AREA, ACCESS_STREAM, BANK):
        if source.random() < 0.4:
            script.append(attach(kind))
            kinds.append(kind)
    for _ in range(source.choice([1, 3, 9])):
        area = source.randrange(len(kinds))
        match source.randrange(8):
            case 0:
                script.append(b"S" + struct.pack("<I", source.choice([100, 3000])))
            case 1 | 2:
                script.append(_positions(source, source.choice([0, area])))
            case 3 if source.random() < 0.3:
                script.append(source.choice([b"F", attach(), attach(BANK), _requests(source)]))
            case _:
                script.append(writers.get(kinds[area], _history)(source, area))
    return b"".join(script)
