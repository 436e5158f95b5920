# SPDX-License-Identifier: MIT
"""The sharing pass: planted layouts share exactly what they must, and recorded addresses and replayed ones agree."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.line_sharing_model import Step, assert_counts, history, text
from tests.support import CONVERT, OUT, REPLAY, compile_trace, import_text, succeed

from ..engine import make

PLACING = OUT / "test-programs/libplacing.so"
PROPERTY = examples(25)
STEP = 16
MIXED = {"ops": 20000, "threads": 4, "live_objects": 500, "remote_percent": 20}


def compiled(tmp_path, steps):
    tape = import_text(tmp_path, text(steps))
    return tape, compile_trace(tape)


def sharing_pass(work, *arguments, preload=PLACING, round_bytes=STEP, apart=0):
    environment = [f"--env=PLACE_ROUND_BYTES={round_bytes}", f"--env=PLACE_APART={apart}"]
    preloads = ["--preload", preload] if preload else []
    output = succeed(REPLAY, "--pass", "sharing", *preloads, *environment, *arguments, work).stdout
    return json.loads(output)


def in_turns(objects: int, size: int, threads: int = 2) -> list[Step]:
    """That many objects, acquired by the threads alternately, one behind the other."""
    return [Step("malloc", n % threads, n, size, (1 << 20) + n * size) for n in range(objects)]


@pytest.mark.parametrize("order", ["recorded", "window"])
@pytest.mark.parametrize("touch", ["none", "all"])
def test_a_packing_allocator_shares_each_line_of_two_threads(tmp_path, order, touch):
    """200 objects of 32 bytes in 100 lines; under any order of the threads each line has two."""
    _, work = compiled(tmp_path, in_turns(200, 32))
    run = sharing_pass(work, "--touch", touch, "--order", order, round_bytes=32)
    found = run["line_sharing"]
    assert found["live_lines"]["end"] == 100
    if order == "recorded":
        assert found["shared_lines"]["end"] == found["object_pairs"]["end"] == found["pairs"] == 100
        assert found["shared_objects"] == 200
        assert [row[:3] for row in found["threads"]] == [[0, 1, 100]]
    assert found["shared_lines"]["end"] == found["object_pairs"]["end"]


@pytest.mark.parametrize(("round_bytes", "apart"), [(32, 1), (64, 0)])
def test_objects_kept_apart_share_nothing(tmp_path, round_bytes, apart):
    """Apart by a region for each thread, or by whole lines."""
    _, work = compiled(tmp_path, in_turns(200, 32))
    found = sharing_pass(work, round_bytes=round_bytes, apart=apart)["line_sharing"]
    assert found["objects"] == 200
    assert found["shared_lines"]["peak"] == found["pairs"] == found["shared_objects"] == 0


@PROPERTY
@given(seed=st.integers(0, 1 << 32), threads=st.integers(2, 5), steps=st.integers(1, 150))
def test_replay_equals_a_comparison_of_every_pair(tmp_path, seed, threads, steps):
    """Also compares the profile of a trace with the same addresses."""
    steps = history(seed, threads, steps, bump_step=STEP)
    tape, work = compiled(tmp_path, steps)
    found = sharing_pass(work)["line_sharing"]
    assert_counts(found, steps)
    assert_counts(json.loads(succeed(CONVERT, "profile", tape).stdout)["line_sharing"], steps)


@pytest.mark.parametrize("order", ["causal", "window", "random=7"])
def test_all_orders_count_the_same_objects(tmp_path, order):
    path = tmp_path / "mixed.work"
    make(path, **MIXED)
    recorded, other = (sharing_pass(path, "--order", o, preload=None)["line_sharing"] for o in ("recorded", order))
    assert [row[:2] for row in recorded["sizes"]] == [row[:2] for row in other["sizes"]]
    assert recorded["ops"] == other["ops"]
    assert other["object_pairs"]["peak"] <= other["pairs"]
    assert other["used_pairs"] <= other["pairs"]
