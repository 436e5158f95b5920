# SPDX-License-Identifier: GPL-2.0-only
"""Runs our Valgrind tool, and what it is compared with, for the tests of its modes."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

OUT = Path(os.environ.get("HEAPTAPE_OUT", Path(__file__).resolve().parents[3] / "out"))
LIBRARY = OUT / "libexec/valgrind"
TOOL = LIBRARY / "heaptape-amd64-linux"
PROGRAMS = OUT / "test-programs"

NEEDS = [
    pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed"),
    pytest.mark.skipif(not TOOL.exists(), reason="the Valgrind tool was not built: no headers of Valgrind's"),
]
NO_SKIP = 77


def run(*command: object, cwd: Path | None = None, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100, cwd=cwd)
    if done.returncode == NO_SKIP:
        pytest.skip("no AVX2 here")
    assert done.returncode == status, done.stderr
    return done


def valgrind(
    tool: str, program: Path | str, *options: str, after: tuple[str, ...] = (), status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Runs each tool from the same folder, so that the client's environment, and so its stack, are the same."""
    environment = {**os.environ, "VALGRIND_LIB": str(LIBRARY)}
    environment.pop("PYTEST_CURRENT_TEST", None)
    command = ["valgrind", "--quiet", f"--tool={tool}", *options, str(program), *after]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    if done.returncode == NO_SKIP:
        pytest.skip("no AVX2 here")
    assert done.returncode == status, done.stderr
    return done


STRINGS = ("stosb", "movsb", "movsq", "stosl", "cmpsb")


def check_strings(tmp_path: Path, mode: str, kind: str) -> None:
    """Executed so often, over so many bytes. Its superblocks are unrolled; cmpsb ends in the middle of its range."""

    def counted(bytes_: int, times: int) -> dict[str, int]:
        path, words = tmp_path / "r.json", (kind, f"{bytes_:04}", f"{times:04}")
        valgrind("heaptape", PROGRAMS / "simulated_strings", f"--mode={mode}", f"--out-file={path}", after=words)
        found: dict[str, int] = json.loads(path.read_text())
        return found

    base, longer, more = counted(8, 100), counted(4000, 100), counted(4000, 101)
    assert longer["instructions"] == base["instructions"]
    assert longer["string_instructions"] == base["string_instructions"] >= 100
    assert longer["string_bytes"] - base["string_bytes"] == 100 * (4000 - 8)
    assert more["string_instructions"] - longer["string_instructions"] == 1
    assert more["string_bytes"] - longer["string_bytes"] == 4000
    assert 0 < more["instructions"] - longer["instructions"] < 200  # of the loop around it
