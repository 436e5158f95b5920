# SPDX-License-Identifier: MIT
"""The command line: wrong input gives one exact line and the right status; right input gives the documented output.
Long: more commands whose output can't be written, which import pandas.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from heaptape.commands import replaying
from heaptape.commands.main import COMMANDS
from heaptape.commands.programs import PROGRAMS
from heaptape.common.engine import PASSES
from heaptape.common.home import Home
from synthetic_results import make_results, write

from tests.support import (
    ALLOCATORS,
    HEAPTAPE_HERE,
    OUT,
    call_heaptape,
    compile_c,
    info,
    published,
    succeed,
    take_interrupts,
)

# A command, then its exit status and its line.
LINES = (Path(__file__).parent / "wrong_usage.txt").read_text().splitlines()
# Those of commands that are there (tools/without).
WRONG = [
    (line, answer)
    for line, answer in zip(LINES[::2], LINES[1::2], strict=True)
    if line.split()[2] in {*PROGRAMS, *COMMANDS} or "unknown command" in answer or line.split()[2].startswith("-")
]


@pytest.fixture
def few_results(tmp_path):
    """Results with one figure: their report takes one second, not four."""
    runs = [{"allocator": "glibc", "cycles_total": 1000}, {"allocator": "jemalloc", "cycles_total": 900}]
    return write(tmp_path / "few.json", {"schema": 1, "runs": runs})


@pytest.fixture(scope="module")
def good_results(tmp_path_factory):
    return write(tmp_path_factory.mktemp("good") / "r.json", make_results())


# One for each exit status: all other commands are called in the test's own process.
IN_A_PROCESS = ("repaly x", "allocators --variants x")


@pytest.mark.parametrize(("arguments", "answer"), WRONG)
def test_wrong_input_gives_one_line(arguments, answer, heaptape, tmp_path, good_results):
    places = {"folder": tmp_path, "text": tmp_path / "t.txt", "results": good_results, "empty": tmp_path / "empty.json"}
    places |= {"commands": ", ".join((*PROGRAMS, *COMMANDS)), "allocators": ALLOCATORS, "passes": ", ".join(PASSES)}
    places["text"].write_text("hello\n")
    places["empty"].write_text('{"schema": 1, "runs": [{"allocator": "a"}]}')
    words = arguments.removeprefix("$ heaptape ")
    status, line = answer.format(**places).split(" ", 1)
    if words in IN_A_PROCESS:
        done = heaptape(*words.split())
        assert (done.returncode, done.stdout, done.stderr) == (int(status), "", line + "\n")
    else:
        called = call_heaptape(*words.format(**places).split())
        assert (called.status, called.stdout, called.stderr) == (int(status), "", line + "\n")


def test_the_launcher_starts_a_c_program_directly():
    """Some conversions and parts of observe are Python."""
    launcher = (Path(__file__).resolve().parents[3] / "analysis" / "launcher.in").read_text()
    cases = re.findall(r"^  ([a-z |]+)\) program=(\w+) ;;$", launcher, re.MULTILINE)
    started = {command: program for commands, program in cases for command in commands.split(" | ")}
    assert started == {
        name: program for name, (program, _, _) in PROGRAMS.items() if name not in ("convert", "observe")
    }


@pytest.mark.parametrize("command", PROGRAMS)
def test_a_c_program_describes_itself_in_the_words_of_the_list(command, heaptape):
    tables = json.loads(heaptape(command, "--describe-options").stdout)["commands"]
    (table,) = (table for table in tables if table["called"] == f"heaptape {command}")
    assert table["summary"] == PROGRAMS[command][2]


@pytest.mark.parametrize("command", ["record", "replay", "observe"])
def test_help_of_a_command_equals_its_help_option(command, heaptape):
    assert heaptape("help", command).stdout == heaptape(command, "--help").stdout != ""


def test_the_command_alone_shows_all_commands(heaptape):
    done = heaptape()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == heaptape("help").stdout == heaptape("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        ("record --stack x", ""),  # a unique beginning stands for the option
        ("record --lateny -- true", "--latency"),
        ("record --duration=1 --samplems=3 -- true", "--sample-ms"),
        ("info --jsn x", "--json"),
        ("convert --archve a b", "--archive"),
    ],
)
def test_programs_in_c_suggest_the_near_option(arguments, near, heaptape, tmp_path):
    done = heaptape(*arguments.split(), cwd=tmp_path)
    assert f"did you mean {near}?" in done.stderr if near else "did you mean" not in done.stderr
    assert (done.returncode == 2) == bool(near), done.stderr


def test_a_reader_that_goes_away_is_not_an_error(heaptape):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        done = heaptape("help", "all", stdout=gone)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


def test_a_recorded_program_inherits_no_ignored_signal(out, tmp_path):
    """Python ignores SIGPIPE; a program recorded through the command must not."""
    command = [out / "bin/heaptape", "record", "-o", tmp_path / "a.tape", "--", "grep", "SigIgn", "/proc/self/status"]
    plain = subprocess.run(command[5:], capture_output=True, text=True).stdout
    assert subprocess.run(command, capture_output=True, text=True).stdout == plain


def wait_for_files(folder, process):
    """Waits until the command has begun to work, and has files in its scratch folder. Python's own test file for write
    access does not count: a signal during that test would leave the file there.
    """
    until = time.monotonic() + 120
    while not any(folder.glob("heaptape*")):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_and_termination_are_quiet_and_leave_no_files(number, status, out, small_tape, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [out / "bin" / "heaptape", "replay", small_tape, "-n", "1000", "-o", tmp_path / "x.json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
        preexec_fn=take_interrupts,
    )
    wait_for_files(scratch, process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout, stderr) == (status, "", "")
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "x.json").exists()


IN_A_CALLBACK = """
import signal, time, weakref
from heaptape.commands.main import set_signals
class Thing: pass
set_signals()
thing = Thing()
reference = weakref.ref(thing, lambda _: signal.raise_signal({number}))
del thing
time.sleep(60)
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_a_signal_within_a_callback_whose_exceptions_python_ignores_is_not_lost(number, status):
    code = IN_A_CALLBACK.format(number=int(number))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=take_interrupts)
    assert done.returncode == status
    assert "ignored" not in done.stderr


OF_PANDAS = [pytest.param(one, marks=pytest.mark.long) for one in ("compare {results}", "report {results} -o -")]
WRITTEN = [*OF_PANDAS, "machine", "observe -o - -- true", "--help", "help replay"]


@pytest.mark.parametrize("arguments", WRITTEN)
def test_full_disk_is_one_line(arguments, heaptape, few_results):
    with Path("/dev/full").open("w") as full:
        done = heaptape(*arguments.format(results=few_results).split(), stdout=full)
    assert done.returncode == 1
    assert done.stderr == "heaptape: standard output: can't be written: No space left on device\n"


CLOSED = [*OF_PANDAS, *(pytest.param(one, marks=pytest.mark.long) for one in WRITTEN[2:4]), *WRITTEN[4:]]


@pytest.mark.parametrize("arguments", CLOSED)
def test_closed_standard_output_is_one_line(arguments, heaptape, few_results):
    done = heaptape(*arguments.format(results=few_results).split(), stdout=None, preexec_fn=lambda: os.close(1))
    assert done.returncode == 1
    assert done.stderr == "heaptape: standard output: can't be written: Bad file descriptor\n"


def test_closed_standard_error_changes_nothing_but_diagnostics(heaptape, few_results):
    for arguments in (("help", "all"), ("compare", few_results)):
        closed = heaptape(*arguments, stderr=None, preexec_fn=lambda: os.close(2))
        assert (closed.returncode, closed.stdout) == (0, heaptape(*arguments).stdout)


def test_closed_standard_input_is_empty(heaptape):
    done = heaptape("compare", "-", stdin=None, preexec_fn=lambda: os.close(0))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.long
def test_an_archive_is_refused(tmp_path):
    archive = shutil.make_archive(str(tmp_path / "a"), "zip", Path(__file__).parents[2], "heaptape")
    done = subprocess.run(
        [sys.executable, "-m", "heaptape", "compare"], env={"PYTHONPATH": archive}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"heaptape: {archive} is an archive, ")


def test_a_name_with_control_characters_is_shown_without_them(few_results, tmp_path):
    odd = tmp_path / os.fsdecode(b"a b\nc\xff\x1b[31m.json")
    data = json.loads(few_results.read_text())
    data.get("workload", {}).pop("name", None)
    odd.write_text(json.dumps(data))
    assert "a b\\nc\\udcff\\x1b[31m" in call_heaptape("report", odd, "-o", "-").stdout
    assert (
        "a b\\nc\\udcff\\x1b[31m"
        in call_heaptape("compare", odd, few_results, "--format", "csv", "--table", "cycles").stdout
    )


def test_output_that_cannot_be_written_is_named(few_results):
    done = call_heaptape("report", few_results, "-o", "/dev/full")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == "heaptape: /dev/full: can't be written: No space left on device\n"


def test_dash_is_standard_input_and_output(few_results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with few_results.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        output = call_heaptape("compare", "-").stdout
    named = call_heaptape("compare", few_results).stdout.splitlines()
    assert output.splitlines()[1:] == named[1 : len(output.splitlines())] != []
    assert call_heaptape("report", few_results, "-o", "-").stdout.startswith("<!doctype html>")
    assert not (tmp_path / "-").exists()


def test_results_have_the_keys_of_the_schema(small_results):
    data = json.loads(small_results.read_text())
    assert data["schema"] == 1
    assert {
        "cpu",
        "cores",
        "kernel",
        "memory_bytes",
        "os",
        "libc",
        "transparent_huge_pages",
        "governor",
        "cycles_hz",
        "load_before",
    } <= set(data["machine"])
    assert {"name", "sha256", "ops", "threads", "ideal_rss_bytes"} <= set(data["workload"])
    assert data["workload"]["threads"] == 2
    assert [(a["name"], a["variant"]) for a in data["allocators"]] == [("glibc", "default"), ("glibc", "no-tcache")]
    assert data["allocators"][1]["environment"] == {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    kinds = sorted((run["variant"], run["pass"], run["repeat"]) for run in data["runs"])
    passes = [p for p in ("instructions", "time", "memory", "bare") if p not in data["settings"].get("left_out", {})]
    assert kinds == sorted((v, p, r) for v in ("default", "no-tcache") for p in passes for r in (0, 1))
    assert not any("error" in run for run in data["runs"])
    assert data["settings"]["repeats"] == dict.fromkeys(passes, 2)
    order = {"instructions": "recorded", "time": "window", "memory": "recorded", "bare": "window"}
    assert data["settings"]["order"] == {name: order[name] for name in passes}
    calls = next(run for run in data["runs"] if run["pass"] == "time")["calls"]
    assert {name: calls[name]["count"] for name in ("malloc", "free")} == data["workload"]["calls"]


def test_an_allocator_that_dies_is_reported_and_other_runs_continue(small_tape, tmp_path):
    library, output = tmp_path / "libdies.so", tmp_path / "r.json"
    source = "#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { abort(); }\n"
    compile_c(library, source, "-shared", "-fPIC")
    chosen = ("-a", library, "-a", "glibc", "-n", "1", "--passes", "bare")
    done = call_heaptape("replay", small_tape, *chosen, "-o", output)
    assert done.status == 1
    assert "libdies.so, bare pass, repetition 1: " in done.stderr
    assert done.stderr.endswith("heaptape: 1 of 2 runs failed\n")
    runs = {run["allocator"]: run for run in json.loads(output.read_text())["runs"]}
    assert "error" in runs["libdies.so"]
    assert runs["glibc"]["wall_ns"] > 0
    reported = call_heaptape("report", output, "-o", tmp_path / "r.html")
    assert "libdies.so" in reported.stderr + (tmp_path / "r.html").read_text()


def test_results_of_files_and_a_command_are_theirs_and_those_of_its_recording(small_results, monkeypatch):
    """Replays are left out: what would be replayed, and under which name."""
    replayed = []

    def note(path, shown, home, more):
        replayed.append((info(Path(path))["info"]["program"], Path(shown).name, more))
        return "replayed"

    monkeypatch.setattr(replaying, "_replayed", note)
    first, last = replaying.results_of([str(small_results)], ["/bin/ls", "/"], Home(OUT), ["blame"])
    assert (first.path, last) == (str(small_results), "replayed")
    assert replayed == [("ls", "ls", ["blame"])]


def test_a_recording_without_calls_is_refused_and_one_with_a_single_call_is_reported(tmp_path):
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("# heaptape-text 1 clock=nanoseconds\n")
    done = call_heaptape("replay", nothing, "-a", "glibc")
    assert (done.status, done.stdout) == (1, "")
    said = f"heaptape: {nothing}: holds no calls of malloc, so there is nothing to replay"
    assert done.stderr == f"{said}\n"
    text, results = tmp_path / "empty.txt", tmp_path / "empty.json"
    text.write_text("# heaptape-text 1 clock=nanoseconds\n0 0 free(NULL)\n")
    done = call_heaptape("replay", text, "-a", "glibc", "-n", "1", "-o", results)
    assert done.status == 0
    assert all("% done" in line for line in done.stderr.splitlines())  # its progress, on a busy machine
    reported = call_heaptape("report", results, "-o", tmp_path / "empty.html")
    assert (reported.status, reported.stderr) == (0, "")


def test_compare_json_is_json_and_csv_has_its_rows(small_results):
    rows = published("compare", succeed(HEAPTAPE_HERE, "compare", small_results, "--format", "json").stdout)["rows"]
    lines = call_heaptape("compare", small_results, "--format", "csv").stdout.splitlines()
    assert len(lines) == len(rows) + 1
    assert {"workload", "allocator", "metric", "value", "percent", "low", "high", "supported"} <= set(rows[0])
