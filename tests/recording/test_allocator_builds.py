# SPDX-License-Identifier: MIT
"""A recording names the very library that served malloc: its version, where it is glibc, and its build id."""

import json
import os
import shutil

import pytest
from heaptape.allocators.elf_files import build_id
from heaptape.allocators.registry import c_library
from heaptape.tape.workload_format import read_workload

from tests.oracle.reader import open_trace
from tests.support import CONVERT, OUT, compile_c, record, succeed

KEYS = ("allocator", "allocator_version", "allocator_build_id")


def named(info):
    return {key: info[key] for key in KEYS if key in info}


def test_glibcs_version_and_build_id_are_in_the_trace_and_in_what_is_made_of_it(tmp_path):
    tape, made = tmp_path / "t.tape", {name: tmp_path / name for name in ("t.work", "anonymous.tape", "slice.tape")}
    record(tape, "ls")
    version = os.confstr("CS_GNU_LIBC_VERSION").removeprefix("glibc ")
    expected = dict(zip(KEYS, ("libc.so.6", version, build_id(c_library()))))
    assert len(expected["allocator_build_id"]) == 40
    succeed(CONVERT, "compile", tape, "-o", made["t.work"])
    succeed(CONVERT, "convert", "--anonymise", tape, made["anonymous.tape"])
    succeed(CONVERT, "convert", "--slice", "progress=0%..50%", tape, made["slice.tape"])
    assert named(open_trace(tape).info) == expected
    assert named(read_workload(made["t.work"]).info) == expected
    assert named(open_trace(made["anonymous.tape"]).info) == expected
    assert named(open_trace(made["slice.tape"]).info) == expected
    assert f"on glibc {version}" in succeed(CONVERT, "info", tape).stdout
    assert named(json.loads(succeed(CONVERT, "info", "--json", tape).stdout)["info"]) == expected


def test_another_allocator_is_named_by_its_build_id(tmp_path):
    library = OUT / "lib" / "libreference.so"
    record(tmp_path / "t.tape", "ls", options=("--preload", library))
    expected = {"allocator": library.name, "allocator_build_id": build_id(library)}
    assert named(open_trace(tmp_path / "t.tape").info) == {key: value for key, value in expected.items() if value}


def test_a_library_that_is_loaded_by_a_link_is_named_by_its_build_id(tmp_path):
    """As glibc is before 2.34: libc.so.6 is a link to libc-2.31.so."""
    library, program = OUT / "lib" / "libreference.so", tmp_path / "program"
    shutil.copy(library, tmp_path / "libreference-1.2.so")
    (tmp_path / "libreference.so").symlink_to("libreference-1.2.so")
    source = tmp_path / "program.c"
    source.write_text("#include <stdlib.h>\nint main(void) { return !realloc(malloc(9), 99); }\n")
    compile_c(program, source, "-L", tmp_path, "-Wl,--no-as-needed", "-lreference", f"-Wl,-rpath,{tmp_path}")
    record(tmp_path / "t.tape", program)
    expected = {"allocator": "libreference.so", "allocator_build_id": build_id(library)}
    assert named(open_trace(tmp_path / "t.tape").info) == expected


# An allocator in the program: it never frees.
IN_PROGRAM = """
#include <stddef.h>
#include <string.h>
static char heap[1 << 20], *at = heap;
void *malloc(size_t size) { char *made = at; at += (size + 31) & ~(size_t)15; return made; }
void free(void *object) { (void)object; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *old, size_t size) { void *made = malloc(size); return old ? memcpy(made, old, size) : made; }
const char *volatile texts[] = {TEXTS};
int mi_version(void) { return 209; }
int main(void) { return !realloc(malloc(9), 99) || !texts[0]; }
"""
TEXTS = [
    (("jemalloc", "5.3.0"), ("<jemalloc>: ", "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c")),
    (("jemalloc", None), ("<jemalloc>: ", "0.0.0-0-g000000missing_version_try_git_fetch_tags")),
    (("jemalloc", None), ("<jemalloc>: ", "-0-g" * 64 + " 5.3.0-0-g54eaed1d")),  # a program may have any number of them
    (("tcmalloc", "2.10"), ("gperftools 2.10",)),
    (("mimalloc", "2.0.9"), ("mimalloc: warning: ",)),
    ((None, None), ("another",)),
]


@pytest.mark.parametrize(("expected", "texts"), TEXTS)
def test_an_allocator_in_the_program_is_named_with_its_version(expected, texts, tmp_path):
    source, program, tape, work = (tmp_path / name for name in ("p.c", "program", "t.tape", "t.work"))
    source.write_text(IN_PROGRAM.replace("TEXTS", ", ".join(f'"{one}"' for one in texts)))
    compile_c(program, source, "-rdynamic", "-fno-builtin", "-O2")
    record(tape, program)
    succeed(CONVERT, "compile", tape, "-o", work)
    for info in (open_trace(tape).info, read_workload(work).info):
        assert info["allocator"] == "program"
        assert (info.get("linked"), info.get("allocator_version")) == expected
