# SPDX-License-Identifier: MIT
"""The program whose call stacks are known (stacks/host.cc), and what a recording says of them."""

import json
import shutil
from pathlib import Path

import pytest

from tests import support
from tests.support import CONVERT, Result, succeed

SOURCES = Path(__file__).parent
FLAGS = {
    "optimised": ["-O2"],
    "frame-pointers": ["-O2", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"],
    "plain": ["-O0"],
    "vectors": ["-O3", "-mavx2"],
}


def build(folder: Path, flags: str) -> Path:
    if not shutil.which("g++"):
        pytest.skip("no g++ here")
    program = folder / f"host-{flags}"
    if not program.exists():
        command = ["g++", "-g", *FLAGS[flags], "-o", program, SOURCES / "host.cc", "-ldl", "-pthread"]
        succeed(*command)
    return program


def record(
    path: Path, *command: str | Path, options: tuple[str, ...] = ("--stacks",), env: dict[str, str] | None = None
) -> Result:
    done = support.record(path, *command, options=options, env=env)
    assert "stacks could not be taken" not in done.stderr
    return done


def functions(path: Path) -> dict[int, list[str]]:
    """For each request size of a malloc, the names of its stack's functions, innermost first."""
    done = succeed(CONVERT, "dump", "--stacks", "--format", "jsonl", path)
    stacks, out = {}, {}
    for line in map(json.loads, done.stdout.splitlines()):
        if "frames" in line:
            stacks[line["stack"]] = [
                frame.get("function", "?" if "module" in frame else "...") for frame in line["frames"]
            ]
        elif line.get("call") == "malloc":
            out[line["size_bytes"]] = stacks.get(line.get("stack"))
    return out
