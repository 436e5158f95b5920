# SPDX-License-Identifier: MIT
"""Columns of an EVENTS block to events, one after the other (core/trace/FORMAT.md, sections 4 and 4b)."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from heaptape.tape import calls

from tests.oracle.numbers import Malformed

MASK = 2**64 - 1
STACKS = 4096  # classes at and above this have none
NAMES = {
    1: "call", 2: "size", 3: "param", 4: "release distance", 6: "release address", 7: "acquire hit",
    8: "acquire address", 9: "stamp gap", 10: "stamp delta", 11: "touched", 12: "latency", 13: "slack", 14: "stack",
    15: "stack of the other calls", 17: "places", 18: "rows", 19: "far", 20: "parts",
}  # fmt: skip


@dataclass
class Event:
    """None: the event has no such thing, or it is not known."""

    call: int  # id and flags
    size: int | None = None
    param: int | None = None
    released: int | None = None  # address passed in
    acquired: int | None = None
    release_stamp: int | None = None
    acquire_stamp: int | None = None
    releases: bool = False
    touched: int | None = None
    parts: int = 0
    latency: int | None = None
    slack: int | None = None
    stack: int | None = None

    @property
    def id(self) -> int:
        return self.call & calls.ID_MASK

    @property
    def acquires(self) -> bool:
        return bool(calls.ACQUIRES[self.id]) and not self.call & calls.NULL_OUT

    @property
    def takes(self) -> bool:
        return calls.RELEASE_KIND[self.id] != calls.NOTHING and not self.call & calls.NULL_IN

    @property
    def request_bytes(self) -> int:
        counted = calls.PARAM_KIND[self.id] == calls.COUNT
        return min((self.size or 0) * (self.param or 0) if counted else self.size or 0, MASK)


@dataclass
class Column:
    """A column's bytes, read from their start."""

    name: str
    data: bytes
    at: int = 0

    def number(self) -> int:
        value = shift = 0
        while self.at < len(self.data):
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if value > MASK or shift > 63:
                break
            if byte < 0x80:
                return value
            shift += 7
        raise Malformed(f"column {self.name}: too few numbers, or one cut off or of more than 64 bits")

    def signed(self) -> int:
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def has_more(self) -> bool:
        return self.at < len(self.data)


@dataclass
class Block:
    """A block of events. `columns`: id -> raw bytes, `shifts`: id -> shift; `nodes`: stack nodes before the block."""

    rows: int
    steps: int
    first_stamp: int
    last_stamp: int
    columns: dict[int, bytes]
    shifts: dict[int, int]
    nodes: int = 0
    open: dict[int, Column] = field(default_factory=dict)

    def column(self, number: int) -> Column:
        return self.open.setdefault(number, Column(NAMES[number], self.columns.get(number, b"")))

    def has(self, number: int) -> bool:
        return bool(self.columns.get(number))

    def shift(self, number: int) -> int:
        return self.shifts.get(number, 0)


def decode_events(block: Block) -> list[Event]:
    """Raises Malformed."""
    archive = block.has(18)
    if archive and any(block.has(number) for number in (1, 2, 3, 4, 7, 8)):
        raise Malformed("columns of two forms")
    if not archive and len(block.columns.get(1, b"")) != block.rows:
        raise Malformed(f"column call: {len(block.columns.get(1, b''))} entries instead of {block.rows}")
    history = (_Archived if archive else _Recorded)(block)
    events = [history.event() for _ in range(block.rows)]
    history.end()
    _stamps(block, events)
    _touched(block, events)
    _optional(block, events)
    for number, name in NAMES.items():
        if number != 7 and block.column(number).has_more():
            raise Malformed(f"column {name}: more entries than events that have one")
    return events


def _class(request: int) -> int:
    return max(2, min(request + 23, MASK) >> 4)


@dataclass
class _Acquire:
    address: int
    kind: int  # its class


class _Recorded:
    """Calls, numbers and addresses of columns 1 to 8."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.acquires: list[_Acquire] = []
        self.stacks: dict[int, list[int]] = defaultdict(list)  # by class: addresses, the last one on top
        self.stored = self.expected = 0

    def event(self) -> Event:
        event = Event(self.call())
        takes, acquires = calls.RELEASE_KIND[event.id] != calls.NOTHING, calls.ACQUIRES[event.id]
        impossible = (event.call & calls.NULL_IN and not takes) or (event.call & calls.NULL_OUT and not acquires)
        if event.id not in calls.CALLS or impossible:
            raise Malformed(f"call byte {event.call:#x} can't be")
        if calls.HAS_SIZE[event.id]:
            event.size = self.next(2)
        if calls.PARAM_KIND[event.id] != calls.NO_PARAM:
            event.param = self.next(3)
        if event.takes:
            failed = event.call & calls.NULL_OUT and event.request_bytes
            event.releases = calls.RELEASE_KIND[event.id] == calls.RELEASES and not failed
            self.release(event)
        if event.acquires:
            kind = self.kind(event.request_bytes)
            event.acquired = self.address(event.request_bytes, kind) & MASK
            self.acquires.append(_Acquire(event.acquired, kind))
        return event

    def release(self, event: Event) -> None:
        number = self.referred(event)
        if number is None:
            self.stored = self.stored + (self.block.column(6).signed() << self.block.shift(6)) & MASK
            event.released = self.stored
            return
        acquire = self.acquires[number]
        event.released = acquire.address
        if event.releases and acquire.kind < STACKS:
            self.stacks[acquire.kind].append(acquire.address)

    def popped(self, kind: int, place: int) -> int:
        if kind >= STACKS:
            raise Malformed("a predicted acquire is too large to have a stack")
        if place >= len(self.stacks[kind]):
            raise Malformed("a predicted acquire finds its stack empty, or too low")
        return self.stacks[kind].pop(-1 - place)

    def call(self) -> int:
        column = self.block.column(1)
        column.at += 1
        return column.data[column.at - 1]

    def next(self, number: int) -> int:
        return self.block.column(number).number()

    def referred(self, _event: Event) -> int | None:
        """The number of the acquire whose address was passed in; None: column 6 has the address."""
        distance = self.next(4)
        if distance > len(self.acquires):
            raise Malformed("a release distance reaches back before the block")
        return len(self.acquires) - distance if distance else None

    def kind(self, request: int) -> int:
        return _class(request)

    def address(self, request: int, kind: int) -> int:
        number, hits = len(self.acquires), self.block.columns.get(7, b"")
        if number // 8 >= len(hits):
            raise Malformed("column acquire hit: fewer bits than acquires")
        if hits[number // 8] >> number % 8 & 1:
            return self.popped(kind, 0)
        found = self.expected + (self.block.column(8).signed() << self.block.shift(8))
        self.expected = found + 16 * _class(request)
        return found

    def end(self) -> None:
        hits, count = self.block.columns.get(7, b""), len(self.acquires)
        if len(hits) != (count + 7) // 8:
            raise Malformed(f"column acquire hit: {len(hits)} bytes for {count} bits")
        if count % 8 and hits[-1] >> count % 8:
            raise Malformed("column acquire hit: an unused bit is set")


@dataclass
class _Cursor:
    number: int = 0  # of the acquire
    place: int | None = None  # the cursor is on the older side of this acquire; None: behind the newest


class _Archived(_Recorded):
    """The same of columns 6 and 17 to 19."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.live: list[int] = []  # numbers of acquires, rising
        self.cursors = [_Cursor() for _ in range(4)]
        self.fresh: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))  # by class: last address, step
        self.system = self.next(17) if block.has(17) else 0
        if self.system > 1:
            raise Malformed("column places: an unknown system of classes")

    def call(self) -> int:
        call = self.next(18)
        if call > 255:
            raise Malformed("a row of a call that can't be")
        return call

    def next(self, number: int) -> int:
        return super().next(18 if number in (2, 3) else number)

    def referred(self, event: Event) -> int | None:
        reference, cursor = self.next(18), 3
        if reference == 0:
            return None
        if reference <= 8:
            place = len(self.live) - reference
        elif reference <= 40:
            cursor, step = divmod(reference - 9, 8)
            at = self.cursors[cursor].place
            place = len(self.live) if at is None else bisect_left(self.live, at)
            place += -1 - step // 2 if step % 2 else step // 2
        elif reference == 41:
            entry = self.next(19)
            number = self.cursors[entry % 4].number + (entry >> 3 ^ -(entry >> 2 & 1))
            if not 0 <= number < len(self.acquires):
                raise Malformed("a release names no acquire of its block")
            place = bisect_left(self.live, number)
            if place == len(self.live) or self.live[place] != number:
                return number
        if reference > 41 or not 0 <= place < len(self.live):
            raise Malformed("a release names no acquire of its block")
        number, newer = self.live[place], self.live[place + 1] if place + 1 < len(self.live) else None
        del self.cursors[cursor]
        self.cursors.insert(0, _Cursor(number, newer))
        if event.releases:
            del self.live[place]
            for one in self.cursors:
                one.place = newer if one.place == number else one.place
        return number

    def kind(self, request: int) -> int:
        if self.system == 0:
            return _class(request)
        units = max(1, min(request + 15, MASK) >> 4)
        shift = max(units.bit_length() - 3, 0) if units > 8 else 0
        return -(-units >> shift) << shift

    def address(self, request: int, kind: int) -> int:
        self.live.append(len(self.acquires))
        entry = self.next(17)
        if entry < 63:
            found = self.popped(kind, entry)
        elif entry == 63 and kind >= STACKS:
            raise Malformed("an acquire from a stack that does not exist")
        else:
            last, step = self.fresh[kind]
            away = (entry - 64 >> 1) ^ -(entry & 1)
            found = last + (step or 16 * kind) if entry == 63 else self.expected + (away << self.block.shift(17))
            found &= MASK
            self.fresh[kind] = found, (found - last) & MASK if last else 0
        if entry:
            self.expected = found + 16 * _class(request)
        return found

    def end(self) -> None:
        """All columns are sequences of numbers."""


def _steps(events: list[Event]) -> Iterator[tuple[Event, str]]:
    for event in events:
        if event.takes:
            yield event, "release_stamp"
        if not event.takes or (event.releases and event.acquires):
            yield event, "acquire_stamp"


def _stamps(block: Block, events: list[Event]) -> None:
    steps = list(_steps(events))
    if len(steps) != block.steps:
        raise Malformed(f"{len(steps)} steps, its header says {block.steps}")
    gaps, deltas, stamp = block.column(9), block.column(10), block.first_stamp
    following = gaps.number() if gaps.has_more() else None
    for number, (event, name) in enumerate(steps):
        if number == following:
            stamp += deltas.number()
            if stamp > MASK:
                raise Malformed("a stamp is lower than the one before it")
            following = number + 1 + gaps.number() if gaps.has_more() else None
        setattr(event, name, stamp)
    if following is not None:
        raise Malformed("a stamp beyond the last step")
    if steps and stamp != block.last_stamp:
        raise Malformed("its last stamp is not the one in its header")


def _touched(block: Block, events: list[Event]) -> None:
    column, releasing = block.column(11), (event for event in events if event.releases)
    while column.has_more():
        gap, pages = column.number(), column.number()
        event = next((event for number, event in enumerate(releasing) if number == gap), None)
        if event is None or pages > 0xFFFFFFFF:
            raise Malformed("column touched: names an event that is not there")
        event.touched = pages
    column, touched = block.column(20), (event for event in events if event.touched is not None)
    while column.has_more():
        gap, parts = column.number(), column.number()
        event = next((event for number, event in enumerate(touched) if number == gap), None)
        if event is None or not 0 < parts <= 0xFFFFFFFF or parts.bit_count() > (event.touched or 0):
            raise Malformed("column parts: names no touched event, or more parts than OS pages")
        event.parts = parts


def _optional(block: Block, events: list[Event]) -> None:
    node = {14: 0, 15: 0}
    for event in events:
        if block.has(12):
            event.latency = _known(block.column(12).number())
        if block.has(13) and event.acquires:
            slack = block.column(13).number()
            if slack > 0xFFFFFFFF:
                raise Malformed("column slack: a number of 2^32 or more")
            event.slack = _known(slack)
        stack = 14 if calls.ACQUIRES[event.id] else 15
        if block.has(stack):
            node[stack] += block.column(stack).signed()
            if not 0 <= node[stack] <= block.nodes:
                raise Malformed(f"column {NAMES[stack]}: node {node[stack]} of {block.nodes}")
            event.stack = node[stack] or None


def _known(plus_one: int) -> int | None:
    return plus_one - 1 if plus_one else None
