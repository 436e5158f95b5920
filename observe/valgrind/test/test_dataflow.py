# SPDX-License-Identifier: GPL-2.0-only
"""The simulated cycles of planted loops: chains wait, streams overlap within the window, branches wait for their loads.

Each figure is the difference of two runs of other lengths, per round: start-up and the end are not in it,
but for single misses that one of them has and the other not, as the environment and the stack differ by machine.
"""

import functools
import json
import os
import subprocess
from pathlib import Path

import pytest

OUT = Path(os.environ.get("HEAPTAPE_OUT", Path(__file__).resolve().parents[3] / "out"))
OBSERVE = OUT / "libexec/heaptape-observe"
PROGRAM = OUT / "test-programs/simulated_dataflow"
pytestmark = pytest.mark.skipif(
    not (OUT / "libexec/valgrind/heaptape-amd64-linux").exists(), reason="the Valgrind tool was not built"
)

WIDTH, WINDOW, LOADS, BRANCH, STRING, TAKEN = 4, 400, 100, 20, 35, 20
FIRST, SECOND, MEMORY = 5, 16, 1000
SECOND_TLB, WALK = 7, 60
NODES_BYTES, OS_PAGES = 1 << 20, 256
ROUNDS = 20_000
SINGLE_MISSES = 4
# The nodes are in the second TLB, not in the first, and in no cache.
SMALL, LARGE = "4096:8,32768:8", "4096:8,4194304:8"


def core_of(width=WIDTH, window=WINDOW, loads=LOADS, branch=BRANCH, taken=TAKEN):
    return f"{width}:{window}:{loads}:{branch}:{STRING}:{taken}"


@functools.cache
def run(folder, kind, rounds, caches, core, near=MEMORY):
    path = Path(folder) / "result.json"
    latencies = f"{FIRST},{SECOND},{MEMORY}:{near}"
    options = ["--data-only", "--caches", caches, "--tlbs", "16:16,1024:8", "--core", core]
    options += ["--latencies", latencies, "--tlb-latencies", f"{SECOND_TLB},{WALK}"]
    done = subprocess.run(
        [OBSERVE, "--simulate", *options, "-o", path, "--", PROGRAM, kind, str(rounds)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


@pytest.fixture
def cycles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataflow")

    def per_round(kind, caches=SMALL, rounds=ROUNDS, near=MEMORY, **changed):
        core = core_of(**changed)
        short, long = (run(folder, kind, count, caches, core, near) for count in (rounds, 3 * rounds))
        per_round.mispredicted = (long["mispredicted_branches"] - short["mispredicted_branches"]) / (2 * rounds)
        return (long["cycles"] - short["cycles"]) / (2 * rounds)

    return per_round


def about(cycles, rel, rounds=ROUNDS):
    return pytest.approx(cycles, abs=rel * cycles + SINGLE_MISSES * MEMORY / (2 * rounds))


@pytest.mark.parametrize(("caches", "latency"), [(SMALL, MEMORY), (LARGE, SECOND)])
def test_a_chain_takes_the_latency_of_the_level_that_it_hits(cycles, caches, latency):
    of_tlb = SECOND_TLB * (1 - 16 / OS_PAGES)
    rounds = NODES_BYTES // 64  # the shorter run has brought all lines into the cache
    assert cycles("chain", caches, rounds=rounds) == about(latency + of_tlb, rel=0.02, rounds=rounds)


def test_prefetchers_bring_the_other_line_of_a_pair(cycles):
    of_tlb = SECOND_TLB * (1 - 16 / OS_PAGES)
    assert cycles("pairs", near=SECOND) == about((MEMORY + of_tlb + SECOND) / 2, rel=0.02)


def test_streams_that_do_not_depend_on_each_other_overlap(cycles):
    assert cycles("streams") == about(cycles("chain"), rel=0.02)  # eight loads take as long as one


@pytest.mark.parametrize(("window", "misses"), [(400, 1), (64, 2)])
def test_misses_overlap_only_within_the_window(cycles, window, misses):
    assert cycles("far", window=window) == about(misses * cycles("chain"), rel=0.05)


@pytest.mark.parametrize(("loads", "misses"), [(100, 1), (40, 2)])
def test_misses_overlap_only_as_long_as_loads_behind_them_find_room_to_wait(cycles, loads, misses):
    assert cycles("waiting", loads=loads) == about(misses * cycles("chain"), rel=0.05)


@pytest.mark.parametrize("width", [2, 4])
def test_instructions_that_wait_for_nothing_take_the_width(cycles, width):
    assert cycles("nop", width=width) == about(102 / width, rel=0.05)


def test_dependent_additions_take_a_cycle_each(cycles):
    assert cycles("add") == about(100, rel=0.01)


def test_a_load_waits_for_the_store_to_its_word(cycles):
    assert cycles("memory") == about(FIRST + 1, rel=0.01)


@pytest.mark.parametrize(("kind", "each"), [("jump", 2.5), ("jump-apart", 21 / WIDTH)])
def test_taken_branches_are_apart_where_no_instructions_between_them_take_longer(cycles, kind, each):
    assert cycles(kind, taken=25) == about(100 * each, rel=0.03)


def test_indirect_calls_are_predicted_from_those_before(cycles):
    cycles("call")
    assert cycles.mispredicted == pytest.approx(0, abs=0.01)
    cycles("call-random")
    assert cycles.mispredicted == pytest.approx(0.5, abs=0.05)


def test_a_mispredicted_branch_costs_its_cycles(cycles):
    least, most = cycles("branch", branch=0), cycles("branch", branch=100)
    assert cycles.mispredicted == pytest.approx(0.5, abs=0.05)
    assert most - least == about(100 * cycles.mispredicted, rel=0.05)


def test_a_mispredicted_branch_waits_for_its_load(cycles):
    """Without the branches, loads whose addresses are known would overlap: one in two now waits."""
    found = cycles("branch-on-load")
    assert found == about(cycles.mispredicted * (MEMORY + BRANCH), rel=0.1)


def test_a_string_instruction_takes_its_start_and_a_cycle_for_each_line(cycles):
    assert cycles("fill") == about(STRING + 1024 / 64 - 1, rel=0.1)


def test_the_same_run_takes_the_same_cycles(tmp_path):
    core = core_of()
    run.cache_clear()
    first = run(tmp_path, "branch-on-load", 500, SMALL, core)["cycles"]
    run.cache_clear()
    assert run(tmp_path, "branch-on-load", 500, SMALL, core)["cycles"] == first


def test_latencies_have_to_fit_the_caches(tmp_path):
    words = ["--core", core_of(), "--latencies", "5,16", "--tlb-latencies", "7,60"]
    done = subprocess.run([OBSERVE, "--simulate", *words, "--", "true"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert "--latencies" in done.stderr
