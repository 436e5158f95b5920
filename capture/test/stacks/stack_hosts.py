# SPDX-License-Identifier: MIT
"""The program whose call stacks are known (stacks/host.cc), and what a recording has of them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import support
from tests.support import CONVERT, Result, made_once, need, succeed

SOURCES = Path(__file__).parent
FLAGS = {
    "optimised": ["-O2"],
    "frame-pointers": ["-O2", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"],
    "plain": ["-O0"],
    "vectors": ["-O3", "-mavx2"],
}


@pytest.fixture
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles the program with some of FLAGS, once for all tests."""
    need("g++")

    def built(flags: str) -> Path:
        command = ("g++", "-g1", *FLAGS[flags], SOURCES / "host.cc", "-ldl", "-pthread", "-o")
        return made_once(tmp_path_factory, f"host-{flags}", lambda path: succeed(*command, path))

    return built


@pytest.fixture
def host(build: Callable[[str], Path]) -> Path:
    return build("optimised")


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
