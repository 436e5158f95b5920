# SPDX-License-Identifier: MIT
"""What of an environment selects or sets an allocator: the one list has all that the registry's allocators read, live
programs get none of it but the choice's, and each run's malloc is the one that its label names.
"""

import json
import os
from pathlib import Path

import pytest
from heaptape.allocators import registry
from heaptape.allocators.registry import Choice
from heaptape.common.home import default_home
from heaptape.run import environment, live, replay
from heaptape.run.environment import left_out, without_allocator
from heaptape.run.rounds import Run, Settings

from tests.support import HEAPTAPE, OUT, compile_c, run

REFERENCE = OUT / "lib/libreference.so"
KNOWN = registry.load(default_home())


@pytest.mark.parametrize("name", KNOWN)
def test_all_that_an_allocator_of_the_registry_reads_is_in_the_list(name):
    allocator = KNOWN[name]
    settings = [variant.environment for variant in allocator.variants.values()]
    if allocator.tunables:
        settings += [allocator.tunables.environment({one: "1"}) for one in allocator.tunables.names]
    for one in settings:
        assert without_allocator(one) == {}
        assert left_out(one) == list(one)


def test_what_selects_and_sets_no_allocator_remains(tmp_path):
    other = compile_c(tmp_path / "other.so", "int other(void) { return 1; }", "-shared", "-fPIC")
    kept = {"PATH": "/bin", "PYTHONMALLOC": "malloc", "MALLOCATION": "1"}
    mixed = {
        "LD_PRELOAD": f"{REFERENCE} {other}:libm.so.6:/no/such/file.so",
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0:glibc.malloc.arena_max=1:glibc.cpu.x86_shstk=off",
        "MIMALLOC_PURGE_DELAY": "0",
        "_RJEM_MALLOC_CONF": "narenas:1",
    }
    without = {
        "LD_PRELOAD": f"{other}:libm.so.6",
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0:glibc.cpu.x86_shstk=off",
    }
    assert without_allocator(kept | mixed) == kept | without
    assert left_out(kept | mixed) == list(mixed)
    assert without_allocator(without) == without
    assert left_out(kept | without) == []


def test_a_bare_name_is_searched_as_the_linker_does(tmp_path):
    compile_c(tmp_path / "libown.so", "void *malloc(unsigned long n) { return 0; }", "-shared", "-fPIC")
    found = {"LD_PRELOAD": "libown.so", "LD_LIBRARY_PATH": str(tmp_path)}
    assert "LD_PRELOAD" not in without_allocator(found)


def test_a_live_programs_other_preloads_and_tunables_stay_behind_the_choices():
    choice = Choice("x", "y", Path("/x.so"), "/x.so", {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "X": "1"})
    others = {"LD_PRELOAD": "/other.so", "GLIBC_TUNABLES": "glibc.pthread.rseq=0", "PATH": "/bin"}
    assert live.settings_of(choice, others) == {
        "LD_PRELOAD": "/x.so:/other.so",
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0:glibc.malloc.tcache_count=0",
        "X": "1",
    }


def test_an_observed_program_has_no_allocator_but_the_one_that_was_named(tmp_path):
    inherited = {
        "LD_PRELOAD": f"libm.so.6:{registry.load(default_home())['jemalloc'].path}",
        "MALLOC_ARENA_MAX": "1",
        "REFERENCE_TUNABLES": "x",
    }
    script = 'echo "$LD_PRELOAD $MALLOC_ARENA_MAX$REFERENCE_TUNABLES"'
    done = run(HEAPTAPE, "observe", "-o", tmp_path / "o", "-a", "reference", "--", "sh", "-c", script, env=inherited)
    assert done.stdout.split() == [f"{REFERENCE}:libm.so.6"]
    assert all(name in done.stderr for name in inherited)
    untouched = run(HEAPTAPE, "observe", "-o", tmp_path / "o", "--", "sh", "-c", script, env=inherited)
    assert untouched.stdout.split() == [inherited["LD_PRELOAD"], "1x"]
    assert not untouched.stderr


def test_a_cell_of_another_library_than_its_labels_is_an_error(tmp_path):
    """An engine that says whose malloc it called."""
    engine = tmp_path / "engine"
    one = tmp_path / "one.so"
    (tmp_path / "link.so").symlink_to(one)
    one.touch()
    for called, wrong in ((one, False), (tmp_path / "link.so", False), (REFERENCE, True)):
        measured = json.dumps({"pass": "bare", "malloc": {"path": str(called)}})
        engine.write_text(
            "#!/bin/sh\n"
            'for word; do case "$word" in --output=*) output=${word#--output=} ;; esac; done\n'
            f"""echo '{measured}' >"$output"\n"""
        )
        engine.chmod(0o755)
        made = replay.Engine(engine, tmp_path / "no.work", Settings(passes=("bare",)))
        found = replay.measure(made, Run(Choice("one", "default", one, str(one), {}), "bare", 0))
        assert ("error" in found) == wrong
        assert not wrong or found["error"] == f"the malloc of {REFERENCE} was called, not that of {one}"


def test_the_recorder_of_a_recorded_replay_is_no_allocator():
    recorder = {"LD_PRELOAD": str(OUT / "lib/libheaptape.so")}
    assert without_allocator(recorder) == recorder
    assert environment.RECORDERS[0] in os.fspath(recorder["LD_PRELOAD"])
