# SPDX-License-Identifier: MIT
"""The counted judge's live runs have the environment of a recorded program: the same number of variables, lengths and
order. Long: on real allocators, what a unit test of also_loaded claims.
"""

import json
import sys
from pathlib import Path

import pytest
from heaptape.allocators.registry import Choice
from heaptape.common.home import Home
from heaptape.run import live, recipes

from tests.bench.fidelity import counted
from tests.support import HEAPTAPE, HEAPTAPE_HERE, OBSERVE, OUT, RECORD, VALGRIND_TOOL, run, succeed

pytestmark = pytest.mark.skipif(not VALGRIND_TOOL.exists(), reason="the Valgrind tool was not built")


def test_a_live_run_has_the_variables_of_a_recorded_one_in_order_and_length(tmp_path):
    choice = Choice("glibc", "default", Path(live.c_library()), "", {}, "")
    wanted = len(counted.recorded_preload(Home(OUT)))
    with recipes.scratch_directory() as scratch:  # tmp_path is too long
        paths = counted.libraries([choice], scratch / "libraries", wanted)
        assert len(str(paths["glibc"])) == wanted
        seen = environments(choice, paths["glibc"], tmp_path)
    assert seen[0] == seen[1]
    assert [counted.PADDING_VARIABLE, 1360 + len(counted.PADDING_VARIABLE) + 1] in seen[0]


def environments(choice: Choice, library: Path, folder: Path) -> list:
    """Environments of a live and of a recorded run, as they are above the stack: each variable's name and length."""
    surroundings = counted.surroundings(choice, library, 1360)
    recorded = {name: value for name, value in surroundings.items() if name == counted.PADDING_VARIABLE}
    program = ("cat", "/proc/self/environ")
    return [
        [[word.split("=")[0], len(word)] for word in done.stdout.split("\0") if word]
        for done in (
            run(OBSERVE, "--simulate", "--data-only", "-o", folder / "f.json", "--", *program, env=surroundings),
            run(
                RECORD, "--accesses", "--no-follow", "-o", folder / "f.tape", "--preload", live.c_library(), "--",
                *program, env=recorded,
            ),
        )
    ]  # fmt: skip


def test_a_recording_names_the_libraries_that_the_program_has(tmp_path):
    """Of all mapped files, by base name; not what is preloaded, as the recorder is."""
    tape = tmp_path / "t.tape"
    succeed(RECORD, "-o", tape, "--", sys.executable, "-S", "-c", "import ctypes")
    names = json.loads(succeed(HEAPTAPE, "info", "--json", tape).stdout)["info"]["libraries"]
    assert {"libc.so.6", "ld-linux-x86-64.so.2"} <= set(names)
    assert "libheaptape.so" not in names
    assert len(names) == len(set(names))
    assert not any("/" in name for name in names)


def test_the_figures_of_an_allocator_are_the_same_alone_and_beside_others(tmp_path):
    """jemalloc needs the C++ library, which a program written in C++ has on every allocator."""
    allocators = json.loads(succeed(HEAPTAPE_HERE, "allocators", "--json").stdout)["allocators"]
    if not any(row["name"] == "jemalloc" and row.get("path") for row in allocators):
        pytest.skip("jemalloc is not installed")
    tape, source, program = tmp_path / "t.tape", tmp_path / "p.cc", tmp_path / "p"
    source.write_text("#include <string>\nint main(int c, char **) { return std::string(100 + c, 'x').empty(); }\n")
    succeed("c++", "-O0", "-o", program, source)
    succeed(RECORD, "-o", tape, "--", program)
    alone, beside = (figures(tape, *names) for names in (["glibc"], ["glibc", "jemalloc"]))
    assert alone == beside
    assert alone["startup_process_instructions"] > 1_000_000  # the C++ library's relocations


def figures(tape: Path, *allocators: str) -> dict:
    """Those of glibc, replayed with these allocators."""
    results = tape.with_name("r.json")
    wanted = [word for name in allocators for word in ("-a", name)]
    passes = ("--passes", "memory,instructions", "-n", "1")
    succeed(HEAPTAPE_HERE, "replay", tape, *wanted, *passes, "-o", results)
    data = json.loads(results.read_text())
    assert "libstdc++.so.6" in data["settings"]["also_loaded"]
    names = ("rss_anon_peak_bytes", "rss_anon_mean_bytes", "instructions_total", "startup_process_instructions")
    runs = [one for one in data["runs"] if one["allocator"] == "glibc"]
    return {name: one[name] for name in names for one in runs if name in one}
