# SPDX-License-Identifier: MIT
"""A slow, obvious model of convert/history/history.h: the same rules over Python lists and dicts, from the header's
contract.

Events are those of heaptape text. A history is a list of events, each thread's in order; `judge` returns the witness
and the ops.
"""

from dataclasses import dataclass, field

ACQUIRES = {"malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "new"}
RELEASES = {"free", "realloc", "reallocarray", "free_sized", "delete_sized"}
TOUCHES = {"malloc_usable_size"}
COUNTED = {"calloc", "reallocarray"}
ALIGNED = {"posix_memalign", "aligned_alloc"}
SIZED = ACQUIRES | {"free_sized", "delete_sized"}


@dataclass
class Event:
    """One line: times of the first and second step in ns, addresses (0: NULL), the arguments."""

    first_ns: int
    second_ns: int
    thread: int
    call: str
    released: int = 0
    param: int = 0
    size: int = 0
    acquired: int = 0

    @property
    def request(self) -> int:
        return self.size * self.param if self.call in COUNTED else self.size

    @property
    def takes(self) -> bool:
        return self.released != 0

    @property
    def hands_out(self) -> bool:
        return self.acquired != 0

    @property
    def releases(self) -> bool:
        if self.call not in RELEASES or not self.takes:
            return False
        return self.call not in ACQUIRES or self.hands_out or self.request == 0

    def line(self) -> str:
        def pointer(address: int) -> str:
            return hex(address) if address else "NULL"

        arguments = []
        if self.call in RELEASES | TOUCHES:
            arguments.append(pointer(self.released))
        if self.call in COUNTED | ALIGNED:
            arguments.append(str(self.param))
        if self.call in SIZED:
            arguments.append(str(self.size))
        two = self.releases and self.hands_out and self.second_ns != self.first_ns
        time = f"{self.first_ns}+{self.second_ns - self.first_ns}" if two else str(self.first_ns)
        result = f" = {pointer(self.acquired)}" if self.call in ACQUIRES else ""
        return f"{time} {self.thread} {self.call}({', '.join(arguments)}){result}"


@dataclass
class Op:
    """What compile makes of an event. obj: None if it has no object; null_in, null_out: the call byte's flags."""

    thread: int
    call: str
    null_in: bool
    null_out: bool
    obj: int | None
    size: int
    param: int


@dataclass
class Live:
    obj: int
    size: int


@dataclass
class Parked:
    thread: int
    address: int
    wants_live: bool
    stamp: int
    order: int


@dataclass
class Model:
    """The state of the walk; see judge."""

    queues: list[list[Event]]
    horizon_ns: int
    at: list[int] = field(default_factory=list)
    second: list[bool] = field(default_factory=list)
    limbo: dict[int, Live] = field(default_factory=dict)
    live: dict[int, Live] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    parked: list[Parked] = field(default_factory=list)
    waited: dict[int, int] = field(
        default_factory=dict
    )  # thread: steps placed when it first parked for its present step
    woken: dict[int, int] = field(default_factory=dict)  # thread: stamp of the step that woke it
    ops: list[Op] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    objects: int = 0
    steps: int = 0
    parkings: int = 0

    def count(self, key: str, by: int = 1) -> None:
        self.counts[key] = self.counts.get(key, 0) + by

    def stamp(self, thread: int) -> int:
        event = self.queues[thread][self.at[thread]]
        return event.second_ns if self.second[thread] else event.first_ns

    def runnable(self) -> list[int]:
        out = {p.thread for p in self.parked}
        return [t for t in range(len(self.queues)) if t not in out and self.at[t] < len(self.queues[t])]

    def note_peaks(self) -> None:
        everything = [*self.live.values(), *self.limbo.values()]
        self.counts["peak_live_bytes"] = max(self.counts.get("peak_live_bytes", 0), sum(o.size for o in everything))
        self.counts["peak_live_objects"] = max(self.counts.get("peak_live_objects", 0), len(everything))

    def op(self, event: Event, obj: int | None, born: bool = False) -> None:
        null_in = event.call in RELEASES | TOUCHES and (born or not event.takes)
        null_out = event.call in ACQUIRES and not event.hands_out
        self.ops.append(Op(event.thread, event.call, null_in, null_out, obj, event.size, event.param))

    def wake(self, address: int, live: bool, stamp: int) -> None:
        for parked in [p for p in self.parked if p.address == address and p.wants_live == live]:
            self.parked.remove(parked)
            self.woken[parked.thread] = stamp

    def place_release(self, event: Event, stamp: int, forced: bool) -> tuple[int, bool] | None:
        """Returns what it waits for, (address, wants_live), or None if it is placed."""
        here = self.live.get(event.released)
        if here is None:
            if not forced:
                return event.released, True
            if not event.releases:
                self.count("unseen_touches")
                self.count("failed_calls", event.call in ACQUIRES)
            else:
                self.count("double_frees" if event.released in self.dead else "unseen_frees")
            return None
        if not event.releases:
            if event.call in ACQUIRES:
                self.count("failed_calls")
            else:
                self.op(event, here.obj)
            return None
        del self.live[event.released]
        self.dead.add(event.released)
        if event.hands_out:
            self.limbo[event.thread] = here
        else:
            self.op(event, here.obj)
        self.wake(event.released, False, stamp)
        return None

    def place_acquire(self, event: Event, stamp: int, forced: bool) -> tuple[int, bool] | None:
        address = event.acquired
        if address in self.live:
            if not forced:
                return address, False
            self.count("overlapping_acquires")
            gone = self.live.pop(address)
            self.ops.append(Op(event.thread, "free", False, False, gone.obj, 0, 0))
        old = self.limbo.pop(event.thread, None)
        if old is None:
            old = Live(self.objects, 0)
            self.objects += 1
            self.op(event, old.obj, born=True)
        else:
            self.op(event, old.obj)
        self.live[address] = Live(old.obj, event.request)
        self.note_peaks()
        self.wake(address, True, stamp)
        return None

    def place(self, thread: int, forced: bool) -> None:
        event, stamp = self.queues[thread][self.at[thread]], self.stamp(thread)
        two_steps = event.releases and event.hands_out
        blocked = None
        if event.hands_out and (self.second[thread] or not two_steps):
            blocked = self.place_acquire(event, stamp, forced)
        elif event.takes:
            blocked = self.place_release(event, stamp, forced)
        elif event.call in ACQUIRES:
            self.count("failed_calls")
        else:
            self.op(event, None)
        if blocked:
            self.waited.setdefault(thread, self.steps)
            self.woken.pop(thread, None)
            self.parkings += 1
            self.parked.append(Parked(thread, *blocked, stamp, self.parkings))
            return
        since, awaited = self.waited.pop(thread, 0), self.woken.pop(thread, -1)
        if not forced and awaited > stamp:
            self.count("inversions_repaired")
            self.counts["max_inversion_depth"] = max(self.counts.get("max_inversion_depth", 0), self.steps - since)
        self.steps += 1
        if two_steps and not self.second[thread]:
            self.second[thread] = True
        else:
            self.second[thread] = False
            self.at[thread] += 1
            self.count("events")

    def run(self) -> None:
        while True:
            ready = min(self.runnable(), key=lambda t: (self.stamp(t), t), default=None)
            oldest = min(self.parked, key=lambda p: (p.stamp, p.order), default=None)
            if ready is None and oldest is None:
                return
            if oldest and (ready is None or self.stamp(ready) - oldest.stamp > self.horizon_ns):
                self.parked.remove(oldest)
                self.place(oldest.thread, True)
            else:
                assert ready is not None
                self.place(ready, False)


COUNTS = (
    "events", "unseen_frees", "double_frees", "unseen_touches", "overlapping_acquires", "inversions_repaired",
    "max_inversion_depth", "failed_calls", "live_at_end", "peak_live_bytes", "peak_live_objects",
)  # fmt: skip


def judge(events: list[Event], threads: int, horizon_ns: int) -> tuple[dict[str, int], list[Op]]:
    """The witness's counts and the ops in their total order."""
    queues = [[e for e in events if e.thread == t] for t in range(threads)]
    model = Model(queues, horizon_ns, [0] * threads, [False] * threads)
    model.run()
    model.counts["live_at_end"] = len(model.live)
    return {key: model.counts.get(key, 0) for key in COUNTS}, model.ops


def text(events: list[Event], threads: int) -> str:
    """The history as heaptape text; threads one after the other, so that they keep their numbers."""
    return "".join(f"{e.line()}\n" for t in range(threads) for e in events if e.thread == t)
