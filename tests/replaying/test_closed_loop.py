# SPDX-License-Identifier: MIT
"""The closed loop: the recording of a replay has the events of the trace that was replayed.

Generated multi-threaded traces are compiled and replayed under every allocator and in every order while being recorded;
then the recording is compiled too, and both workloads are compared: each thread's calls in order, their sizes and
counts or alignments, and which object each one is given. An object's identity is the call that made it (thread, and
number in the thread), so it does not depend on addresses.

Allowed beside the trace's events: calls of libraries before main (the C++ library of some allocators, tbbmalloc reading
/proc), none of which may touch an object of the trace, and the free(NULL)s of the C library when a thread ends.

Long: each allocator in each order; otherwise glibc in each order.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from heaptape.tape.calls import CALLS, ID_MASK, NOTHING, NULL_IN
from heaptape.tape.workload_format import read_workload
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support import CONVERT, RECORD, REPLAY, assert_clean, check, info, succeed, system_library

ALLOCATORS = {
    "glibc": None,
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}
ORDERS = ("recorded", "causal", "window", "window=3")
KEY_BYTES = 1_000_000  # + thread: the first request of each thread, which identifies its stream
BEFORE_MAIN_MOST = 100

Object = tuple[int, int]  # thread, and which of its calls made it
Call = tuple[str, int, int, bool, Object | None]  # name, size, param, given NULL, object given


@dataclass
class Shape:
    """Shape of a generated trace."""

    seed: int
    threads: int
    events: int
    foreign: float  # how often a call takes an object of any thread instead of its own latest


SHAPES = st.builds(
    Shape,
    seed=st.integers(0, 2**32),
    threads=st.integers(1, 9),
    events=st.integers(150, 600),
    foreign=st.sampled_from((0.0, 0.1, 0.5, 1.0)),
)


class Generator:
    """Writes a legal history as heaptape text. Addresses are reused at once, by any thread that comes next."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.chance = random.Random(shape.seed)
        self.free_addresses = [0x10000 + 0x100 * number for number in range(2000)]
        self.live: list[tuple[int, int]] = []  # thread, address
        self.lines = ["# heaptape-text 1 clock=ordinal"]

    def text(self) -> str:
        for thread in range(self.shape.threads):
            self.acquire(thread, f"malloc({KEY_BYTES + thread})")
        for _ in range(self.shape.events):
            self.step(self.chance.randrange(self.shape.threads))
        return "\n".join(self.lines) + "\n"

    def say(self, thread: int, call: str) -> None:
        self.lines.append(f"{len(self.lines)} {thread} {call}")

    def acquire(self, thread: int, call: str) -> None:
        address = self.free_addresses.pop()
        self.live.append((thread, address))
        self.say(thread, f"{call} = {address:#x}")

    def take(self, thread: int) -> int:
        own = [number for number, (owner, _) in enumerate(self.live) if owner == thread]
        if not own or self.chance.random() < self.shape.foreign:
            return self.live.pop(self.chance.randrange(len(self.live)))[1]
        return self.live.pop(own[-1])[1]

    def step(self, thread: int) -> None:
        size = int(2 ** self.chance.uniform(0, 14))
        count, align = self.chance.randrange(1, 20), 16 << self.chance.randrange(5)
        acquires = (
            f"malloc({size})",
            f"malloc({size})",
            f"calloc({count}, {size})",
            f"posix_memalign({align}, {size})",
            f"memalign({align}, {size})",
            f"aligned_alloc({align}, {align * count})",
            f"valloc({size})",
            f"realloc(NULL, {size})",
        )
        if not self.live or self.chance.random() < 0.5:
            self.acquire(thread, self.chance.choice(acquires))
            return
        if self.chance.random() < 0.05:
            self.say(thread, "free(NULL)")
            return
        address = self.take(thread)
        kind = self.chance.randrange(10)
        if kind == 0:
            self.live.append((thread, address))
            self.say(thread, f"malloc_usable_size({address:#x})")
            return
        self.free_addresses.append(address)
        if kind < 3:
            self.acquire(thread, f"realloc({address:#x}, {size})")
        elif kind == 3:
            self.acquire(thread, f"reallocarray({address:#x}, {count}, {size})")
        else:
            self.say(thread, f"free({address:#x})")


def calls_of(work: Path) -> list[list[Call]]:
    """Each thread's calls, in order."""
    workload = read_workload(work)
    streams = [workload.ops_of(thread).to_dict("records") for thread in range(workload.threads)]
    calls: list[list[Call]] = [[] for _ in streams]
    in_slot: dict[int, Object] = {}
    for run in workload.schedule().itertuples():
        for _ in range(int(run.ops)):
            thread = int(run.thread)
            number = len(calls[thread])
            op = streams[thread][number]
            name, acquires, release, _, _ = CALLS[op["call"] & ID_MASK]
            null_in = bool(op["call"] & NULL_IN)
            slot = op["slot"]
            given = in_slot[slot] if release != NOTHING and not null_in else None
            calls[thread].append((name, op["size"], op["param"], null_in, given))
            if acquires:
                in_slot[slot] = (thread, number)
    return calls


def without_what_is_not_the_traces(recorded: list[list[Call]], expected: list[list[Call]]) -> list[list[Call]]:
    """The recorded threads in the expected numbering, each from its key request on."""
    at_key: dict[int, tuple[int, int]] = {}  # recorded thread -> expected thread, number of the key request
    for thread, calls in enumerate(recorded):
        key = next((number for number, call in enumerate(calls) if call[1] >= KEY_BYTES), None)
        assert key is not None, f"a thread without a key request: {calls}"
        at_key[thread] = (calls[key][1] - KEY_BYTES, key)
        assert key <= (BEFORE_MAIN_MOST if at_key[thread][0] == 0 else 0), calls[:key]
    assert sorted(thread for thread, _ in at_key.values()) == list(range(len(expected)))
    renamed: list[list[Call]] = [[] for _ in expected]
    for thread, calls in enumerate(recorded):
        name, key = at_key[thread]
        for call, size, param, null_in, made in calls[key:]:
            maker = (at_key[made[0]][0], made[1] - at_key[made[0]][1]) if made else None
            renamed[name].append((call, size, param, null_in, maker))
        at_exit = renamed[name][len(expected[name]) :]
        assert all(call[0] == "free" and call[3] for call in at_exit), at_exit
        del renamed[name][len(expected[name]) :]
    return renamed


def preload_options(allocator: str) -> tuple[str | Path, ...]:
    library = ALLOCATORS[allocator]
    return ("--preload", system_library(library)) if library else ()


def recording_of_replay(folder: Path, work: Path, allocator: str, order: str) -> Path:
    """The engine's trace; its launcher's is beside it and has few or none of the workload's calls."""
    folder.mkdir()
    engine = (REPLAY, "--pass", "bare", "--order", order, "--engine-cycles-per-op", "1", *preload_options(allocator))
    succeed(RECORD, "-o", folder / "r.tape", "--", *engine, "-o", folder / "run.json", work)
    return max(folder.glob("*.tape"), key=lambda tape: info(tape)["peak_live_bytes"])


def pairs() -> list:
    """Each allocator with each order."""
    every = [(allocator, order) for allocator in ALLOCATORS for order in ORDERS]
    return [
        (allocator, order) if allocator == "glibc" else pytest.param(allocator, order, marks=pytest.mark.long)
        for allocator, order in every
    ]


@pytest.mark.parametrize(("allocator", "order"), pairs())
def test_recording_of_a_replay_has_the_events_of_the_trace(tmp_path_factory, allocator, order):
    @settings(
        max_examples=4, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )
    @given(shape=SHAPES)
    def holds(shape: Shape) -> None:
        folder = tmp_path_factory.mktemp("loop")
        text, work, again = folder / "t.txt", folder / "t.work", folder / "again.work"
        text.write_text(Generator(shape).text())
        succeed(CONVERT, "compile", text, "-o", work)
        assert check(work)["ok"]
        tape = recording_of_replay(folder / "replay", work, allocator, order)
        assert_clean(tape)
        succeed(CONVERT, "compile", tape, "-o", again)
        expected = calls_of(work)
        assert sum(map(len, expected)) == shape.events + shape.threads
        assert without_what_is_not_the_traces(calls_of(again), expected) == expected

    preload_options(allocator)
    holds()
