# SPDX-License-Identifier: MIT
"""Static programs, recorded under our Valgrind tool by the symbols of their allocator: the same calls as those of the
same program linked dynamically. (docs/PLATFORMS.md)
"""

import csv
import io
import platform
import subprocess
from collections import Counter
from pathlib import Path
from subprocess import PIPE

import pytest

from capture.test.cpp.test_cpp_operators import every_object, operators_of
from capture.test.linked.test_linked_allocators import (
    OF_TCMALLOC,
    SOURCES,
    WITH_FLAGS,
    assert_counted,
    build,
)
from tests.recording.test_storms import assert_each_process_is_complete
from tests.support import (
    CONVERT,
    RECORD,
    REPLAY,
    REPOSITORY,
    assert_clean,
    compile_c,
    info,
    need,
    proved,
    record,
    refused,
    run,
    succeed,
    system_library,
)

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="our Valgrind tool is for x86-64 alone")

__all__ = ["every_object"]  # a fixture

PROGRAMS = REPOSITORY / "tests/programs"
FIRST_BYTES, LAST_BYTES = "1000003", "1000033"  # of every_call.c, around the calls that are the same in every run
LINKED = {
    "glibc": ("cc", "-static"),
    "glibc, position-independent": ("cc", "-static-pie"),
    "musl": ("musl-gcc", "-static"),
}
MEMORY = ("--sample-ms=10", "--touch-min=8192", "--own-mappings")
FREE_NOTHING = ("free", "", "", "0", "")
# Name, size, count or alignment, did it fail, and how many calls ago the thread got the object passed in.
Call = tuple[str, ...]


def compiled(into: Path, compiler: str, *options: str | Path, source: str | Path = PROGRAMS / "every_call.c") -> Path:
    options = ("-O1", *options, "-pthread")
    return compile_c(into, source, *options, compiler=need(compiler))


def calls_by_thread(tape: Path) -> list[list[Call]]:
    """memalign and aligned_alloc are one function in glibc."""
    threads: dict[str, list[Call]] = {}
    objects: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(io.StringIO(succeed(CONVERT, "dump", "--format", "csv", tape).stdout)):
        thread, numbers = threads.setdefault(row["thread"], []), objects.setdefault(row["thread"], {})
        made = numbers.get(row["released"])
        released = "" if made is None else str(len(thread) - made)
        if row["acquired"]:
            numbers[row["acquired"]] = len(thread)
        name = "aligned_alloc" if row["call"] == "memalign" else row["call"]
        thread.append((name, row["size_bytes"], row["param"], row["failed"], released))
    return list(threads.values())


def own_calls(thread: list[Call]) -> list[Call]:
    """Those between every_call.c's first and last."""
    sizes = [size for _, size, *_ in thread]
    return thread[sizes.index(FIRST_BYTES) + 1 : sizes.index(LAST_BYTES)]


def recorded(tape: Path, *command: str | Path) -> list[list[Call]]:
    record(tape, *command)
    assert_clean(tape)
    return calls_by_thread(tape)


@pytest.mark.parametrize("linked", LINKED)
def test_a_static_program_s_calls_are_those_of_the_same_program_linked_dynamically(tmp_path: Path, linked: str) -> None:
    compiler, option = LINKED[linked]
    static, dynamic = compiled(tmp_path / "static", compiler, option), compiled(tmp_path / "dynamic", compiler)
    (main,), (same,) = (recorded(tmp_path / f"{p.name}.tape", p, "0", "3000") for p in (static, dynamic))
    assert len(own_calls(main)) > 5000
    assert own_calls(main) == own_calls(same)
    of_static, of_dynamic = (recorded(tmp_path / f"{p.name}.tape", p, "5", "1000")[1:] for p in (static, dynamic))
    assert len(of_static) == 5
    for calls, other in zip(sorted(of_static), sorted(of_dynamic), strict=True):
        assert calls == other[: len(calls)]
        assert set(other[len(calls) :]) <= {FREE_NOTHING}, (
            "glibc's own end of a thread, not linked into static programs"
        )


def test_a_static_program_s_trace_replays(tmp_path: Path) -> None:
    tape = tmp_path / "t.tape"
    recorded(tape, compiled(tmp_path / "program", "cc", "-static"), "3", "500")
    succeed(CONVERT, "compile", tape)
    succeed(REPLAY, "--pass", "verify", tape.with_suffix(".work"))
    assert info(tape)["info"]["allocator"] == "program"
    assert "rss_anon_peak_bytes" not in info(tape)["recorded"], "it would be Valgrind's memory"


@pytest.mark.parametrize(
    "option", ["--stacks", "--latency", "--usable", "--accesses", "--budget=2", "--on-full=drop", *MEMORY]
)
def test_an_option_that_valgrind_cannot_keep_is_refused_for_a_static_program(tmp_path: Path, option: str) -> None:
    program = compiled(tmp_path / "program", "cc", "-static")
    refused(RECORD, option, "-o", tmp_path / "t.tape", "--", program, says=f"where {option.split('=')[0]}")


def test_the_limit_of_time_of_a_static_program_begins_when_valgrind_runs_it(tmp_path: Path) -> None:
    """Valgrind itself takes longer to begin than this limit: there is a trace. The program goes on, with all kinds of
    calls.
    """
    program = compiled(tmp_path / "program", "cc", "-static")
    succeed(RECORD, "--duration=0.001", "-o", tmp_path / "t.tape", "--", program, "0", "100000")
    assert "calls" in info(tmp_path / "t.tape")


@pytest.mark.parametrize("compiler", ["cc", "musl-gcc"])
def test_each_process_of_a_static_storm_is_recorded_completely(tmp_path: Path, compiler: str) -> None:
    """Threads free each other's objects and fork, and some of the children are killed or end by abort."""
    storm = PROGRAMS / "fork_storm.c"
    program = compiled(tmp_path / "fork_storm", compiler, "-static", f"-I{REPOSITORY}", source=storm)
    counts, threads = tmp_path / "counts", 3
    command = (RECORD, "--quiet", "--all-processes", "-o", tmp_path / "t.tape", "--", program, counts)
    assert run(*command, "2", str(threads), "400", "2").status == 0
    assert_each_process_is_complete(tmp_path, threads)


def test_each_call_of_an_allocator_linked_into_a_static_program_is_recorded_once(tmp_path: Path) -> None:
    assert_counted(build(tmp_path, "-static", "-DFLAGS", system_library("libjemalloc.a")), tmp_path, WITH_FLAGS)
    assert_counted(build(tmp_path, "-static", system_library("libtcmalloc_minimal.a")), tmp_path, OF_TCMALLOC)


def calls_of(folder: Path, program: Path, rounds: str) -> Counter[str]:
    record(folder / "t.tape", program, rounds)
    assert_clean(folder / "t.tape")
    return Counter(info(folder / "t.tape")["calls"])


def test_names_of_mimalloc_are_recorded_in_a_static_program(tmp_path: Path) -> None:
    """Allocators of both names in one program: mi_malloc, and libc's."""
    program = compile_c(tmp_path / "names", SOURCES / "mimalloc_names.c", "-O2", "-static")
    same = compile_c(tmp_path / "same", SOURCES / "mimalloc_names.c", "-O2")
    counted = [calls_of(tmp_path, p, "9") - calls_of(tmp_path, p, "1") for p in (program, same)]
    assert counted[0] == counted[1]
    assert counted[0]["free_aligned_sized"] == 8


def test_operators_of_a_static_program_are_recorded_as_such(every_object: Path, tmp_path: Path) -> None:
    """Also those that throw. After each of three calls of the new-handler, the operator's own malloc is an event."""
    for name, options in (("static", ["-static"]), ("dynamic", [])):
        succeed("g++", every_object, "-o", tmp_path / name, *options)
    for arguments, retries in ((("3",), 0), (("3", "fail"), 3)):
        operators, failed = {}, {}
        for name in ("static", "dynamic"):
            record(tmp_path / "t.tape", tmp_path / name, *arguments)
            proof = proved(tmp_path / "t.tape", "unseen_frees")
            operators[name], failed[name] = operators_of(tmp_path / "t.tape"), proof["failed_calls"]
        assert operators["static"] == operators["dynamic"]
        assert failed["static"] == failed["dynamic"] + retries


WAITS = """
static void call(int rounds) { while (rounds-- > 0) { void *volatile object = malloc(40); free(object); } }
int main(void) {
  call(1000);
  puts("waits");
  fflush(stdout);
  getchar();
  call(1000);
  puts("ends");
  return 0;
}
"""


def test_a_static_program_goes_on_where_the_recorder_is_killed_and_says_so_once(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "program", WAITS, "-O1", "-static")
    command = [RECORD, "-o", tmp_path / "t.tape", "--", program]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as recorder:
        assert recorder.stdout.readline() == "waits\n"
        recorder.kill()
        recorder.stdin.write("\n")
        recorder.stdin.close()
        assert recorder.stdout.read() == "ends\n"
        assert recorder.stderr.read().count("the collector has ended; recording stops") == 1
