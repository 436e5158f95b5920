# SPDX-License-Identifier: MIT
"""`heaptape advise` on allocators whose order is known, as they differ in one line of source."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from heaptape.advise import advise, confirm, programs, words
from heaptape.common.errors import HeaptapeError
from results.planted import keep_measurement

from tests.support import (
    HEAPTAPE,
    HEAPTAPE_HERE,
    RECORD,
    call_heaptape,
    compile_c,
    import_text,
    published,
    refused,
    run,
    succeed,
)

FEW = """
#include <stdlib.h>
#include <time.h>
int main(void) {
  for (int i = 0; i < 9; i++) free(malloc(100));
  while (clock() < CLOCKS_PER_SEC / 2) {}
  return 0;
}
"""
SOURCE = (Path(__file__).parents[1] / "small_allocator.c").read_text()
CHANGED = {
    "lean": {},
    "fat": {"GRAIN ((size_t)16)": "GRAIN ((size_t)512)"},
    "slow": {"SPINS 0": "SPINS 300"},
    "wrong": {"OFFSET ((size_t)0)": "OFFSET ((size_t)8)"},
}
PROGRAM = """
#include <stdlib.h>
#include <string.h>
int main(void) {
  for (int i = 0; i < 60000; i++) {
    char *object = malloc(100 + i % 20);
    if (!object) return 1;
    memset(object, 1, 100);
    if (i % 3 == 0) free(object);
  }
  return 3;
}
"""


@pytest.fixture(scope="module", autouse=True)
def costs_that_no_load_changes(tmp_path_factory):
    """Fixed penalties: the costs of a page fault and an instruction decide which of two allocators is cheaper, not
    times of calls.
    """
    folder = tmp_path_factory.mktemp("cache")
    keep_measurement(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setattr(advise, "with_time", lambda bench, tried, ops, end: tried)
        yield


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """name -> library."""
    folder = tmp_path_factory.mktemp("planted")
    made = {}
    for name, changes in CHANGED.items():
        text = SOURCE
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        made[name] = compile_c(folder / f"{name}.so", text, "-O1", "-shared", "-fPIC")
    return made


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("program") / "program", PROGRAM)


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    lines = [f"{i} 1 malloc({24 + i % 80}) = {0x10000 + 1024 * i:#x}" for i in range(8000)]
    return import_text(tmp_path_factory.mktemp("tape"), "\n".join(lines) + "\n", "clock=nanoseconds")


@pytest.fixture(scope="module")
def timed(tmp_path_factory, program):
    """A recording that has the program's CPU time."""
    path = tmp_path_factory.mktemp("timed") / "program.tape"
    assert run(RECORD, "-o", path, "--", program).status == 3
    return path


def advised(*arguments):
    done = call_heaptape("advise", "--json", *arguments)
    assert done.status == 0, done.stderr
    return published("advise", done.stdout)


def counted(made):
    """The figures that are the same in every replay. Page faults and memory vary where the kernel moves OS pages."""
    figures = [one["figures"] for one in made["candidates"]]
    return [(one["instructions"], one["syscalls"]) for one in figures]


def use(made):
    return {pick["aim"]: pick["use"] for pick in made["picks"]}


def test_the_planted_order_is_found(planted, tape, timed):
    names = [word for name in ("slow", "lean") for word in ("-a", planted[name])]
    made = advised(tape, *names, "--baseline", planted["fat"])
    assert made["today"] == "fat.so"
    memory, cpu = made["picks"]
    assert (memory["use"], memory["ties"]) == ("lean.so", ["slow.so"])
    assert memory["environment"] == {"LD_PRELOAD": str(planted["lean"])}
    peaks = {one["allocator"]: one["peak_bytes"] for one in made["candidates"]}
    assert peaks["lean.so"] < peaks["fat.so"] / 2
    assert cpu["stay"] or cpu["use"] == "lean.so"
    names = ["-a", planted["lean"], "--baseline", planted["slow"], "--objective", "cpu"]
    assert use(advised(timed, *names)) == {"cpu": "lean.so"}
    (unknown,) = advised(tape, *names)["picks"]
    assert unknown["stay"]
    assert re.match(
        r"lean.so saves [0-9.]+ ms of CPU time, a reason to change only if the program takes less than [0-9.]+ m?s of",
        unknown["why"],
    )


def test_the_instructions_of_all_calls_are_counted_only_on_candidates_that_are_not_beaten(planted, timed, monkeypatch):
    tape = timed
    names = [word for name in ("fat", "lean") for word in ("-a", planted[name])] + ["--baseline", planted["slow"]]
    exact = {one["label"]: one["figures"]["instructions"] for one in advised(tape, *names, "--exact")["candidates"]}
    monkeypatch.setattr(advise, "SCREEN_OPS", 1000)
    made = advised(tape, *names)
    counted_on = {one["label"]: one["figures"].get("instructions") for one in made["candidates"]}
    assert counted_on == {**exact, "fat.so": None}
    assert use(made) == use(advised(tape, *names, "--exact"))


def test_the_command_of_a_race_has_the_options_that_were_given(planted, tape, monkeypatch):
    said, real = [], words.screen
    monkeypatch.setattr(words, "screen", lambda advice, path: said.append(advice.race) or real(advice, path))
    given = ("--objective", "cpu", "--limit", "rss-peak<=9*today", "-a", str(planted["lean"]), "--program", "x")
    advised(tape, *given)
    advised(*given, tape)
    assert said == [f"heaptape advise {shlex.join(given)} -- CMD"] * 2


def test_few_calls_of_a_long_program_are_answered_at_once(planted, tmp_path):
    """Nothing is counted, timed or run live for them; --exact counts."""
    program = compile_c(tmp_path / "program", FEW)
    options = ["-a", planted["slow"], "--baseline", planted["lean"]]
    whole = advised(*options, "--", program)
    assert [one["label"] for one in whole["candidates"]] == ["lean.so", "slow.so"]
    assert not [one for one in whole["candidates"] if "instructions" in one["figures"]]
    assert whole["live"] == []
    (why,) = (pick["why"] for pick in whole["picks"] if pick["aim"] == "cpu")
    assert re.fullmatch(r"its \d+ calls take less than 0\.\d % of its CPU time", why)
    exact = advised(*options, "--exact", "--", program)
    assert all(one["figures"]["instructions"] > 0 for one in exact["candidates"])


@pytest.mark.parametrize(
    ("given", "parts"), [(["--budget", "40"], "14.0 10.0"), (["--budget", "0"], "inf inf"), ([], "inf inf")]
)
def test_recording_has_its_part_of_a_budget_that_was_given(given, parts, monkeypatch):
    def record(command, folder, home, wanted):
        raise HeaptapeError(f"{wanted.within_s} {wanted.recorded_s}")

    monkeypatch.setattr(programs, "record", record)
    assert parts in call_heaptape("advise", *given, "--", "true").stderr


def test_a_program_on_the_best_allocator_stays(planted, tape):
    done = call_heaptape("advise", tape, "-a", planted["fat"], "-a", planted["slow"], "--baseline", planted["lean"])
    assert done.status == 0, done.stderr
    assert "No reason to change from lean.so: " in done.stdout
    assert "LD_PRELOAD" not in done.stdout
    assert "--live" not in done.stdout


def test_an_allocator_that_breaks_a_promise_is_not_advised(planted, tape):
    done = call_heaptape("advise", tape, "-a", planted["wrong"], "--baseline", planted["fat"], "--objective", "memory")
    assert done.status == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "No reason to change from fat.so: no other allocator qualifies." in said
    assert "Not advised: wrong.so: " in said
    assert "the allocator is at fault" in said


def test_a_limit_is_kept(planted, timed):
    names = ["-a", planted["fat"], "--baseline", planted["slow"], "--objective", "cpu"]
    assert use(advised(timed, *names)) == {"cpu": "fat.so"}
    limited = advised(timed, *names, "--limit", "rss-peak<=1.05*today")
    assert use(limited) == {"cpu": "slow.so"}
    assert limited["refused"] == {"fat.so": "beyond rss-peak<=1.05*today"}


def test_an_allocator_that_a_memory_limit_would_kill_is_not_advised_even_if_it_is_todays(planted, program, tmp_path):
    kept = tmp_path / "kept.tape"
    names = ["-a", planted["lean"], "--baseline", planted["fat"], "--objective", "memory"]
    free = advised("--keep", kept, *names, "--", program)
    fat, lean = (one["smallest_limit_bytes"] for one in free["candidates"])
    assert all(one["smallest_limit_bytes"] > one["peak_bytes"] for one in free["candidates"])
    made = advised(kept, *names, "--limit", f"memory={(fat + lean) // 2}")
    assert (made["pick"], list(made["refused"])) == ("lean.so", ["fat.so"])
    assert made["refused"]["fat.so"].startswith("killed at call ")
    none = advised(kept, *names, "--limit", f"memory={lean - (64 << 10)}")
    assert (none["pick"], set(none["refused"])) == ("fat.so", {"fat.so", "lean.so"})


def test_a_memory_limit_needs_samples_of_the_programs_memory(planted, tape):
    names = ["-a", planted["lean"], "--baseline", planted["fat"]]
    done = call_heaptape("advise", tape, *names, "--limit", "memory=64M")
    assert (done.status, done.stdout) == (1, "")
    assert "the recording has no samples of it" in done.stderr


def test_a_program_is_recorded_and_its_output_kept_apart(planted, program, tmp_path):
    kept = tmp_path / "kept.tape"
    made = advised("--keep", kept, "-a", planted["fat"], "--objective", "memory", "--", program)
    assert made["workload"]["program"] == "program"
    assert made["today"] == "glibc"
    assert kept.stat().st_size > 0
    again = advised(kept, "-a", planted["fat"], "--objective", "memory")
    assert counted(again) == counted(made)


def test_live_runs_say_whether_the_advice_holds(planted, program, tape):
    """The program's exit status, 3, counts as success. With a recording of another program, the advice fails."""
    options = ["--baseline", planted["fat"], "-a", planted["lean"], "--objective", "memory", "--live"]
    made = advised(*options, "--", program)
    assert use(made) == {"memory": "lean.so"}
    (live,) = made["live"]
    assert (live["held"], live["verdict"]) == (True, "confirmed")
    assert live["figures"]["change_percent"] < -30
    done = call_heaptape("advise", tape, *options, "--", "/bin/true")
    assert done.status == 1
    said = " ".join(done.stdout.split())  # an OS page more or less of /bin/true's few
    assert "smaller than predicted" in said or "the opposite of the prediction" in said


def test_what_is_predicted_to_be_fast_has_its_memory_measured_live(planted, program, monkeypatch):
    """The program runs, its CPU times are given: whether it is fast is up to the machine."""
    observe = confirm.live.observe

    def given(subject, place, choice, memory, run):
        return observe(subject, place, choice, memory, run) | {"cpu_ns": 9e7 if choice.label == "slow.so" else 1e7}

    monkeypatch.setattr(confirm.live, "observe", given)
    options = ["--baseline", planted["slow"], "-a", planted["fat"], "--objective", "cpu", "--budget", "10m"]
    made = json.loads(succeed(HEAPTAPE_HERE, "advise", "--json", *options, "--", program).stdout)
    (live,) = made["live"]
    assert (live["label"], live["held"]) == ("fat.so", True)
    assert live["figures"]["change_percent"] == pytest.approx(100 * (1 / 9 - 1))
    memory = live["figures"]["memory"]
    assert memory["change_percent"] > 100
    assert memory["change_percent"] == pytest.approx(memory["predicted_percent"], rel=0.05)


def test_the_block_to_paste_has_versions_and_the_command_that_repeats_it(planted, program):
    names = ["-a", planted["lean"], "--baseline", planted["fat"], "--objective", "memory", "--budget", "0"]
    first = call_heaptape("advise", "--format", "md", *names, "--", program)
    assert first.status == 0, first.stderr
    lines = [line for line in first.stdout.splitlines() if line]
    assert len(lines) <= 10
    assert f"- Set: `LD_PRELOAD={planted['lean']} {program}`" in lines
    repeat = lines[-1].rpartition("Repeat: `")[2].rstrip("`")
    assert shlex.split(repeat)[:1] == ["heaptape"]
    again = call_heaptape("advise", "--format", "md", *shlex.split(repeat)[2:])
    assert again.stdout.splitlines()[-1] == lines[-1]
    glibc = call_heaptape("advise", "--format", "md", "-a", planted["fat"], "--budget", "0", "--", program).stdout
    assert re.search(r"- Measured: glibc \d+\.\d+", glibc)


@pytest.mark.parametrize(("budget", "once"), [(["--budget", "0"], True), ([], False)])
def test_a_program_is_run_as_often_as_the_first_line_says(planted, tmp_path, budget, once):
    """It counts its runs in a file, as a program with side effects does."""
    counted_runs = f'echo >>"{tmp_path}/runs"; exec "$0"'
    program = compile_c(tmp_path / "program", PROGRAM)
    names = ["-a", planted["lean"], "--baseline", planted["fat"], "--objective", "memory"]
    done = call_heaptape("advise", *names, "--program", "program", *budget, "--", "sh", "-c", counted_runs, program)
    assert done.status == 0, done.stderr
    runs = (tmp_path / "runs").read_text().count("\n")
    assert (runs == 1) == once
    first = done.stderr.splitlines()[0]
    assert ("sh is run once" in first) == once
    assert ("then again as often as fits into a minute" in first) != once
    assert ("Not done: live runs" in done.stdout) == once


def test_a_pipe_is_read_once_and_that_is_said(planted, tmp_path):
    words = ["-a", planted["lean"], "--baseline", planted["fat"], "--objective", "memory", "--", "program"]
    program = compile_c(tmp_path / "program", PROGRAM)
    command = [HEAPTAPE, "advise", *words[:-1], program]
    done = subprocess.run(list(map(str, command)), input=b"text", capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "Not done: live runs, as its standard input is a pipe" in " ".join(done.stdout.decode().split())


def test_a_recording_that_is_deleted_is_named_by_its_program(planted, tmp_path):
    """Every second object is of the C library's malloc by its address, which nobody sees."""
    by_address = """
    #include <dlfcn.h>
    #include <stdlib.h>
    int main(void) {
      void *(*take)(size_t) = dlsym(dlopen("libc.so.6", RTLD_LAZY), "malloc");
      for (int i = 0; i < 2000; i++) free((i % 2 ? malloc : take)(777));
    }
    """
    program = compile_c(tmp_path / "program", by_address, "-O0", "-fno-builtin")
    done = call_heaptape("advise", "-a", planted["lean"], "--objective", "memory", "--budget", "0", "--", program)
    assert done.status == 0, done.stderr
    assert "program: not a legal history" in done.stderr
    assert ".tape" not in done.stderr


@pytest.mark.long
def test_data_accesses_are_simulated_for_the_finalists_alone(planted, program):
    names = [word for name in ("lean", "fat", "slow") for word in ("-a", planted[name])]
    made = advised(
        *names, "--baseline", planted["slow"], "--objective", "cpu", "--accesses", "--budget", "0", "--", program
    )
    by = {one["label"]: one.get("cpu_from") for one in made["candidates"]}
    assert by["lean.so"] == by["fat.so"] == "accesses"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ([], 2, "a recording F, or a program"),
        (["f.tape", "--", "true"], 2, "not both"),
        (["f.tape", "--live"], 2, "which program?"),
        (["f.tape", "--keep", "x"], 2, "F is a recording"),
        (["f.tape", "--limit", "rss<1"], 2, "unknown figure 'rss'"),
        (["f.tape", "--limit", "memory=64X"], 2, "not a memory limit"),
        (["no-such.tape"], 1, "no-such.tape: no such file"),
        (["f.tape", "--budget", "9"], 2, "F is a recording"),
        (["--budget", "soon", "--", "true"], 2, "not a time"),
        (["--quiet", "--", "no-such-program"], 1, "no-such-program: no such program"),
        (["--quiet", "--", "/bin/true"], 1, "made no calls of malloc"),
        (
            ["--quiet", "--program", "nobody", "--", "sh", "-c", "ls; true"],
            1,
            "no process 'nobody' among those recorded",
        ),
        (["f.tape", "-a", "no-such"], 1, "f.tape: no such file"),
    ],
)
def test_wrong_input_is_reported_in_one_line(words, status, says):
    done = call_heaptape("advise", *words)
    assert (done.status, done.stdout) == (status, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unreadable_recording_is_reported_in_one_line(tmp_path, tape):
    broken = tmp_path / "broken.tape"
    broken.write_bytes(tape.read_bytes()[:100] + bytes(200))
    refused(HEAPTAPE_HERE, "advise", broken, says="broken.tape")
