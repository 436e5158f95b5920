# SPDX-License-Identifier: GPL-2.0-only
"""Mode count of our Valgrind tool.

Long: the other string instructions.
"""

import json

import pytest

from observe.valgrind.test.tool import NEEDS, PROGRAMS, STRINGS, check_strings, run, valgrind

pytestmark = NEEDS


def test_line_numbers_are_not_read_whatever_form_they_have(tmp_path):
    """With a form of DWARF 5 that Valgrind 3.19 does not know, as in clang's programs."""
    program, forms, path = tmp_path / "program", tmp_path / "forms", tmp_path / "count.json"
    units = [bytes([code, 0x11, 0, 0x03, 0x25, 0, 0]) for code in range(1, 100)]  # without children; the name: strx1
    forms.write_bytes(b"".join(units) + bytes(1))
    run("objcopy", "--update-section", f".debug_abbrev={forms}", PROGRAMS / "simulated_calls", program)
    assert valgrind("heaptape", program, "--mode=count", f"--out-file={path}").stderr == ""
    assert json.loads(path.read_text())["instructions"] > 0


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind != "movsq")) for kind in STRINGS])
def test_a_repeated_string_instruction_counts_once_and_its_bytes_apart(tmp_path, kind):
    check_strings(tmp_path, "count", kind)


def test_a_string_instruction_of_no_bytes_is_an_instruction(tmp_path):
    path = tmp_path / "r.json"
    found = []
    for times in ("0100", "0101"):
        valgrind(
            "heaptape",
            PROGRAMS / "simulated_strings",
            "--mode=count",
            f"--out-file={path}",
            after=("stosb", "0000", times),
        )
        found.append(json.loads(path.read_text()))
    assert found[1]["string_instructions"] - found[0]["string_instructions"] == 1
    assert found[1]["string_bytes"] == found[0]["string_bytes"]
