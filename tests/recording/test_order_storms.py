# SPDX-License-Identifier: MIT
"""Storms of remote frees, recorded with tags and with a stamp on every event, always have a legal history.

test/ownership_tags_order_every_history.c proves the order of the scheme itself for small cases; this is the real
recorder on the real machine, under allocators that hand addresses out again in different ways.
Long: each storm is one more chance to meet a rare order; test_recording_counts.py has one of 64 threads.
"""

import random
from pathlib import Path

import pytest

from tests.support import assert_clean, record, workload

pytestmark = pytest.mark.long

ALLOCATORS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2.0",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}


def storm(seed: int, rounds: int) -> tuple[str | Path, ...]:
    chance = random.Random(seed)
    return (
        workload("remote_storm"),
        f"--threads={chance.choice((2, 3, 4, 8, 16))}",
        f"--slots={chance.choice((1, 2, 8, 64, 1000))}",
        f"--highest={chance.choice((24, 256, 5000))}",
        f"--rounds={rounds}",
        f"--seed={seed}",
        "--quiet=1",
    )


@pytest.mark.parametrize("stamp", ["tags", "every"])
@pytest.mark.parametrize("seed", range(12))
def test_storm_is_recorded_as_a_legal_history(tmp_path: Path, seed: int, stamp: str) -> None:
    tape = tmp_path / "t.tape"
    record(tape, *storm(seed, rounds=20000), options=("--stamp", stamp))
    assert assert_clean(tape)["events"] > 20000


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_storm_under_another_allocator_is_recorded_as_a_legal_history(tmp_path: Path, allocator: str) -> None:
    found = sorted(Path("/usr/lib").rglob(ALLOCATORS[allocator]))
    if not found:
        pytest.skip(f"{ALLOCATORS[allocator]} is not installed")
    for seed in range(3):
        tape = tmp_path / f"{seed}.tape"
        record(tape, *storm(seed, rounds=20000), options=("--preload", str(found[0])))
        assert_clean(tape)


@pytest.mark.parametrize("stamp", ["tags", "every"])
@pytest.mark.parametrize("pattern", ["xmalloc", "larson", "many_threads"])
def test_pattern_is_recorded_as_a_legal_history(tmp_path: Path, pattern: str, stamp: str) -> None:
    sizes = {
        "xmalloc": ("--pairs=3", "--batches=40", "--batch=500"),
        "larson": ("--threads=4", "--rounds=10000", "--generations=8"),
        "many_threads": ("--threads=128", "--generations=2", "--turns=5"),
    }
    tape = tmp_path / "t.tape"
    record(tape, workload(pattern), *sizes[pattern], "--quiet=1", options=("--stamp", stamp))
    assert_clean(tape)
