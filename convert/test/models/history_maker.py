# SPDX-License-Identifier: MIT
"""Makes random histories for the property tests: legal ones, then disturbed by inversions, losses and repetitions."""

import random
from dataclasses import dataclass, replace

from convert.test.models.history_model import Event


@dataclass
class Maker:
    """A legal history, step by step: all threads compete for a few addresses, so that each is soon reused elsewhere.

    Steps of different threads at one address never have the same time: our own traces never do, and if a foreign clock
    is too coarse to distinguish them the right order can't be known.
    """

    random: random.Random
    threads: int
    addresses: list[int]
    time_ns: int = 10

    def __post_init__(self) -> None:
        self.live: list[int] = []
        self.pending: dict[int, tuple[int, int, str]] = {}  # thread inside a realloc: released address, its time, call
        self.events: list[Event] = []
        self.users: dict[int, int] = {}  # address: thread that used it at the present time

    def settle(self, thread: int, *addresses: int) -> None:
        """Lets time pass if another thread has used one of the addresses at the present time."""
        if any(self.users.get(a, thread) != thread for a in addresses if a):
            self.time_ns += 1
            self.users.clear()
        self.users.update({a: thread for a in addresses if a})

    def size(self) -> int:
        return self.random.choice([0, 1, 24, 100, 5000, 1 << 16, (1 << 24) + 3, 1 << 31, (1 << 40) + 5])

    def free_address(self) -> int | None:
        free = [a for a in self.addresses if a not in self.live]
        return self.random.choice(free) if free else None

    def emit(self, thread: int, call: str, **fields: int) -> None:
        self.settle(thread, fields.get("released", 0), fields.get("acquired", 0))
        self.events.append(Event(self.time_ns, self.time_ns, thread, call, **fields))

    def acquire(self, thread: int) -> None:
        address = self.free_address()
        call = self.random.choice(["malloc", "malloc", "calloc", "posix_memalign", "realloc", "new"])
        param = self.random.choice([1, 3]) if call == "calloc" else 64 if call == "posix_memalign" else 0
        if address is None or self.random.random() < 0.05:
            self.emit(thread, call, size=self.size(), param=param)
        else:
            self.live.append(address)
            self.emit(thread, call, size=self.size(), param=param, acquired=address)

    def finish_realloc(self, thread: int) -> None:
        released, first_ns, call = self.pending.pop(thread)
        address = self.free_address()
        param = 2 if call == "reallocarray" else 0
        if address is None:  # it must have been freed by size 0
            self.events.append(Event(first_ns, first_ns, thread, call, released, param, 0, 0))
        else:
            self.live.append(address)
            self.settle(thread, address)
            self.events.append(Event(first_ns, self.time_ns, thread, call, released, param, self.size(), address))

    def step(self) -> None:
        passes = self.random.choice([0, 0, 1, 1, 7])
        if passes:
            self.time_ns += passes
            self.users.clear()
        thread = self.random.randrange(self.threads)
        if thread in self.pending:
            self.finish_realloc(thread)
            return
        choice = self.random.random()
        if not self.live or choice < 0.45:
            self.acquire(thread)
            return
        address = self.random.choice(self.live)
        if choice < 0.75:
            self.live.remove(address)
            call = self.random.choice(["free", "free", "free_sized", "delete_sized"])
            self.emit(thread, call, released=address, size=0 if call == "free" else 24)
        elif choice < 0.87:
            self.live.remove(address)
            self.settle(thread, address)
            self.pending[thread] = address, self.time_ns, self.random.choice(["realloc", "reallocarray"])
        elif choice < 0.90:
            self.emit(thread, "realloc", released=address, size=1 << 40)
        elif choice < 0.93:
            self.live.remove(address)
            self.emit(thread, "realloc", released=address)
        elif choice < 0.98:
            self.emit(thread, "malloc_usable_size", released=address)
        else:
            self.emit(thread, "free")


def legal(seed: int, threads: int, steps: int, addresses: int) -> list[Event]:
    maker = Maker(random.Random(seed), threads, [0x1000 + 64 * i for i in range(addresses)])
    for _ in range(steps):
        maker.step()
    for thread in list(maker.pending):
        maker.finish_realloc(thread)
    return maker.events


def jitter(seed: int, events: list[Event], most_ns: int) -> list[Event]:
    """Delays stamps by up to most_ns, keeping each thread's order: inversions of any depth."""
    source = random.Random(seed)
    last: dict[int, int] = {}
    disturbed = []
    for event in events:
        first = max(last.get(event.thread, 0), event.first_ns + source.randint(0, most_ns))
        two_steps = event.releases and event.acquired
        second = max(first, event.second_ns + source.randint(0, most_ns)) if two_steps else first
        last[event.thread] = second
        disturbed.append(replace(event, first_ns=first, second_ns=second))
    return disturbed


def damage(seed: int, events: list[Event], lost: float, repeated: float) -> list[Event]:
    """Loses some events and repeats some."""
    source = random.Random(seed)
    damaged = []
    for event in events:
        if source.random() >= lost:
            damaged.append(event)
        if source.random() < repeated:
            damaged.append(replace(event, first_ns=event.second_ns))
    return damaged


def in_turn(seed: int, steps: int, addresses: int) -> tuple[list[Event], int]:
    """A legal history, and its number of threads, in which each call is one step and has a time of its own."""
    luck = random.Random(seed)
    events = [replace(e, thread=luck.randrange(3)) for e in legal(seed, 1, steps, addresses)]
    used = sorted({e.thread for e in events})
    events = [
        replace(e, thread=used.index(e.thread), first_ns=10 * i, second_ns=10 * i) for i, e in enumerate(events, 1)
    ]
    return events, len(used)
