# SPDX-License-Identifier: MIT
"""Control calls of a process that is attached to."""

import os
import subprocess
from pathlib import Path

import pytest

from capture.test.attach.attached import Attached
from capture.test.control.test_controls import SOURCE, TOP_PAD, controls, option, program  # noqa: F401 (a fixture)
from tests.support import compile_c, info, system_library


def attach_to(begun: Path, tape: Path) -> dict:
    """INFO of a recording of two requests to the program, which has begun before."""
    with subprocess.Popen([begun, "serves"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        os.read(running.stdout.fileno(), 1)
        attached = Attached(running.pid, tape)
        for _ in range(2):
            os.write(running.stdin.fileno(), b"x")
            os.read(running.stdout.fileno(), 1)
        attached.stop()
        os.write(running.stdin.fileno(), b"x")
        running.stdin.close()
    about: dict = info(tape)["info"]
    return about


@pytest.mark.parametrize(
    ("library", "own"),
    [
        (None, []),
        ("libjemalloc.so.2", [("mallctl", option("MALLCTL", "arena.0.purge"), 0)]),
        ("libmimalloc.so.2", [("mi_collect", 0, 1)]),
    ],
)
def test_later_control_calls_are_recorded_and_earlier_ones_said_to_be_unknown(library, own, program, tmp_path):  # noqa: F811
    if library:
        program = compile_c(tmp_path / "linked", SOURCE, "-Wl,--no-as-needed", system_library(library))
    about = attach_to(program, tmp_path / "a.tape")
    assert controls(tmp_path / "a.tape") == 2 * [("mallopt", TOP_PAD, 64 << 10), ("malloc_trim", 0, 7), *own]
    assert "settings_by_calls" in about["lacks"]
    assert "set_before" not in about


def test_a_library_of_a_running_program_may_have_set_its_allocator_up(tmp_path):
    library = compile_c(tmp_path / "libsets.so", SOURCE, "-shared", "-fPIC", "-Dmain=its_main")
    calls = "int its_main(int, char **); int main(int count, char **words) { return its_main(count, words); }"
    calling = compile_c(tmp_path / "calls", calls, library, f"-Wl,-rpath,{tmp_path}")
    assert "settings_by_calls" in attach_to(calling, tmp_path / "a.tape")["lacks"]
    assert len(controls(tmp_path / "a.tape")) == 4
