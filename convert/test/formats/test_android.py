# SPDX-License-Identifier: MIT
"""The Android importer: the real recording's counts, and what each line becomes."""

import collections
import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.support import CONVERT, REPOSITORY, run, succeed

# memory_replay/traces/systemui.zip of the Android Open Source Project's platform/system/extras.
CORPUS = REPOSITORY / "workloads" / "corpus" / "android-systemui.zip"
RECORDING = Path(os.environ.get("HEAPTAPE_ANDROID_RECORDING", CORPUS))

SAMPLE = """\
7: malloc 0x1000 24
9: calloc 0x2000 3 8
7: realloc 0x3000 0x2000 100
7: realloc 0x4000 0x0 5
7: memalign 0x5000 64 100
9: free 0x0
9: malloc 0x0 1099511627776
9: realloc 0x0 0x3000 1099511627776
7: realloc 0x0 0x3000 0
9: thread_done 0x0
9: free 0x1000
"""
DUMPED = """\
# heaptape-text 1 clock=ordinal start=unseen
1 0 malloc(24) = 0x1000
2 1 calloc(3, 8) = 0x2000
3 0 realloc(0x2000, 100) = 0x3000
4 0 realloc(NULL, 5) = 0x4000
5 0 memalign(64, 100) = 0x5000
6 1 free(NULL)
7 1 malloc(1099511627776) = NULL
8 1 realloc(0x3000, 1099511627776) = NULL
9 0 realloc(0x3000, 0) = NULL
11 2 free(0x1000)
"""


def reference(path: Path) -> tuple[dict[str, int], int, int]:
    """Events per call, peak live bytes and peak live objects, straight from the text."""
    calls: collections.Counter[str] = collections.Counter()
    live: dict[int, int] = {}
    now = peak = peak_objects = 0
    archive = zipfile.ZipFile(path)
    for line in archive.read(archive.namelist()[0]).decode().splitlines():
        _, call, *words = line.split()
        if call == "thread_done":
            continue
        calls[call] += 1
        pointer = int(words[0], 16)
        old = {"free": pointer, "realloc": int(words[1], 16) if call == "realloc" else 0}.get(call, 0)
        now -= live.pop(old, 0)
        if call != "free" and pointer:
            live[pointer] = int(words[-1]) * (int(words[1]) if call == "calloc" else 1)
            now += live[pointer]
        peak, peak_objects = max(peak, now), max(peak_objects, len(live))
    return dict(calls), peak, peak_objects


@pytest.mark.long
@pytest.mark.skipif(
    not RECORDING.exists(), reason="set HEAPTAPE_ANDROID_RECORDING to systemui.zip of the Android project"
)
def test_real_recording_has_the_counts_of_a_separate_script(tmp_path):
    tape, work = tmp_path / "ui.tape", tmp_path / "ui.work"
    succeed(CONVERT, "convert", RECORDING, tape)
    calls, peak, peak_objects = reference(RECORDING)
    for path in (tape, work):
        if path == work:
            succeed(CONVERT, "compile", tape, "-o", work)
        info = json.loads(succeed(CONVERT, "info", path, "--json").stdout)
        assert info["calls"] == calls
        assert info["events"] == sum(calls.values())
        assert (info["peak_live_bytes"], info["peak_live_objects"]) == (peak, peak_objects)
        assert json.loads(succeed(CONVERT, "check", path, "--json").stdout)["ok"]


def test_each_line_becomes_its_event(tmp_path):
    source, tape = tmp_path / "sample.txt", tmp_path / "sample.tape"
    source.write_text(SAMPLE)
    succeed(CONVERT, "convert", source, tape)
    assert succeed(CONVERT, "dump", tape).stdout == DUMPED


def test_zip_is_read_like_its_file(tmp_path):
    archive, tape = tmp_path / "sample.zip", tmp_path / "sample.tape"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("sample.txt", SAMPLE)
    succeed(CONVERT, "convert", archive, tape)
    assert succeed(CONVERT, "dump", tape).stdout == DUMPED


def test_times_are_those_of_start_and_end(tmp_path):
    source = tmp_path / "timed.txt"
    source.write_text("7: malloc 0x1000 24 100 130\n7: realloc 0x2000 0x1000 5 200 250\n8: free 0x2000 260 270\n")
    dumped = succeed(CONVERT, "dump", source).stdout.splitlines()[1:]
    assert dumped == ["130 0 malloc(24) = 0x1000", "200+50 0 realloc(0x1000, 5) = 0x2000", "260 1 free(0x2000)"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("7: malloc 0x1000", "not a line"),
        ("7: malloc 1000 24", "not a line"),
        ("7: malloc 0x1000 24 ", "not a line"),
        ("7: malloc 0x1000 18446744073709551616", "not a line"),
        ("7: malloc 0x10000000000000000 1", "not a line"),
        ("7: strdup 0x1000 24", "not a line"),
        ("7: malloc 0x1000 24 9 8", "not a line"),
        ("7: malloc 0x1000 24 8 9", "times"),
        ("", "not a line"),
        ("x" * 70000, "longer than"),
        ("7: free 0x0\0", "NUL"),
    ],
)
def test_bad_line_is_one_error_with_its_number(tmp_path, line, what):
    source, tape = tmp_path / "bad.txt", tmp_path / "bad.tape"
    source.write_text(f"7: malloc 0x1000 24\n{line}\n")
    result = run(CONVERT, "convert", "--from", "android", source, tape)
    assert result.status == 1
    assert result.stderr.startswith(f"heaptape-convert: {source}:2: ")
    assert what in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [source]


def test_zip_of_two_files_is_refused(tmp_path):
    archive = tmp_path / "two.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("a.txt", SAMPLE)
        out.writestr("b.txt", SAMPLE)
    result = run(CONVERT, "check", archive)
    assert (result.status, result.stderr) == (1, f"heaptape-convert: {archive}: the zip holds 2 files, not one\n")
