# SPDX-License-Identifier: MIT
"""A recording that rotates: each event is in one of its files, each file alone is a trace, and together they are
the recording that would have been made without rotation.

Long: more programs and moments at which the recorder is killed.
"""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.test.driven import HANG_S, Driven, calling
from tests.support import (
    CONVERT,
    HEAPTAPE_HERE,
    OUT,
    RECORD,
    check,
    compile_trace,
    counted_calls,
    info,
    proved,
    record,
    refused,
    run,
    small_disk,
    succeed,
    workload,
)

COUNTER = OUT / "test-lib" / "libcount_calls.so"
SMALL = ("--rotate", "64K")


def files(folder: Path, name: str = "t") -> list[Path]:
    """The numbered files of one trace, by number."""
    return sorted(folder.glob(f"{name}.[0-9][0-9][0-9][0-9].tape"))


def joined(folder: Path, name: str = "t") -> Path:
    """The files merged into one trace."""
    whole = folder / f"{name}.joined.tape"
    succeed(CONVERT, "convert", "--merge", *files(folder, name), whole)
    return whole


def calls_of(traces: list[Path]) -> Counter[str]:
    """Events by name, of all traces."""
    calls: Counter[str] = Counter()
    for trace in traces:
        calls.update(info(trace)["calls"])
    return calls


def rotation(trace: Path) -> dict:
    """The file's own data about the rotation."""
    return info(trace)["info"]["rotation"]


def without_times(trace: Path) -> str:
    """The trace's history, one line for each event."""
    return re.sub(r"(?m)^ *\d+(\.\d+)? +", "", succeed(CONVERT, "dump", trace).stdout.partition("\n")[2])


def test_joined_files_are_the_recording_that_does_not_rotate(tmp_path: Path) -> None:
    """Without address randomisation the program makes the same calls at the same addresses twice."""
    program = (workload("cfrac"), "--steps=40000", "--quiet=1")
    for name, options in (("t", SMALL), ("whole", ())):
        succeed("setarch", "-R", RECORD, "-o", tmp_path / f"{name}.tape", *options, "--", *program)
    assert len(files(tmp_path)) > 3
    assert without_times(joined(tmp_path)) == without_times(tmp_path / "whole.tape")


OTHERS = ("larson", "xmalloc", "growing_reallocs", "thread_per_request")


@pytest.mark.parametrize("program", ["remote_storm", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_each_call_of_each_thread_is_in_exactly_one_file(tmp_path: Path, program: str) -> None:
    """Counted by an independent library; and the joined files have no contradictions."""
    counts = tmp_path / "counts"
    counts.mkdir()
    record(
        tmp_path / "t.tape",
        workload(program),
        options=(*SMALL, "--preload", COUNTER),
        env={"COUNT_CALLS_DIR": str(counts)},
    )
    traces = files(tmp_path)
    assert len(traces) > 3
    (counted,) = counted_calls(counts).values()
    assert calls_of(traces) == counted
    none = ("dropped", "unseen_frees", "double_frees", "overlapping_acquires", "inversions_repaired")
    assert not proved(joined(tmp_path), *none)["lacks_start"]


@pytest.fixture(scope="module")
def larson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recording t of several files, which tests only read."""
    folder = tmp_path_factory.mktemp("larson")
    record(folder / "t.tape", workload("larson"), "--rounds=20000", "--quiet=1", options=SMALL)
    return folder


def test_each_file_checks_compiles_and_replays_by_itself(larson: Path, tmp_path: Path) -> None:
    traces = files(larson)
    assert len(traces) > 2
    for number, trace in enumerate(traces, 1):
        proof, about = proved(trace, "overlapping_acquires"), info(trace)
        assert proof["lacks_start"] == (number > 1)
        assert not about["truncated"]
        assert about["footer"]["end"] == ("exit" if trace == traces[-1] else "rotated")
        assert about["info"]["rotation"]["file"] == number
        assert about["info"]["rotation"]["set"] == rotation(traces[0])["set"]
    succeed(HEAPTAPE_HERE, "replay", compile_trace(traces[1]), "-a", "glibc", "--verify", "-o", tmp_path / "r.json")


def test_threads_that_go_on_are_named_in_the_file_before_and_each_file_has_its_stacks(tmp_path: Path) -> None:
    options = (*SMALL, "--stacks=8", "--describe")
    record(tmp_path / "t.tape", workload("remote_storm"), "--rounds=40000", options=options)
    traces = files(tmp_path)
    assert len(traces) > 2
    for trace in traces[:-1]:
        dump = succeed(CONVERT, "dump", trace, "--format", "jsonl", "--stacks").stdout
        assert "remote_storm" in dump, trace
        assert info(trace)["thread_names"], trace
    whole = info(joined(tmp_path))
    assert whole["threads"] == 5
    assert whole["stack_nodes"] < sum(info(trace).get("stack_nodes", 0) for trace in traces)


def test_older_files_are_deleted_and_the_newest_reports_them(tmp_path: Path) -> None:
    done = record(tmp_path / "t.tape", workload("larson"), "--rounds=20000", options=(*SMALL, "--keep", "2"))
    kept = files(tmp_path)
    assert len(kept) == 3
    last = rotation(kept[-1])
    assert last["first"] == 1
    assert last["oldest_kept"] == last["file"] - 2 == int(kept[0].name.split(".")[1]) > 1
    assert f"the {last['oldest_kept'] - 1} before them were deleted" in done.stderr
    assert "were deleted" in succeed(CONVERT, "info", kept[-1]).stdout
    assert proved(joined(tmp_path), "overlapping_acquires")["lacks_start"]


def test_numbers_go_on_after_files_that_are_there_and_none_of_those_is_touched(tmp_path: Path) -> None:
    earlier = tmp_path / "t.0007.tape"
    earlier.write_bytes(b"earlier")
    record(tmp_path / "t.tape", workload("larson"), "--rounds=20000", options=(*SMALL, "--keep", "1"))
    kept = files(tmp_path)
    assert earlier.read_bytes() == b"earlier"
    assert len(kept) == 3
    assert rotation(kept[-1])["first"] == 8


def test_each_process_has_files_of_its_own(tmp_path: Path) -> None:
    """A shell, and what it starts."""
    storm = f"{workload('larson')} --rounds=10000 --quiet=1"
    record(tmp_path / "t.tape", "/bin/sh", "-c", f"{storm}; {storm}; true", options=SMALL)
    names = {tuple(path.name.split(".")[:-2]) for path in tmp_path.glob("*.tape")}
    assert len(names) == 3
    for name in names:
        of_process = files(tmp_path, ".".join(name))
        assert [rotation(path)["file"] for path in of_process] == list(range(1, len(of_process) + 1))
        proved(joined(tmp_path, ".".join(name)), "dropped")


def test_files_of_two_processes_are_merged_as_two_processes(larson: Path, tmp_path: Path) -> None:
    record(tmp_path / "t.tape", workload("larson"), "--rounds=10000", options=SMALL)
    merged = tmp_path / "m.tape"
    succeed(CONVERT, "convert", "--merge", *files(tmp_path), *files(larson), merged)
    parts = [info(joined(folder)) for folder in (tmp_path, larson)]
    whole = info(merged)
    assert whole["threads"] == sum(part["threads"] for part in parts)
    assert whole["events"] == sum(part["events"] for part in parts)
    assert [process["threads"] for process in whole["info"]["merged"]] == [part["threads"] for part in parts]
    assert check(merged)["unseen_frees"] == 0


@pytest.mark.parametrize("order", [(0, 2), (1, 0), (1, 1)])
def test_merging_refuses_files_that_do_not_follow_one_another(larson, tmp_path, order):
    traces = [files(larson)[at] for at in order]
    refused(CONVERT, "convert", "--merge", *traces, tmp_path / "m.tape", says="give all files, in sequence")


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 12))])
def test_a_recorder_that_is_killed_leaves_whole_files_and_one_that_ends_early(tmp_path: Path, seed: int) -> None:
    """At a random moment, in a recording that is rotating most of the time. The program continues."""
    recorder = subprocess.Popen(
        [RECORD, "-o", tmp_path / "t.tape", *SMALL, "--", workload("larson"), "--rounds=60000", "--quiet=1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = random.Random(seed).randrange(2, 12)
    until = time.monotonic() + HANG_S
    while len(files(tmp_path)) < after and recorder.poll() is None:
        assert time.monotonic() < until
    recorder.send_signal(signal.SIGKILL)
    recorder.wait(timeout=HANG_S)
    traces = files(tmp_path)
    assert len(traces) >= after
    for trace in traces[:-2]:
        assert not info(trace)["truncated"], trace
    # The file that was being ended, and perhaps one that had just been begun.
    for trace in (trace for trace in traces[-2:] if trace.stat().st_size > 0):
        found = run(CONVERT, "info", trace, "--json")
        assert found.status == 0 or "nothing to read" in found.stderr
        if found.status == 0 and json.loads(found.stdout)["events"] > 0:
            assert check(trace)["ok"], trace
    assert [int(trace.name.split(".")[1]) for trace in traces] == list(range(1, len(traces) + 1))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1,500 KiB."""
    with small_disk(tmp_path / "disk", "1500k") as folder:
        yield folder


@pytest.mark.skipif(os.getuid() != 0, reason="needs root for a file system of its own")
def test_on_a_full_disk_no_file_is_deleted_that_keep_does_not_name(disk: Path) -> None:
    """Events that can't be written are counted, as without rotation; the earlier files are complete."""
    done = record(disk / "t.tape", workload("larson"), "--rounds=60000", options=(*SMALL, "--keep", "1000"))
    assert "No space left on device" in done.stderr
    traces = files(disk)
    assert [int(trace.name.split(".")[1]) for trace in traces] == list(range(1, len(traces) + 1))
    written = [trace for trace in traces if trace.stat().st_size > 0]
    dropped = [info(trace)["dropped"] for trace in written]
    assert dropped[:4] == [0] * 4
    assert sum(dropped) > 0
    for trace in written:
        assert check(trace)["ok"]
        assert rotation(trace)["oldest_kept"] == 1


@pytest.mark.skipif(os.getuid() != 0, reason="needs root for a file system of its own")
def test_keep_makes_do_with_a_disk_that_holds_so_many_files(disk: Path) -> None:
    done = record(disk / "t.tape", workload("larson"), "--rounds=60000", options=(*SMALL, "--keep", "1"))
    assert "No space" not in done.stderr
    assert len(files(disk)) == 2
    assert rotation(files(disk)[-1])["file"] > 8


def test_a_file_that_can_not_be_begun_leaves_the_recording_in_the_one_before(tmp_path: Path) -> None:
    """A folder is in the place of the next file: this is reported once, and nothing is lost."""
    driven = Driven(tmp_path / "t.tape", *SMALL, program=calling(20_000, 100))
    driven.work()
    succeed(HEAPTAPE_HERE, "ctl", str(driven.process.pid), "flush")
    number = len(files(tmp_path))
    in_the_way = tmp_path / f"t.{number + 1:04}.tape"
    in_the_way.mkdir()
    for _ in range(20):
        driven.work()
    output = driven.end()
    in_the_way.rmdir()
    assert output.count(in_the_way.name) == 1
    traces = files(tmp_path)
    assert len(traces) == number
    assert calls_of(traces)["free"] >= 21 * 20_000
    assert check(joined(tmp_path))["unseen_frees"] == 0


def test_stopping_and_starting_while_files_change_counts_each_call_once(tmp_path: Path) -> None:
    driven = Driven(tmp_path / "t.tape", *SMALL, program=calling(20_000, 100))
    driven.work()
    pid = driven.program_pid()
    for verb in ("stop", "start", "flush") * 4:
        succeed(HEAPTAPE_HERE, "ctl", str(pid), verb)
        driven.work()
    driven.end()
    traces = files(tmp_path)
    assert len(traces) > 1
    recorded = sum(info(trace)["calls"].get("malloc", 0) for trace in traces)
    missing = sum(info(trace)["dropped"] for trace in traces)
    assert missing >= 4 * 2 * 20_000
    made = recorded * 2 + missing
    assert made >= 13 * 2 * 20_000
    assert made < 13 * 2 * 20_000 + 60_000, "as many as python itself makes besides"
    assert check(joined(tmp_path))["ok"]


def test_a_program_without_calls_leaves_one_file(tmp_path: Path) -> None:
    run(RECORD, "-o", tmp_path / "t.tape", *SMALL, "--", "/bin/true")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["t.0001.tape"]
