# SPDX-License-Identifier: MIT
"""Runs with "blame", made up from layouts: objects at addresses in OS pages. The pass's result for them is computed
here, from docs/use/BLAME.md alone, as a reference for the readers.
"""

import base64
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

OS_PAGE = 4096
GROUPINGS = ("site", "function", "thread", "size", "phase", "age")
COLUMNS = (
    "at", "grouping", "group", "groups", "objects", "live_bytes", "rounding_bytes", "empty_bytes", "os_pages",
    "alone_bytes", "alone_empty_bytes",
)  # fmt: skip
SITES = {
    0: {"stack": 0, "function": 0, "name": "no stack known", "frames": []},
    1: {"stack": 3, "function": 1, "name": "make_survivor < fill < main"},
    2: {"stack": 4, "function": 2, "name": "make_temporary < fill < main"},
    3: {"stack": 7, "function": 2, "name": "make_temporary < go_on < main"},
}
FRAMES = ("make_survivor", "make_temporary", "fill", "go_on", "main")
FUNCTIONS = {"0": "no stack known", "1": "make_survivor", "2": "make_temporary"}


@dataclass(frozen=True)
class Thing:
    """A live object: its first byte, request and rounding; where and when it was acquired."""

    address: int
    bytes: int
    rounding: int = 0
    site: int = 1
    thread: int = 0
    phase: int = 0
    birth: int = 0


@dataclass(frozen=True)
class Layout:
    """A position: live objects, resident OS pages (numbers), and which of these ever held an object."""

    position: int
    things: Sequence[Thing]
    resident: frozenset[int]
    used: frozenset[int] = frozenset()
    beside_table: int = 0
    why: Sequence[str] = ("even",)
    walk: dict[str, int] = field(default_factory=dict)


def size_bucket(size: int) -> int:
    """The size bucket: four to each power of two."""
    return size if size < 4 else size >> (size.bit_length() - 3) << (size.bit_length() - 3)


def age_class(age: int) -> int:
    """The age class: a power of two, or 0."""
    return 0 if age == 0 else 1 << (age.bit_length() - 1)


def group_of(thing: Thing, position: int) -> tuple[int, ...]:
    """The object's group in each of GROUPINGS."""
    age = age_class(max(position - 1 - thing.birth, 0))
    return (thing.site, SITES[thing.site]["function"], thing.thread, size_bucket(thing.bytes), thing.phase, age)


def shares(layout: Layout) -> tuple[dict, dict]:
    """Sums of the position, and (grouping, group) -> figures."""
    lie: dict[int, list[tuple[Thing, int, int]]] = defaultdict(list)
    for thing in sorted(layout.things, key=lambda thing: thing.address):
        middle, end = thing.address + thing.bytes, thing.address + thing.bytes + thing.rounding
        for page in range(thing.address // OS_PAGE, -(-end // OS_PAGE)):
            low, high = page * OS_PAGE, (page + 1) * OS_PAGE
            live = max(0, min(middle, high) - max(thing.address, low))
            rounding = max(0, min(end, high) - max(middle, low))
            if page in layout.resident and live + rounding:
                lie[page].append((thing, live, rounding))
    groups: dict = defaultdict(lambda: dict.fromkeys(COLUMNS[4:], 0))
    for thing in layout.things:
        for key in enumerate(group_of(thing, layout.position)):
            groups[key]["objects"] += 1
    sums = dict.fromkeys(("live_resident_bytes", "rounding_bytes", "beside_live_bytes"), 0)
    for there in lie.values():
        empty = OS_PAGE - sum(live + rounding for _, live, rounding in there)
        sums["beside_live_bytes"] += empty
        in_page = defaultdict(set)
        for place, (thing, live, rounding) in enumerate(there):
            share = empty // len(there) + (place < empty % len(there))
            sums["live_resident_bytes"] += live
            sums["rounding_bytes"] += rounding
            for key in enumerate(group_of(thing, layout.position)):
                in_page[key[0]].add(key)
                for name, value in (("live_bytes", live), ("rounding_bytes", rounding), ("empty_bytes", share)):
                    groups[key][name] += value
        for keys in in_page.values():
            for key in keys:
                groups[key]["os_pages"] += 1
                groups[key]["alone_bytes"] += OS_PAGE * (len(keys) == 1)
                groups[key]["alone_empty_bytes"] += empty * (len(keys) == 1)
    bare = layout.resident - lie.keys()
    sums["empty_bytes"] = OS_PAGE * len(bare & layout.used)
    sums["never_used_bytes"] = OS_PAGE * len(bare - layout.used)
    sums["beside_table_bytes"] = layout.beside_table
    return sums, groups


def encode_rows(rows: Iterable[Sequence[int]]) -> dict:
    """The engine's encoding of `values`."""
    columns = list(zip(*rows)) or [()] * len(COLUMNS)
    raw = b"".join(struct.pack(f"<{len(column)}q", *column) for column in columns)
    return {"columns": list(COLUMNS), "encoding": "zlib+base64", "rows": len(columns[0]),
            "values": base64.b64encode(zlib.compress(raw)).decode()}  # fmt: skip


def make_blame(layouts: Sequence[Layout], stacks: bool = True, marks: Sequence[tuple[int, str]] = ()) -> dict:
    """A run's "blame"."""
    positions, rows = [], []
    for at, layout in enumerate(layouts):
        sums, groups = shares(layout)
        live = sum(thing.bytes for thing in layout.things)
        about = {"position": layout.position, "why": list(layout.why), "live_bytes": live}
        about |= {"live_objects": len(layout.things), "overlap_bytes": 0, "rss_anon_bytes": sum(sums.values())}
        positions.append(about | sums | layout.walk)
        for (grouping, group), figures in sorted(groups.items()):
            rows.append([at, grouping, group, 1, *figures.values()])
    sites = {str(number): dict(site, frames=_frames(str(site["name"]))) for number, site in SITES.items()}
    frames = [{"function": one, "module": "prog", "offset": "0x10", "file": "a.c", "line": 3} for one in FRAMES]
    lacks = ["stacks"] * (not stacks) + ["marks"] * (not marks)
    named = [{"position": position, "name": name, "thread": 0} for position, name in marks]
    about = {"os_page_bytes": OS_PAGE, "origins": True, "lacks": lacks, "positions": positions, "rows_lost": 0}
    about |= {"groupings": list(GROUPINGS), "frames": frames, "sites": sites}
    about |= {"functions": FUNCTIONS, "marks": named, "threads": []}
    return about | encode_rows(rows)


def _frames(name: str) -> list[int]:
    return [] if name == "no stack known" else [FRAMES.index(one) for one in name.split(" < ")]


def make_run(allocator: str, layouts: Sequence[Layout], **options: object) -> dict:
    """A complete run, with the keys of a memory pass that figures need."""
    found = make_blame(layouts, **options)  # type: ignore[arg-type]
    timeline = [
        [p["position"], p["rss_anon_bytes"], p["rss_anon_bytes"] * 2, p["live_bytes"]] for p in found["positions"]
    ]
    peak = max((row[1] for row in timeline), default=0)
    return {"allocator": allocator, "variant": "default", "pass": "blame", "repeat": 0, "order": "recorded",
            "rss_anon_peak_bytes": peak, "rss_anon_mean_bytes": peak, "timeline": timeline, "blame": found}  # fmt: skip


def planted(kind: str, positions: int = 9, pages: int = 64) -> list[Layout]:
    """A leak, retention, fragmentation or none of them, on a small scale: 16 objects of 240 bytes to an OS page."""

    def things(count: int, every: int = 1) -> list[Thing]:
        return [
            Thing(number * 256, 240, 16, site=1 if number % 16 == 15 else 2, birth=number)
            for number in range(0, count, 1)
            if number % every == every - 1
        ]

    whole, out = 16 * pages, []
    for number in range(positions):
        done = number / (positions - 1)
        here = frozenset(range(pages))
        if kind == "leak":
            made = int(whole * done)
            lives, here = things(made), frozenset(range(-(-made // 16)))
        elif done < 0.5:
            made = int(whole * min(1, 4 * done))
            lives, here = things(made), frozenset(range(-(-made // 16)))
        else:
            lives = {"retention": things(1), "fragmentation": things(whole, 16), "none": things(whole)}[kind]
        used = frozenset(range(pages))
        why = ["even"] + ["end"] * (number == positions - 1) + ["peak"] * (number == positions - 2)
        out.append(Layout(number * 1000, lives, here, used, why=why))
    return out
