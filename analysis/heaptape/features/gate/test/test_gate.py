# SPDX-License-Identifier: MIT
"""`heaptape gate` and `heaptape minimise` on allocators with planted faults (planted_allocator.c and faulty_allocator.c
of replay/test/programs/): the same library, with other settings as old and new.

Long: more figures and signals.
"""

import json
import os
import signal
import subprocess
import time
from xml.etree import ElementTree

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.gate.minimise import Minimiser
from heaptape.features.gate.test.pieces import make_workload

from tests.support import (
    HEAPTAPE,
    HEAPTAPE_HERE,
    OUT,
    REPOSITORY,
    call_heaptape,
    check,
    published,
    refused,
    run,
    succeed,
    take_interrupts,
)

PLANTED, FAULTY = OUT / "test-programs" / "libplanted.so", OUT / "test-programs" / "libfaulty.so"
MAPPED = f"{PLANTED}:PLANT_OS_PAGES=1"  # each object has its own mapping
EVENTS = 300


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    return make_workload(tmp_path_factory.mktemp("gate"), EVENTS)


def gate(folder, *arguments, minimise_runs="8"):
    """The command's result, its JSON, its JUnit's testcases by name, and the folders of minimised tapes."""
    result, xml = folder / "g.json", folder / "g.xml"
    outputs = ("-o", result, "--junit", xml, "--artefacts", folder / "artefacts")
    done = call_heaptape("gate", *arguments, *outputs, "--minimise-runs", minimise_runs)
    data = published("gate", result.read_text())
    cases = {case.get("name"): case for case in ElementTree.parse(xml).getroot().iter("testcase")}
    return done, data, cases


@pytest.mark.parametrize(
    ("old", "new", "figure"),
    [
        (MAPPED, f"{MAPPED} PLANT_KEEP_FREED=1", "rss-peak"),
        pytest.param(str(PLANTED), f"{PLANTED}:PLANT_MAP_EVERY=10", "syscalls", marks=pytest.mark.long),
        pytest.param(str(PLANTED), f"{PLANTED}:PLANT_LOOPS=200", "instructions", marks=pytest.mark.long),
        (str(FAULTY), f"{FAULTY}:FAULT=misaligned FAULT_AT=10", "broken"),
    ],
    ids=["rss", "system calls", "instructions", "promise"],
)
def test_a_planted_fault_is_found_and_minimised(old, new, figure, workload, tmp_path):
    done, data, cases = gate(tmp_path, "--quiet", "--old", old, "--new", new, workload)
    assert done.status == 1, done.stderr
    assert done.stderr == "heaptape: gate failed\n"
    (found,) = data["workloads"]
    worse = {name for name, one in found["figures"].items() if one["verdict"] == "worse"}
    if figure == "broken":
        assert "multiple of 16" in found["broken"]["new"] or "aligned" in found["broken"]["new"]
        assert not worse
    assert figure == "broken" or figure in worse
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == (worse or {"promises"})

    (about,) = [one for one in data["minimised"] if one["figure"] == figure]
    assert about["minimised"]["events"] <= 80 < about["whole"]["events"] == EVENTS
    tape = tmp_path / "artefacts" / f"history-{figure}" / "minimised.tape"
    kept = published("minimise", (tape.parent / "minimised.json").read_text())
    assert check(tape)["events"] == about["minimised"]["events"] == kept["minimised"]["events"]
    assert str(about["minimised"]["events"]) in (tape.parent / "README.md").read_text()
    again, data, _ = gate(tmp_path, "--old", old, "--new", new, tape, "--minimise", "none")
    assert again.status == 1
    assert data["workloads"][0]["broken"]["new"] or data["workloads"][0]["figures"][figure]["verdict"] == "worse"


def test_a_figure_that_is_within_tolerance_when_it_is_minimised_is_reported_and_the_others_are_minimised(
    workload, tmp_path, monkeypatch
):
    class SometimesWithin(Minimiser):
        def __init__(self, workload, question, *others):
            if question.condition.figure == "rss-mean":
                raise HeaptapeError(why)
            super().__init__(workload, question, *others)

    why = "rss-mean>101%*old does not hold of the whole"
    monkeypatch.setattr("heaptape.features.gate.gate.Minimiser", SometimesWithin)
    worse = ("--old", MAPPED, "--new", f"{MAPPED} PLANT_KEEP_FREED=1")
    done, data, _ = gate(tmp_path, *worse, workload, minimise_runs="3")
    assert done.status == 1
    assert data["not_minimised"] == [{"workload": "history", "figure": "rss-mean", "why": why}]
    assert f"history, rss-mean: not made smaller: {why}" in " ".join(done.stdout.split())
    assert "rss-peak" in [one["figure"] for one in data["minimised"]]


def test_an_allocator_against_itself_passes(tmp_path):
    allocator, tape = "glibc", REPOSITORY / "workloads" / "corpus" / "memcached.tape"
    done, data, cases = gate(tmp_path, "--old", allocator, "--new", allocator, tape)
    assert done.status == 0, done.stdout + done.stderr
    assert data["passed"]
    assert done.stdout == f"{allocator} against {allocator}: no figure of 1 workload is beyond its tolerance.\n"
    assert [one["name"] for one in data["workloads"]] == ["memcached"]
    assert all(case.find("failure") is None and case.find("error") is None for case in cases.values())


def test_a_promise_that_both_break_is_reported_and_no_failure(workload, tmp_path):
    broken = f"{FAULTY}:FAULT=overlap FAULT_AT=5"
    done, data, _ = gate(tmp_path, "--old", broken, "--new", broken, workload)
    assert done.status == 0
    assert data["workloads"][0]["broken"]["old"]
    assert "(both do)" in " ".join(done.stdout.split())


def test_a_crash_is_a_failure_with_its_reason(workload, tmp_path):
    done, data, cases = gate(tmp_path, "--old", str(PLANTED), "--new", f"{PLANTED}:PLANT_CRASH_AT=40", workload)
    assert done.status == 1
    assert "SIGSEGV" in data["workloads"][0]["broken"]["new"]
    assert cases["promises"].find("failure") is not None
    assert cases["measured"].find("error") is not None  # no figures either
    assert data["minimised"][0]["figure"] == "broken"


def test_a_library_that_can_not_be_loaded_is_an_error_of_each_workload(workload, tmp_path):
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF, and no more")
    done, data, cases = gate(tmp_path, "--old", "glibc", "--new", broken, workload)
    assert done.status == 125
    assert all("broken.so" in error for error in data["workloads"][0]["errors"])
    assert cases["measured"].find("error") is not None


def test_a_tape_that_is_malformed_is_an_error_and_the_others_are_compared(workload, tmp_path):
    bad, empty = tmp_path / "bad.tape", tmp_path / "empty.tape"
    bad.write_bytes(b"HEAPTAPE, but no more than that")
    empty.write_bytes((REPOSITORY / "workloads" / "corpus" / "gs.tape").read_bytes()[:300])  # no whole block of events
    done, data, _ = gate(tmp_path, "--old", "glibc", "--new", "glibc", bad, empty, workload)
    assert done.status == 125
    errors = [one["errors"] for one in data["workloads"]]
    assert "bad.tape" in errors[0][0]
    assert errors[1:] == [[f"{empty}: is truncated before its first event: there is nothing to replay"], []]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--old", "glibc", "--new", "nothing"], "unknown allocator 'nothing'"),
        (["--old", "glibc", "--new", "glibc", "--tolerate", "rss"], "'' is not a tolerance of rss-peak: 1%, 64 KiB or"),
        (["--old", "glibc", "--new", "glibc", "--tolerate", "time=1%"], "unknown figure 'time'"),
        (
            ["--old", "glibc", "--new", "glibc", "--tolerate", "syscalls=4 KiB"],
            "is not a tolerance of syscalls: 1%, 5 or 1%+5",
        ),
        (["--old", "glibc", "--new", "glibc", "--minimise-runs", "0"], "more than 0"),
        (["--old", "glibc", "--new", "glibc", "nowhere"], "nowhere: no such file or folder"),
        (["--old", "glibc", "--new", "glibc", ""], "'': no such file or folder"),
        (["--old", "glibc"], "gate: --old and --new, or --self-test"),
    ],
)
def test_wrong_usage_is_one_line(arguments, says, workload):
    done = call_heaptape("gate", *arguments, *([] if "nowhere" in arguments else [workload]))
    assert (done.status, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


@pytest.mark.long
def test_the_self_test_catches_what_is_planted_and_passes_the_sound_allocator():
    done = succeed(HEAPTAPE, "gate", "--self-test", REPOSITORY / "workloads" / "corpus" / "gs.tape")
    assert [line.split(": ")[1] for line in done.stdout.splitlines() if line[0] != " "] == ["right"] * 4


def test_a_condition_that_does_not_hold_is_one_line(workload, tmp_path):
    command = ("minimise", workload, "--old", "glibc", "--new", "glibc", "-o", tmp_path / "out", "--if")
    done = call_heaptape(*command, "rss-peak>1.5*old")
    assert done.status == 1
    assert "rss-peak>1.5*old does not hold of the whole: rss-peak is" in done.stderr
    assert "unknown figure" in call_heaptape(*command, "rss>1").stderr
    assert "no data accesses" in call_heaptape(*command, "misses>1").stderr


def test_a_full_disk_is_one_line(workload, tmp_path):
    same = ("--old", "glibc", "--new", "glibc")
    refused(HEAPTAPE_HERE, "gate", *same, workload, "-o", "/dev/full", says="/dev/full: can't be written")
    file = tmp_path / "file"
    file.touch()
    done = run(HEAPTAPE_HERE, "minimise", workload, *same, "--if", "rss-peak>1", "-o", file / "out")
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert done.stderr == f"heaptape: {file / 'out'}: can't be written\n"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupt_keeps_the_smallest_piece_so_far(number, workload, tmp_path):
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    scratch.mkdir()
    command = [HEAPTAPE, "minimise", workload, "--old", PLANTED, "--new", f"{PLANTED}:PLANT_MAP_EVERY=10"]
    command += ["--if", "syscalls>1.1*old", "-o", out]
    environment = os.environ | {"TMPDIR": str(scratch)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=take_interrupts)
    while not list(scratch.glob("*/*/candidate.tape")):  # it is searching
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(number)
    _, errors = process.communicate()
    if process.returncode == 0:
        pytest.skip("it was done before the interrupt")
    assert process.returncode in (130, 128 + number), errors
    if (out / "minimised.json").exists():  # not if it was stopped while it measured the whole
        assert json.loads((out / "minimised.json").read_text())["ended"] == "interrupted"
        assert check(out / "minimised.tape")["ok"]
    assert not list(scratch.iterdir())
