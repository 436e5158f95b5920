# SPDX-License-Identifier: MIT
"""Workloads to record: synthetic programs, and recipes of real ones. Finds them, sets them up, writes them as files."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import SHARED, Home
from heaptape.run import recipes, suites
from heaptape.run.recipes import Recipe

SETUP = SHARED / "tools" / "setup"
SYNTHETIC, APP = "synthetic", "app"


@dataclass(frozen=True)
class Workload:
    """A workload. `kind`: "synthetic" or "app"; `missing`: why it can't run here, empty if it can."""

    name: str
    kind: str
    summary: str
    path: Path
    recipe: Recipe
    missing: str = ""

    def as_object(self) -> dict:
        return {
            "name": self.name,
            "kind": self.kind,
            "summary": self.summary,
            "path": str(self.path),
            "can_run": not self.missing,
            "missing": self.missing or None,
            "stands_for": self.recipe.stands_for or None,
            "packages": list(self.recipe.packages),
            "known": self.recipe.known or None,
        }


def find(home: Home) -> list[Workload]:
    """All workloads, the synthetic ones first, by name."""
    files = [path for folder in home.pattern_directories() for path in sorted(folder.glob("*"))]
    programs = [path for path in files if path.is_file() and os.access(path, os.X_OK)]
    apps = [Workload(r.name, APP, r.summary, r.path, r, r.missing()) for r in recipes.find()]
    return [_synthetic(path) for path in programs] + apps


def named(names: Sequence[str], known: Sequence[Workload]) -> list[Workload]:
    """The workloads of these names. Raises HeaptapeError for an unknown one."""
    table = {workload.name: workload for workload in known}
    for name in names:
        if name not in table:
            raise HeaptapeError(f"unknown workload '{name}': there are {', '.join(table) or 'none: run make'}")
    return [table[name] for name in names]


def set_up(names: Sequence[str], home: Home) -> None:
    """Installs what recipes need: Debian packages by tools/setup, Python packages in a separate environment. A
    suite's name stands for its recipes. Raises HeaptapeError if one still can't run.
    """
    apps = {suite.name: suite.apps for suite in suites.find()}
    wanted = [w.recipe for w in named([app for name in names for app in apps.get(name, [name])], find(home))]
    packages = sorted({package for recipe in wanted for package in recipe.packages})
    if packages:
        if not SETUP.is_file():
            raise HeaptapeError(f"please install: {' '.join(packages)}")
        if subprocess.run([SETUP, *packages]).returncode != 0:
            raise HeaptapeError("")
    for recipe in wanted:
        recipes.install_python_packages(recipe)
    still = [f"{recipe.name}: {recipe.missing()}" for recipe in wanted if recipe.missing()]
    if still:
        raise HeaptapeError("; ".join(still))


def write(workload: Workload, output: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Writes a synthetic pattern as the workload file `output`, without running it. `options`: the pattern's. Returns
    its exit status and output. If it fails, it has reported why on standard error.
    """
    if workload.kind != SYNTHETIC:
        raise HeaptapeError(f"workloads write: '{workload.name}' is a real program: it has to be recorded")
    return subprocess.run([workload.path, *options, f"--work={output}"], stdout=subprocess.PIPE, text=True)


def _synthetic(path: Path) -> Workload:
    summary = _summary(path)
    return Workload(path.name, SYNTHETIC, summary, path, Recipe(path.name, path, summary, "", (str(path),)))


def _summary(path: Path) -> str:
    try:
        text = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    first = text.partition("\n")[0]
    return first.partition(": ")[2] or first
