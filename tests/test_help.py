# SPDX-License-Identifier: MIT
"""What the programs in C say of their options is what they said: `make golden` writes it anew; read the difference."""

import zlib
from pathlib import Path

import pytest

from tests.support import OUT, run, same_as_before

KEPT = Path(__file__).with_name("help")
COMMANDS = {
    "convert": ["check", "compile", "convert", "dump", "info", "names", "profile", "reduce", "spans"],
    "record": [""],
    "replay": [""],
    "observe": [""],
}


@pytest.mark.parametrize("program", COMMANDS)
def test_help_is_what_it_was(program: str) -> None:
    lines = ["--help", *(f"{command} --help-all".strip() for command in COMMANDS[program]), "--describe-options"]
    said = []
    for line in [*lines, *(["convert --list"] if program == "convert" else [])]:
        done = run(OUT / "libexec" / f"heaptape-{program}", *line.split(), env={"COLUMNS": "120"})
        described = f"checksum {zlib.crc32(done.stdout.encode()):08x}\n" if line == lines[-1] else done.stdout
        said.append(f"$ {line}: {done.status}\n{described}{done.stderr}")
    same_as_before(KEPT / f"{program}.txt", "".join(said))
