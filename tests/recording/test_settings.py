# SPDX-License-Identifier: MIT
"""A recording has the settings of the program's allocator, and nothing else of its environment."""

import json

import pytest
from heaptape.tape.workload_format import read_workload

from tests.oracle.reader import open_trace
from tests.support import CONVERT, record, succeed

OTHERS = {"SECRET": "MALLOC_ARENA_MAX=9", "MALLOCATION": "1", "MY_MALLOC_ARENA": "1", "PYTHONMALLOC": "malloc"}


def settings(folder, environment):
    """What the document's own reader finds."""
    record(folder / "t.tape", "ls", env=environment)
    return open_trace(folder / "t.tape").info["settings"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "4096"},
        {"MALLOC_CONF": "narenas:1,dirty_decay_ms:0", "_RJEM_MALLOC_CONF": "tcache:false"},
        {"MIMALLOC_PURGE_DELAY": "0", "TCMALLOC_RELEASE_RATE": "10", "SCUDO_OPTIONS": "a=1"},
        {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=3"},
    ],
)
def test_settings_of_allocators_are_stored_and_no_other_variable(given, tmp_path):
    assert settings(tmp_path, given | OTHERS) == given


@pytest.mark.parametrize(
    ("text", "of_malloc"),
    [
        ("glibc.malloc.arena_max=1:glibc.malloc.mxfast=0", "glibc.malloc.arena_max=1:glibc.malloc.mxfast=0"),
        ("glibc.pthread.rseq=0:glibc.malloc.arena_max=1:glibc.elision.enable=0", "glibc.malloc.arena_max=1"),
        ("glibc.pthread.rseq=0", None),
    ],
)
def test_of_glibcs_tunables_those_of_malloc_are_stored(text, of_malloc, tmp_path):
    """glibc's start-up cuts the variable into one string for each tunable."""
    assert settings(tmp_path, {"GLIBC_TUNABLES": text}).get("GLIBC_TUNABLES") == of_malloc


def test_workloads_and_other_traces_of_it_keep_them_but_anonymised_no_path(tmp_path):
    given = {"MALLOC_ARENA_MAX": "2", "MALLOC_CONF": "prof_prefix:/home/name"}
    assert settings(tmp_path, given) == given
    made = {name: tmp_path / name for name in ("t.work", "anonymous.tape", "slice.tape")}
    succeed(CONVERT, "compile", tmp_path / "t.tape", "-o", made["t.work"])
    succeed(CONVERT, "convert", "--anonymise", tmp_path / "t.tape", made["anonymous.tape"])
    succeed(CONVERT, "convert", "--slice", "progress=0%..50%", tmp_path / "t.tape", made["slice.tape"])
    assert read_workload(made["t.work"]).info["settings"] == given
    assert open_trace(made["slice.tape"]).info["settings"] == given
    assert open_trace(made["anonymous.tape"]).info["settings"] == {"MALLOC_ARENA_MAX": "2"}
    assert open_trace(made["anonymous.tape"]).info["touched_parts"] is True
    shown = succeed(CONVERT, "info", tmp_path / "t.tape").stdout
    assert "with MALLOC_ARENA_MAX=2 MALLOC_CONF=prof_prefix:/home/name" in " ".join(shown.split())
    about = json.loads(succeed(CONVERT, "info", "--json", made["t.work"]).stdout)["info"]
    assert about["settings"] == given
