# SPDX-License-Identifier: MIT
"""Arguments, formats and wrong input: one clear line on stderr, the right status, no half file."""

import json
import random
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from convert.test.models.tape_maker import INFO, MARKS, Block, Column, Tape
from tests.support import CONVERT, REPOSITORY, published, run, succeed

TEXT = "# heaptape-text 1 clock=nanoseconds\n0 0 malloc(24) = 0x1000\n5 1 free(0x1000)\n"


@pytest.fixture
def tape(tmp_path):
    source, path = tmp_path / "t.txt", tmp_path / "t.tape"
    source.write_text(TEXT)
    succeed(CONVERT, "convert", source, path)
    return path


def one_line(result) -> str:
    assert result.stdout == ""
    assert result.stderr.startswith("heaptape-convert: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


WRONG_USAGE = (Path(__file__).parent / "data" / "wrong_usage.txt").read_text().splitlines()


@pytest.mark.parametrize(("command", "message"), list(zip(WRONG_USAGE[::2], WRONG_USAGE[1::2], strict=True)))
def test_wrong_usage_exits_with_2_and_one_line(tmp_path, command, message):
    result = run(CONVERT, *shlex.split(command.removeprefix("$ ")), cwd=tmp_path)
    assert (result.status, one_line(result)) == (2, f"heaptape-convert: {message}\n")
    assert not list(tmp_path.iterdir())


COMMANDS = {
    command["called"].split()[-1]: [option["flags"][-1] for option in command["options"]]
    for command in json.loads(succeed(CONVERT, "--describe-options").stdout)["commands"]
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_the_options_of_the_others(command):
    foreign = {flag for flags in COMMANDS.values() for flag in flags} - set(COMMANDS[command])
    assert foreign
    for flag in foreign:
        # Except where it is the beginning of one of the command's own: getopt_long takes an abbreviation.
        if not any(own.startswith(flag) for own in COMMANDS[command]):
            result = run(CONVERT, command, "a", flag)
            assert result.status == 2
            assert f"unknown option {flag}" in one_line(result)


STRANGE = [
    b"",
    b"x",
    b"HEAPTAPE",
    b"HEAPWORK" + bytes(300),
    b"PK\3\4 no zip",
    b"hello\n",
    random.Random(1).randbytes(99),
]


@pytest.mark.parametrize("command", ["check", "info", "dump", "compile"])
@pytest.mark.parametrize("content", [*STRANGE, random.Random(1).randbytes(99), None, "folder"])
def test_file_of_another_kind_is_one_error(tmp_path, command, content):
    path = tmp_path / "strange"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    there = list(tmp_path.iterdir())
    result = run(CONVERT, command, path)
    assert result.status == 1
    assert str(path) in one_line(result)
    assert list(tmp_path.iterdir()) == there


def test_full_disk_is_an_error_and_leaves_no_file(tape):
    result = run(CONVERT, "compile", tape, "-o", "/dev/full")
    assert result.status == 1
    assert "/dev/full" in result.stderr
    assert "No space left" in run("sh", "-c", f"{CONVERT} dump {tape} > /dev/full").stderr


@pytest.mark.parametrize("command", ["compile {} -o {}", "convert {} {}"])
def test_a_file_that_can_not_be_written_is_named_as_given(tmp_path, command):
    out = tmp_path / "t.tape"
    call = command.format(REPOSITORY / "workloads" / "corpus" / "git.tape", out)
    done = run("sh", "-c", f"trap '' XFSZ; ulimit -f 8; exec {CONVERT} {call}")
    assert done.status == 1
    assert one_line(done).startswith(f"heaptape-convert: {out}: can't write")
    assert not list(tmp_path.iterdir())


def test_failed_conversion_keeps_the_old_output(tmp_path, tape):
    before = tape.read_bytes()
    bad = tmp_path / "bad.txt"
    bad.write_text(TEXT + "nonsense\n")
    assert run(CONVERT, "convert", bad, tape).status == 1
    assert tape.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.txt", "t.tape", "t.txt"]


def test_stream_in_and_stream_out(tape):
    for data in (tape.read_bytes(), TEXT.encode()):
        done = subprocess.run([CONVERT, "dump", "-"], input=data, capture_output=True, check=True)
        assert done.stdout.decode() == TEXT
    done = subprocess.run(
        [CONVERT, "convert", "-", "--to", "csv", "-"], input=TEXT.encode(), capture_output=True, check=True
    )
    assert done.stdout.decode().splitlines()[1:] == ["0,0,0,malloc,24,,,0x1000,0,", "5,5,1,free,,,0x1000,,0,"]


def test_jsonl_is_json_per_line(tape):
    rows = [json.loads(line) for line in succeed(CONVERT, "dump", tape, "--format", "jsonl").stdout.splitlines()]
    assert rows == [
        {"time_ns": 0, "thread": 0, "call": "malloc", "size_bytes": 24, "acquired": "0x1000"},
        {"time_ns": 5, "thread": 1, "call": "free", "released": "0x1000"},
    ]


def test_workload_in_a_pipe_is_checked(tape, tmp_path):
    succeed(CONVERT, "compile", tape)
    done = subprocess.run(
        [CONVERT, "check", "-", "--json"], input=(tmp_path / "t.work").read_bytes(), capture_output=True, check=True
    )
    assert published("check", done.stdout.decode())["ok"]


def test_info_for_people_groups_digits_and_names_doubts(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("# heaptape-text 1 clock=nanoseconds\n0 0 malloc(1234567) = 0x1000\n5 1 free(0x2000)\n")
    text = succeed(CONVERT, "info", path).stdout
    assert re.search(r"^peak live +1\.18 MiB; 1 object at most, 1 at the end$", text, re.MULTILINE)
    assert re.search(r"^history +NOT legal: see heaptape check, 1 free of an object never seen$", text, re.MULTILINE)
    text = succeed(CONVERT, "info", path, "--table", "all").stdout
    assert re.search(r"^peak live +1\.18 MiB \(1,234,567 bytes\)$", text, re.MULTILINE)


def test_info_names_the_quota_that_held_the_program_back(tape):
    parts = Tape.read(tape)
    about = parts.first(INFO).columns[0]
    about.raw = json.dumps(json.loads(about.raw) | {"quota_processors": 0.2}).encode()
    parts.write(tape)
    said = " ".join(succeed(CONVERT, "info", tape).stdout.split())
    assert "Recorded, under a quota of 0.2 processors; source: " in said


def test_trace_is_not_made_of_a_workload(tape, tmp_path):
    succeed(CONVERT, "compile", tape)
    result = run(CONVERT, "convert", tmp_path / "t.work", tmp_path / "new.tape")
    assert result.status == 1
    assert str(tmp_path / "t.work") in one_line(result)
    assert not (tmp_path / "new.tape").exists()


def test_info_has_the_promised_keys(tape):
    info = published("info", succeed(CONVERT, "info", tape, "--json").stdout)
    assert info["calls"] == {"malloc": 1, "free": 1}
    assert (info["events"], info["threads"], info["dropped"], info["truncated"]) == (2, 2, 0, False)
    assert (info["peak_live_bytes"], info["peak_live_objects"]) == (24, 1)
    assert info["file_bytes"] == tape.stat().st_size
    assert info["bytes_per_event"] == pytest.approx(tape.stat().st_size / 2)
    assert "recorded" in info


def test_truncated_trace_is_read_and_reported(tape, tmp_path):
    cut = tmp_path / "cut.tape"
    cut.write_bytes(tape.read_bytes()[:-20])
    witness = published("check", succeed(CONVERT, "check", cut, "--json").stdout)
    assert (witness["truncated"], witness["events"]) == (True, 2)


def test_a_trace_cut_before_its_first_event_is_not_compiled(tape, tmp_path):
    cut, work = tmp_path / "cut.tape", tmp_path / "cut.work"
    cut.write_bytes(tape.read_bytes()[:300])
    assert json.loads(succeed(CONVERT, "info", cut, "--json").stdout)["events"] == 0
    shown = run(CONVERT, "info", cut)
    assert (shown.status, shown.stdout) == (1, "")
    assert one_line(shown).startswith(f"heaptape-convert: {cut}: offset ")
    assert "the file ends before its first call" in shown.stderr
    result = run(CONVERT, "compile", cut)
    assert result.status == 1
    assert (
        one_line(result)
        == f"heaptape-convert: {cut}: is truncated before its first event: there is nothing to replay\n"
    )
    assert not work.exists()
    judged = run(CONVERT, "check", cut)
    assert (judged.status, "nothing to prove" in judged.stdout) == (1, True)


EVIL = "ev\033[31mil\n\x9b2J\u202e\x7f"
SHOWN = r"ev\x1b[31mil\n\x9b2J\xe2\x80\xae\x7f"
QUOTED = r"ev\u001B[31mil\n\u009B2J\u202E\u007f"


def test_names_from_files_move_no_terminals_cursor(tape, tmp_path):
    """Program, note and marks of a tape; lines of a foreign file; paths: all that people are shown."""
    forged = Tape.read(tape)
    forged.first(INFO).columns[0].raw = json.dumps(
        {"clock": {"kind": "ordinal"}, "program": EVIL, "note": EVIL}
    ).encode()
    marks = json.dumps([{"thread": 0, "events": 0, "stamp": 1, "text": EVIL}]).encode()
    forged.before_footer(Block(MARKS, [Column(1, marks)], rows=1))
    forged.write(tmp_path / EVIL)
    (tmp_path / "foreign").write_text(TEXT + EVIL)
    for command, status in (
        (["info", tmp_path / EVIL], 0),
        (["info", "--table", "all", tmp_path / EVIL], 0),
        (["info", "--json", tmp_path / EVIL], 0),
        (["dump", tmp_path / EVIL], 0),
        (["dump", "--format", "jsonl", tmp_path / EVIL], 0),
        (["check", "--json", tmp_path / EVIL], 0),
        (["compile", tmp_path / EVIL, "-o", tmp_path / "no" / EVIL], 1),
        (["compile", tmp_path / EVIL, "-o", tmp_path / f"{EVIL}.work", "--group", "site=1=remove"], 1),
        (["convert", "--slice", f"mark={EVIL}x..", tmp_path / EVIL, tmp_path / "out.tape"], 1),
        (["check", tmp_path / "foreign"], 1),
        (["check", tmp_path / f"{EVIL} is missing"], 1),
    ):
        result = run(CONVERT, *command)
        assert result.status == status, result
        printed = result.stdout + result.stderr
        assert not set(printed) & set("\033\x9b\u202e\x7f"), command
        assert SHOWN in printed or QUOTED in printed or command[0] == "check", printed
        assert r"ev\x1b[31mil" in printed or QUOTED in printed or "--json" in command, printed
        assert result.stderr.count("\n") == (status != 0)
