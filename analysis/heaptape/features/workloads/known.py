# SPDX-License-Identifier: MIT
"""Workloads to record: synthetic programs, and recipes of real ones. Finds them, sets them up, writes them as files.

Suites (workloads/suites/NAME.toml): named sets of workloads, recorded if they are not yet, replayed under the
suite's allocators, compared and reported together.

Each step is a command that a user could type (`heaptape workloads capture`, `heaptape replay`), in a separate process,
so that one workload can't affect the next. A suite that was stopped continues where it was, as finished recordings and
results are not made again.
"""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from heaptape.common.checked import read_named
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import SHARED, Home
from heaptape.run import recipes
from heaptape.run.recipes import Recipe, toml_files

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
    apps = {suite.name: suite.apps for suite in find_suites()}
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
    return subprocess.run([workload.path, *options, f"--work={output}"], stdout=subprocess.PIPE, errors="replace")


def _synthetic(path: Path) -> Workload:
    summary = _summary(path)
    return Workload(path.name, SYNTHETIC, summary, path, Recipe(path.name, path, summary, "", (str(path),)))


def _summary(path: Path) -> str:
    try:
        text = subprocess.run([path, "--help"], capture_output=True, errors="replace", timeout=5).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    first = text.partition("\n")[0]
    return first.partition(": ")[2] or first


DIRECTORIES = (SHARED / "workloads" / "suites",)
KINDS = ("app", "synthetic", "corpus")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One workload of a suite. `name`: in the tables; exactly one of `app` (a recipe), `synthetic` (a pattern, with
    `options`) and `corpus` (a file in workloads/corpus/); `note`: what it stands for in the suite.
    """

    name: str
    app: str = ""
    synthetic: str = ""
    corpus: str = ""
    options: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if sum(bool(getattr(self, kind)) for kind in KINDS) != 1:
            raise ValueError(f"'{self.name}' needs one of {', '.join(KINDS)}")


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named set: the keys of its file. `allocators`: as `replay -a` takes them; `corners`: four of them, NEITHER, A,
    B, BOTH, or none; `source`: where the set was published.
    """

    name: str
    path: Path
    summary: str
    source: str
    workloads: Annotated[tuple[Entry, ...], msgspec.Meta(min_length=1)] = msgspec.field(name="workload")
    allocators: tuple[str, ...] = ()
    corners: tuple[str, ...] = ()
    passes: tuple[str, ...] = ("time", "memory", "bare")
    repeats: Annotated[int, msgspec.Meta(ge=1)] = 5

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.workloads]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"two workloads are called '{min(doubled)}'")
        if len(self.corners) not in (0, 4):
            raise ValueError("corners are four allocators, NEITHER, A, B, BOTH")

    @property
    def apps(self) -> list[str]:
        return sorted({entry.app for entry in self.workloads if entry.app})

    def as_object(self) -> dict:
        return {
            "name": self.name,
            "kind": "suite",
            "summary": self.summary,
            "path": str(self.path),
            "source": self.source,
            "workloads": [entry.name for entry in self.workloads],
            "allocators": list(self.allocators),
        }


@dataclass
class Outcome:
    """The outcome of an entry: `results`, or `failure` in words; the time of its steps, in seconds."""

    entry: Entry
    results: Path | None = None
    failure: str = ""
    capture_s: float = 0.0
    replay_s: float = 0.0
    reused: list[str] = field(default_factory=list)


def find_suites(directories: Sequence[Path] = DIRECTORIES) -> list[Suite]:
    """All suites, by name. Raises HeaptapeError at one that is not well formed."""
    return [read_suite(path) for path in toml_files(directories)]


def read_suite(path: Path) -> Suite:
    """One suite. Raises HeaptapeError, naming file and key, for a missing or unknown key, or one of the wrong type."""
    return read_named(path, Suite)


def run_suite(
    suite: Suite,
    folder: Path,
    home: Home,
    allocators: Sequence[str] = (),
    repeats: int | None = None,
    only: Sequence[str] = (),
    notify: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:
    """Records workloads whose trace `folder` does not have yet (NAME.tape), and replays those without results there
    (NAME.json), one after the other. `notify` receives a line about each. A workload that fails does not stop the
    others. Raises HeaptapeError if `only` names one that the suite lacks.
    """
    unknown = [name for name in only if name not in [entry.name for entry in suite.workloads]]
    if unknown:
        known = ", ".join(entry.name for entry in suite.workloads)
        raise HeaptapeError(f"suite {suite.name} has no workload '{unknown[0]}': it has {known}")
    folder.mkdir(parents=True, exist_ok=True)
    chosen = msgspec.structs.replace(
        suite, allocators=tuple(allocators) or suite.allocators, repeats=repeats or suite.repeats
    )
    wanted = [entry for entry in suite.workloads if not only or entry.name in only]
    outcomes = []
    for number, entry in enumerate(wanted, 1):
        notify(f"{entry.name} ({number} of {len(wanted)})")
        outcome = _run_entry(chosen, entry, folder, home)
        if outcome.failure:
            notify(f"{entry.name}: {outcome.failure}")
        outcomes.append(outcome)
    return outcomes


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    lines = []
    for outcome in outcomes:
        steps = f"captured in {outcome.capture_s:.0f} s, replayed in {outcome.replay_s:.0f} s"
        again = f" ({' and '.join(outcome.reused)} from before)" if outcome.reused else ""
        lines.append(f"{outcome.entry.name}: {'not done: ' + outcome.failure if outcome.failure else steps + again}")
    return lines


def _run_entry(suite: Suite, entry: Entry, folder: Path, home: Home) -> Outcome:
    outcome = Outcome(entry)
    began = time.monotonic()
    trace = _corpus_file(entry, folder) if entry.corpus else folder / f"{entry.name}.tape"
    if trace.is_file():
        outcome.reused.append("recording")
    else:
        outcome.failure = _step(home, _capture_command(entry, trace, home), trace)
        if outcome.failure:
            return outcome
    outcome.capture_s = time.monotonic() - began
    began = time.monotonic()
    results = folder / f"{entry.name}.json"
    if results.is_file():
        outcome.reused.append("results")
    else:
        arguments = ["replay", str(trace), "-n", str(suite.repeats), "--passes", ",".join(suite.passes)]
        for allocator in suite.allocators:
            arguments += ["-a", allocator]
        # Exit status 1 with results: a run failed; the results name it, and the tables show it as missing.
        failure = _step(home, [*arguments, "-o", str(results)], None)
        if failure and not results.is_file():
            outcome.failure = failure
            return outcome
    outcome.replay_s = time.monotonic() - began
    outcome.results = results
    return outcome


def _capture_command(entry: Entry, trace: Path, home: Home) -> list[str]:
    if entry.app:
        return ["workloads", "capture", entry.app, "-o", str(trace)]
    places = (folder / entry.synthetic for folder in home.pattern_directories())
    program = next((path for path in places if path.is_file()), Path(entry.synthetic))
    return ["record", "-o", str(trace), "--", str(program), *entry.options]


def _step(home: Home, arguments: list[str], product: Path | None) -> str:
    """Runs `heaptape` ARGUMENTS. Returns why it failed, or "". A failed step's product is removed, as it must not be
    reused.
    """
    command = [*home.command(), *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace"
    )
    if done.returncode == 0:
        return ""
    if product:
        product.unlink(missing_ok=True)
    lines = done.stderr.strip().splitlines()
    return lines[-1].removeprefix("heaptape: ") if lines else f"heaptape {arguments[0]} ended with {done.returncode}"


def _corpus_file(entry: Entry, folder: Path) -> Path:
    """A link to the recording under the entry's name, as results are named after the file."""
    path = SHARED / "workloads" / "corpus" / entry.corpus
    if not path.is_file():
        raise HeaptapeError(f"{entry.corpus} is not in {path.parent}")
    link = folder / (entry.name + path.suffix)
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    return link
