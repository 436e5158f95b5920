# SPDX-License-Identifier: MIT
"""Control calls of an allocator in the executable, and of static programs."""

import platform
import shutil
from pathlib import Path

import pytest

from capture.test.control.test_controls import (
    ASKED,
    MINUS_1,
    OPTION_15,
    SOURCE,
    assert_calls_of_mallctl_are_recorded,
    assert_virtual_functions_are_recorded,
    controls,
    events,
    option,
)
from tests.support import compile_c, record, succeed, system_library

PREFIX = "_rjem_"  # as Rust's crate has it
JEMALLOC_CONTROLS = ("mallctl", "mallctlbymib", "mallctlnametomib")
JEMALLOC_CALLS = ("malloc", "free", "calloc", "realloc", "posix_memalign", "memalign", "valloc", "sdallocx", "mallocx")


def test_virtual_functions_of_a_tcmalloc_in_the_executable_are_recorded(tmp_path):
    assert_virtual_functions_are_recorded(tmp_path, system_library("libtcmalloc_minimal.a"))


@pytest.mark.parametrize("how", ["plain", "with a prefix"])
def test_calls_of_mallctl_of_a_jemalloc_in_the_executable_are_recorded_by_name_and_value(how, tmp_path):
    archive, options = system_library("libjemalloc_pic.a"), []
    if how == "with a prefix":
        prefixed = ["--redefine-sym=" + f"{name}={PREFIX}{name}" for name in (*JEMALLOC_CONTROLS, *JEMALLOC_CALLS)]
        succeed("objcopy", *prefixed, archive, tmp_path / "libje.a")
        archive, options = tmp_path / "libje.a", [f"-D{name}={PREFIX}{name}" for name in JEMALLOC_CONTROLS]
        options.append(f"-Wl,-u,{PREFIX}mallctl")
    program = compile_c(tmp_path / "its", SOURCE, *options, archive, "-lstdc++", "-lm", "-pthread")
    assert_calls_of_mallctl_are_recorded(program, tmp_path, [])


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("valgrind"), reason="needs our Valgrind tool")
def test_control_calls_of_a_static_program_are_recorded_and_what_malloc_info_s_file_takes_is_the_program_s(tmp_path):
    program = compile_c(tmp_path / "static", SOURCE, "-O1", "-static", "-w")
    record(tmp_path / "a.tape", program, "asks")
    assert controls(tmp_path / "a.tape") == ASKED
    frame = events(tmp_path / "a.tape")
    first, last = (frame.index[frame["request_bytes"] == size][-1] for size in (4242, 4243))
    assert (frame.loc[first:last, "request_bytes"] == 4096).any()


NAMED = """
int mallctl(const char *, void *, size_t *, void *, size_t);
int mallctlnametomib(const char *, size_t *, size_t *);
int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t);
int main(void) {
  ssize_t never = -1;
  bool is;
  unsigned made;
  size_t mib[3], parts = 3, bytes = sizeof made, bool_bytes = sizeof is;
  free(malloc(4242));
  int failed = mallctl("arenas.dirty_decay_ms", NULL, NULL, &never, sizeof never);
  failed |= mallctl("opt.abort", &is, &bool_bytes, NULL, 0); /* changes nothing */
  failed |= mallctl("arenas.create", &made, &bytes, NULL, 0);
  for (int i = 0; i < 100; i++, parts = 3)
    failed |= mallctlnametomib("arena.0.purge", mib, &parts);
  mib[1] = 4096;
  failed |= mallctlbymib(mib, parts, NULL, NULL, NULL, 0);
  failed |= mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
  mallctl("no.such", NULL, NULL, &never, sizeof never);
  char text[] = {(char)('0' + made / 10), (char)('0' + made % 10)};
  return failed || write(1, text, 2) != 2;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("valgrind"), reason="needs our Valgrind tool")
def test_calls_of_mallctl_in_a_static_program_are_recorded_by_name_and_value(tmp_path):
    options = ["-static", system_library("libjemalloc.a"), "-lstdc++", "-lm", "-pthread"]
    created = int(record(tmp_path / "a.tape", compile_c(tmp_path / "static", NAMED, *options)).stdout)
    assert controls(tmp_path / "a.tape") == [
        ("mallctl", option("MALLCTL", "arenas.dirty_decay_ms"), MINUS_1),
        ("mallctl", option("MALLCTL", "arenas.create"), created),
        ("mallctlbymib", option("MALLCTL", "arena.4096.purge"), 0),
        ("mallctl", option("MALLCTL", "thread.tcache.flush"), 0),
    ]


def test_control_calls_of_a_mimalloc_in_the_executable_are_recorded_once(tmp_path):
    program = compile_c(tmp_path / "its", Path(__file__).with_name("own_mimalloc.c"), "-O2")
    assert record(tmp_path / "a.tape", program).stdout == "7 -1 2\n"
    assert controls(tmp_path / "a.tape") == [
        ("mi_collect", 0, 1),
        ("mi_option_set", OPTION_15, MINUS_1),
        ("mi_option_set_enabled", OPTION_15, 1),
        ("mi_option_set_enabled", OPTION_15, 0),
        ("mi_collect", 0, 0),
    ]
