# SPDX-License-Identifier: MIT
"""--color, --quiet and NO_COLOR: the same for every command, whether it is Python or C."""

import os
import pty
import subprocess
from pathlib import Path

import pytest
from heaptape.commands.main import make_parser, parsers_of_commands
from heaptape.commands.programs import PROGRAMS
from synthetic_results import make_results, write

from tests.support import CONVERT, HEAPTAPE, HEAPTAPE_HERE, OUT, RECORD, call_heaptape, run

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
    assert ESCAPE in run(*with_options(command, "--color=always"), env={"NO_COLOR": "1"}).stderr


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
    assert "events" in run(*record).stderr
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


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        ("fleet replai x", "'replay'"),
        ("allocators instal mimalloc", "'install'"),
        ("workloads captre larson", "'capture'"),
        ("ctl 1 statsu", "'status'"),
        ("compare r.json --format jsn", "'json'"),
        ("--color nevr compare r.json", "'never'"),
    ],
)
def test_words_of_commands_and_values_suggest_the_near_one(arguments, near):
    done = call_heaptape(*arguments.split())
    assert (done.status, done.stdout) == (2, "")
    assert f"did you mean {near}?" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("word", "said"), [("chek", ": did you mean 'check'?"), ("zzzzzz", "'zzzzzz' (")])
def test_convert_suggests_the_near_command(word, said):
    for arguments in ((word,), (word, "a.tape")):
        done = run(CONVERT, *arguments)
        assert done.status == 2
        assert said in done.stderr
