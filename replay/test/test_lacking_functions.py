# SPDX-License-Identifier: MIT
"""Libraries that define malloc, but not all of its family (lacking_allocator.c): calls with a substitute are replayed,
and a missing function without one is reported before the first op.
"""

import json

import pytest

from tests.support import REPLAY, REPOSITORY, compile_c, compile_trace, import_text, refused, succeed

SOURCE = REPOSITORY / "replay/test/programs/lacking_allocator.c"
BASIC = ("FREE", "CALLOC", "REALLOC")
LACKS = "{} lacks functions that the workload calls: "
ALIGNED = ("MEMALIGN", "ALIGNED_ALLOC", "POSIX_MEMALIGN")
CALLS = ("memalign(64, 100)", "posix_memalign(64, 100)", "aligned_alloc(64, 128)")


def library(folder, *defined):
    return compile_c(folder / "lacking.so", SOURCE, "-shared", "-fPIC", *(f"-D{name}" for name in defined))


def history(folder, *calls):
    """A malloc first, then these calls; all their objects are freed."""
    lines = [f"{number} 0 {call} = {number << 16:#x}\n" for number, call in enumerate(("malloc(24)", *calls), 1)]
    lines += [f"{len(calls) + 1 + number} 0 free({number << 16:#x})\n" for number in range(1, len(calls) + 2)]
    return compile_trace(import_text(folder, "".join(lines)))


@pytest.mark.parametrize("pass_", ["time", "bare", "memory", "verify", "instructions"])
def test_a_lacking_function_is_reported_before_the_first_op(pass_, tmp_path):
    path, without = history(tmp_path, CALLS[0]), library(tmp_path, *BASIC)
    expected = f"{LACKS.format(without)}memalign or posix_memalign or aligned_alloc (op 1 of thread 0)"
    refused(REPLAY, "--pass", pass_, "--preload", without, path, says=expected)


ALL_ALIGNED = "memalign or posix_memalign or aligned_alloc"
NEEDED = [
    (BASIC, CALLS[1:2], "posix_memalign or aligned_alloc or memalign (op 1 of thread 0)"),
    (BASIC, CALLS[2:3], "aligned_alloc or memalign or posix_memalign (op 1 of thread 0)"),
    (BASIC, ["new_aligned(64, 100)"],
     "operator new(align) or aligned_alloc or memalign or posix_memalign (op 1 of thread 0)"),
    (("FREE", "REALLOC"), ["calloc(2, 8)"], "calloc (op 1 of thread 0)"),
    (("FREE", "CALLOC"), ["realloc(NULL, 8)"], "realloc (op 1 of thread 0)"),
    (("FREE", "CALLOC"), ["reallocarray(NULL, 2, 8)"], "reallocarray or realloc (op 1 of thread 0)"),
    (("CALLOC", "REALLOC", *ALIGNED), [], "free"),
    ((), [CALLS[0], "calloc(2, 8)", "realloc(NULL, 8)", CALLS[0]],
     f"free; {ALL_ALIGNED} (op 1 of thread 0); calloc (op 2 of thread 0); realloc (op 3 of thread 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("defined", "calls", "needed"), NEEDED)
def test_all_that_is_missing_is_named_at_once_each_with_what_would_do(defined, calls, needed, tmp_path):
    path, without = history(tmp_path, *calls), library(tmp_path, *defined)
    refused(REPLAY, "--pass", "bare", "--preload", without, path, says=f"{LACKS.format(without)}{needed}\n")


@pytest.mark.parametrize("defined", ALIGNED)
def test_one_aligned_function_stands_in_for_the_others(defined, tmp_path):
    path, with_one = history(tmp_path, *CALLS), library(tmp_path, *BASIC, defined)
    run = json.loads(succeed(REPLAY, "--pass", "verify", "--preload", with_one, path).stdout)
    assert run["failed_calls"] == run["skipped_ops"] == 0
    assert run["folded_calls"] == {call.split("(")[0]: 1 for call in CALLS if not call.startswith(defined.lower())}


def test_what_the_workload_does_not_call_may_be_lacking(tmp_path):
    path, without = history(tmp_path, "calloc(3, 5)"), library(tmp_path, "FREE", "CALLOC")
    run = json.loads(succeed(REPLAY, "--pass", "verify", "--preload", without, path).stdout)
    assert run["ops"] == 4
