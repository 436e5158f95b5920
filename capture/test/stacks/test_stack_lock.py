# SPDX-License-Identifier: MIT
"""A call that a signal handler leaves by longjmp keeps no lock of the call stacks' nodes."""

import json
import os
from pathlib import Path

import pytest

from capture.test.stacks import stack_hosts
from tests.support import CONVERT, OUT, compile_c, record, succeed

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="steps are for x86-64")

# glibc's malloc may not be left in the middle
OPTIONS = ("--stacks", "--preload", str(OUT / "lib/test/libbump.so"))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return compile_c(tmp_path / "host", stack_hosts.SOURCES / "leaves_by_longjmp.c", "-pthread", "-std=gnu11")


@pytest.mark.parametrize("mode", ["alone", "and-another", "ends"])
def test_every_stack_is_taken_after_a_call_was_left_that_held_the_lock(host: Path, mode: str, tmp_path: Path) -> None:
    assert stack_hosts.record(tmp_path / "t.tape", host, mode, options=OPTIONS).status == 0


def test_a_lock_that_was_waited_for_in_vain_is_not_waited_for_again(host: Path, tmp_path: Path) -> None:
    done = record(tmp_path / "t.tape", host, "twice", options=OPTIONS)
    assert "2 call stacks could not be taken" in done.stderr


def test_stacks_from_after_a_call_was_left_stay_those_of_their_calls(host: Path, tmp_path: Path) -> None:
    """Each size is acquired once, and each number is a stack that no other call has."""
    stack_hosts.record(tmp_path / "t.tape", host, "again", options=OPTIONS)
    dump = succeed(CONVERT, "dump", "--stacks", "--format", "jsonl", tmp_path / "t.tape").stdout
    calls = [line for line in map(json.loads, dump.splitlines()) if line.get("size_bytes", 0) >= 1000]
    stacks = [line["stack"] for line in calls if line["call"] == "malloc"]
    assert len(stacks) == len(set(stacks)) >= 60
