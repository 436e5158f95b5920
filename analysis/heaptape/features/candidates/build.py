# SPDX-License-Identifier: MIT
"""Builds a library from sources by a shell script, and checks the result: its functions, and the rules of malloc (the
pass `verify` on a few workloads, one of them with alignments).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from heaptape.allocators.installed import Checked
from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import SHARED, Home
from heaptape.common.process import processors, scratch_folder
from heaptape.features.workloads import known as workloads
from heaptape.run import exact, replay

COMPILERS = {"cc": ("CC", "cc"), "c++": ("CXX", "c++")}
PACKAGES = {
    "cc": "gcc",
    "c++": "g++",
    "make": "make",
    "cmake": "cmake",
    "readelf": "binutils",
    "ar": "binutils",
    "dpkg-deb": "dpkg",
}
LICENCE = re.compile("LICEN[CS]E|COPYING|COPYRIGHT|NOTICE")
NEEDED = ("malloc", "free")
# One of each row suffices, as replays call it for the others.
WANTED = (("calloc",), ("realloc",), ("memalign", "posix_memalign", "aligned_alloc"))


def missing(tools: Sequence[str]) -> str:
    """The missing tools and how to install them, in a line; empty if none is missing."""
    absent = [tool for tool in tools if not shutil.which(_command(tool))]
    if not absent:
        return ""
    packages = " ".join(dict.fromkeys(PACKAGES.get(tool, tool) for tool in absent))
    return f"needs {', '.join(map(_command, absent))}: apt-get install {packages}"


def _command(tool: str) -> str:
    """The tool's command: a compiler may be set in the environment, followed by options."""
    variable, usual = COMPILERS.get(tool, ("", tool))
    return (os.environ.get(variable, "").split() or [usual])[0]


def compilers(tools: Sequence[str]) -> tuple[str, ...]:
    """First line of each compiler's --version."""
    lines = []
    for tool in tools:
        if tool in COMPILERS:
            done = subprocess.run([_command(tool), "--version"], capture_output=True, errors="replace")
            lines += done.stdout.splitlines()[:1]
    return tuple(lines)


def surroundings(version: str, flags: str, folder: Path) -> dict[str, str]:
    """The environment of a build script that runs in the folder. Its result must depend neither on the day nor on the
    folder's name.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "MAKEFLAGS", "MAKELEVEL")}
    own = {variable: os.environ.get(variable) or usual for variable, usual in COMPILERS.values()}
    flags = f"{flags} -ffile-prefix-map={folder}=.".strip()
    jobs = str(processors())
    own |= {"FLAGS": flags, "VERSION": version, "JOBS": jobs, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}
    return kept | own


def library(folder: Path, pattern: str) -> Path:
    """The file that matches the pattern. Raises HeaptapeError if there is none, or it leads out of the folder."""
    if pattern.startswith("/") or ".." in Path(pattern).parts:
        raise HeaptapeError(f"library {pattern}: has to be a path in the folder of the sources")
    found = sorted(folder.glob(pattern))
    if not found:
        raise HeaptapeError(f"the build made no {pattern}")
    if not found[-1].resolve().is_relative_to(folder.resolve()) or not found[-1].is_file():
        raise HeaptapeError(f"{pattern} is not a file in the folder of the sources")
    return found[-1]


def licences(folder: Path) -> list[Path]:
    """The licences in the sources' folder and in those of its parts."""
    found = [path for level in ("", "*/") for path in folder.glob(f"{level}*") if LICENCE.match(path.name)]
    return sorted(path for path in found if path.is_file())


def check_library(path: Path) -> tuple[str, tuple[str, ...]]:
    """The build id of a library (empty: it has none), and which functions it lacks, so that workloads that call them
    are refused. Raises HeaptapeError for a file that is not a shared library, or has no malloc or free.
    """
    done = subprocess.run(
        ["readelf", "-W", "--dyn-syms", "-n", str(path)],
        capture_output=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )
    symbols = set()
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) == 8 and words[3] in ("FUNC", "IFUNC") and words[4] != "LOCAL" and words[6] != "UND":
            symbols.add(words[7].split("@")[0])
    if done.returncode != 0 or not symbols:
        raise HeaptapeError(f"{path.name} is not a shared library that defines functions")
    lacking = [name for name in NEEDED if name not in symbols]
    if lacking:
        raise HeaptapeError(f"{path.name} defines no {' and no '.join(lacking)}")
    match = re.search(r"Build ID: ([0-9a-f]+)", done.stdout)
    lacks = tuple(" or ".join(row) for row in WANTED if symbols.isdisjoint(row))
    return match[1] if match else "", lacks


# Alignments of 16 bytes to 32 KiB; then one, three and 23 threads of real programs.
PATTERN = "alignment_storm"
CORPUS = ("gs.tape", "redis.tape", "mariadb.tape")
TIMEOUT_S = 600


def verify(choice: Choice, home: Home, tell: Callable[[str], None] = lambda what: None) -> tuple[Checked, ...]:
    """The result of each available workload. Raises HeaptapeError where there is none."""
    found = []
    with scratch_folder() as scratch:
        for name, source in _sources(home, scratch).items():
            tell(f"{choice.label}: verifying on {name}")
            workload = replay.prepare(str(source), home, scratch)
            found.append(Checked(name, _broken(choice, workload, home)))
    if not found:
        raise HeaptapeError("there is no workload to verify on: run 'make'")
    return tuple(found)


def _broken(choice: Choice, workload: Path, home: Home) -> str:
    """The rule that the candidate breaks, in words; empty: none."""
    bench = exact.Bench(workload, home, timeout_s=TIMEOUT_S)
    try:
        bench.run(choice, "verify")
    except exact.RunError as error:
        text = error.run.fault or (error.run.error or "").removeprefix(f"{workload.name}: ")
        return text.replace(f"{choice.path.parent}/", "")  # names of scratch folders are of no use
    return ""


def _sources(home: Home, scratch: Path) -> dict[str, Path]:
    corpus = [SHARED / "workloads" / "corpus" / name for name in CORPUS]
    found = {}
    pattern = next((one for one in workloads.find(home) if one.name == PATTERN), None)
    if pattern:
        path = scratch / f"{PATTERN}.work"
        if workloads.write(pattern, path, []).returncode == 0:
            found[PATTERN] = path
    return found | {path.stem: path for path in corpus if path.is_file()}
