# SPDX-License-Identifier: MIT
"""The contention pass: the planned waits of an allocator's threads are all reported, by call, size and lock."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.support import REPLAY, compile_c, compile_trace, import_text, refused, succeed

from ..engine import OUT, make

WAITING = OUT / "test-programs/libwaiting.so"
PROPERTY = examples(25)
# By an object's size modulo 16, as in waiting_allocator.c.
HOLD, WAIT, MAPPED, INSIDE, YIELD, SLEEP, SLEEP_WHOLLY = range(1, 8)
KIND = {WAIT: "futex", MAPPED: "futex", INSIDE: "futex", YIELD: "yield", SLEEP: "sleep"}


def size_class(size: int) -> int:
    """The largest size of its class."""
    return next(last for last in (0, *(8 << n for n in range(1, 21))) if size <= last)


@dataclass
class Calls:
    """Lines of heaptape text, and the waits that they cause: call, size class, planted -> count."""

    lines: list[str] = field(default_factory=list)
    waits: Counter = field(default_factory=Counter)

    def add(self, thread: int, text: str, name: str = "", size: int = 0) -> int:
        """The next call, `{}` its address; its wait, if the size has one."""
        address = 0x10000 * (len(self.lines) + 1)
        self.lines.append(f"{10 * len(self.lines)} {thread} {text.format(hex(address))}\n")
        if size % 16 in KIND:
            self.waits[name, size_class(size), size % 16] += 1
        return address

    def malloc(self, thread: int, size: int) -> int:
        return self.add(thread, f"malloc({size}) = {{}}", "malloc", size)

    def free(self, thread: int, address: int, size: int) -> None:
        self.add(thread, f"free({address:#x})", "free", size)

    def run(self, folder, *arguments, **settings) -> dict:
        work = compile_trace(import_text(folder, "".join(self.lines)))
        return contention_pass(work, *arguments, **settings)

    def sums(self, by) -> dict:
        """Counts of the planned waits by the key that `by` returns for (call, class, planted)."""
        out: Counter = Counter()
        for key, count in self.waits.items():
            out[by(*key)] += count
        return dict(out)


def contention_pass(work, *arguments, preload=WAITING, **settings):
    preloads = ["--preload", preload] if preload else []
    environment = [f"--env={name}={value}" for name, value in settings.items()]
    return json.loads(succeed(REPLAY, "--pass", "contention", *preloads, *environment, *arguments, work).stdout)


def counts_by_call(found) -> dict:
    return {name: call["count"] for name, call in found["calls"].items() if call["count"]}


def counts_by_size(found) -> dict:
    return {
        (name, size["up_to_bytes"]): size["count"]
        for name, call in found["calls"].items()
        for size in call.get("sizes", [])
    }


def assert_sums_agree(found):
    """By call, by size within each call, by lock, and by call within each lock: the same waits."""
    for key in ("count", "at_once", "time_ns"):
        assert sum(call[key] for call in found["calls"].values()) == found[key]
        assert sum(lock[key] for lock in found["locks"]) == found[key]
        for name, call in found["calls"].items():
            if name != "thread end":
                assert sum(size[key] for size in call["sizes"]) == call[key], name
    assert max((lock["max_ns"] for lock in found["locks"]), default=0) == found["max_ns"]
    by_lock: Counter = Counter()
    for lock in found["locks"]:
        assert sum(lock["calls"].values()) == lock["count"]
        by_lock.update(lock["calls"])
    assert dict(by_lock) == counts_by_call(found)
    assert [lock["time_ns"] for lock in found["locks"]] == sorted((k["time_ns"] for k in found["locks"]), reverse=True)


def test_a_lock_that_is_held_until_a_thread_waits_is_seen_to_be_waited_for_each_time(tmp_path):
    calls = Calls()
    old = calls.malloc(1, 64)  # so that the thread is there when the first hold waits for it
    for size in (HOLD + 16, HOLD + 1600):
        for _ in range(10):
            calls.malloc(0, size)
    for _ in range(15):
        calls.malloc(1, WAIT + 32)
    freed = calls.malloc(1, WAIT + 3200)
    calls.free(1, freed, WAIT + 3200)
    calls.add(1, f"calloc(2, {(WAIT + 160) // 2}) = {{}}", "calloc", WAIT + 160)
    calls.add(1, f"realloc({old:#x}, {WAIT + 320}) = {{}}", "realloc", WAIT + 320)
    calls.add(1, f"posix_memalign(16, {WAIT + 64}) = {{}}", "posix_memalign", WAIT + 64)
    run = calls.run(tmp_path)
    found = run["contention"]
    assert run["order"].startswith("window")
    assert found["count"] == 20
    assert counts_by_size(found) == calls.sums(lambda call, size, _: (call, size))
    (lock,) = found["locks"]
    assert (lock["wait"], lock["symbol"], lock["symbol_offset"]) == ("futex", "waiting_lock", 0)
    assert lock["object"] == "libwaiting.so"
    assert lock["count"] - lock["at_once"] > 0
    assert found["time_ns"] > 0
    assert_sums_agree(found)


def test_each_kind_of_wait_is_distinguished_and_named(tmp_path):
    calls = Calls()
    for planted, times in ((MAPPED, 3), (INSIDE, 4), (YIELD, 5), (SLEEP, 6)):
        for number in range(times):
            made = calls.malloc(0, 16 * number + planted)
            if number % 2:
                calls.free(0, made, 16 * number + planted)
    found = calls.run(tmp_path)["contention"]
    assert counts_by_call(found) == calls.sums(lambda call, *_: call)
    assert counts_by_size(found) == calls.sums(lambda call, size, _: (call, size))
    waits: Counter = Counter()
    for lock in found["locks"]:
        waits[lock["wait"]] += lock["count"]
    assert dict(waits) == calls.sums(lambda call, size, planted: KIND[planted])
    futexes = {lock.get("symbol"): lock for lock in found["locks"] if lock["wait"] == "futex"}
    assert {name: lock["count"] for name, lock in futexes.items()} == {None: 4, "waiting_inside": 6}
    assert all(lock["at_once"] == lock["count"] for lock in futexes.values()), "the words had changed before"
    assert "object" not in futexes[None]
    assert re.fullmatch("0x[0-9a-f]+", futexes[None]["address"])
    yields = [lock for lock in found["locks"] if lock["wait"] == "yield"]
    assert {(lock["object"], lock["symbol"]) for lock in yields} == {("libwaiting.so", "quiet::yields()")}
    assert_sums_agree(found)


@PROPERTY
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5000), st.booleans()), min_size=1, max_size=80),
    order=st.sampled_from(["window", "causal", "recorded", "random=3"]),
)
def test_any_waits_are_counted_in_their_call_and_size_class(tmp_path, steps, order):
    """No holds, as any thread may wait at any time; and no sleeps whose number is unknown."""
    calls = Calls()
    for thread, size, released in steps:
        size += (size % 16 in (HOLD, WAIT, SLEEP_WHOLLY)) * 2
        made = calls.malloc(thread, size)
        if released:
            calls.free((thread + 1) % 4, made, size)
    found = calls.run(tmp_path, "--order", order)["contention"]
    assert counts_by_size(found) == calls.sums(lambda call, size, _: (call, size))
    assert sum(lock["count"] for lock in found["locks"] if lock["wait"] != "futex") == sum(
        count for (_, _, planted), count in calls.waits.items() if planted in (YIELD, SLEEP)
    )
    assert_sums_agree(found)


def test_waits_outside_of_calls_are_not_counted(tmp_path):
    """The engine's own: threads wait for one another, start and end; no call waits."""
    path = tmp_path / "shared.work"
    made = make(path, ops=40000, threads=6, live_objects=200, remote_percent=50, run_ops=5)
    for order in ("window", "recorded"):
        run = contention_pass(path, "--order", order, preload=OUT / "test-programs/libplanted.so")
        assert run["ops"] == made["ops"]
        assert run["contention"]["count"] == 0
        assert run["contention"]["locks"] == []
        if order == "recorded":
            assert run["contention"]["outside"] > 0


def test_threads_of_the_allocator_are_outside_and_may_block_every_signal(tmp_path):
    calls = Calls()
    calls.malloc(0, 64)
    calls.malloc(1, 16 + YIELD)
    run = calls.run(tmp_path, WAITING_BACKGROUND=1)
    assert run["contention"]["outside"] >= 1000
    assert counts_by_call(run["contention"]) == {"malloc": 1}


@pytest.mark.parametrize("pinned", [[], ["--threads-to-cores"]])
def test_what_the_allocator_does_when_threads_end_is_counted_as_that(tmp_path, pinned):
    """Of 8 threads the first is the process's, and does not end before it."""
    calls = Calls()
    for thread in range(8):
        calls.malloc(thread, 64)
        calls.malloc(thread, 16 + YIELD)
    found = calls.run(tmp_path, *pinned, WAITING_AT_END=1)["contention"]
    assert counts_by_call(found) == {"malloc": 8, "thread end": 7}
    assert "sizes" not in found["calls"]["thread end"]
    assert_sums_agree(found)


def test_a_thread_that_sleeps_in_a_call_switches_voluntarily(tmp_path):
    calls = Calls()
    for _ in range(20):
        calls.malloc(0, SLEEP_WHOLLY)
    found = calls.run(tmp_path)["contention"]
    if "switches_missing_because" in found:
        pytest.skip(found["switches_missing_because"])
    assert found["calls"]["malloc"]["voluntary_switches"] >= 20
    assert found["voluntary_switches"] == sum(c["voluntary_switches"] for c in found["calls"].values())


def test_more_locks_than_there_are_rows_lose_no_wait(tmp_path):
    """Waits for which no row is left have no address."""
    calls = Calls()
    calls.malloc(0, MAPPED)
    found = calls.run(tmp_path, WAITING_WORDS=20000)["contention"]
    assert found["count"] == 20000
    without = [lock for lock in found["locks"] if lock["address"] is None]
    assert len(without) == 1
    assert without[0]["count"] + len(found["locks"]) - 1 == 20000
    assert_sums_agree(found)


@pytest.mark.parametrize("arenas", [1, 8])
def test_glibc_arenas_are_named(tmp_path, arenas):
    """The arena in the C library's own memory, and those that it maps."""
    path = tmp_path / "busy.work"
    make(path, ops=400000, threads=8, live_objects=2000, remote_percent=20)
    setting = f"--env=GLIBC_TUNABLES=glibc.malloc.arena_max={arenas}:glibc.malloc.tcache_count=0"
    runs = (contention_pass(path, setting, preload=None)["contention"] for _ in range(10))
    found = next((run for run in runs if run["count"] > 0), None)
    if not found:
        pytest.skip("no two threads met in malloc, ten times")
    assert_sums_agree(found)
    assert all(lock["symbol"] == "arena" for lock in found["locks"] if "object" not in lock)
    if arenas == 1:
        # Threads that begin or end at the same time wait for the lock of the C library's list of arenas, too.
        assert "main_arena" in {lock["symbol"] for lock in found["locks"]}
        assert all(lock["object"].startswith("libc.so") for lock in found["locks"])


# Runs a program in which seccomp filters can no longer be installed.
FORBIDDING = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **arguments) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {4, filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
    execv(arguments[1], arguments + 1);
  return count > 1 ? 77 : 2;
}
"""


def test_where_filters_are_forbidden_there_is_one_clear_error_and_other_passes_work(tmp_path):
    calls = Calls()
    calls.malloc(0, 64)
    work = compile_trace(import_text(tmp_path, "".join(calls.lines)))
    forbidding = compile_c(tmp_path / "forbidding", FORBIDDING)
    refused(forbidding, REPLAY, "--pass", "contention", work, says="a seccomp filter is not allowed here")
    assert json.loads(succeed(forbidding, REPLAY, "--pass", "bare", work).stdout)["ops"] == 1
