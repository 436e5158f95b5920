# SPDX-License-Identifier: MIT
"""Every variant of our allocators keeps the rules of malloc. Long: threads under ThreadSanitizer, and two programs that
few tunables concern."""

import re
import tomllib

import pytest

from tests.examples import FEW
from tests.support import OUT, REPOSITORY, run

REGISTRY = tomllib.loads((REPOSITORY / "allocators/allocators.toml").read_text())
# The allocators of allocators/part.mk, and the least number of variants of each.
OURS = {"reference": 24, "magazine": 16, "bucket": 16}
PROGRAMS = {
    "objects_never_overlap_and_keep_their_contents": ("5000" if FEW else "60000",),
    "threads_pass_objects_and_nothing_is_lost": ("6", "2500", "2"),
}
RARER = {"api_keeps_to_posix_and_c23": (), "caches_of_ended_threads_return": ()}
PLANTED = {("reference", "leak")}  # a fault that `heaptape gate --self-test` must find
# A value that one of each allocator's tunables does not accept.
WRONG = {"reference": "tcache=7", "magazine": "burst_scale=twice", "bucket": "cache_lock=spin"}
RACES = {
    "reference": ("fastbins", "neither", "fastchunks-atomic", "one-arena", "trim-at-once"),
    "magazine": ("neither", "no-previous", "magazine-grow", "no-depot", "no-run-cache"),
    "bucket": ("mutex", "exclusive", "exclusive-mutex", "one-bucket", "max-cached-2m", "stats"),
}


def environment(allocator: str, variant: str) -> dict[str, str]:
    return REGISTRY[allocator]["variants"][variant]["environment"] if variant else {}


@pytest.mark.parametrize("allocator", OURS)
def test_each_has_its_variants(allocator):
    assert len(REGISTRY[allocator]["variants"]) >= OURS[allocator]


@pytest.mark.parametrize(
    ("allocator", "variant"), [(a, v) for a in OURS for v in REGISTRY[a]["variants"] if (a, v) not in PLANTED]
)
@pytest.mark.parametrize("program", [*PROGRAMS, *(pytest.param(name, marks=pytest.mark.long) for name in RARER)])
def test_variant_keeps_the_rules_of_malloc(program, allocator, variant):
    path = OUT / "test/allocators" / allocator / program
    done = run(path, *(PROGRAMS | RARER)[program], env=environment(allocator, variant))
    assert (done.status, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize(("allocator", "variant"), [(a, v) for a in OURS for v in ("", *RACES[a])])
def test_threads_do_not_race(allocator, variant):
    done = run(OUT / f"test-programs/{allocator}_tsan", "4", "3000", "2", env=environment(allocator, variant))
    assert done.status == 0, done.stderr[:4000]


@pytest.mark.parametrize("allocator", OURS)
def test_wrong_tunables_are_named_and_ignored(allocator):
    variable = REGISTRY[allocator]["tunables"]["variable"]
    done = run(
        "true", env={"LD_PRELOAD": str(OUT / f"lib/lib{allocator}.so"), variable: f"{WRONG[allocator]}:nosuch=1:stats="}
    )
    assert done.status == 0
    assert done.stderr.splitlines() == [
        f"{allocator}: tunable without a valid value, ignored: {WRONG[allocator]}",
        f"{allocator}: unknown tunable, ignored: nosuch=1",
        f"{allocator}: tunable without a valid value, ignored: stats=",
    ]


@pytest.mark.parametrize("allocator", OURS)
def test_the_registry_names_each_tunable(allocator):
    tables = [REPOSITORY / "allocators" / folder / "tunables.def" for folder in (allocator, "common")]
    names = [
        name for table in tables for name in re.findall(r"^(?:TUNABLE|CHOICE)\((\w+)", table.read_text(), re.MULTILINE)
    ]
    assert sorted(REGISTRY[allocator]["tunables"]["space"]) == sorted(names)
