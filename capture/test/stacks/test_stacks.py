# SPDX-License-Identifier: MIT
"""The stack of a call is the functions that led to it, in order: for all kinds of frames and callers, at any depth,
with few or many stacks; and taking it does no harm.

Long: programs that were compiled without optimisation, and other depths.
"""

import os

import pandas as pd
import pytest
from heaptape.tape.trace import open_trace

from capture.test.stacks.stack_hosts import FLAGS, SOURCES, build, functions, host, record
from tests import support
from tests.support import compile_c

__all__ = ["build", "host"]  # fixtures

EACH_FLAGS = [pytest.param(name, marks=[pytest.mark.long] if name == "plain" else []) for name in FLAGS]
MAIN = ["main", "__libc_start_call_main"]


@pytest.mark.parametrize("flags", EACH_FLAGS)
def test_stack_is_the_functions_in_order(flags, build, tmp_path):
    record(tmp_path / "a.tape", build(flags), "chain")
    found = functions(tmp_path / "a.tape")
    assert found[1001][:5] == ["take", "middle", "outer", *MAIN]
    assert found[1002][:4] == ["take", "middle", *MAIN]
    assert found[1003] == found[1001]
    assert found[1001][-1] == "_start"


def test_frame_pointers_do_where_the_program_has_them(build, tmp_path):
    record(tmp_path / "a.tape", build("frame-pointers"), "chain", options=("--stacks", "--unwind", "fp"))
    assert functions(tmp_path / "a.tape")[1001][:4] == ["take", "middle", "outer", "main"]


def test_wrong_frame_pointers_harm_nobody(build, tmp_path):
    for mode in ("wander", "signal", "coroutine", "small"):
        record(tmp_path / "a.tape", build("vectors"), mode, options=("--stacks", "--unwind", "fp"))


def test_a_thread_has_the_stack_of_its_own(host, tmp_path):
    record(tmp_path / "a.tape", host, "thread")
    assert functions(tmp_path / "a.tape")[1001][:5] == ["take", "middle", "outer", "in_thread", "start_thread"]


def test_a_host_with_stacks_of_16_kib_survives(host, tmp_path):
    record(tmp_path / "a.tape", host, "small", options=("--stacks=256", "--latency", "--usable"))
    found = functions(tmp_path / "a.tape")
    assert all(found[1001 + i][:4] == ["take", "middle", "outer", "in_thread"] for i in range(50))


def test_variable_and_aligned_frames_are_passed(host, tmp_path):
    record(tmp_path / "a.tape", host, "alloca")
    found = functions(tmp_path / "a.tape")
    assert all(found[1001 + i][:3] == ["take", "with_alloca", "main"] for i in range(100))
    assert found[1200][:3] == ["take", "with_alignment", "main"]


@pytest.mark.parametrize("depth", [5, *(pytest.param(depth, marks=pytest.mark.long) for depth in (1, 32, 256))])
def test_a_recursion_deeper_than_the_depth_is_cut_outside(depth, host, tmp_path):
    record(tmp_path / "a.tape", host, "recursion", options=(f"--stacks={depth}",))
    levels = {size - 3000: stack for size, stack in functions(tmp_path / "a.tape").items() if 3000 <= size < 5000}
    assert max(levels) > 1000
    for level, stack in levels.items():
        whole = ["take", *["recurse"] * (level + 1), *MAIN, "__libc_start_main_impl", "_start"]
        if stack[-1] == "...":
            stack = stack[:-1]
            assert depth <= len(stack) < 2 * depth
            assert stack == whole[: len(stack)]
        else:
            assert stack == whole
            assert len(stack) < 2 * depth


def test_frames_left_by_exceptions_are_gone(host, tmp_path):
    record(tmp_path / "a.tape", host, "exceptions")
    found = functions(tmp_path / "a.tape")
    for i in range(10):
        assert found[1001 + 2 * i][:4] == ["take", "throws", "catches", "main"]
        assert found[1002 + 2 * i][:3] == ["take", "catches", "main"]
        assert found[1101 + i][:4] == ["take", "middle", "outer", "main"]


def test_a_handler_is_called_by_what_it_interrupted(host, tmp_path):
    record(tmp_path / "a.tape", host, "signal")
    found = functions(tmp_path / "a.tape")
    for size in (1001, 1002):
        assert found[size][:3] == ["take", "middle", "handler"]
        assert found[size][-5:-3] == ["raises", "main"]
    assert found[1003][:4] == ["take", "middle", "outer", "main"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="steps are for x86-64")
def test_a_handler_that_interrupts_the_vdso_is_called_by_what_calls_it(host, tmp_path):
    record(tmp_path / "a.tape", host, "vdso")
    found = functions(tmp_path / "a.tape")
    stacks = [found[size] for size in sorted(found) if 1001 <= size < 2000]
    assert len(stacks) > 10
    for stack in stacks:
        assert stack[:3] == ["take", "middle", "trapped"]
        assert stack[stack.index("reads_clock") + 1] == "main"


def test_a_coroutine_ends_at_its_own_stack(host, tmp_path):
    record(tmp_path / "a.tape", host, "coroutine")
    found = functions(tmp_path / "a.tape")
    assert found[1010][:3] == ["take", "middle", "coroutine"]
    assert "main" not in found[1010]
    assert found[1003][:4] == ["take", "middle", "outer", "main"]


def test_a_forked_child_has_stacks_of_its_own(host, tmp_path):
    record(tmp_path / "a.tape", host, "fork")
    (child,) = tmp_path.glob("a.*.tape")
    assert functions(child)[1002][:4] == ["take", "middle", "outer", "main"]
    assert functions(tmp_path / "a.tape")[1001][:4] == ["take", "middle", "outer", "main"]


def test_a_library_that_takes_the_place_of_another_is_distinguished_from_it(host, tmp_path):
    libraries = []
    for name in ("first", "second", "third"):
        flags = ["-g", "-O2", "-fPIC", "-shared", f"-DNAME={name}_function"]
        libraries.append(compile_c(tmp_path / f"lib{name}.so", SOURCES / "library.c", *flags))
    record(tmp_path / "a.tape", host, "libraries", *libraries, libraries[0])
    found = functions(tmp_path / "a.tape")
    for size, name in zip(range(1003, 1007), ("first", "second", "third", "first"), strict=True):
        expected = ["take", f"{name}_function", "library_call", "through_library", "main"]
        assert found[size][:5] == expected


@pytest.mark.parametrize("flags", EACH_FLAGS)
@pytest.mark.parametrize(
    ("judge", "depth"),
    [
        (None, 7),
        ("libunwind.so.8", 64),
        *(pytest.param(*other, marks=pytest.mark.long) for other in ((None, 64), ("libunwind.so.8", 7))),
    ],
)
def test_rules_agree_with_other_unwinders(judge, flags, depth, build, tmp_path):
    """libgcc's, by backtrace(), and libunwind: thousands of random paths through frames of all kinds."""
    given = [judge] if judge else []
    done = record(tmp_path / "a.tape", build(flags), "wander", *given, options=(f"--stacks={depth}",))
    expected = {}
    for line in done.stdout.splitlines():
        size, *addresses = line.split()
        expected[int(size)] = [int(address, 16) for address in addresses]
    assert len(expected) > 1500
    with open_trace(tmp_path / "a.tape") as trace:
        nodes = trace.stacks()
        events = [frame[["request_bytes", "stack"]] for frame in trace.frames()]
    parents, instructions = nodes["parent"].tolist(), nodes["instruction"].tolist()
    compared = 0
    for frame in reversed(events):  # the last of each size, as the loader may have allocated such objects before
        for size, node in frame.dropna()[::-1].itertuples(index=False):
            if size not in expected:
                continue
            stack = []
            while node:
                stack.append(instructions[node - 1])
                node = parents[node - 1]
            whole = expected.pop(size)
            if stack[-1] == 0:
                assert depth <= len(stack) - 1 < 2 * depth
                assert stack[1:-1] == whole[: len(stack) - 2]
            else:
                assert stack[1:] == whole
            compared += 1
    assert compared > 1500


def test_a_full_tree_of_stacks_is_reported_and_loses_no_event(host, tmp_path):
    done = support.record(tmp_path / "a.tape", host, "bush", options=["--stacks=256"])
    (line,) = [line for line in done.stderr.splitlines() if "stacks could not be taken" in line]
    lost = int(line.split(": ")[2].split()[0])
    with open_trace(tmp_path / "a.tape") as trace:
        assert len(trace.stacks()) > 2**21 - 1000  # the last path may end in the middle
        frame = pd.concat(trace.frames())
    taken = frame[frame["request_bytes"] == 1001]
    assert len(taken) == 12000
    assert taken["stack"].isna().sum() == lost > 1000
