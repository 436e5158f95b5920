# SPDX-License-Identifier: MIT
"""--unwind libunwind: the stacks are libunwind's, which equal those of our own rules; and the library that is preloaded
changes nothing else for the program.

Long: more modes, whose stacks test_stacks.py knows; perl and git beside sqlite3.
"""

import json
from pathlib import Path

import pytest

from capture.test.stacks.stack_hosts import SOURCES, build, functions, host, record
from tests import support
from tests.support import CONVERT, OUT, RECORD, compile_c, info, need, run, succeed

__all__ = ["build", "host"]  # fixtures

LIBUNWIND = ("--stacks=64", "--unwind", "libunwind")
RULES = ("--stacks=64", "--unwind", "dwarf")
MODES = ["chain", "recursion", "alloca", "exceptions", "signal"]
MODES += [pytest.param(mode, marks=pytest.mark.long) for mode in ("thread", "small", "coroutine", "fork", "wander")]
# Each run of them makes the same calls.
PROGRAMS = {
    "sqlite3": ["sqlite3", ":memory:", "create table t(a, b); insert into t values (1, 2); select * from t order by a"],
    "perl": ["perl", "-e", "my %h; $h{$_} = [$_] for 1 .. 1000; print scalar keys %h"],
    "git": ["git", "config", "--list"],
}


NOT_KNOWN = (None, None, None)


def calls(path: Path) -> list[tuple]:
    """Call and size of each event that acquires, and the frames of its stack, by function and place in their module."""
    done = succeed(CONVERT, "dump", "--stacks", "--format", "jsonl", path)
    stacks, out = {None: None}, []
    for line in map(json.loads, done.stdout.splitlines()):
        if "frames" in line:
            frames = [(frame.get("function"), frame.get("module"), frame.get("offset")) for frame in line["frames"]]
            stacks[line["stack"]] = frames
        elif line.get("call") not in (None, "free"):
            out.append((line["call"], line.get("size_bytes"), stacks[line.get("stack")]))
    return out


def is_cut_elsewhere(one: list[tuple] | None, other: list[tuple] | None) -> bool:
    """Are both stacks cut, at different frames, and the same up to there?"""
    if not one or not other or one[-1] != NOT_KNOWN or other[-1] != NOT_KNOWN:
        return False
    both = min(len(one), len(other)) - 1
    return len(one) != len(other) and both >= 64 and one[:both] == other[:both]


def count_cut_elsewhere(folder: Path, *command: str | Path) -> int:
    """The number of events, in all processes of the program, whose stacks are cut elsewhere; all other events have the
    same stacks. The program has the same libraries and environment both times.
    """
    preload = str((OUT / "lib" / "libheaptape-unwind.so").resolve())
    for options, name, before in ((RULES, "rules", preload), (LIBUNWIND, "libunwind", "")):
        (folder / name).mkdir()
        env = {"LD_PRELOAD": before, "PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}
        record(folder / name / "a.tape", *command, options=options, env=env)
    by_rules, by_libunwind = (
        [calls(path) for path in sorted((folder / name).glob("*.tape"), key=lambda path: len(path.name))]
        for name in ("rules", "libunwind")
    )
    assert [[call[:2] for call in of] for of in by_rules] == [[call[:2] for call in of] for of in by_libunwind]
    assert any(stack for events in by_rules for _, _, stack in events)
    pairs = [
        (one[2], other[2])
        for ours, its in zip(by_rules, by_libunwind, strict=True)
        for one, other in zip(ours, its, strict=True)
    ]
    differ = [pair for pair in pairs if pair[0] != pair[1]]
    assert [pair for pair in differ if not is_cut_elsewhere(*pair)] == []
    return len(differ)


@pytest.mark.parametrize("mode", MODES)
def test_stacks_are_those_of_our_rules(mode, host, tmp_path):
    """Except where a recursion is deeper than the 512 frames of one walk: our walk continues from the last one, and
    so knows how far out the outermost frame is. The program has four such stacks.
    """
    differ = count_cut_elsewhere(tmp_path, host, mode)
    assert differ == (4 if mode == "recursion" else 0)


@pytest.mark.parametrize(
    "program", ["sqlite3", *(pytest.param(name, marks=pytest.mark.long) for name in ("perl", "git"))]
)
def test_stacks_of_real_programs_are_those_of_our_rules(program, tmp_path):
    need(program)
    assert count_cut_elsewhere(tmp_path, *PROGRAMS[program]) == 0


def test_stacks_of_libraries_that_come_and_go_are_those_of_our_rules(host, tmp_path):
    flags = ["-g", "-O2", "-fPIC", "-shared", "-DNAME=a_function"]
    library = compile_c(tmp_path / "liba.so", SOURCES / "library.c", *flags)
    assert count_cut_elsewhere(tmp_path, host, "libraries", library, library) == 0


# A libunwind that leaves out the outermost frame, and allocates: as libc's own backtrace does at its first call, and
# 12,345 bytes each time.
PRETENDER = """
#include <execinfo.h>
#include <stdlib.h>
int unw_backtrace(void **addresses, int most) {
  free(malloc(12345));
  return backtrace(addresses, most) - 1;
}
"""


def make_library(folder: Path, source: str) -> dict[str, str]:
    """An environment in which libunwind is a library made from that source."""
    compile_c(folder / "libunwind.so.8", source, "-O2", "-fPIC", "-shared", "-Wl,-soname,libunwind.so.8")
    return {"LD_LIBRARY_PATH": str(folder)}


def test_the_stacks_of_libunwind_are_recorded_and_its_allocations_are_not(host, tmp_path):
    env = make_library(tmp_path, PRETENDER)
    support.record(tmp_path / "a.tape", host, "chain", options=LIBUNWIND, env=env)
    assert functions(tmp_path / "a.tape")[1001][-2:] == ["__libc_start_call_main", "__libc_start_main_impl"]
    record(tmp_path / "b.tape", host, "chain", options=RULES)
    assert functions(tmp_path / "b.tape")[1001][-1] == "_start"
    assert [call[:2] for call in calls(tmp_path / "a.tape")] == [call[:2] for call in calls(tmp_path / "b.tape")]
    assert info(tmp_path / "a.tape")["footer"]["nested"] >= 2 * 3


def test_a_libunwind_that_returns_nothing_loses_stacks_and_no_event(host, tmp_path):
    env = make_library(tmp_path, "int unw_backtrace(void **to, int most) { return 0 * (to != 0) * most; }")
    done = support.record(tmp_path / "a.tape", host, "chain", options=LIBUNWIND, env=env)
    assert "3 call stacks could not be taken" in done.stderr
    assert len([1 for _, size, stack in calls(tmp_path / "a.tape") if size in (1001, 1002, 1003) and not stack]) == 3


def test_a_libunwind_without_its_function_is_reported_and_our_rules_are_used(host, tmp_path):
    env = make_library(tmp_path, "int other;")
    done = support.record(tmp_path / "a.tape", host, "chain", options=LIBUNWIND, env=env)
    assert "heaptape: libunwind.so.8 can't be loaded: call stacks are taken by heaptape's own rules" in done.stderr
    assert functions(tmp_path / "a.tape")[1001][:3] == ["take", "middle", "outer"]


def test_a_libunwind_that_can_not_be_loaded_is_refused_before_the_program_runs(tmp_path):
    (tmp_path / "libunwind.so.8").write_text("no library")
    command = ["touch", tmp_path / "ran"]
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    done = run(RECORD, "-o", tmp_path / "a.tape", *LIBUNWIND, "--", *command, env=env)
    assert done.status == 1
    assert done.stderr == (
        "heaptape-record: --unwind libunwind: libunwind.so.8 can't be loaded (Debian has it in libunwind8)\n"
    )
    assert not (tmp_path / "ran").exists()


SYMBOLS = """
int main(void) {
  const char *names[] = {"backtrace", "_Unwind_RaiseException"};
  for (int i = 0; i < 2; i++) {
    Dl_info info = {0};
    void *found = dlsym(RTLD_DEFAULT, names[i]);
    printf("%s: %s\\n", names[i], found && dladdr(found, &info) ? info.dli_fname : "none");
  }
  printf("libunwind is %s\\n", dlopen("libunwind.so.8", RTLD_NOW | RTLD_NOLOAD) ? "loaded" : "not loaded");
  return 0;
}
"""


def test_its_symbols_serve_nobody_else(tmp_path):
    program = compile_c(tmp_path / "symbols", SYMBOLS, "-ldl")
    bare = succeed(program).stdout
    recorded = record(tmp_path / "a.tape", program, options=LIBUNWIND).stdout
    assert "libunwind is not loaded" in bare
    assert recorded == bare.replace("not loaded", "loaded")
    assert record(tmp_path / "b.tape", program, options=RULES).stdout == bare
