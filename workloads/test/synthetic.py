# SPDX-License-Identifier: MIT
"""What the tests of the synthetic patterns share: a small run of each, recorded once, and its streams in a form that
does not depend on which thread came first.
"""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import msgspec
from heaptape.features.profile.data import Profile

from tests.support import CONVERT, REPOSITORY, record, succeed, workload

PATTERNS = (REPOSITORY / "workloads" / "synthetic" / "patterns.def").read_text()
NAMES = re.findall(r"^PATTERN\((.*)\)$", PATTERNS, re.MULTILINE)

# Every pattern, small: about ten thousand calls.
OPTIONS = {
    "alignment_storm": ("--rounds=6000", "--slots=500"),
    "arenas": ("--tasks=8",),
    "cfrac": ("--steps=2000",),
    "false_sharing": ("--rounds=500", "--writes=10", "--passive=1"),
    "groups": ("--threads=2", "--rounds=100", "--held=20", "--longest=100"),
    "growing_reallocs": ("--rounds=20",),
    "heirs": ("--objects=500", "--replacements=500", "--heirs=10"),
    "huge_objects": ("--rounds=300",),
    "larson": ("--threads=2", "--slots=100", "--rounds=1000", "--generations=6"),
    "lru_cache": ("--requests=8000", "--keys=2000", "--capacity=1000000"),
    "malloc_pairs": ("--pairs=5000",),
    "many_threads": ("--threads=16", "--generations=3", "--turns=5"),
    "mt_one_alloc": ("--threads=8", "--rounds=1000"),
    "mtmalloc": ("--threads=2", "--rounds=5", "--samples=500"),
    "phases": ("--objects=1000", "--keep-every=20"),
    "pipeline": ("--batches=40", "--workers=3"),
    "random_mix": ("--rounds=10000", "--slots=500", "--odd=1"),
    "random_mix_live": ("--rounds=40000", "--slots=1000"),
    "remote_storm": ("--rounds=5000",),
    "ring": ("--rounds=20", "--threads=4", "--hops=3", "--resized=0"),
    "string_building": ("--lines=2000", "--documents=3", "--document-lines=100"),
    "thread_per_request": ("--requests=40", "--session=4"),
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
    """The workload file with the same options."""
    path = _folder() / f"{name}.work"
    succeed(workload(name), *OPTIONS[name], f"--work={path}", "--quiet=1")
    return path


@cache
def profile(name: str) -> Profile:
    """The recording's profile."""
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


# One op: the call, its sizes, and its object: the acquiring thread, and the number among that thread's objects.
Object = tuple[int, int]
Call = tuple[str, tuple, Object | None]
ACQUIRES_ANEW = {"malloc", "calloc", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"}


def _calls(all_ops: list[dict]) -> dict[int, list[Call]]:
    """Each thread's calls; objects are named by the thread that first acquired them and their number there."""
    threads: dict[int, list[Call]] = {}
    living: dict[int, Object] = {}
    born: Counter[int] = Counter()
    for op in all_ops:
        call, thread, slot, size = op["call"], op["thread"], op.get("slot"), op.get("size_bytes")
        if slot is not None and (call in ACQUIRES_ANEW or slot not in living):
            living[slot] = (thread, born[thread])
            born[thread] += 1
        on = None if slot is None else living[slot]
        threads.setdefault(thread, []).append((call, (size, op.get("count"), op.get("align_bytes")), on))
        if slot is not None and (call == "free" or (call == "realloc" and size == 0)):
            del living[slot]
    return threads


def streams(all_ops: list[dict], *, of_libc: bool) -> list[tuple]:
    """The threads' streams, sorted, without numbers of threads or slots: each op with its call, its sizes and its
    object's thread and number; a thread is identified by the calls that it makes.

    of_libc: leave out the C library's own calls: a calloc or some free(NULL) where a thread is created, and free(NULL)
    when a thread ends. No pattern's main thread frees NULL itself.
    """
    threads = _calls(all_ops)
    for thread, calls in threads.items() if of_libc else ():
        created = {on for call, _, on in calls if call == "calloc"}
        threads[thread] = [one for one in calls if one[2] not in created and not (created and one[2] is None)]
    for calls in threads.values():
        while calls and calls[-1][2] is None:
            calls.pop()
    label = {thread: hash(tuple((call, sizes) for call, sizes, _ in calls)) for thread, calls in threads.items()}
    numbers = _renumbered(threads)
    named = [
        tuple((call, sizes, on and (label[on[0]], numbers[on])) for call, sizes, on in calls)
        for calls in threads.values()
    ]
    return sorted((stream for stream in named if stream), key=hash)


def _renumbered(threads: dict[int, list[Call]]) -> dict[Object, int]:
    """The objects' numbers among the remaining ones of their thread."""
    counts: Counter[int] = Counter()
    numbers: dict[Object, int] = {}
    for thread, number in sorted({on for calls in threads.values() for _, _, on in calls if on}):
        numbers[thread, number] = counts[thread]
        counts[thread] += 1
    return numbers
