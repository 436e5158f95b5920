# SPDX-License-Identifier: MIT
"""Settings of the bucket allocator: limits are enforced and reported, and libmtmalloc's names of settings work."""

import pytest

from tests.support import OUT, run

# Prints the oversize requests and parent locks of 100 objects of 100,000 bytes.
PROGRAM = """
import ctypes
class Stat(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_uint64)]
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
stats = (Stat * 64)()
def counts():
    count = library.heaptape_allocator_stats(stats, 64)
    return {stats[i].name.decode(): stats[i].value for i in range(count)}
before = counts()
for _ in range(100):
    library.free(library.malloc(100000))
after = counts()
print(after["oversize_hits"] - before["oversize_hits"] >= 100, after["parent_locks"] - before["parent_locks"] >= 100)
"""


def stderr_lines(**settings: str) -> list[str]:
    """The lines that the library prints for these variables of the environment."""
    done = run("true", env={"LD_PRELOAD": str(OUT / "lib/libbucket.so"), **settings})
    assert done.status == 0
    return done.stderr.splitlines()


def oversize_and_parent_locks(**settings: str) -> list[str]:
    """For objects of 100,000 bytes: "True" or "False", whether they are oversize, and whether they take parent
    locks."""
    tunables = "stats=1:single_thread=0:" + settings.pop("BUCKET_TUNABLES", "")
    preload = {"LD_PRELOAD": str(OUT / "lib/libbucket.so"), "BUCKET_TUNABLES": tunables}
    done = run("/usr/bin/python3", "-c", PROGRAM, env={**preload, **settings})
    assert (done.status, done.stderr) == (0, "")
    return done.stdout.split()


LOWEST, HIGHEST = (
    "bucket: max_cached is set to its lowest value: 65536",
    "bucket: max_cached is set to its highest value: 2097152",
)
REPORTED = [
    ("BUCKET_TUNABLES", "max_cached=1000", [LOWEST]),
    ("BUCKET_TUNABLES", "max_cached=99999999", [HIGHEST]),
    ("BUCKET_TUNABLES", "max_cached=65537", ["bucket: max_cached is not a power of two; the next one is used: 131072"]),
    *(("MTMAXCACHE", str(shift), []) for shift in range(16, 22)),
    *(("MTMAXCACHE", shift, [LOWEST]) for shift in ("15", "-1")),
    *(("MTMAXCACHE", shift, [HIGHEST]) for shift in ("22", "63", "64", "99999999999999999999")),
]


@pytest.mark.parametrize(("name", "value", "lines"), REPORTED)
def test_max_cached_and_libmtmallocs_exponent_are_clamped_and_that_is_reported(name, value, lines):
    assert stderr_lines(**{name: value}) == lines


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["True", "False"]),
        ({"MTMAXCACHE": "17"}, ["False", "True"]),
        ({"MTMAXCACHE": "17", "MTEXCLUSIVE": "Yes"}, ["False", "False"]),
        ({"MTMAXCACHE": "17", "MTEXCLUSIVE": "no"}, ["False", "True"]),
        ({"MTMALLOC_OPTIONS": "MTEXCLUSIVE=Y,MTMAXCACHE=17"}, ["False", "False"]),
        ({"MTMAXCACHE": "17", "BUCKET_TUNABLES": "max_cached=65536"}, ["True", "False"]),
        ({"MTMAXCACHE": "17", "MTEXCLUSIVE": "Y", "BUCKET_TUNABLES": "exclusive=0"}, ["False", "True"]),
    ],
)
def test_names_of_libmtmalloc_work_and_tunables_precede_them(settings, expected):
    assert oversize_and_parent_locks(**settings) == expected
