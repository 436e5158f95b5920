# SPDX-License-Identifier: GPL-2.0-only
"""Our Valgrind tool has the same counts as cachegrind, to the last miss, and separates the allocator from the program.

Long: the misses of another program against cachegrind's; a shift by one OS page; other string instructions.
"""

import functools
import json
import shutil

import pytest

from observe.valgrind.test.tool import NEEDS, OUT, PROGRAMS, STRINGS, check_strings, run, valgrind

OBSERVE = OUT / "libexec/heaptape-observe"
PLANTED = PROGRAMS / "libplanted.so"
OUTER = [(262144, 8), (1048576, 16), (33554432, 16)]
pytestmark = NEEDS


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Runs the tool itself: (program, mode, *options), once each. Returns the result."""

    @functools.cache
    def made(program, mode, *options):
        path = tmp_path_factory.mktemp("ours") / "result.json"
        valgrind("heaptape", PROGRAMS / program, f"--mode={mode}", f"--out-file={path}", *options)
        return json.loads(path.read_text())

    return made


@pytest.fixture(scope="module")
def simulate(tmp_path_factory):
    """Runs heaptape-observe --simulate: (*command, options=...), once each. Returns the result, with `others`: those of
    other processes and programs, by their files' names.
    """

    @functools.cache
    def made(*command, options=()):
        path = tmp_path_factory.mktemp("simulated") / "result.json"
        run(OBSERVE, "--simulate", *options, "-o", path, "--", *command)
        others = {other.name: json.loads(other.read_text()) for other in path.parent.glob("result.json.*")}
        return json.loads(path.read_text()) | {"others": others}

    return made


def cachegrind(tmp_path, program, first, outer):
    """Without --vex-guest-chase=no, Valgrind counts instructions that it translated speculatively."""
    path = tmp_path / "cachegrind.out"
    sizes = [
        f"--{name}={bytes_},{ways},64" for name, (bytes_, ways) in (("D1", first), ("I1", (32768, 8)), ("LL", outer))
    ]
    valgrind("cachegrind", PROGRAMS / program, *sizes, "--vex-guest-chase=no", f"--cachegrind-out-file={path}")
    lines = dict(
        line.split(": ", 1) for line in path.read_text().splitlines() if line.startswith(("events", "summary"))
    )
    event = dict(zip(lines["events"].split(), map(int, lines["summary"].split())))
    return {
        "instructions": event["Ir"],
        "instruction misses": event["I1mr"],
        "outer instruction misses": event["ILmr"],
        "accesses": event["Dr"] + event["Dw"],
        "first misses": event["D1mr"] + event["D1mw"],
        "outer misses": event["DLmr"] + event["DLmw"],
    }


def as_cachegrind(result, level, theirs):
    """Cachegrind has one instruction more for each element of a string instruction: of one or eight bytes, in the
    dynamic linker and the C library.
    """
    elements = theirs["instructions"] - result["instructions"]
    eights, rest = divmod(result["string_bytes"] - elements, 7)
    assert (rest, elements >= eights >= 0) == (0, True)
    return {
        "instructions": result["instructions"] + elements,
        "instruction misses": result["instruction_cache"]["misses"],
        "outer instruction misses": result["caches"][level]["instruction_misses"],
        "accesses": result["data_accesses"],
        "first misses": result["caches"][0]["misses"],
        "outer misses": result["caches"][level]["misses"],
    }


@pytest.mark.parametrize("program", ["simulated_vectors", pytest.param("simulated_calls", marks=pytest.mark.long)])
def test_one_simulation_equals_cachegrinds_of_each_outer_cache_to_the_last_miss(ours, tmp_path, program):
    result = ours(program, "simulate")
    for level, outer in enumerate(OUTER, 1):
        theirs = cachegrind(tmp_path, program, (32768, 8), outer)
        assert as_cachegrind(result, level, theirs) == theirs, outer


def test_threads_are_simulated_as_cachegrind_does(ours, tmp_path):
    """With a first level that holds all data, as threads' instructions interleave differently from run to run."""
    program = "simulated_threads"
    result = ours(program, "simulate", "--caches=4194304:16,33554432:16")
    assert result["threads"] == 5
    theirs = cachegrind(tmp_path, program, (4194304, 16), OUTER[2])
    assert as_cachegrind(result, 1, theirs) == theirs


def test_both_modes_count_the_same_instructions(ours):
    results = [ours("simulated_vectors", mode) for mode in ("count", "simulate")]
    assert results[0]["instructions"] == results[1]["instructions"]


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind != "cmpsb")) for kind in STRINGS])
def test_a_repeated_string_instruction_counts_once_and_its_bytes_apart(tmp_path, kind):
    check_strings(tmp_path, "simulate", kind)


def test_a_first_level_tlb_misses_what_the_same_one_behind_it_misses(ours):
    """They are different code. One entry in front only absorbs repetitions."""
    first = ours("simulated_vectors", "simulate", "--tlbs=64:64")["tlbs"][0]
    behind = ours("simulated_vectors", "simulate", "--tlbs=1:1,64:64")["tlbs"][1]
    assert first == behind
    assert first["misses"] > 100


KEYS = ("misses", "sequential_misses", "instruction_misses")


def flat(part):
    levels = [part["instruction_cache"], *part["caches"], *part["tlbs"]]
    misses = [level[key] for level in levels for key in KEYS if key in level]
    counts = [part[key] for key in ("instructions", "data_accesses", "page_faults", "syscalls")]
    return counts + list(part["syscalls_by_kind"].values()) + misses


@pytest.mark.parametrize("pages", [16, pytest.param(1, marks=pytest.mark.long)])
def test_a_shift_moves_what_is_mapped_after_the_dynamic_linker_by_so_many_os_pages(tmp_path, pages):
    def lowest(shift):
        """Each library's first address."""
        options = ["--simulate", "--data-only", "--shift", shift, "-o", tmp_path / "r.json"]
        maps = run(OBSERVE, *options, "--", "/bin/cat", "/proc/self/maps").stdout.splitlines()
        lines = [line for line in reversed(maps) if ".so" in line and "/ld-linux" not in line]
        return {line.split()[-1]: int(line.partition("-")[0], 16) for line in lines}

    plain, shifted = lowest(0), lowest(pages)
    assert any("/libc." in name for name in plain)
    assert {name: address + 4096 * pages for name, address in plain.items()} == shifted


def test_allocator_and_program_sum_to_the_whole(simulate):
    result = simulate(PROGRAMS / "simulated_calls")
    parts = zip(flat(result["allocator"]), flat(result["program"]))
    assert [sum(part) for part in parts] == flat(result)
    assert result["allocator"]["instructions"] > 2000 * 10
    assert result["allocator"]["data_accesses"] > 2000 * 3


def test_what_is_planted_in_the_allocator_is_the_allocators(simulate):
    """PLANTED executes 1 to 4 instructions per loop in malloc, and none of them count as the program's."""

    def planted(loops):
        settings = (f"LD_PRELOAD={PLANTED}", f"PLANT_LOOPS={loops}")
        return simulate("env", *settings, PROGRAMS / "simulated_calls")

    some, more = planted(1000), planted(3000)
    assert some["program"] == more["program"]
    extra = more["allocator"]["instructions"] - some["allocator"]["instructions"]
    calls, rest = divmod(extra, 2000)
    assert rest == 0
    assert calls >= 1000


def test_the_whole_of_a_preloaded_allocator_is_the_allocators_its_start_up_too(simulate):
    result = simulate("env", f"LD_PRELOAD={OUT / 'lib/libreference.so'}", PROGRAMS / "simulated_calls")
    plain = simulate(PROGRAMS / "simulated_calls")
    assert result["allocator"]["instructions"] > 2000 * 10
    assert result["allocator"]["instructions"] != plain["allocator"]["instructions"]


def test_each_process_has_its_own_result(simulate):
    whole = simulate(PROGRAMS / "simulated_forks")
    others = whole["others"].values()
    assert sorted(other["name"] for other in others) == ["simulated_forks", "simulated_forks", "true"]
    for child in (other for other in others if other["name"] == "simulated_forks"):
        assert child["parent"] == whole["pid"]
        assert whole["allocator"]["instructions"] < 1000 < child["allocator"]["instructions"]


def test_a_process_that_becomes_another_program_leaves_the_counts_of_each(simulate):
    """Each executed 100,000 rounds of a loop fewer than the previous program; failed execs leave no result."""
    last = simulate(PROGRAMS / "simulated_execs", "2")
    assert sorted(last["others"]) == [f"result.json.{last['pid']}.{number}" for number in (1, 2)]
    first, second = (other["instructions"] for _, other in sorted(last["others"].items()))
    assert first - second == pytest.approx(second - last["instructions"], rel=0.01)
    assert last["instructions"] > 100000 * 3


# Page faults with 1,000 OS pages that are touched, then given back or not, then touched again.
FAULTS = {
    "nothing": 1000, "dontneed": 2000, "free": 1000, "refused": 1000, "half": 1500, "over": 2000, "again": 2000,
    "remap": 2000, "segment": 2000, "fork": 1000,
}  # fmt: skip


@pytest.mark.parametrize("how", FAULTS)
def test_page_faults_are_first_touches_of_os_pages_that_were_not_given_back_since(simulate, how):
    result = simulate(PROGRAMS / "simulated_pages", how)
    without = simulate(PROGRAMS / "simulated_pages", "none")
    extra = result["page_faults"] - without["page_faults"]
    assert extra == pytest.approx(FAULTS[how], abs=3)  # code and data of the C library that only one of them needs
    assert result["allocator"]["page_faults"] == without["allocator"]["page_faults"]


def test_a_forks_child_starts_with_its_parents_pages(simulate):
    (child,) = simulate(PROGRAMS / "simulated_pages", "fork")["others"].values()
    assert child["page_faults"] == pytest.approx(1000, abs=3)


def test_system_calls_are_counted_by_kind(simulate):
    def kinds(how):
        return simulate(PROGRAMS / "simulated_pages", how)["program"]["syscalls_by_kind"]

    plain = kinds("none")
    for how, extra in (
        ("again", {"mmap": 2, "munmap": 1}), ("half", {"mmap": 1, "madvise": 1}), ("remap", {"mmap": 2, "mremap": 1}),
        ("segment", {"brk": 5}), ("fork", {"mmap": 1, "other": 2}),
    ):  # fmt: skip
        assert {kind: count - plain[kind] for kind, count in kinds(how).items() if count != plain[kind]} == extra


def test_without_caches_for_instructions_data_alone_reaches_the_outer_caches(ours):
    program = "simulated_vectors"
    whole, data = ours(program, "simulate"), ours(program, "simulate", "--data-only=yes")
    assert "instruction_cache" not in data
    assert all("instruction_misses" not in level for level in data["caches"])
    for key in ("instructions", "data_accesses", "page_faults", "syscalls", "tlbs"):
        assert data[key] == whole[key]
    # A vector in two lines that are both missing is one miss for cachegrind, and two lines to fetch.
    assert data["caches"][0]["misses"] >= whole["caches"][0]["misses"]
    assert data["caches"][1]["misses"] < whole["caches"][1]["misses"] + whole["caches"][1]["instruction_misses"]


def test_a_call_that_longjmp_leaves_has_ended(simulate):
    returns = simulate(PROGRAMS / "simulated_jumps")
    jumps = simulate(PROGRAMS / "simulated_jumps", "jump")
    loop = returns["allocator"]["instructions"] - jumps["allocator"]["instructions"]
    assert loop > 100000 * 3
    assert jumps["allocator"]["instructions"] < 20000
    assert jumps["program"]["instructions"] == pytest.approx(returns["program"]["instructions"], rel=0.01)


def test_a_handler_on_a_separate_stack_does_not_end_the_call_that_it_interrupts(simulate):
    returns = simulate(PROGRAMS / "simulated_jumps")
    interrupted = simulate(PROGRAMS / "simulated_jumps", "signal")
    assert interrupted["allocator"]["instructions"] == pytest.approx(2 * returns["allocator"]["instructions"], rel=0.1)
    assert interrupted["program"]["instructions"] == pytest.approx(returns["program"]["instructions"], rel=0.01)


def test_sizes_are_options(simulate):
    options = ("--caches", "16384:4,2097152:8", "--tlbs", "32:4", "--instruction-cache", "65536:4")
    result = simulate(PROGRAMS / "simulated_calls", options=options)
    assert [(level["bytes"], level["ways"]) for level in result["caches"]] == [(16384, 4), (2097152, 8)]
    assert [(level["entries"], level["ways"]) for level in result["tlbs"]] == [(32, 4)]
    assert (result["instruction_cache"]["bytes"], result["instruction_cache"]["ways"]) == (65536, 4)


@pytest.mark.parametrize("caches", ["", "32768", "32768:0", "1000:1", "32768:3", "32768:8,", "-1:1", "x:y"])
def test_impossible_caches_are_refused(tmp_path, caches):
    result = run(OBSERVE, "--simulate", "--caches", caches, "-o", tmp_path / "r", "--", "/bin/true", status=1)
    assert "--caches" in result.stderr
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("options", [[], ["--accesses=/nonexistent"]])
def test_a_replay_without_accesses_is_refused(tmp_path, options):
    result = valgrind("heaptape", "/bin/true", "--mode=replay", f"--out-file={tmp_path / 'r'}", *options, status=1)
    assert "--accesses" in result.stderr
    assert not (tmp_path / "r").exists()


def test_the_commands_status_is_passed_on(tmp_path):
    run(OBSERVE, "--simulate", "-o", tmp_path / "r", "--", "sh", "-c", "exit 3", status=3)
    run(OBSERVE, "--simulate", "-o", tmp_path / "r", "--", "sh", "-c", "kill -TERM $$", status=128 + 15)


def test_a_program_that_valgrind_cannot_run_is_one_clear_line(tmp_path):
    result = run(OBSERVE, "--simulate", "-o", tmp_path / "r", "--", PROGRAMS / "unknown_instruction", status=1)
    assert len(result.stderr.splitlines()) == 1
    assert "Valgrind can't run it: Unrecognised instruction" in result.stderr


def test_a_tool_that_was_not_built_is_one_clear_line(tmp_path):
    shutil.copy(OBSERVE, tmp_path)
    result = run(tmp_path / OBSERVE.name, "--simulate", "-o", tmp_path / "r", "--", "/bin/true", status=1)
    assert len(result.stderr.splitlines()) == 1
    assert "was not built" in result.stderr


def test_options_of_the_simulation_need_it():
    run(OBSERVE, "--caches", "32768:8", "--", "/bin/true", status=2)
    run(OBSERVE, "--simulate", "--time-only", "--", "/bin/true", status=2)
    run(OBSERVE, "--data-only", "--", "/bin/true", status=2)
    run(OBSERVE, "--simulate", "--data-only", "--instruction-cache", "32768:8", "--", "/bin/true", status=2)
