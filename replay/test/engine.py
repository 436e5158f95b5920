# SPDX-License-Identifier: MIT
"""Runs the engine on generated workloads, for the tests of this folder."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

OUT = Path(os.environ.get("HEAPTAPE_OUT", Path(__file__).resolve().parents[2] / "out"))
ENGINE = OUT / "libexec/heaptape-replay"
PLANTED = OUT / "test-programs/libplanted.so"
TOOL = OUT / "libexec/valgrind/heaptape-amd64-linux"
# In place of Valgrind's launcher (install): runs the engine without Valgrind, and writes a given result.
COUNTED = """#!/bin/sh
for word; do
  case $word in --out-file=*) output=${{word#*=}} ;; --*) ;; *) break ;; esac
  shift
done
"$@" && printf '%s' '{result}' >"$output"
"""


def make(path: Path, **shape: int) -> dict:
    """Writes a workload of that shape (generate.h). Returns what it consists of."""
    command = [OUT / "test-programs/make_workload", path, *(f"{name}={value}" for name, value in shape.items())]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def engine(
    *arguments: object,
    program: Path = ENGINE,
    timeout: float = 240,
    environment: dict[str, str] | None = None,
    **plants: object,
) -> subprocess.CompletedProcess[str]:
    """Runs it; plants: settings of planted_allocator.c."""
    settings = [f"--env=PLANT_{name}={value}" for name, value in plants.items()]
    command = [str(a) for a in (program, *settings, *arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)


def replay(*arguments: object, **plants: Any) -> dict:  # noqa: ANN401
    """Returns the result of a run that must succeed."""
    result = engine(*arguments, **plants)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def memory_pass(path: Path, *arguments: object, preload: Path | str | None = PLANTED, **plants: object) -> dict:
    """The same for the memory pass; preload None: the C library's allocator."""
    preloads = ["--preload", preload] if preload else []
    return replay("--pass", "memory", *preloads, *arguments, path, **plants)


def stamp(path: Path) -> str:
    """What says that this state of the file was proved legal."""
    about = path.stat()
    times = (f"{ns // 10**9}.{ns % 10**9:09}" for ns in (about.st_mtime_ns, about.st_ctime_ns))
    return ":".join([str(about.st_dev), str(about.st_ino), str(about.st_size), *times])


def install(folder: Path, tool: str | None = None) -> Path:
    """A copy of the engine. tool: a program in place of our Valgrind tool beside it; None: without one."""
    shutil.copy(ENGINE, folder / "heaptape-replay")
    if tool is not None:
        shutil.copytree(TOOL.parent, folder / "valgrind", symlinks=True)
        (folder / "valgrind" / TOOL.name).write_text(tool)
    return folder / "heaptape-replay"
