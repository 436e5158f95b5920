# SPDX-License-Identifier: MIT
"""The allocator that a program really uses: preloaded, linked, of the C library, of a static executable."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from heaptape.allocators import registry
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.features.candidates import in_use

from tests.support import compile_c

KNOWN = registry.load(default_home())
JEMALLOC = KNOWN["jemalloc"].path
MALLOC = "#include <stddef.h>\nvoid *malloc(size_t bytes) { return bytes ? NULL : NULL; }\n"
MAIN = "#include <unistd.h>\nint main(void) { pause(); return 0; }\n"


@pytest.fixture
def started():
    """Starts programs, and ends them."""
    running = []

    def start(*command, **environment):
        running.append(subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE))
        return running[-1].pid

    yield start
    for one in running:
        one.kill()
        one.wait()


def test_a_preloaded_allocator_is_named_with_the_settings_that_it_reads(started):
    pid = started("sleep", "60", LD_PRELOAD=str(JEMALLOC), MALLOC_CONF="narenas:2", OTHER="1")
    while str(JEMALLOC.resolve()) not in Path(f"/proc/{pid}/maps").read_text():
        time.sleep(0.01)
    found = in_use.of_process(pid, KNOWN)
    assert (found.allocator, found.how, found.settings) == ("jemalloc", "library", {"MALLOC_CONF": "narenas:2"})


def test_the_first_library_that_defines_malloc_is_the_one(tmp_path, monkeypatch):
    own = compile_c(tmp_path / "own.so", MALLOC, "-shared", "-fPIC")
    monkeypatch.setenv("LD_PRELOAD", f"{own} {JEMALLOC}")
    assert (in_use.of_command(["true"], KNOWN).object, in_use.of_command(["true"], KNOWN).allocator) == (own, "")
    monkeypatch.setenv("LD_PRELOAD", f"{JEMALLOC} {own}")
    assert in_use.of_command(["true"], KNOWN).allocator == "jemalloc"
    monkeypatch.delenv("LD_PRELOAD")
    assert in_use.of_command(["true"], KNOWN).allocator == "glibc"


def test_a_script_uses_its_interpreters_allocator_and_nothing_is_started(tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#!/usr/bin/env sh\ntouch {tmp_path}/started\n")
    script.chmod(0o755)
    assert in_use.of_command([str(script)], KNOWN).allocator == "glibc"
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(("flag", "how"), [("-rdynamic", "linked"), ("-static", "static")])
def test_an_allocator_inside_the_executable_is_told_from_a_library(tmp_path, monkeypatch, flag, how):
    program = compile_c(tmp_path / "program", MALLOC * (how == "linked") + MAIN, flag)
    monkeypatch.setenv("LD_PRELOAD", str(JEMALLOC))
    found = in_use.of_command([str(program)], KNOWN)
    assert (found.how, found.allocator) == (how, "")


@pytest.mark.parametrize("content", [b"\x7fELF", b"\x7fELF" + b"\xff" * 200, b"text", b"t" * 300])
def test_a_file_that_is_no_executable_is_one_error(tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    file.chmod(0o755)
    with pytest.raises(HeaptapeError, match="file: not an executable"):
        in_use.of_command([str(file)], KNOWN)
