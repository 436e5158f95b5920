# SPDX-License-Identifier: MIT
"""Wrong input: one clear line on standard error, nothing else, and the right exit status."""

from pathlib import Path

import pytest

from tests.support import CONVERT, HEAPTAPE_HERE, RECORD, import_text, refused, run, workload


@pytest.mark.parametrize("output", ["no-such-folder/t.tape", "."])
def test_unwritable_output_is_refused_before_the_program_runs(tmp_path: Path, output: str) -> None:
    left_behind = tmp_path / "ran"
    refused(RECORD, "-o", tmp_path / output, "--", "touch", left_behind, says=str(tmp_path))
    assert not left_behind.exists()


def test_full_disk_does_not_harm_the_program() -> None:
    """/dev/full takes no byte: the program runs to its end, the recorder reports the error once and what it means."""
    result = run(RECORD, "-o", "/dev/full", "--", workload("cfrac"), "--steps=1000")
    assert result.stdout.startswith("6")
    error, meaning = result.stderr.splitlines()
    assert "/dev/full" in error
    assert "No space left" in error
    assert "nothing was recorded" in meaning


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


@pytest.mark.parametrize("command", ["replay", "compare", "report"])
@pytest.mark.parametrize("kind", ["text", "empty", "directory", "missing", "zeros"])
def test_what_is_not_a_trace_is_refused(tmp_path: Path, command: str, kind: str) -> None:
    path = unusable(tmp_path / "input", kind)
    result = refused(HEAPTAPE_HERE, command, path, says=str(path))
    assert result.stderr.startswith("heaptape")
    assert result.stdout == ""


@pytest.mark.parametrize(
    "command",
    [(CONVERT, "compile", "-o"), (CONVERT, "convert"), (HEAPTAPE_HERE, "profile", "-o"), (RECORD, "-o")],
    ids=["compile", "convert", "profile", "record"],
)
@pytest.mark.parametrize("name", ["r.tape", "hard.tape", "soft.tape"])
def test_what_is_read_is_not_overwritten(command: tuple[Path | str, ...], name: str, tmp_path: Path) -> None:
    read = import_text(tmp_path, "0 0 malloc(24) = 0x1000\n5 0 free(0x1000)\n", "clock=nanoseconds")
    (tmp_path / "r.tape").write_bytes(read.read_bytes())
    (tmp_path / "hard.tape").hardlink_to(tmp_path / "r.tape")
    (tmp_path / "soft.tape").symlink_to("r.tape")
    words = [tmp_path / "r.tape", *command[2:], tmp_path / name]
    if command[0] == RECORD:
        words = ["-o", tmp_path / name, "--", "cat", tmp_path / "r.tape"]
    refused(
        command[0], *([command[1]] if command[0] != RECORD else []), *words, says="so it can't be the output", status=2
    )
    assert (tmp_path / "r.tape").read_bytes() == read.read_bytes()
