# SPDX-License-Identifier: MIT
"""Wrong input: one clear line on standard error, nothing else, and the right exit status."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support import (
    CONVERT,
    HEAPTAPE,
    HEAPTAPE_HERE,
    RECORD,
    Result,
    call_heaptape,
    check,
    info,
    record,
    run,
    succeed,
    workload,
)

FAILED, USAGE, NOT_EXECUTABLE, NOT_FOUND = 1, 2, 126, 127
READERS = ("check", "info", "dump", "compile")


def assert_one_clear_line(result: Result, status: int, *words: str) -> None:
    assert result.status == status, result
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("heaptape"), lines[0]
    for word in words:
        assert word in lines[0], lines[0]
    assert result.stdout == ""


@pytest.fixture(scope="module")
def small_tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four threads, a block or more of each: all prefixes of the file are read in one second."""
    directory = tmp_path_factory.mktemp("small")
    lines = ["# heaptape-text 1 clock=nanoseconds"]
    for thread in range(4):
        for number in range(3):
            address = 0x1000 + 0x100 * (3 * thread + number)
            lines.append(f"{100 * thread + number} {thread} malloc({16 + number}) = {address:#x}")
    text = directory / "t.txt"
    text.write_text("\n".join(lines) + "\n")
    succeed(CONVERT, "convert", text, directory / "t.tape")
    return directory / "t.tape"


@pytest.mark.parametrize("program", [RECORD, HEAPTAPE])
def test_missing_program_is_refused_before_a_trace_is_made(tmp_path: Path, program: Path) -> None:
    words = (program,) if program == RECORD else (program, "record")
    tape = tmp_path / "t.tape"
    assert_one_clear_line(run(*words, "-o", tape, "--", "no-such-program"), NOT_FOUND, "no-such-program")
    assert not tape.exists()


def test_program_that_is_not_executable_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program\n")
    assert_one_clear_line(run(RECORD, "-o", tmp_path / "t.tape", "--", text), NOT_EXECUTABLE, str(text))


def test_static_binary_is_refused_before_it_runs(tmp_path: Path) -> None:
    source, program, trace = tmp_path / "s.c", tmp_path / "static", tmp_path / "t.tape"
    source.write_text('#include <stdio.h>\nint main(void) { puts("ran"); return 0; }\n')
    built = run("gcc", "-static", "-o", program, source)
    if built.status != 0:
        pytest.skip("no static C library here")
    assert_one_clear_line(run(RECORD, "-o", trace, "--", program), FAILED, str(program), "static")
    assert not trace.exists()


@pytest.mark.parametrize("output", ["no-such-folder/t.tape", "."])
def test_unwritable_output_is_refused_before_the_program_runs(tmp_path: Path, output: str) -> None:
    left_behind = tmp_path / "ran"
    result = run(RECORD, "-o", tmp_path / output, "--", "touch", left_behind)
    assert_one_clear_line(result, FAILED, str(tmp_path))
    assert not left_behind.exists()


def test_full_disk_does_not_harm_the_program() -> None:
    """/dev/full takes no byte: the program runs to its end, the recorder reports the error once."""
    result = run(RECORD, "-o", "/dev/full", "--", workload("cfrac"), "--steps=1000")
    assert result.stdout.startswith("6")
    assert "/dev/full" in result.stderr
    assert "No space left" in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr


def unusable(path: Path, kind: str) -> Path:
    """Makes something that is not a trace, at that path; "missing": nothing."""
    if kind == "text":
        path.write_text("Once upon a time\nthere was no trace.\n")
    elif kind == "empty":
        path.touch()
    elif kind == "directory":
        path.mkdir()
    elif kind == "zeros":
        path.write_bytes(bytes(4096))
    return path


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", ["text", "empty", "directory", "missing", "zeros"])
def test_what_is_not_a_trace_is_refused(tmp_path: Path, command: str, kind: str) -> None:
    path = unusable(tmp_path / "input", kind)
    assert_one_clear_line(run(CONVERT, command, path), FAILED, str(path))


@pytest.mark.parametrize("command", ["replay", "compare", "report"])
@pytest.mark.parametrize("kind", ["text", "empty", "directory", "missing"])
def test_the_command_refuses_what_it_cannot_use(tmp_path: Path, command: str, kind: str) -> None:
    path = unusable(tmp_path / "input", kind)
    assert_one_clear_line(call_heaptape(command, path), FAILED, str(path))


def test_unknown_allocator_is_refused(small_tape: Path) -> None:
    assert_one_clear_line(
        run(HEAPTAPE_HERE, "replay", "-a", "no-such-allocator", small_tape), USAGE, "no-such-allocator"
    )


def test_unknown_variant_is_refused(small_tape: Path) -> None:
    assert_one_clear_line(
        run(HEAPTAPE_HERE, "replay", "-a", "glibc:no-such-variant", small_tape), USAGE, "no-such-variant"
    )


def test_library_that_is_not_there_is_refused(small_tape: Path) -> None:
    assert_one_clear_line(
        run(HEAPTAPE_HERE, "replay", "-a", "./no-such-library.so", small_tape), FAILED, "no-such-library"
    )


def test_unknown_command_and_option_are_usage_errors(small_tape: Path) -> None:
    assert_one_clear_line(run(HEAPTAPE, "no-such-command"), USAGE, "no-such-command")
    assert_one_clear_line(run(HEAPTAPE_HERE, "replay", "--no-such-option", small_tape), USAGE, "--no-such-option")
    assert run(RECORD, "--no-such-option", "--", "true").status == USAGE
    assert run(RECORD).status == USAGE


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.long)])
def test_trace_cut_at_any_byte_gives_its_whole_blocks_and_is_called_truncated(
    small_tape: Path, tmp_path: Path, step: int
) -> None:
    """Cut before the first block ends, there is nothing to read: an error. After that: whole blocks, never more."""
    whole = small_tape.read_bytes()
    assert len(whole) < 4000
    assert info(small_tape)["events"] == 12
    cut = tmp_path / "cut.tape"
    seen = []
    for size in range(0, len(whole), step):
        cut.write_bytes(whole[:size])
        result = run(CONVERT, "info", "--json", cut)
        if result.status != 0:
            assert not seen, f"{size} bytes: {result.stderr}"
            assert_one_clear_line(result, FAILED, str(cut))
            continue
        about = json.loads(result.stdout)
        assert about["truncated"], size
        assert about["truncated_at"] <= size
        seen.append(about["events"])
    assert seen == sorted(seen)
    assert set(seen) == {0, 3, 6, 9, 12}


def test_truncated_trace_is_called_truncated_by_check_and_compiles(small_tape: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.tape"
    cut.write_bytes(small_tape.read_bytes()[:-20])
    assert check(cut)["truncated"]
    assert "truncated" in succeed(CONVERT, "check", cut).stdout
    succeed(CONVERT, "compile", cut, "-o", tmp_path / "cut.work")
    assert check(tmp_path / "cut.work")["ok"]


def test_recorder_killed_leaves_a_readable_trace(tmp_path: Path) -> None:
    """The file of a recorder that died is truncated, and the program it recorded continues to its end."""
    tape = tmp_path / "t.tape"
    program = (workload("random_mix"), "--rounds=1500000")
    command = [str(word) for word in (RECORD, "-o", tape, "--", *program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE) as recorder:
        while not tape.exists() or tape.stat().st_size < 3_000_000:
            assert recorder.poll() is None
        recorder.kill()
        printed = recorder.stdout.read()
    assert " calls, " in printed
    about = info(tape)
    assert about["truncated"]
    assert about["events"] > 0


def test_good_trace_is_not_an_error(tmp_path: Path) -> None:
    record(tmp_path / "t.tape", workload("cfrac"), "--steps=100")
    for command in READERS:
        output = ("-o", tmp_path / "t.work") if command == "compile" else ()
        assert run(CONVERT, command, tmp_path / "t.tape", *output).status == 0
