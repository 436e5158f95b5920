# SPDX-License-Identifier: MIT
"""The verify pass: an allocator that breaks a rule of malloc is caught, and the op named. Each fault is planted
once."""

import json
import re

import pytest

from .engine import OUT, engine, make

FAULTY = OUT / "test-programs/libfaulty.so"
AT = 60
# fault -> the error's text behind the op that it names
FAULTS = {
    "overlap": r"(malloc|operator new)\(\d+ bytes\): returned 0x\w+, which overlaps the live object of \d+ bytes "
    r"at 0x\w+ from .*, op \d+ of thread \d+",
    "misaligned": r"(malloc|operator new)\(\d+ bytes\): returned 0x\w+, which is not aligned to 16 bytes",
    "unaligned": r"(posix_memalign|aligned_alloc|memalign|operator new\(align\))\(\d+ bytes\): returned 0x\w+, which "
    r"is not aligned to \d+ bytes",
    "dirty_calloc": r"calloc\((\d+) bytes\): returned memory that is not zero: byte \d+ at 0x\w+ is 0x01",
    "free_neighbour": r".*: a live object was overwritten: byte \d+ of \d+ at 0x\w+ is .* \(1 are wrong\); from .*",
    "write_after_free": r".*: a live object was overwritten: byte 0 of \d+ at 0x\w+ is .* \(1 are wrong\); from .*",
    "realloc_loses": r"realloc\w*\(0x\w+, \d+ bytes\): contents were lost: byte \d+ of \d+ .* \(1 are wrong\); from .*",
    "realloc_shrinks": r"realloc\w*\(0x\w+, \d+ bytes\): contents were lost: byte \d+ of \d+ .*; from .*",
    "realloc_overlap": r"realloc\w*\(0x\w+, \d+ bytes\): returned 0x\w+, which overlaps the live object of .*",
    "usable_size": r".*\(.*\d+ bytes\): returned 0x\w+, for which malloc_usable_size returns only \d+ bytes",
}


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    path = tmp_path_factory.mktemp("verify") / "mixed.work"
    return path, make(path, ops=40000, threads=3, live_objects=400, remote_percent=20, run_ops=20)


def verify(path, *arguments, fault="", at=AT):
    settings = [f"--env=FAULT={fault}", f"--env=FAULT_AT={at}"] if fault else []
    return engine("--pass", "verify", *settings, *arguments, path)


@pytest.mark.parametrize(
    "order", ["window", *(pytest.param(order, marks=pytest.mark.long) for order in ("recorded", "causal"))]
)
@pytest.mark.parametrize("fault", FAULTS)
def test_allocator_with_one_fault_is_caught_and_the_op_named(workload, fault, order):
    result = verify(workload[0], "--order", order, "--preload", FAULTY, fault=fault)
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    place = r"(op \d+ of thread \d+ \(position \d+( to \d+)?\), |after the last op)"
    assert re.fullmatch(rf"heaptape-replay: .*\.work: the allocator is at fault: {place}{FAULTS[fault]}", line), line


@pytest.mark.parametrize("order", ["recorded", "window"])
@pytest.mark.parametrize("preload", [[], ["--preload", FAULTY]])
def test_allocator_without_fault_passes(workload, preload, order):
    path, made = workload
    result = verify(path, "--order", order, *preload)
    assert result.returncode == 0, result.stderr
    run = json.loads(result.stdout)
    releases = sum(made["calls"][name] for name in ("free", "operator delete"))
    assert run["ops"] == made["ops"]
    assert run["verified"]["live_objects_at_end"] == made["live_end_objects"]
    # Objects are counted at their acquire and at each realloc; free(NULL) is among the releases.
    assert run["verified"]["objects"] > releases / 2
    assert run["verified"]["partly_stamped_objects"] == 0


def test_fault_of_the_first_and_of_the_last_call_is_caught(workload):
    """The exact call is named: malloc is the workload's first op."""
    first = verify(workload[0], "--order", "recorded", "--preload", FAULTY, fault="usable_size", at=1)
    assert "op 0 of thread 0 (position 0)" in first.stderr
    never = verify(workload[0], "--order", "recorded", "--preload", FAULTY, fault="usable_size", at=10**9)
    assert never.returncode == 0


def test_large_objects_are_stamped_in_part_and_counted(tmp_path):
    path = tmp_path / "large.work"
    make(path, ops=100, threads=1, live_objects=2, size_limit=200 << 20, seed=1)
    result = verify(path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["verified"]["partly_stamped_objects"] > 0


def test_null_allocator_cannot_be_verified(workload):
    result = verify(workload[0], "--null")
    assert result.returncode == 2
    assert "--null has no memory to verify" in result.stderr
