# SPDX-License-Identifier: MIT
"""Streams of data accesses made by hand (core/trace/access_stream.h), and a slow, obvious model of their misses.

An item is a tuple: ("event", stack_pointer), ("object", slot, granule), ("other", granule),
("total", number, value), or ("burst", 1 or 0): a burst begins or ends.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from heaptape.tape.workload_format import read_workload

from tests.leb import leb, zigzag
from tests.line_sharing_model import Step, text
from tests.support import compile_trace, import_text

EVENT, OBJECT, OTHER, TOTAL = range(4)
BURST = 63  # a total's number
GRANULE, LINE, OS_PAGE = 16, 64, 4096
STACK = 0x1FFE000038


def encoded(items: Iterable[tuple]) -> bytes:
    """The stream."""
    out, stack, last_object, last_granule = bytearray(), 0, 0, 0
    for kind, *values in items:
        if kind == "event":
            out += leb(EVENT) + leb(zigzag((values[0] >> 3) - stack))
            stack = values[0] >> 3
        elif kind == "object":
            out += leb(zigzag(values[0] - last_object) << 2 | OBJECT) + leb(zigzag(values[1]))
            last_object = values[0]
        elif kind == "other":
            out += leb(zigzag(values[0] - last_granule) << 2 | OTHER)
            last_granule = values[0]
        elif kind == "burst":
            out += leb(BURST << 2 | TOTAL) + leb(values[0])
        else:
            out += leb(values[0] << 2 | TOTAL) + leb(values[1])
    return bytes(out)


def file(items: Iterable[tuple], filter_bytes: int = 0) -> bytes:
    """The whole W.accesses."""
    return b"HEAPACCS" + struct.pack("<II", 1, filter_bytes) + encoded(items)


def compiled(tmp_path: Path, steps: list[Step]) -> tuple[Path, list[int]]:
    """The workload of a history, and the slot of each step's object."""
    work = compile_trace(import_text(tmp_path, text(steps)))
    slots = {thread: iter(read_workload(work).ops_of(thread)["slot"]) for thread in {s.thread for s in steps}}
    return work, [int(next(slots[step.thread])) for step in steps]


def mallocs(sizes: list[int], threads: int = 1) -> list[Step]:
    """Those objects, one behind the other; the threads alternate."""
    return [Step("malloc", n % threads, n, size, (1 << 20) + n * 65536) for n, size in enumerate(sizes)]


# Contents of W.accesses that do not fit a workload of two calls (None: no file), and the error message.
UNFIT_FOR_TWO_CALLS: list[tuple[bytes | None, str]] = [
    (b"", "is not a stream of accesses"),
    (b"HEAPTAPE" + bytes(8), "is not a stream of accesses"),
    (b"HEAPACCS" + struct.pack("<II", 2, 0), "version 2"),
    (file([("event", STACK)]), "1 calls, and the workload has 2: the stream belongs to another workload"),
    (file([("event", STACK)] * 3), "3 calls, and the workload has 2"),
    (file([("event", STACK)] * 2)[:-1], "is cut short"),
    (file([("event", STACK)] * 2) + b"\xff" * 40, "more than 64 bits"),
    (file([("event", STACK)] * 2 + [("object", 1 << 20, 0)]), "slot 1048576, and the workload has"),
    (file([("event", STACK)] * 2 + [("total", 9, 0)]), "total 9 is unknown"),
    (file([("event", STACK)] * 2 + [("total", 0, 0)] * 2), "there twice"),
    (file([("event", STACK)] * 2 + [("total", 0, 0), ("other", 1)]), "behind the totals"),
    (None, "No such file"),
]


class Lru:
    """A set-associative cache of blocks. capacity: in blocks."""

    def __init__(self, capacity: int, ways: int) -> None:
        self._sets: list[list] = [[] for _ in range(capacity // ways)]
        self._ways = ways
        self.misses = 0

    def misses_block(self, space: str, block: int) -> bool:
        """Looks it up, and makes it the newest. space: blocks of two spaces never coincide, but share sets."""
        here = self._sets[block % len(self._sets)]
        missing = (space, block) not in here
        if not missing:
            here.remove((space, block))
        here.insert(0, (space, block))
        del here[self._ways :]
        self.misses += missing
        return missing


@dataclass
class Streams:
    """The last 16 streams of lines: ((space, line), direction, steps), newest first."""

    rows: list = field(default_factory=list)

    def foresees(self, space: str, line: int) -> bool:
        """Adds the line; had the stream that it continues made two steps in that direction?"""
        for row in self.rows:
            (here, last), direction, steps = row
            same_page = here == space and last * LINE // OS_PAGE == line * LINE // OS_PAGE
            if same_page and line - last in (-1, 0, 1, 2):
                turn = (line > last) - (line < last)
                self.rows.remove(row)
                if turn:
                    steps, goes_on = (steps, True) if turn == direction else (0, False)
                    self.rows.insert(0, ((space, line), turn, steps + 1))
                    return goes_on and steps >= 2
                self.rows.insert(0, row)
                return False
        self.rows.insert(0, ((space, line), 0, 0))
        del self.rows[16:]
        return False


@dataclass
class Model:
    """Caches (bytes, ways) and TLBs (entries, ways): the first of each is in front of all others."""

    caches: list[tuple[int, int]]
    tlbs: list[tuple[int, int]]
    pages: set = field(default_factory=set)

    def __post_init__(self) -> None:
        self._caches = [Lru(size // LINE, ways) for size, ways in self.caches]
        self._tlbs = [Lru(size, ways) for size, ways in self.tlbs]
        self._streams = Streams()
        self.sequential = [0] * len(self.caches)

    def access(self, space: str, address: int) -> None:
        """Simulates an access to one granule."""
        self.pages.add((space, address // OS_PAGE))
        if self._caches[0].misses_block(space, address // LINE):
            missing = [True, *[level.misses_block(space, address // LINE) for level in self._caches[1:]]]
            if self._streams.foresees(space, address // LINE):
                self.sequential = [count + misses for count, misses in zip(self.sequential, missing)]
        if self._tlbs[0].misses_block(space, address // OS_PAGE):
            for level in self._tlbs[1:]:
                level.misses_block(space, address // OS_PAGE)

    def counted(self) -> tuple[list[int], list[int], int]:
        """Misses of caches, of TLBs, and page faults."""
        return [c.misses for c in self._caches], [t.misses for t in self._tlbs], len(self.pages)
