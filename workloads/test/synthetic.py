# SPDX-License-Identifier: MIT
"""What the tests of the synthetic patterns share: a small run of each, recorded once, and its streams in a form that
does not depend on which thread came first.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import msgspec
from heaptape.profile.data import Profile

from tests.support import CONVERT, REPOSITORY, record, succeed, workload

NAMES = sorted(path.stem for path in (REPOSITORY / "workloads" / "synthetic").glob("*/*.c"))

# Every pattern, small: some ten thousand calls.
OPTIONS = {
    "alignment_storm": ("--rounds=10000", "--slots=500"),
    "arenas": ("--tasks=20",),
    "cfrac": ("--steps=5000",),
    "false_sharing": ("--rounds=500", "--writes=10", "--passive=1"),
    "groups": ("--threads=2", "--rounds=100", "--held=20", "--longest=100"),
    "growing_reallocs": ("--rounds=20",),
    "heirs": ("--objects=500", "--replacements=500", "--heirs=10"),
    "huge_objects": ("--rounds=300",),
    "larson": ("--threads=2", "--slots=100", "--rounds=1000", "--generations=6"),
    "lru_cache": ("--requests=20000", "--keys=2000", "--capacity=1000000"),
    "malloc_pairs": ("--pairs=5000",),
    "many_threads": ("--threads=16", "--generations=3", "--turns=5"),
    "mt_one_alloc": ("--threads=8", "--rounds=1000"),
    "mtmalloc": ("--threads=2", "--rounds=5", "--samples=500"),
    "phases": ("--objects=1000", "--keep-every=20"),
    "pipeline": ("--batches=100", "--workers=3"),
    "random_mix": ("--rounds=10000", "--slots=500", "--odd=1"),
    "random_mix_live": ("--rounds=40000", "--slots=1000"),
    "remote_storm": ("--rounds=5000",),
    "ring": ("--rounds=40", "--threads=4", "--hops=3", "--resized=0"),
    "string_building": ("--lines=2000", "--documents=3", "--document-lines=100"),
    "thread_per_request": ("--requests=100", "--session=4"),
    "xmalloc": ("--pairs=2", "--batches=10", "--batch=500"),
}


@cache
def _folder() -> Path:
    return Path(mkdtemp(prefix="heaptape-synthetic-"))


@cache
def tape(name: str) -> Path:
    """The recording of the pattern's small run."""
    path = _folder() / f"{name}.tape"
    record(path, workload(name), *OPTIONS[name], "--quiet=1")
    return path


@cache
def written(name: str) -> Path:
    """The workload file of the same."""
    path = _folder() / f"{name}.work"
    succeed(workload(name), *OPTIONS[name], f"--work={path}", "--quiet=1")
    return path


@cache
def profile(name: str) -> Profile:
    """Of the recording."""
    return Profile(json.loads(succeed(CONVERT, "profile", tape(name)).stdout))


def ops(work: Path) -> list[dict]:
    """All ops of a workload in their total order."""
    return msgspec.json.Decoder().decode_lines(succeed(CONVERT, "dump", work, "--format", "jsonl").stdout)


@cache
def recorded_ops(name: str) -> list[dict]:
    """All ops of the recording's workload."""
    path = _folder() / f"{name}.recorded.work"
    succeed(CONVERT, "compile", tape(name), "-o", path)
    return ops(path)


@dataclass
class Call:
    """One op: what was called, and on the which-th object that which thread acquired."""

    call: str
    sizes: tuple
    object_: tuple[int, int] | None
    is_null_free: bool


ACQUIRES_ANEW = {"malloc", "calloc", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"}


def _calls(all_ops: list[dict]) -> Iterator[tuple[int, Call]]:
    """Each op with its thread; objects are named by the thread that first acquired them and their number there."""
    living: dict[int, tuple[int, int]] = {}
    born: dict[int, int] = {}
    for op in all_ops:
        thread, slot = op["thread"], op.get("slot")
        sizes = tuple(op.get(key) for key in ("size_bytes", "count", "align_bytes"))
        if slot is not None and (op["call"] in ACQUIRES_ANEW or slot not in living):
            living[slot] = (thread, born.get(thread, 0))
            born[thread] = born.get(thread, 0) + 1
        yield thread, Call(op["call"], sizes, None if slot is None else living[slot], slot is None)
        dies = op["call"] == "free" or (op["call"] == "realloc" and op.get("size_bytes") == 0)
        if slot is not None and dies:
            del living[slot]


def streams(all_ops: list[dict], *, of_libc: bool) -> list[tuple]:
    """The threads' streams, sorted, without numbers of threads or slots: each op with its call, its sizes, and whose
    which-th object it is on, threads told by what they do.

    of_libc: leave out what the C library calls by itself: where a thread is created a calloc or some free(NULL), and
    free(NULL) when a thread ends. No pattern's main thread frees NULL itself.
    """
    threads: dict[int, list[Call]] = {}
    for thread, call in _calls(all_ops):
        threads.setdefault(thread, []).append(call)
    for thread, calls in threads.items() if of_libc else ():
        created = {call.object_ for call in calls if call.call == "calloc"}
        threads[thread] = [
            call for call in calls if call.object_ not in created and not (created and call.is_null_free)
        ]
    for calls in threads.values():
        while calls and calls[-1].is_null_free:
            calls.pop()
    label = {thread: hash(tuple((call.call, call.sizes) for call in calls)) for thread, calls in threads.items()}
    numbers = _renumbered(threads)
    named = [
        tuple(
            (call.call, call.sizes, call.object_ and (label[call.object_[0]], numbers[call.object_])) for call in calls
        )
        for calls in threads.values()
    ]
    return sorted((stream for stream in named if stream), key=hash)


def _renumbered(threads: dict[int, list[Call]]) -> dict[tuple[int, int], int]:
    """The objects' numbers among those of their thread that are left."""
    counts: dict[int, int] = {}
    numbers: dict[tuple[int, int], int] = {}
    seen = sorted({call.object_ for calls in threads.values() for call in calls if call.object_})
    for thread, number in seen:
        numbers[thread, number] = counts.get(thread, 0)
        counts[thread] = numbers[thread, number] + 1
    return numbers
