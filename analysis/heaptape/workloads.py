"""`heaptape workloads`: the synthetic programs of workloads/, recorded or recorded and replayed under their name."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from heaptape.errors import HeaptapeError
from heaptape.home import Home

DIRECTORIES = ("workloads", "libexec/heaptape/workloads")


@dataclass(frozen=True)
class Program:
    """A workload that can be recorded here."""

    name: str
    path: Path
    summary: str


def find(home: Home) -> list[Program]:
    """The programs built here, by name. Each says in the first line of its --help what it does."""
    files = [path for folder in DIRECTORIES for path in sorted((home.directory / folder).glob("*"))]
    return [Program(path.name, path, _summary(path)) for path in files if path.is_file() and os.access(path, os.X_OK)]


def run(action: str | None, name: str | None, as_json: bool, home: Home) -> int:
    """Lists them (action None), or records NAME.tape in the current directory (`capture`), and replays it (`run`)."""
    programs = find(home)
    if action is None:
        return _list(programs, as_json)
    program = next((p for p in programs if p.name == name), None)
    if program is None:
        known = ", ".join(p.name for p in programs) or "none: run 'make'"
        raise HeaptapeError(f"unknown workload '{name}': there are {known}")
    tape = f"{name}.tape"
    status = subprocess.run([home.program("record"), "-o", tape, "--", program.path]).returncode
    if status != 0 or action == "capture":
        return 1 if status else 0
    from heaptape.cli import main

    sys.stdout.flush()
    return main(["replay", tape, "-o", f"{name}.json"], home)


def _list(programs: list[Program], as_json: bool) -> int:
    if as_json:
        rows = [{"name": p.name, "kind": "synthetic", "path": str(p.path), "summary": p.summary} for p in programs]
        print(json.dumps({"workloads": rows}, indent=1))
        return 0
    if not programs:
        raise HeaptapeError("no workloads are built here: run 'make' in the checkout")
    width = max(len(p.name) for p in programs)
    for program in programs:
        print(f"{program.name:<{width}}  {program.summary}")
    return 0


def _summary(path: Path) -> str:
    try:
        text = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    first = text.partition("\n")[0]
    return first.partition(": ")[2] or first
