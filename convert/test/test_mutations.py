# SPDX-License-Identifier: MIT
"""No damaged trace, workload or recording crashes a reader: bytes changed and ends cut off at random, seeds fixed.

Long: one or two processes per mutant. Known damage is in test_hostile.py and the importers' tests.
"""

import random

import pytest

from convert.test.importer_samples import FORMAT_OF, sample
from convert.test.models.history_maker import legal
from convert.test.models.history_model import text
from tests.support import CONVERT, compile_trace, import_text, run

pytestmark = pytest.mark.long

MUTANTS = 150
RECORDING_MUTANTS = 40


def small_files(folder):
    tape = import_text(folder, text(legal(7, 3, 60, 6), 3))
    return tape, compile_trace(tape)


def assert_no_crash(path, commands):
    for command in commands:
        result = run(CONVERT, command, path, *(["-o", "/dev/null"] if command == "compile" else []))
        assert result.status in (0, 1), (command, result.status, result.stderr)
        if result.status == 1 and command != "check":
            assert result.stderr.count("\n") == 1, (command, result.stderr)


@pytest.mark.parametrize("kind", ["tape", "work"])
def test_damaged_file_never_crashes(tmp_path, kind):
    source = random.Random(11)
    original = bytearray(small_files(tmp_path)[kind == "work"].read_bytes())
    mutant = tmp_path / f"mutant.{kind}"
    for number in range(MUTANTS):
        data = bytearray(original)
        if number % 3 == 0:
            data = data[: source.randrange(len(data))]
        for _ in range(source.choice([1, 1, 4])):
            if data:
                data[source.randrange(len(data))] = source.randrange(256)
        mutant.write_bytes(data)
        assert_no_crash(mutant, ["check", "info", "dump"] if kind == "work" else ["check", "compile", "dump"])


def test_workload_whose_words_are_damaged_is_refused_or_legal(tmp_path):
    """Words have no checksum: check must find what is wrong by their meaning."""
    _, work = small_files(tmp_path)
    original = work.read_bytes()
    refused = 0
    source = random.Random(5)
    for _ in range(MUTANTS):
        data = bytearray(original)
        at = source.randrange(256, 256 + 512)
        data[at] ^= 1 << source.randrange(8)
        work.write_bytes(data)
        result = run(CONVERT, "check", work)
        assert result.status in (0, 1)
        refused += result.status
    assert refused > MUTANTS / 10


@pytest.mark.parametrize("name", sorted(FORMAT_OF))
def test_damaged_recording_is_imported_or_one_error_with_its_place(tmp_path, name):
    source = random.Random(name)
    original = sample(name, tmp_path).read_bytes()
    mutant, tape = tmp_path / "mutant", tmp_path / "mutant.tape"
    for number in range(RECORDING_MUTANTS):
        data = bytearray(original)
        if number % 4 == 0:
            data = data[: source.randrange(len(data))]
        for _ in range(source.choice([1, 1, 3])):
            if data:
                data[source.randrange(len(data))] = source.choice([0, 0x20, 0x30, 0x7F, 0xFF, source.randrange(256)])
        mutant.write_bytes(data)
        result = run(CONVERT, "convert", "--from", FORMAT_OF[name], mutant, tape)
        if result.status == 0:
            assert run(CONVERT, "check", tape).status in (0, 1)
            continue
        assert result.status == 1, (number, result)
        assert result.stderr.count("\n") == 1, result.stderr
        assert result.stderr.startswith(f"heaptape-convert: {mutant}:"), result.stderr
