# SPDX-License-Identifier: MIT
"""Cache lines that threads share, by a trace's own addresses: compared with checking every pair of objects."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.line_sharing_model import Step, assert_counts, history, text
from tests.support import CONVERT, import_text, succeed

PROPERTY = examples(60)


def sharing(tmp_path, lines: str) -> dict | None:
    tape = import_text(tmp_path, lines)
    return json.loads(succeed(CONVERT, "profile", tape).stdout).get("line_sharing")


@PROPERTY
@given(seed=st.integers(0, 1 << 32), threads=st.integers(2, 5), steps=st.integers(1, 200))
def test_sharing_agrees_with_comparing_every_pair(tmp_path, seed, threads, steps):
    steps = history(seed, threads, steps)
    assert_counts(sharing(tmp_path, text(steps)), steps)


def test_two_objects_on_one_line_by_hand(tmp_path):
    """Thread 0's 32 bytes and thread 1's next to them share from op 2 until op 3; thread 1's second half of the time
    is alone. Both were released by their owners.
    """
    steps = [
        Step("malloc", 0, 0, 32, 0x1000),
        Step("malloc", 1, 1, 32, 0x1020),
        Step("free", 0, 0, old_address=0x1000),
        Step("free", 1, 1, old_address=0x1020),
    ]
    found = sharing(tmp_path, text(steps))
    assert found["shared_lines"] == {"end": 0, "peak": 1, "peak_position": 2, "mean": 0.25}
    assert found["live_lines"]["mean"] == 0.75
    assert (found["pairs"], found["used_pairs"], found["shared_objects"]) == (1, 1, 2)
    assert found["sizes"] == [[32, 2, 2, 2]]
    assert found["threads"] == [[0, 1, 1, 0.25]]
    assert [row[:2] for row in found["progress"]] == [[1, 0], [2, 1], [3, 0], [4, 0]]


def test_an_object_released_by_another_thread_was_not_used_to_the_end(tmp_path):
    steps = [
        Step("malloc", 0, 0, 32, 0x1000),
        Step("malloc", 1, 1, 32, 0x1020),
        Step("free", 1, 0, old_address=0x1000),
        Step("free", 1, 1, old_address=0x1020),
    ]
    found = sharing(tmp_path, text(steps))
    assert (found["pairs"], found["used_pairs"]) == (1, 0)


def test_inner_lines_are_never_shared_and_only_counted(tmp_path):
    """1,000 bytes from the middle of a line on: 17 lines, of which the first and the last have neighbours."""
    steps = [
        Step("malloc", 0, 0, 1000, 0x1020),
        Step("malloc", 1, 1, 32, 0x1000),
        Step("malloc", 1, 2, 8, 0x1020 + 1000),
    ]
    found = sharing(tmp_path, text(steps))
    assert found["live_lines"]["end"] == len(range(0x1000, 0x1020 + 1008, 64))
    assert found["shared_lines"]["end"] == 2
    assert found["shared_objects"] == 3


def test_one_thread_or_made_up_addresses_show_no_sharing(tmp_path):
    assert sharing(tmp_path, "1 0 malloc(8) = 0x1000\n2 0 malloc(8) = 0x1008\n") is None
    tape = import_text(tmp_path, "1 0 malloc(8) = 0x1000\n2 1 malloc(8) = 0x1008\n")
    nameless = tmp_path / "nameless.tape"
    succeed(CONVERT, "convert", "--anonymise", tape, nameless)
    assert "line_sharing" in json.loads(succeed(CONVERT, "profile", tape).stdout)
    assert "line_sharing" not in json.loads(succeed(CONVERT, "profile", nameless).stdout)


def test_objects_over_one_another_are_left_out_and_counted(tmp_path):
    """No allocator does that; a damaged trace may. A line takes at most 64, which bounds the cost of each step."""
    lines = "".join(f"{n} {n % 2} malloc(100000) = {0x100000 + 64 * n + 8 * (n % 8):#x}\n" for n in range(1, 2000))
    lines += "".join(f"{n} {n % 2} malloc(1) = {0x100000 + 99999 + n:#x}\n" for n in range(2000, 2200))
    found = sharing(tmp_path, lines)
    assert found["objects"] == 2199
    crowd = "".join(f"{n} {n % 2} malloc({10000 - 64 * n}) = {0x100000 + 64 * n:#x}\n" for n in range(1, 140))
    found = sharing(tmp_path, crowd)
    assert found["objects_left_out"] == 139 - 64


def test_pairs_of_threads_beyond_the_limit_are_counted(tmp_path):
    threads = 60
    lines = [f"{n} {n} malloc(1) = {0x100000 + n:#x}" for n in range(threads)]
    found = sharing(tmp_path, "\n".join(lines) + "\n")
    assert found["pairs"] == threads * (threads - 1) // 2
    assert len(found["threads"]) == 512
    assert sum(n for _, _, n, _ in found["threads"]) + found["threads_left_out"] == found["pairs"]
