# SPDX-License-Identifier: MIT
"""A slow, obvious model of core/sharing/line_sharing.h, and histories to try it on.

A history is a list of steps, one thread at a time: acquire (malloc), resize (realloc) and release (free) of numbered
objects. No two live objects share a byte.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

LINE = 64


@dataclass
class Step:
    """kind: "malloc", "realloc" or "free"; old_address, address: 0 where there is none."""

    kind: str
    thread: int
    object: int
    size: int = 0
    address: int = 0
    old_address: int = 0

    def line(self, time_ns: int) -> str:
        """As heaptape text."""
        if self.kind == "free":
            return f"{time_ns} {self.thread} free({self.old_address:#x})"
        old = f"{self.old_address:#x}, " if self.kind == "realloc" else ""
        return f"{time_ns} {self.thread} {self.kind}({old}{self.size}) = {self.address:#x}"


def text(steps: list[Step]) -> str:
    """The steps as heaptape text, without its heading."""
    return "".join(f"{step.line(10 * number)}\n" for number, step in enumerate(steps, 1))


@dataclass
class Placer:
    """Hands out addresses that no live object covers, close together; or one after the other, in steps of bump_step."""

    rng: random.Random
    bump_step: int = 0
    live: dict[int, int] = field(default_factory=dict)
    next: int = 1 << 20

    def take(self, size: int) -> int:
        """An address for that many bytes."""
        if self.bump_step:
            address, self.next = self.next, self.next + max(-(-size // self.bump_step), 1) * self.bump_step
            return address
        for spread in range(1, 1000):
            address = (1 << 20) + 8 * self.rng.randrange(8 * spread)
            free = all(at + max(n, 1) <= address or address + max(size, 1) <= at for at, n in self.live.items())
            if free:
                break
        self.live[address] = size
        return address

    def give(self, address: int) -> None:
        """That object is gone."""
        self.live.pop(address, None)


SMALL = ((0, 40), (0, 300))


def history(
    seed: int, threads: int, steps: int, bump_step: int = 0, sizes: Sequence[tuple[int, int]] = SMALL
) -> list[Step]:
    """A random history; every thread has a step. A size is drawn from one of the ranges `sizes`."""
    rng = random.Random(seed)
    placer = Placer(rng, bump_step)
    live: dict[int, int] = {}  # object: address
    made, out = 0, []
    for number in range(steps + threads):
        thread = number if number < threads else rng.randrange(threads)
        kind = "malloc" if number < threads or not live else rng.choice(["malloc", "malloc", "free", "free", "realloc"])
        size = rng.choice([rng.randrange(*range_) for range_ in sizes])
        if kind == "malloc":
            victim, old, made = made, 0, made + 1
        else:
            victim = rng.choice(list(live))
            old = live.pop(victim)
            placer.give(old)
        if kind == "free":
            out.append(Step(kind, thread, victim, old_address=old))
            continue
        size = max(size, int(kind == "realloc"))
        live[victim] = placer.take(size)
        out.append(Step(kind, thread, victim, size, live[victim], old))
    return out


@dataclass
class Stay:
    """An object at an address."""

    owner: int
    size: int
    lines: set[int]
    shared: bool = False
    met: list[int] = field(default_factory=list)  # pairs, by number


def size_class(size: int) -> int | None:
    """The largest size of its class; None: none."""
    return next((8 << n for n in range(21) if size <= 8 << n), None)


def lines_of(address: int, size: int) -> set[int]:
    """Numbers of the lines that these bytes are on."""
    return {byte // LINE for byte in range(address, address + size)}


def count(steps: list[Step]) -> dict:
    """The expected counts, by comparing all pairs of live objects after each step."""
    live: dict[int, Stay] = {}
    pairs: dict[tuple[int, int], int] = {}  # of objects, now: number of the pair
    formed: list[tuple[int, int]] = []  # threads of each pair
    kept: Counter = Counter()  # by pair: objects that were released by their owners
    sizes: dict[int | None, list[int]] = {}
    levels: dict[str, list[int]] = {"shared_lines": [], "object_pairs": [], "live_lines": []}
    spans: Counter = Counter()
    objects = 0
    for step in steps:
        if step.kind != "malloc":
            gone = live.pop(step.object)
            pairs = {pair: number for pair, number in pairs.items() if step.object not in pair}
            kept.update(gone.met if gone.owner == step.thread else [])
        if step.kind != "free":
            objects += 1
            live[step.object] = stay = Stay(step.thread, step.size, lines_of(step.address, step.size))
            sizes.setdefault(size_class(step.size), [0, 0, 0])[0] += 1
            for other, theirs in live.items():
                if theirs.owner == stay.owner or not theirs.lines & stay.lines:
                    continue
                pairs[tuple(sorted((step.object, other)))] = len(formed)
                for one in (stay, theirs):
                    row = sizes[size_class(one.size)]
                    row[1] += not one.shared
                    row[2] += 1
                    one.shared = True
                    one.met.append(len(formed))
                formed.append(tuple(sorted((stay.owner, theirs.owner))))
        owners: dict[int, set[int]] = {}
        for stay in live.values():
            for line in stay.lines:
                owners.setdefault(line, set()).add(stay.owner)
        levels["shared_lines"].append(sum(len(who) > 1 for who in owners.values()))
        levels["object_pairs"].append(len(pairs))
        levels["live_lines"].append(len(owners))
        spans.update(formed[number] for number in pairs.values())
    return {
        "ops": len(steps),
        "objects": objects,
        "shared_objects": sum(row[1] for row in sizes.values()),
        "pairs": len(formed),
        "used_pairs": sum(times == 2 for times in kept.values()),
        "levels": levels,
        "sizes": sizes,
        "threads": {pair: (n, spans[pair] / len(steps)) for pair, n in Counter(formed).items()},
    }


def assert_counts(found: dict, steps: list[Step]) -> None:
    """`found`, a "line_sharing" object, has the same counts as the model."""
    expected = count(steps)
    for key in ("ops", "objects", "shared_objects", "pairs", "used_pairs"):
        assert found[key] == expected[key], key
    assert found["objects_left_out"] == found["threads_left_out"] == 0
    for key, values in expected["levels"].items():
        assert found[key]["end"] == values[-1], key
        assert found[key]["peak"] == max(values), key
        assert max(values) == 0 or found[key]["peak_position"] == values.index(max(values)) + 1, key
        assert math.isclose(found[key]["mean"], sum(values) / len(values), rel_tol=1e-5), key
    assert {row[0]: row[1:] for row in found["sizes"]} == expected["sizes"]
    assert {(a, b): n for a, b, n, _ in found["threads"]} == {pair: n for pair, (n, _) in expected["threads"].items()}
    for a, b, _, mean in found["threads"]:
        assert math.isclose(mean, expected["threads"][a, b][1], rel_tol=1e-5)
    assert_progress(found["progress"], expected["levels"])


def assert_progress(rows: list[list[int]], levels: dict[str, list[int]]) -> None:
    """Each row has the levels at its position, and the peak of shared lines since the row before."""
    assert rows[-1][0] == len(levels["shared_lines"])
    begin = 0
    for position, shared, pairs, live, peak in rows:
        at = position - 1
        assert [shared, pairs, live] == [levels[key][at] for key in ("shared_lines", "object_pairs", "live_lines")]
        assert peak == max(levels["shared_lines"][begin:position])
        begin = position
