"""Every variant of the registry keeps what the allocator promises. Long: threads under ThreadSanitizer."""

import tomllib

import pytest

from tests.support import OUT, REPOSITORY, run

REGISTRY = tomllib.loads((REPOSITORY / "allocators" / "allocators.toml").read_text())
VARIANTS = {
    name: variant["environment"]["REFERENCE_TUNABLES"] for name, variant in REGISTRY["reference"]["variants"].items()
}
PROGRAMS = {
    "objects_never_overlap_and_keep_their_contents": ("60000",),
    "threads_pass_objects_and_nothing_is_lost": ("6", "5000", "2"),
    "api_keeps_to_posix_and_c23": (),
    "caches_of_ended_threads_return": (),
}
RACES = ("", *(VARIANTS[name] for name in ("fastbins", "neither", "fastchunks-atomic", "one-arena", "trim-at-once")))


def test_there_are_two_dozen_variants():
    assert len(VARIANTS) >= 24


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_variant_keeps_the_promises(program, variant):
    done = run(
        OUT / "test/allocators/reference" / program, *PROGRAMS[program], env={"REFERENCE_TUNABLES": VARIANTS[variant]}
    )
    assert (done.status, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize("tunables", RACES)
def test_threads_do_not_race(tunables):
    done = run(OUT / "test-programs/reference_tsan", "4", "3000", "2", env={"REFERENCE_TUNABLES": tunables})
    assert done.status == 0, done.stderr[:4000]


def test_wrong_tunables_are_named_and_ignored():
    done = run(
        "true",
        env={
            "LD_PRELOAD": str(OUT / "lib/libreference.so"),
            "REFERENCE_TUNABLES": "tcache=7:nosuch=1:arenas=2:top_pad=",
        },
    )
    assert done.status == 0
    assert done.stderr.splitlines() == [
        "reference: tunable without a value that it takes, ignored: tcache=7",
        "reference: unknown tunable, ignored: nosuch=1",
        "reference: tunable without a value that it takes, ignored: top_pad=",
    ]
