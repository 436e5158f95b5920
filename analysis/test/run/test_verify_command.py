# SPDX-License-Identifier: MIT
"""`heaptape replay --verify` on the command line: reports who keeps promises, and names who doesn't, with the op."""

import json
import re

import pytest

from tests.support import call_heaptape


@pytest.fixture(scope="module")
def faulty(out):
    library = out / "test-programs" / "libfaulty.so"
    assert library.exists()
    return library


def test_an_allocator_that_keeps_its_promises_is_reported_as_such(small_tape, tmp_path):
    output = tmp_path / "v.json"
    done = call_heaptape("replay", small_tape, "--verify", "-a", "glibc", "-o", output)
    assert done.status == 0, done.stderr
    assert re.search(r"^glibc: verification passed: [\d,]+ ops, 4,000 objects of ", done.stdout, re.MULTILINE)
    (run,) = json.loads(output.read_text())["runs"]
    assert run["pass"] == "verify"
    assert run["verified"]["objects"] == 4000


@pytest.mark.parametrize("fault", ["overlap", "misaligned", "free_neighbour", "usable_size"])
def test_an_allocator_that_does_not_is_named_with_the_op(small_tape, tmp_path, faulty, fault):
    choice = f"{faulty}:FAULT={fault} FAULT_AT=20"
    done = call_heaptape("replay", small_tape, "--verify", "-a", "glibc", "-a", choice, "-o", tmp_path / "v.json")
    assert done.status == 1
    assert "glibc: verification passed" in done.stdout
    faults = [line for line in done.stderr.splitlines() if "at fault" in line]
    assert len(faults) == 1
    assert re.search(
        r"verify pass, repetition 1: .*: the allocator is at fault: (op \d+ of thread \d+ \(|after the last op)",
        faults[0],
    )
