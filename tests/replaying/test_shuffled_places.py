# SPDX-License-Identifier: MIT
"""The layer that gives objects random places: a depth of 1 keeps the allocator's order, a larger one changes it; a
depth and a seed give the same layout each time.
"""

import os
import subprocess

from tests.support import OUT

# Objects of one size, whose addresses python3 prints; kept, so that none is reused.
PROGRAM = "kept = [[] for _ in range(600)]; print(*map(id, kept))"


def addresses(depth: int, seed: int) -> list[int]:
    settings = {"LD_PRELOAD": str(OUT / "test-lib" / "libshuffle_places.so"), "PYTHONMALLOC": "malloc"}
    settings |= {"SHUFFLE_DEPTH": f"{depth:05d}", "SHUFFLE_SEED": str(seed), "PYTHONHASHSEED": "0"}
    command = ["setarch", "-R", "/usr/bin/python3", "-S", "-c", PROGRAM]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True, timeout=60)
    return [int(word) for word in done.stdout.split()]


def rising(values: list[int]) -> int:
    return sum(one < other for one, other in zip(values, values[1:]))


def test_a_depth_of_one_keeps_the_order_and_a_larger_one_changes_it():
    assert rising(addresses(1, 3)) > 500
    assert 200 < rising(addresses(1024, 3)) < 400


def test_a_seed_gives_the_same_layout_each_time_and_another_seed_another():
    assert addresses(64, 3) == addresses(64, 3)
    assert addresses(64, 3) != addresses(64, 4)
