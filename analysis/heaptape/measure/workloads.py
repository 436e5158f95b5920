"""`heaptape workloads`: what there is to record (synthetic programs, recipes of real ones), listed, set up, recorded,
replayed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import PACKAGE, Home
from heaptape.common.output import check_writable
from heaptape.measure import capture, recipes, suites
from heaptape.measure.recipes import Recipe

DIRECTORIES = ("workloads", "libexec/heaptape/workloads")
SETUP = (PACKAGE.parent / "setup", PACKAGE.parent.parent / "tools" / "setup")
SYNTHETIC, APP = "synthetic", "app"


@dataclass(frozen=True)
class Workload:
    """One of them. `kind`: "synthetic" or "app"; `missing`: why it can't run here, empty if it can."""

    name: str
    kind: str
    summary: str
    path: Path
    recipe: Recipe
    missing: str = ""

    def as_object(self) -> dict:
        """As `heaptape workloads --json` tells it."""
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
    """All of them, the synthetic ones first, by name."""
    files = [path for folder in DIRECTORIES for path in sorted((home.directory / folder).glob("*"))]
    programs = [path for path in files if path.is_file() and os.access(path, os.X_OK)]
    apps = [Workload(r.name, APP, r.summary, r.path, r, r.missing()) for r in recipes.find()]
    return [_synthetic(path) for path in programs] + apps


def named(names: Sequence[str], known: Sequence[Workload]) -> list[Workload]:
    """The workloads of these names. Raises HeaptapeError at an unknown one."""
    table = {workload.name: workload for workload in known}
    for name in names:
        if name not in table:
            raise HeaptapeError(f"unknown workload '{name}': there are {', '.join(table) or 'none: run make'}")
    return [table[name] for name in names]


def list_all(as_json: bool, home: Home) -> int:
    """Prints what there is, and which of it can run here."""
    known = find(home)
    if as_json:
        found = [workload.as_object() for workload in known] + [suite.as_object() for suite in suites.find()]
        print(json.dumps({"workloads": found}, indent=1))
        return 0
    if not known:
        raise HeaptapeError("no workloads are built here: run 'make' in the checkout")
    width = max(len(workload.name) for workload in known)
    for workload in known:
        print(f"{workload.name:<{width}}  {workload.kind:<9}  {workload.summary}")
        for note in filter(None, (workload.missing and f"can't run here: {workload.missing}", workload.recipe.known)):
            print(f"{'':<{width}}  {'':<9}  ({note})")
    for suite in suites.find():
        print(f"{suite.name:<{width}}  suite      {suite.summary} ({len(suite.workloads)} workloads)")
    return 0


def set_up(names: Sequence[str], home: Home) -> int:
    """Installs what recipes need: Debian packages by tools/setup, Python packages in an environment of their own. A
    suite's name stands for its recipes.
    """
    apps = {suite.name: suite.apps for suite in suites.find()}
    wanted = [w.recipe for w in named([app for name in names for app in apps.get(name, [name])], find(home))]
    packages = sorted({package for recipe in wanted for package in recipe.packages})
    if packages:
        script = next((path for path in SETUP if path.is_file()), None)
        if script is None:
            raise HeaptapeError(f"please install: {' '.join(packages)}")
        if subprocess.run([script, *packages]).returncode != 0:
            raise HeaptapeError("")
    for recipe in wanted:
        recipes.install_python_packages(recipe)
    still = [f"{recipe.name}: {recipe.missing()}" for recipe in wanted if recipe.missing()]
    if still:
        raise HeaptapeError("; ".join(still))
    print(f"can run: {', '.join(names)}")
    return 0


@dataclass(frozen=True)
class Wish:
    """How to record. `output`: the trace of a single one (default NAME.tape here). `form`: "text", "json", "table"."""

    output: str | None = None
    options: tuple[str, ...] = ()
    keep_all: bool = False
    discard: bool = False
    form: str = "text"


def record(names: Sequence[str], every_app: bool, wish: Wish, home: Home) -> int:
    """Records each and prints what was recorded. One that fails is told of, and the others still have their turn."""
    known = find(home)
    chosen = [w for w in known if w.kind == APP] if every_app else named(names, known)
    if wish.output and len(chosen) > 1:
        raise UsageError("workloads capture -o: is the trace of one workload")
    if wish.output:
        check_writable(wish.output)
    rows: list[dict] = []
    for workload in chosen:
        output = Path(wish.output or f"{workload.name}.tape")
        try:
            done = capture.capture(workload.recipe, output, home, wish.options, wish.keep_all, _tell)
        except HeaptapeError as error:
            if len(chosen) == 1:
                raise
            print(f"heaptape: {error}", file=sys.stderr)
            rows.append({"name": workload.name, "failure": str(error).partition("\n")[0]})
            continue
        rows.append(done.row())
        if wish.form == "text":
            _print_captured(done, wish.keep_all, home)
        if wish.discard:
            output.unlink()
    if wish.form == "json":
        print(json.dumps(rows[0] if len(chosen) == 1 else {"workloads": rows}, indent=1))
    elif wish.form == "table":
        print(capture.markdown(rows), end="")
    return 1 if any("failure" in row or not row["check"]["ok"] for row in rows) else 0


def write(name: str, output: str | None, options: Sequence[str], home: Home) -> int:
    """Writes a synthetic pattern as the workload file output (NAME.work), without a run. Options are the pattern's."""
    (workload,) = named([name], find(home))
    if workload.kind != SYNTHETIC:
        raise HeaptapeError(f"workloads write: '{name}' is a real program: it has to be recorded")
    path = output or f"{name}.work"
    done = subprocess.run([workload.path, *options, f"--work={path}"], stdout=subprocess.PIPE, text=True)
    if done.returncode == 0:
        print(f"{path}: {done.stdout.strip() or 'written'}")
    return done.returncode


def _synthetic(path: Path) -> Workload:
    summary = _summary(path)
    return Workload(path.name, SYNTHETIC, summary, path, Recipe(path.name, path, summary, "", (str(path),)))


def _print_captured(done: capture.Captured, kept: bool, home: Home) -> None:
    sys.stdout.flush()
    subprocess.run([home.program("convert"), "info", done.chosen.path])
    others = ""
    if done.others:
        events = sum(trace.about["events"] for trace in done.others)
        what = "kept beside it" if kept else "not kept: --all"
        others = f"; {len(done.others)} more processes, {events:,} events ({what})"
    print(f"{done.chosen.path}: {done.recipe.name}, {done.wall_s:.1f} s{others}")
    if done.recipe.known:
        print(f"note: {done.recipe.known}")


def _tell(line: str) -> None:
    print(f"heaptape: {line}", file=sys.stderr)


def _summary(path: Path) -> str:
    try:
        text = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    first = text.partition("\n")[0]
    return first.partition(": ")[2] or first
