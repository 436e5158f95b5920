# SPDX-License-Identifier: MIT
"""The caches that the pass misses simulates by default, and the libraries that engines load on every allocator."""

import json
import subprocess
from pathlib import Path

import pytest
from heaptape.results.model.penalties import SCHEMA
from heaptape.run import engine_process, machine, replay
from heaptape.run.registry import Choice
from heaptape.run.rounds import Settings

CAPACITIES = {
    "caches": [{"bytes": 49152, "ways": 12}, {"bytes": 2 << 20, "ways": 16}],
    "tlbs": [{"entries": 96, "ways": 96}, {"entries": 2048, "ways": 16}],
}


@pytest.fixture
def machine_file(tmp_path, monkeypatch):
    """The place of the kept measurement, where there is none yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "describe", lambda: {"cpu": "A processor"})
    (tmp_path / "heaptape").mkdir()
    return tmp_path / "heaptape" / "machine.json"


def test_a_measured_machines_own_sizes_are_simulated_unless_others_are_given(machine_file):
    machine_file.write_text(json.dumps({"schema": SCHEMA, "cpu": "A processor", "geometry": CAPACITIES}))
    settings, whose = replay.with_sizes(Settings(passes=("misses",)))
    assert whose == "machine"
    assert (settings.caches, settings.tlbs) == ("49152:12,2097152:16", "96:96,2048:16")
    given = Settings(passes=("misses",), caches="32768:8,262144:8")
    assert replay.with_sizes(given) == (given, "given")


def test_where_the_machine_was_not_measured_the_tools_sizes_are_simulated(machine_file):
    plain = Settings(passes=("misses",))
    assert replay.with_sizes(plain) == (plain, "default")
    machine_file.write_text(json.dumps({"schema": SCHEMA, "cpu": "Another one", "geometry": CAPACITIES}))
    assert replay.with_sizes(plain) == (plain, "default")


def test_without_the_pass_misses_no_sizes_are_reported(machine_file):
    plain = Settings(passes=("memory",))
    assert replay.with_sizes(plain) == (plain, None)


def choice(name: str, preload: str, path: str = "/lib/libc.so.6") -> Choice:
    return Choice(name, "default", Path(preload or path), preload, {}, "")


@pytest.fixture
def libraries(tmp_path):
    """The paths of an allocator and of a library that only it needs."""
    source, runtime, allocator = tmp_path / "x.c", tmp_path / "libruntime.so.1", tmp_path / "liballocator.so"
    source.write_text("int used(void); int asked(void) { return used(); }\n")
    (tmp_path / "r.c").write_text("int used(void) { return 1; }\n")
    build = ["cc", "-shared", "-fPIC", "-o"]
    subprocess.run([*build, runtime, tmp_path / "r.c", "-Wl,-soname,libruntime.so.1"], check=True)
    subprocess.run([*build, allocator, source, runtime, f"-Wl,-rpath,{tmp_path}"], check=True)
    return str(allocator), str(runtime)


def test_what_the_program_has_and_an_allocator_needs_is_loaded_on_every_allocator(libraries):
    allocator, runtime = libraries
    choices = [choice("glibc", ""), choice("other", allocator)]
    info = {"libraries": ["libc.so.6", "libruntime.so.1", "libxyz.so"], "allocator": "libc.so.6"}
    assert engine_process.also_loaded(info, choices) == [runtime]
    assert engine_process.preloads(choices[0], [runtime]) == ["/lib/libc.so.6", runtime]
    assert engine_process.preloads(choices[1], [runtime]) == [allocator, runtime]


def test_a_program_that_is_linked_with_an_allocator_has_it_behind_every_other(libraries):
    allocator, runtime = libraries
    choices = [choice("glibc", ""), choice("other", allocator)]
    info = {"libraries": ["liballocator.so", "libruntime.so.1"], "allocator": "libc.so.6"}
    assert engine_process.also_loaded(info, choices) == [allocator, runtime]
    assert engine_process.preloads(choices[1], [allocator, runtime]) == [allocator, runtime]


def test_what_the_program_was_recorded_on_or_lacks_is_not_loaded(libraries):
    allocator, runtime = libraries
    choices = [choice("glibc", ""), choice("other", allocator)]
    assert engine_process.also_loaded({"libraries": ["liballocator.so"], "allocator": "liballocator.so"}, choices) == []
    assert engine_process.also_loaded({"libraries": ["libxyz.so", 7]}, choices) == []
    assert (
        engine_process.also_loaded({}, choices)
        == engine_process.also_loaded({"libraries": "libruntime.so.1"}, choices)
        == []
    )
    assert engine_process.preloads(choices[0], []) == []
    assert engine_process.preloads(choices[1], []) == [allocator]
