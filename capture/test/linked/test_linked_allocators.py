# SPDX-License-Identifier: MIT
"""Allocators that are linked into the executable: their functions are redirected at their entries, so that each call is
recorded once; what can't be redirected is refused with its reason.
"""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from capture.test.cpp.test_cpp_operators import every_object, operators_of
from tests.support import (
    CONVERT,
    OUT,
    REPLAY,
    Result,
    check,
    compile_c,
    info,
    proved,
    record,
    run,
    succeed,
    system_library,
)

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="functions are redirected on x86-64 alone")

__all__ = ["every_object"]  # a fixture

SOURCES = Path(__file__).parent
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
ROUNDS = 50
THREADS = 2
# One round of every_call.c in one thread, and its further calls with jemalloc's own functions.
EACH_ROUND = Counter(
    malloc=1, calloc=1, memalign=1, valloc=1, posix_memalign=1, realloc=1, malloc_usable_size=1, free=6
)
WITH_FLAGS = EACH_ROUND + Counter(
    malloc=1, memalign=1, calloc=1, realloc=1, malloc_usable_size=1, free_sized=1, free_aligned_sized=1, free=1
)
# memalign and aligned_alloc are one function in tcmalloc.
OF_TCMALLOC = Counter({"aligned_alloc" if name == "memalign" else name: n for name, n in EACH_ROUND.items()})
# Functions of jemalloc's static library that a program might define itself.
JEMALLOC = (
    "malloc free calloc realloc posix_memalign memalign valloc malloc_usable_size mallocx rallocx dallocx sdallocx "
    "sallocx xallocx nallocx aligned_alloc mallctl mallctlbymib mallctlnametomib malloc_stats_print"
)

OWN_FUNCTIONS = """
struct menu { int items; };
__attribute__((noipa)) void mi_free(struct menu *menu) { menu->items--; }
__attribute__((noipa)) int mi_malloc(struct menu *menu, int n) { return menu->items += n; }
__attribute__((noipa)) int tc_malloc(const char *text, int n) { return text[n]; }
__attribute__((noipa)) void tc_free(int n) { printf("%d\\n", n); }
int main(void) {
  struct menu menu = {0};
  for (int i = 0; i < 1000; i++) {
    mi_malloc(&menu, 2);
    mi_free(&menu);
    free(malloc(777));
  }
  tc_free(tc_malloc("abc", 1) + menu.items);
  return 0;
}
"""

RESIZES_IN_PLACE = """
size_t xallocx(void *, size_t, size_t, int);
int main(void) {
  for (int i = 0; i < 70; i++) {
    void *object = malloc(777);
    xallocx(object, 800, 0, 0);
    free(object);
  }
  return 0;
}
"""

STARTS_A_THREAD = """
static void *stay(void *nothing) { pause(); return nothing; }
static void *early;
__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, stay, NULL);
  early = malloc(88888);
}
__attribute__((destructor)) static void end(void) { free(early); }
"""


@pytest.fixture(scope="module")
def with_jemalloc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("jemalloc"), "-DFLAGS", "-pie", "-fPIE", system_library("libjemalloc_pic.a"))


@pytest.fixture(scope="module")
def with_a_prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """jemalloc as programs embed it: each function with a prefix."""
    folder = tmp_path_factory.mktemp("prefixed")
    names = [f"--redefine-sym={name}=je_{name}" for name in JEMALLOC.split()]
    succeed("objcopy", *names, system_library("libjemalloc_pic.a"), folder / "libje.a")
    return build(folder, "-DPREFIX=je_", "-DFLAGS", folder / "libje.a")


def build(folder: Path, *options: str | Path) -> Path:
    return compile_c(folder / "every_call", SOURCES / "every_call.c", "-O1", *options, "-pthread", "-lstdc++", "-lm")


def assert_rounds(program: Path, folder: Path, each: Counter[str], prints: str = "done\n") -> Path:
    """Each call of ROUNDS rounds is one event of the trace, which is returned, and the history is legal."""
    trace = folder / "t.tape"
    assert record(folder / "one.tape", program, "1").stdout == prints
    assert record(trace, program, str(ROUNDS + 1)).stdout == prints
    counted = Counter(info(trace)["calls"]) - Counter(info(folder / "one.tape")["calls"])
    assert counted == Counter({name: n * ROUNDS for name, n in each.items()})
    proved(trace, "unseen_frees", "double_frees", "dropped")
    return trace


def assert_each_round_has(trace: Path, *calls: str) -> None:
    dump = run(CONVERT, "dump", trace).stdout
    assert {call: dump.count(f" {call} = ") for call in calls} == dict.fromkeys(calls, ROUNDS + 1)


def assert_counted(program: Path, folder: Path, each_round: Counter[str]) -> None:
    """Each call of each thread's rounds is one event, and the history replays."""
    each = Counter({name: n * THREADS for name, n in each_round.items()})
    trace = assert_rounds(program, folder, each)
    assert info(trace)["info"]["lacks"] == ["usable_size"]
    succeed(CONVERT, "compile", trace)
    succeed(REPLAY, "--pass", "verify", trace.with_suffix(".work"))


@pytest.mark.parametrize("pie", [True, False])
def test_each_call_of_a_jemalloc_in_the_executable_is_recorded_once(pie, with_jemalloc, tmp_path):
    fixed = ("-DFLAGS", "-no-pie", "-fno-pie", system_library("libjemalloc.a"))
    assert_counted(with_jemalloc if pie else build(tmp_path, *fixed), tmp_path, WITH_FLAGS)
    assert info(tmp_path / "t.tape")["info"]["allocator"] == "every_call"


def test_each_call_of_a_tcmalloc_in_the_executable_is_recorded_once(tmp_path: Path) -> None:
    program = build(tmp_path, "-no-pie", "-fno-pie", system_library("libtcmalloc_minimal.a"))
    assert_counted(program, tmp_path, OF_TCMALLOC)


@pytest.mark.long
def test_a_handler_at_any_instruction_of_a_hook_ends_no_recording(tmp_path: Path) -> None:
    """Whether it returns, or leaves the allocator by longjmp. Its own calls may be nested."""
    options = ("-O1", system_library("libjemalloc_pic.a"), "-lstdc++", "-lm")
    program = compile_c(tmp_path / "interrupted", SOURCES / "interrupted_hooks.c", *options)
    called, handled, after = map(int, record(tmp_path / "t.tape", program).stdout.split())
    assert check(tmp_path / "t.tape")["ok"]
    dump = run(CONVERT, "dump", tmp_path / "t.tape").stdout
    assert handled > called > 60, "each instruction"
    assert dump.count(" malloc(1001) = ") >= called
    assert dump.count(" malloc(3003) = ") == after


def test_of_a_stripped_program_only_what_the_dynamic_linker_needs_is_found(with_jemalloc, with_a_prefix, tmp_path):
    """malloc, as the C library refers to it, but no name with a prefix."""
    for program, allocator in ((with_jemalloc, "stripped"), (with_a_prefix, "libc.so.6")):
        succeed("strip", "-o", tmp_path / "stripped", program)
        record(tmp_path / "t.tape", tmp_path / "stripped", "10")
        assert info(tmp_path / "t.tape")["info"]["allocator"] == allocator
        assert (info(tmp_path / "t.tape")["calls"]["malloc"] > 10 * THREADS) == (program == with_jemalloc)


def test_a_prefixed_allocator_and_libcs_are_both_recorded(with_a_prefix: Path, tmp_path: Path) -> None:
    assert_counted(with_a_prefix, tmp_path, WITH_FLAGS)
    assert info(tmp_path / "t.tape")["info"]["allocator"] == "libc.so.6 and every_call"
    assert run(CONVERT, "dump", tmp_path / "t.tape").stdout.count(" malloc(54321) = ") == 1


def test_columns_are_those_of_the_allocator_in_the_executable(with_a_prefix: Path, tmp_path: Path) -> None:
    record(tmp_path / "t.tape", with_a_prefix, "20", options=("--stacks", "--usable", "--latency"))
    assert check(tmp_path / "t.tape")["ok"]
    lines = run(CONVERT, "dump", tmp_path / "t.tape").stdout.splitlines()
    aligned = [line for line in lines if " memalign(1024, " in line]
    assert len(aligned) == 20 * THREADS
    assert all("usable=" in line and "latency=" in line for line in aligned)
    stacks = run(CONVERT, "dump", "--stacks", tmp_path / "t.tape").stdout
    assert re.search(r"# stack \d+\n#   rounds in every_call", stacks), "the caller's frame is the first"
    assert "libheaptape" not in stacks
    sizes = {int(line.split("usable=")[1].split()[0]) for line in aligned}
    assert sizes == {1024}, "jemalloc's classes: libc's would have 8 bytes more"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("names") / "names", SOURCES / "mimalloc_names.c", "-O2")


def test_names_of_mimalloc_mean_what_its_functions_do(names: Path, tmp_path: Path) -> None:
    each = Counter(malloc=2, calloc=3, memalign=2, realloc=2, reallocarray=1, free=5, free_sized=1)
    each["free_aligned_sized"] = 1
    trace = assert_rounds(names, tmp_path, each)
    calls = ("malloc(100)", "calloc(1, 200)", "calloc(3, 30)", "malloc(160)", "memalign(128, 500)", "memalign(64, 360)")
    assert_each_round_has(trace, *calls, "calloc(7, 70)")
    assert run(CONVERT, "dump", trace).stdout.count(", 8, 40) = ") == ROUNDS + 1


def test_functions_that_take_an_arena_are_recorded_beside_malloc(tmp_path: Path) -> None:
    """As in Firefox: what they hand out, free takes back, and the other way round."""
    program = compile_c(tmp_path / "arena_names", SOURCES / "arena_names.c", "-O2")
    each = Counter(malloc=2, calloc=1, memalign=1, realloc=1, free=4)
    trace = assert_rounds(program, tmp_path, each, prints="")
    assert_each_round_has(trace, "malloc(100)", "calloc(3, 30)", "memalign(64, 200)")


@pytest.mark.parametrize("where", ["hidden", "forked"])
def test_calls_round_the_functions_that_are_known_are_told_at_the_end(tmp_path: Path, where: str) -> None:
    program = compile_c(tmp_path / "arena_names", SOURCES / "arena_names.c", "-O2")
    assert "missing" not in record(tmp_path / "all.tape", program, str(ROUNDS)).stderr
    told = record(tmp_path / "t.tape", program, str(ROUNDS), where).stderr
    witness = max((check(tape) for tape in tmp_path.glob("t*.tape")), key=lambda one: one["events"])
    assert witness["ok"]
    assert witness["double_frees"] + witness["unseen_frees"] == witness["dropped"] == ROUNDS
    assert f"at least {ROUNDS} calls missing, as the program calls its allocator" in " ".join(told.split())


@pytest.mark.parametrize("option", ["-fcf-protection=none", "-fcf-protection=full"])
def test_calls_of_what_an_entry_only_jumps_to_are_recorded_too(option: str, tmp_path: Path) -> None:
    """As by the strdup of Firefox. Where two entries jump to one function, each keeps its name."""
    options = ("-O2", "-w", "-s", option)
    program = compile_c(tmp_path / "lone_jumps", SOURCES / "lone_jumps.c", *options)
    each = Counter(malloc=3, calloc=1, realloc=1, memalign=1, aligned_alloc=1, free=6)
    trace = assert_rounds(program, tmp_path, each, prints="")
    assert_each_round_has(trace, "malloc(5)", "malloc(120)", "memalign(64, 140)", "aligned_alloc(128, 150)")


def test_calls_that_the_format_has_not_are_counted_as_dropped(names: Path, tmp_path: Path) -> None:
    record(tmp_path / "strdup.tape", names, "30", "text")
    assert proved(tmp_path / "strdup.tape")["dropped"] == 30
    program = compile_c(tmp_path / "in_place", RESIZES_IN_PLACE, system_library("libjemalloc_pic.a"), "-lstdc++", "-lm")
    record(tmp_path / "t.tape", program)
    assert proved(tmp_path / "t.tape")["dropped"] == 70
    assert info(tmp_path / "t.tape")["calls"]["malloc"] >= 70


def test_a_program_with_functions_of_such_names_is_left_alone(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "program", OWN_FUNCTIONS, "-O1")
    done = record(tmp_path / "t.tape", program)
    assert done.stdout == f"{ord('b') + 1000}\n"
    calls = info(tmp_path / "t.tape")["calls"]
    assert calls["free"] == 1000
    assert calls["malloc"] in (1000, 1001), "puts may take a buffer"


def test_a_function_whose_name_is_an_allocators_prefix_hinders_nothing(tmp_path: Path) -> None:
    names = "#include <stdlib.h>\nint rp(int n) { return n; }\nvoid mi_(void) {}\n"
    names += "int main(void) { free(malloc(777)); return rp(0); }"
    record(tmp_path / "t.tape", compile_c(tmp_path / "prefixes", names))
    assert info(tmp_path / "t.tape")["calls"]["malloc"] >= 1


def test_children_and_later_images_are_recorded_too(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "life", SOURCES / "life.c", system_library("libjemalloc_pic.a"), "-lstdc++", "-lm")
    record(tmp_path / "t.tape", program)
    traces = list(tmp_path.glob("*.tape"))
    assert len(traces) == 3
    sizes = {}
    for trace in traces:
        assert check(trace)["ok"]
        assert "calls" not in info(trace)["info"]["lacks"]
        dump = run(CONVERT, "dump", trace).stdout
        sizes[tuple(dump.count(f" malloc({bytes}) = ") for bytes in (111, 222, 333))] = dump.count("free(0x")
    assert sizes == {(10, 0, 0): 11, (0, 20, 0): 21, (0, 0, 30): 30}


@pytest.fixture(scope="module")
def with_operators(every_object: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("operators") / "every_operator"
    succeed("g++", every_object, "-o", program, system_library("libjemalloc_pic.a"))
    return program


def test_operators_in_the_executable_are_recorded_as_such(with_operators: Path, tmp_path: Path) -> None:
    counted = []
    for rounds in (1, ROUNDS + 1):
        record(tmp_path / "t.tape", with_operators, str(rounds))
        assert check(tmp_path / "t.tape")["ok"]
        counted.append(operators_of(tmp_path / "t.tape"))
    assert len(counted[0]) == 20, "each form of new and delete"
    assert counted[1] == Counter({name: n * (ROUNDS + 1) for name, n in counted[0].items()})


def test_operators_in_the_executable_that_throw_are_recorded_as_failed(with_operators: Path, tmp_path: Path) -> None:
    done = record(tmp_path / "t.tape", with_operators, str(ROUNDS), "fail")
    assert done.stdout == f"{4 * ROUNDS + 1} caught, {4 * ROUNDS} refused\n"
    assert proved(tmp_path / "t.tape")["failed_calls"] == 8 * ROUNDS + 1


@pytest.fixture(
    scope="module", params=[("operators_by_helpers.cc", "helpers.c"), ("helpers.c", "operators_by_helpers.cc")]
)
def with_helpers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An executable with jemalloc's C functions, and the program's own operators, whose helpers are in front of them or
    behind."""
    folder = tmp_path_factory.mktemp("helpers")
    objects = [folder / f"{name}.o" for name in request.param]
    for name, to in zip(request.param, objects, strict=True):
        compile_c(to, SOURCES / name, "-O1", "-c")
    archive = system_library("libjemalloc_pic.a")
    succeed("g++", "-rdynamic", *objects, archive, "-o", folder / "p", "-pthread", "-ldl", "-lm")
    return folder / "p"


@pytest.mark.parametrize("way", ["plain", "header", "tracked", "usable", "realloc", "nested", "longjmp"])
def test_operators_that_call_helpers_are_recorded_once(way: str, with_helpers: Path, tmp_path: Path) -> None:
    """So are the program's own calls inside them: of its records of objects, of its new-handler, and what an operator
    takes that is left by longjmp.
    """
    done = record(tmp_path / "t.tape", with_helpers, way)
    own = {name: int(n) for name, n in (line.split() for line in done.stdout.splitlines())}
    proof = proved(tmp_path / "t.tape", "unseen_frees")
    calls = Counter(info(tmp_path / "t.tape")["calls"])
    assert proof["failed_calls"] == own["failed"]
    assert sum(n for name, n in calls.items() if "new" in name) == own["new"] + own["failed"]
    assert sum(n for name, n in calls.items() if "delete" in name) == own["delete"]
    assert 0 <= calls["malloc"] - own["malloc"] <= 4, "the exception, and what libstdc++ and puts take"
    assert 0 <= calls["free"] - own["free"] <= 2


def test_what_a_thread_took_that_ended_in_an_operator_is_counted_as_missing(with_helpers: Path, tmp_path: Path) -> None:
    record(tmp_path / "t.tape", with_helpers, "ends")
    assert check(tmp_path / "t.tape")["ok"]
    assert info(tmp_path / "t.tape")["dropped"] == 5


def test_a_program_that_the_loader_was_asked_to_start_is_left_alone(with_jemalloc: Path, tmp_path: Path) -> None:
    """/proc/PID/exe is the loader then."""
    done = record(tmp_path / "t.tape", "sh", "-c", f"/lib64/ld-linux-x86-64.so.2 {with_jemalloc} 5; true")
    assert done.stdout == "done\n"
    assert "defines malloc itself" in done.stderr
    assert all(check(trace)["ok"] for trace in tmp_path.glob("*.tape"))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become a user who may not read the program")
def test_an_executable_that_may_not_be_read_is_refused_and_runs(with_jemalloc: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        program = Path(shutil.copy(with_jemalloc, folder))
        program.chmod(0o711)
        for file in ("libexec/heaptape-record", "lib/libheaptape.so"):
            (folder / file).parent.mkdir()
            shutil.copy(OUT / file, folder / file)
        command = [folder / "libexec" / "heaptape-record", "-o", folder / "t.tape", "--", program, "5"]
        done = subprocess.run(command, user="nobody", extra_groups=[], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        assert "its executable can't be read" in done.stderr
        assert "calls" in info(folder / "t.tape")["info"]["lacks"]


def with_a_thread(folder: Path, *options: str) -> Result:
    """Records a program with a library that starts a thread, and acquires, as it is loaded."""
    compile_c(folder / "libstarts.so", STARTS_A_THREAD, "-shared", "-fPIC", "-pthread", *options)
    needs = ("-Wl,--no-as-needed", f"-L{folder}", "-lstarts", f"-Wl,-rpath,{folder}")
    done = record(folder / "t.tape", build(folder, "-DFLAGS", system_library("libjemalloc_pic.a"), *needs), "5")
    assert done.stdout == "done\n"
    return done


def test_what_libraries_do_as_they_are_loaded_is_recorded(tmp_path: Path) -> None:
    with_a_thread(tmp_path)
    proof = check(tmp_path / "t.tape")
    assert proof["ok"]
    assert proof["unseen_frees"] == 0
    assert run(CONVERT, "dump", tmp_path / "t.tape").stdout.count(" malloc(88888) = ") == 1


def test_an_executable_that_has_threads_before_us_is_refused(tmp_path: Path) -> None:
    """Of two libraries that ask to be initialised first, the loader takes the one that it has loaded last."""
    done = with_a_thread(tmp_path, "-Wl,-z,initfirst")
    assert "it has 2 threads already: its allocator is not recorded" in done.stderr
    assert "calls" in info(tmp_path / "t.tape")["info"]["lacks"]
