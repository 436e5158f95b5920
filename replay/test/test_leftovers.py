# SPDX-License-Identifier: MIT
"""An allocator's processes end with its run, whatever it starts, stops, kills or prints (leaving_allocator.c)."""

import json
import time
from pathlib import Path

import pytest

from tests.support import call_heaptape

from .engine import OUT, engine, make

LEAVING = OUT / "test-programs/libleaving.so"
PRINTED_BYTES = 64 << 10


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    path = tmp_path_factory.mktemp("leftovers") / "some.work"
    make(path, ops=2000, threads=1, live_objects=300, only_malloc_free=1)
    return path


def living(name):
    """Processes of that name that are no zombies."""
    found = []
    for path in Path("/proc").glob("[1-9]*/stat"):
        try:
            head, _, fields = path.read_text(errors="replace").rpartition(")")
        except OSError:
            continue
        if head.endswith(f"({name}") and fields.split()[0] not in "ZX":
            found.append(int(path.parent.name))
    return found


def run(work, how, *arguments):
    name = f"left-{how}-{time.monotonic_ns() % 10**6}"
    settings = [f"--env=LEAVE={how}", f"--env=LEAVE_NAME={name[:15]}", "--preload", LEAVING]
    return engine("--pass", "bare", "--engine-cycles-per-op", "0", *settings, *arguments, work, timeout=60), name[:15]


@pytest.mark.parametrize("how", ["process", "storm"])
def test_processes_that_an_allocator_leaves_end_with_the_run(work, how):
    result, name = run(work, how)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["ops"] > 0
    assert living(name) == []


def test_output_is_passed_on_up_to_a_limit_and_said_to_be_cut(work):
    result, _ = run(work, "flood")
    assert result.returncode == 0
    assert json.loads(result.stdout)["ops"] > 0  # what the allocator prints to its stdout is not in it
    said, _, last = result.stderr.rstrip("\n").rpartition("\n")
    left_out = 20000 * 2 * 83 - PRINTED_BYTES
    assert last == f"heaptape-replay: {left_out} bytes more of the allocator's output left out"
    assert len(said) == PRINTED_BYTES


def test_an_allocator_that_closes_all_descriptors_is_named_as_the_cause(tmp_path):
    make(tmp_path / "long.work", ops=200_000, threads=1, live_objects=300, only_malloc_free=1)
    result, _ = run(tmp_path / "long.work", "closed")
    assert result.returncode == 1
    assert result.stderr.endswith("long.work: can't be read: the allocator has closed its descriptor\n")
    assert result.stderr.count("\n") == 1


def test_an_allocator_that_asks_to_be_traced_is_named_as_the_cause(work):
    """Its stop, which waitid reports, is no end; and who killed it then was us."""
    result, _ = run(work, "traced")
    assert result.returncode == 1
    assert "some.work: the allocator asked to be traced: stopped after " in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_allocator_that_kills_its_group_is_among_the_causes(work):
    result, _ = run(work, "group")
    assert result.returncode == 1
    assert "killed by signal 9 (SIGKILL)" in result.stderr
    assert result.stderr.endswith("is exhausted, and an allocator can\n")


def test_an_allocator_cannot_cut_what_its_watcher_reads(work):
    result, _ = run(work, "cut")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["ops"] > 0


@pytest.mark.parametrize(
    ("how", "error"),
    [("stop", "the process that watches the allocator was stopped (SIGSTOP)"), ("parent", "killed by SIGKILL")],
)
def test_an_allocator_that_stops_or_kills_what_watches_it_is_a_failed_run(work, tmp_path, how, error):
    name = f"left-{time.monotonic_ns() % 10**6}"
    leaving = f"{LEAVING}:LEAVE={how} LEAVE_NAME={name}"
    result = call_heaptape("replay", work, "-a", leaving, "-n", "1", "--passes", "memory", "-o", tmp_path / "r.json")
    assert result.status == 1
    assert error in result.stderr
    assert living(name) == []
