# SPDX-License-Identifier: MIT
"""A slow, simple model of the blame pass on the placing allocator (placing_allocator.c), with every byte of an object
touched: the contents of each OS page are computed from the history alone.
"""

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from heaptape.tape.workload_format import read_workload

from tests.line_sharing_model import Step, history

OS_PAGE = 4096
FIGURES = ("objects", "live_bytes", "rounding_bytes", "empty_bytes", "os_pages", "alone_bytes", "alone_empty_bytes")
GROUPINGS = ("site", "function", "thread", "size", "phase", "age")


def random_history(seed: int, threads: int, steps: int) -> list[Step]:
    """Objects of 0 bytes up to several OS pages; no two objects ever have the same address."""
    return history(seed, threads, steps, bump_step=1 << 20, sizes=((0, 64), (1, 600), (1, 600), (1, 20_000)))


@dataclass
class Origins:
    """Sites by position; functions by site; positions of marks."""

    sites: list[int]
    functions: list[int]
    marks: list[int]


@dataclass
class Living:
    """An object of the model. address: bytes from the region's start; birth: a position."""

    address: int
    size: int
    usable: int
    birth: int
    thread: int
    slot: int


@dataclass
class Model:
    """Memory after some steps."""

    round_bytes: int
    next: int = 0
    live: dict[int, Living] = field(default_factory=dict)
    resident: set[int] = field(default_factory=set)  # OS pages
    held: set[int] = field(default_factory=set)  # OS pages in which an object has been

    def take(self, position: int, step: Step, slot: int) -> None:
        """Applies the step at that position to the object in that slot."""
        if step.kind == "free":
            del self.live[step.object]
            return
        usable = max(-(-step.size // self.round_bytes), 1) * self.round_bytes
        born = self.live.get(step.object) if step.kind == "realloc" else None
        birth, thread = (born.birth, born.thread) if born else (position, step.thread)
        self.live[step.object] = Living(self.next, step.size, usable, birth, thread, slot)
        touched = range(self.next // OS_PAGE, (self.next + step.size - 1) // OS_PAGE + 1) if step.size else range(0)
        self.resident.update(touched)
        self.held.update(touched)
        self.next += usable


def slots_of(workload: Path) -> list[int]:
    """The slot of each op, by position."""
    read = read_workload(workload)
    streams = [iter(read.ops_of(thread)["slot"].tolist()) for thread in range(read.threads)]
    schedule = read.schedule()
    return [
        slot
        for thread, ops in zip(schedule["thread"].tolist(), schedule["ops"].tolist(), strict=True)
        for slot in itertools.islice(streams[thread], ops)
    ]


def within(first: int, end: int, page: int) -> int:
    """Bytes of [first, end) in the OS page."""
    return max(min(end, (page + 1) * OS_PAGE) - max(first, page * OS_PAGE), 0)


def size_group(size: int) -> int:
    """The smallest request of the bucket."""
    if size < 8:
        return size
    step = 1 << (size.bit_length() - 3)
    return size // step * step


def groups_of(living: Living, position: int, origins: Origins) -> dict[str, int]:
    """The object's group in each grouping."""
    site = origins.sites[living.birth]
    age = position - 1 - living.birth
    return {
        "site": site,
        "function": origins.functions[site],
        "thread": living.thread,
        "size": size_group(living.size),
        "phase": sum(mark <= living.birth for mark in origins.marks),
        "age": 1 << (age.bit_length() - 1) if age else 0,
    }


def attribute(model: Model, position: int, origins: Origins) -> tuple[dict, dict[tuple[str, int], Counter]]:
    """The position's sums, and the figures of each (grouping, group)."""
    found: dict[tuple[str, int], Counter] = defaultdict(Counter)
    sums: Counter = Counter()
    pages: dict[int, list[Living]] = defaultdict(list)
    for living in sorted(model.live.values(), key=lambda living: living.slot):
        for key in groups_of(living, position, origins).items():
            found[key]["objects"] += 1
        end = living.address + living.usable
        for page in range(living.address // OS_PAGE, (end - 1) // OS_PAGE + 1):
            if page in model.resident:
                pages[page].append(living)
    for page, players in pages.items():
        parts = [(within(p.address, p.address + p.size, page),
                  within(p.address + p.size, p.address + p.usable, page)) for p in players]  # fmt: skip
        empty = OS_PAGE - sum(map(sum, parts))
        sums.update(live_resident_bytes=sum(live for live, _ in parts), beside_live_bytes=empty,
                    rounding_bytes=sum(rounding for _, rounding in parts))  # fmt: skip
        here = defaultdict(set)
        for index, (player, (live, rounding)) in enumerate(zip(players, parts, strict=True)):
            share = empty // len(players) + (index < empty % len(players))
            for key in groups_of(player, position, origins).items():
                found[key].update(live_bytes=live, rounding_bytes=rounding, empty_bytes=share)
                here[key[0]].add(key)
        for keys in here.values():
            for key in keys:
                alone = len(keys) == 1
                found[key].update(os_pages=1, alone_bytes=OS_PAGE * alone, alone_empty_bytes=empty * alone)
    sums["empty_bytes"] = OS_PAGE * len((model.resident & model.held) - set(pages))
    sums["live_objects"] = len(model.live)
    sums["live_bytes"] = sum(living.size for living in model.live.values())
    return sums, found
