# SPDX-License-Identifier: MIT
"""--color, --quiet and NO_COLOR: the same for every command, whether it is Python or C. What a replay must not lose:
results that are there, runs made before a Ctrl-C, and the user's patience.
"""

import json
import os
import pty
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from heaptape.allocators import registry
from heaptape.commands import replaying
from heaptape.commands.main import make_parser, parsers_of_commands
from heaptape.commands.programs import PROGRAMS
from heaptape.common import console
from heaptape.common.home import default_home
from heaptape.common.process import locked
from heaptape.results.schema import Results
from heaptape.run import machine, replay, rounds
from results.planted import keep_measurement
from synthetic_results import make_results, write

from tests.support import CONVERT, HEAPTAPE, HEAPTAPE_HERE, OUT, RECORD, call_heaptape, import_text, run

ESCAPE = "\x1b["
PYTHON = (HEAPTAPE, "ctl", "1", "status")  # imports no pandas
IN_C = (CONVERT, "info", "nosuch.tape")
OBSERVE = (OUT / "libexec" / "heaptape-observe", "--simulatte", "--", "true")
RECORDER = (RECORD, "--lateny", "--", "true")
FAILING = (PYTHON, IN_C, OBSERVE, RECORDER)


def at_terminal(*command: str | Path, **variables: str) -> str:
    """The output of a command on a terminal as its standard error."""
    ours, its = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=its,
        env=environment | {"TERM": "xterm"} | variables,
    )
    os.close(its)
    output = b""
    try:
        while chunk := os.read(ours, 4096):
            output += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return output.decode()


def with_options(command: tuple, *options: str) -> list:
    """Adds options at a place where both a command in Python and a program in C take them."""
    first = 2 if command[0] == HEAPTAPE or command[0] == CONVERT else 1
    return [*command[:first], *options, *command[first:]]


@pytest.mark.parametrize("command", FAILING, ids=lambda command: command[0].name)
def test_errors_are_coloured_at_a_terminal_only_and_as_the_options_say(command):
    assert ESCAPE in at_terminal(*command)
    assert ESCAPE not in at_terminal(*command, NO_COLOR="1")
    assert ESCAPE in at_terminal(*command, NO_COLOR="")
    assert ESCAPE not in at_terminal(*command, TERM="dumb")
    assert ESCAPE not in at_terminal(*with_options(command, "--color", "never"))
    coloured = run(*with_options(command, "--color=always"), env={"NO_COLOR": "1"}).stderr
    assert ESCAPE in coloured
    assert re.sub(r"(\x1b\[[0-9;]+m)([^\x1b]*)\x1b\[0m", r"\2", coloured) == run(*command).stderr


@pytest.mark.parametrize("command", FAILING, ids=lambda command: command[0].name)
def test_a_pipe_gets_no_colour_and_quiet_leaves_errors(command):
    output = run(*command, env={"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}).stderr
    assert output
    assert ESCAPE not in output
    assert run(*with_options(command, "--quiet")).stderr == output


def test_tables_have_colours_where_they_are_wanted(tmp_path):
    few_results = write(tmp_path / "r.json", make_results(allocators=("glibc", "jemalloc")))
    assert ESCAPE not in call_heaptape("compare", few_results).stdout
    assert ESCAPE in call_heaptape("compare", few_results, "--color", "always").stdout
    assert ESCAPE not in call_heaptape("compare", few_results).stdout, "a line's options are its own"


def test_quiet_leaves_out_notes_of_recording_compiling_and_replaying(tmp_path, monkeypatch):
    tape = tmp_path / "a.tape"
    record = (HEAPTAPE, "record", "-o", tape, "--", "ls")
    assert " calls, " in run(*record).stderr
    assert run(HEAPTAPE, "--quiet", *record[1:]) == run(HEAPTAPE, "record", "--quiet", *record[2:])
    assert run(HEAPTAPE, "--quiet", *record[1:]).stderr == ""
    assert "ops" in run(HEAPTAPE, "compile", tape).stderr
    assert run(HEAPTAPE, "compile", "--quiet", tape).stderr == ""
    monkeypatch.chdir(tmp_path)
    replay = ("replay", tape, "-a", "glibc", "--passes", "memory")
    assert call_heaptape(*replay).stderr == "heaptape: results in a.results.json\n"
    assert call_heaptape(*replay, "--quiet").stderr == ""
    assert (tmp_path / "a.results.json").is_file()


def test_quiet_keeps_what_was_lost(tmp_path):
    done = run(RECORD, "--quiet", "-o", tmp_path / "a.tape", "--max-size", "1", "--", "true")
    assert done.stderr.endswith("--max-size was reached: later events are not in the trace\n")


@pytest.mark.parametrize("command", [name for name in parsers_of_commands(make_parser()) if name != "help"])
def test_every_command_has_help_and_takes_both(command):
    done = run(HEAPTAPE if command in PROGRAMS else HEAPTAPE_HERE, command, "--help")
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: heaptape {command}")
    assert "--quiet" in done.stdout
    assert "--color" in done.stdout


@pytest.mark.parametrize(("word", "said"), [("chek", ": did you mean 'check'?"), ("zzzzzz", "'zzzzzz' (")])
def test_convert_suggests_the_near_command(word, said):
    for arguments in ((word,), (word, "a.tape")):
        done = run(CONVERT, *arguments)
        assert done.status == 2
        assert said in done.stderr


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    lines = [f"{i} 1 malloc({24 + i % 80}) = {0x10000 + 1024 * i:#x}" for i in range(2000)]
    return import_text(tmp_path_factory.mktemp("tape"), "\n".join(lines) + "\n", "clock=nanoseconds")


def test_results_are_never_overwritten_unasked(tape, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "history.results.json").write_text("mine")
    words = ["replay", tape, "-a", "glibc", "--passes", "memory"]
    for name in ("history.2.results.json", "history.3.results.json"):
        done = call_heaptape(*words)
        assert (done.status, done.stderr) == (0, f"heaptape: results in {name}\n")
    assert (tmp_path / "history.results.json").read_text() == "mine"
    assert call_heaptape(*words, "-o", "history.results.json").status == 0
    assert json.loads((tmp_path / "history.results.json").read_text())["schema"] == 1


def test_a_ctrl_c_keeps_the_runs_that_were_made(tape, tmp_path):
    home = default_home()
    workload = replay.prepare(str(tape), home, tmp_path)
    choices = registry.choose_all(["glibc", "mimalloc"], registry.load(home))

    def interrupt(run, share):
        if run and share > 0.6:
            raise KeyboardInterrupt

    about = replay.describe_workload(workload, "w")
    data = replay.replay(workload, about, choices, rounds.Settings(4, passes=("time",)), home, interrupt)
    assert data["settings"]["interrupted"] is True
    assert 4 <= len(data["runs"]) < 8
    assert not Results("r.json", data).failures

    def at_once(run, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay.replay(workload, about, choices, rounds.Settings(4, passes=("time",)), home, at_once)


def test_the_command_says_how_to_go_on_after_a_ctrl_c(tape, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = replay.replay

    def interrupted(*arguments):
        data = made(*arguments)
        return data | {"settings": data["settings"] | {"interrupted": True}}

    monkeypatch.setattr(replay, "replay", interrupted)
    done = call_heaptape("replay", tape, "-a", "glibc", "--passes", "memory")
    assert done.status == 130
    assert "stopped: 2 runs are kept; the same command makes the others" in done.stderr
    assert (tmp_path / "history.results.json").is_file()


@pytest.mark.parametrize(
    ("shares", "lines"),
    [
        ((0.3, 0.6), ["30 % done", "60 % done, 27 s left"]),
        ((0.06, 0.3, 0.9), ["6 % done", "30 % done", "90 % done"]),  # 329 s, 96 s, 7 s: not known
        ((0.996, 1.0, None, 1.0), ["99 % done", ""]),  # neither done nor known while it still runs
        # A next part, of which 10 % took 20 s and 50 % 40 s: not the 100 s that the whole took until then.
        ((0.5, 1.0, 0.0, 0.1, 0.5), ["50 % done", "", "0 % done", "10 % done"]),
        ((0.5, 1.0, 0.0, 0.3, 0.6), ["50 % done", "", "0 % done", "30 % done", "60 % done, 27 s left"]),
    ],
)
def test_without_a_terminal_progress_says_what_is_known_once(shares, lines, monkeypatch, capsys):
    clock = iter([0.0, *(1.0 + 20.0 * number for number in range(len(shares) + 1))])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with console.WorkProgress() as shown:
        for share in (0.0, *shares):
            shown.update("replaying", share)
    assert capsys.readouterr().err.splitlines() == [f"heaptape: replaying: {line}".rstrip(": ") for line in lines]


def test_no_time_is_left_of_shares_by_number(monkeypatch, capsys):
    clock = iter([0.0, 1.0, *(21.0 + 20.0 * number for number in range(6))])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with console.WorkProgress() as shown:
        for share in (*map(console.Counted, (0.0, 0.3, 0.6)), 0.2, 0.4, 0.6):
            shown.update("replaying", share)
    said = [line.partition("replaying: ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == ["30 % done", "60 % done", "20 % done", "40 % done", "60 % done, 40 s left"]


def test_no_more_time_is_left_than_until_the_end_that_is_set(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 101.0, 201.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with console.WorkProgress() as shown:
        shown.ends = 230.0
        for share in (0.0, 0.6, 0.7):
            shown.update("replaying", share)
    assert capsys.readouterr().err.splitlines()[-1] == "heaptape: replaying: 70 % done, 29 s left"


def test_durations_are_short():
    assert [console.duration(one) for one in (40, 170, 7500)] == ["40 s", "3 min", "2 h 5 min"]


def test_a_machine_that_another_process_measures_is_not_measured_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "measure_costs", lambda home: pytest.fail("measured again"))
    (tmp_path / "heaptape").mkdir()
    with ThreadPoolExecutor() as pool:
        with locked(tmp_path / "heaptape" / "machine.lock"):
            found = pool.submit(machine.of_this_machine, default_home())
            keep_measurement(tmp_path)
        assert found.result() == machine.known_costs()


def test_a_machine_that_was_not_measured_is_measured_once(monkeypatch):
    measured = []
    monkeypatch.setattr(machine, "known_costs", lambda: None)
    monkeypatch.setattr(machine, "of_this_machine", measured.append)
    with replaying.work() as work:
        replaying.calibrate(["memory", "time"], default_home(), work)
        assert measured == []
        replaying.calibrate(["memory", "instructions"], default_home(), work)
    assert len(measured) == 1
