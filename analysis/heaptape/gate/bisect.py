# SPDX-License-Identifier: MIT
"""Finds the revision that made an allocator worse: git bisect, judged by an exact figure of one workload.

All data of bisections are kept in one folder for each repository: a clone, in which revisions are built, their
libraries, and the figures. So an interrupted bisection is continued by the same command, and another bisection of the
same repository builds nothing twice.

Libraries built from a git repository's revisions, and kept: each built once per revision and build command. In a
clone, so that the user's checkout is not changed.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import write_json
from heaptape.common.process import build_error, locked, run_script, scratch_folder
from heaptape.gate.condition import Condition, parse
from heaptape.gate.minimise import shown
from heaptape.run.exact import Bench
from heaptape.run.registry import Choice, exported_names, sha256_of

ABBREVIATED = 12
FIRST_BAD = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit", re.MULTILINE)
SKIPPED_ONLY = "only 'skip'ped commits left"


@dataclass(frozen=True)
class Step:
    """State of a bisection. `next`: the revision to try; None: it has ended, and `first_bad` is the revision, or
    several candidates that could not be tried.
    """

    next: str | None
    first_bad: tuple[str, ...] = ()


class Clone:
    """A clone of a repository, in a folder that is kept: objects are shared; work tree and bisection are separate."""

    def __init__(self, repository: Path, folder: Path) -> None:
        """Raises HeaptapeError where `repository` is not a git repository."""
        self.repository, self.tree = repository.resolve(), folder
        top = _git(["-C", str(repository), "rev-parse", "--git-common-dir"], f"{repository}: not a git repository")
        self._source = (repository / top).resolve()
        if not (folder / ".git").is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            _git(["clone", "-q", "--shared", "--no-checkout", str(self._source), str(folder)], "can't be cloned")

    def resolve(self, revision: str) -> str:
        """The commit's full name, by the user's repository. Raises HeaptapeError for an unknown revision."""
        command = ["rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}"]
        return _git(["-C", str(self.repository), *command], f"{self.repository}: no revision '{revision}'")

    def is_ancestor(self, one: str, other: str) -> bool:
        """Is `one` equal to `other`, or before it?"""
        return self._run("merge-base", "--is-ancestor", one, other).returncode == 0

    def check_out(self, revision: str) -> None:
        """Checks out a revision, without files of another revision's build."""
        self.git("checkout", "-q", "--force", "--detach", revision)
        self.git("clean", "-q", "-ffdx")

    def subject(self, revision: str) -> str:
        """Abbreviated name, date and subject, in one line."""
        return self.git("log", "-1", f"--abbrev={ABBREVIATED}", "--date=short", "--format=%h (%ad) %s", revision)

    def parent(self, revision: str) -> str | None:
        """The first parent; None: it has none."""
        done = self._run("rev-parse", "--verify", "-q", f"{revision}^")
        return done.stdout.strip() or None

    def between(self, good: str, bad: str) -> int:
        """Number of revisions that may be the first bad one."""
        return int(self.git("rev-list", "--count", bad, f"^{good}"))

    def begin(self, good: str, bad: str) -> Step:
        """Starts a bisection; discards any earlier one."""
        self._run("bisect", "reset")
        return self._step("start", "--no-checkout", bad, good)

    def mark(self, revision: str, verdict: str) -> Step:
        """`verdict`: good, bad or skip."""
        return self._step(verdict, revision)

    def git(self, *arguments: str) -> str:
        """Runs git and returns its output. Raises HeaptapeError with its last line."""
        return _git(["-C", str(self.tree), *arguments], "")

    def _step(self, *arguments: str) -> Step:
        done = self._run("bisect", *arguments)
        if match := FIRST_BAD.search(done.stdout):
            return Step(None, (match[1],))
        if SKIPPED_ONLY in done.stdout:
            return Step(None, tuple(re.findall(r"^([0-9a-f]{40,64})$", done.stdout, re.MULTILINE)))
        if done.returncode:
            raise HeaptapeError(f"git bisect {arguments[0]}: {_last_line(done.stderr or done.stdout)}")
        return Step(self.git("rev-parse", "BISECT_HEAD"))

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return _process(["-C", str(self.tree), *arguments])


def _git(arguments: list[str], error: str) -> str:
    done = _process(arguments)
    if done.returncode:
        raise HeaptapeError(error or f"git: {_last_line(done.stderr)}")
    return done.stdout.strip()


def _process(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs git with messages in English, ignoring a repository named by the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    surroundings = kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        return subprocess.run(
            ["git", "-c", "advice.detachedHead=false", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=surroundings,
        )
    except FileNotFoundError:
        raise HeaptapeError("git is not installed: apt-get install git") from None


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["failed"])[-1]


@dataclass(frozen=True)
class Recipe:
    """How a revision is built. `command`: for a shell, in the work tree; `library`: path of the result there."""

    command: str
    library: str


@dataclass(frozen=True)
class Build:
    """A revision's library, or why there is none; `log`: the build's output."""

    library: Path | None
    log: Path
    failure: str = ""


class Builds:
    def __init__(self, folder: Path, clone: Clone, recipe: Recipe) -> None:
        self._folder, self._clone, self._recipe = folder, clone, recipe
        self._key = hashlib.sha256(f"{recipe.command}\0{recipe.library}".encode()).hexdigest()[:12]

    def of(self, revision: str) -> Build:
        """The revision's build, made now or before. A failed build is repeated: its requirements may be there now."""
        folder = self._folder / f"{revision}-{self._key}"
        name = Path(self._recipe.library).name
        library, log = folder / name, self._folder / f"{revision}-{self._key}.log"
        if library.is_file():
            return Build(library, log)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._clone.check_out(revision)
        status = run_script(self._recipe.command, self._clone.tree, log)
        failure = f"status {status}: {build_error(log)[:200]}" if status else ""
        made = self._clone.tree / self._recipe.library
        if not failure and not made.is_file():
            failure = f"the build made no {self._recipe.library}"
        if failure:
            return Build(None, log, failure)
        with scratch_folder(self._folder, ".build-") as scratch:
            ready = scratch / "ready"
            ready.mkdir()
            shutil.copy2(made, ready / name)
            shutil.rmtree(folder, ignore_errors=True)
            ready.rename(folder)
        return Build(library, log)


GOOD, BAD, SKIP = "good", "bad", "skip"
BROKEN = "broken"  # a complete condition


@dataclass(frozen=True)
class Search:
    """The search for the first revision after `good`, up to `bad`, for which `condition` holds. `folder`: where clone,
    libraries and figures of the repository are kept.
    """

    repository: Path
    good: str
    bad: str
    recipe: Recipe
    condition: Condition
    folder: Path


@dataclass(frozen=True)
class Tried:
    """A revision that was tried. `value`: of the condition's figure; None: it could not be measured; `why`: reason."""

    revision: str
    verdict: str
    value: float | None = None
    library: str = ""
    why: str = ""


@dataclass
class Outcome:
    """The result. `first_bad`: one revision, or several that each may be the first bad one, as those between could not
    be tried. `subjects`: revision -> its name, date and subject. `before`: the last measured revision before the first
    bad one.
    """

    first_bad: tuple[str, ...]
    good: Tried
    bad: Tried
    before: Tried
    tried: list[Tried]
    revisions: int
    subjects: dict[str, str] = field(default_factory=dict)

    @property
    def skipped(self) -> list[Tried]:
        return [one for one in self.tried if one.verdict == SKIP]

    def as_json(self) -> dict:
        return {"schema": 1} | asdict(self) | {"found": len(self.first_bad) == 1}


def condition_of(text: str) -> Condition:
    """As gate.condition.parse, with `good` as the reference; `broken` alone: a promise of malloc is broken."""
    return parse(f"{BROKEN}>0" if text.strip() == BROKEN else text, (GOOD,))


def bisect(search: Search, workload: Path, home: Home, tell: Callable[[str], None] = lambda text: None) -> Outcome:
    """Raises HeaptapeError for an unknown revision, where good or bad can't be built or measured, or the condition does
    not distinguish them.
    """
    search.folder.mkdir(parents=True, exist_ok=True)
    with _alone(search.folder):
        job = _Job(search, workload, home, tell)
        good, bad = _ends(job)
        step = job.clone.begin(good.revision, bad.revision)
        tried: list[Tried] = []
        while step.next is not None:
            one = job.judge(step.next, good.value)
            tried.append(one)
            step = job.clone.mark(step.next, one.verdict)
        revisions = job.clone.between(good.revision, bad.revision)
        outcome = Outcome(step.first_bad, good, bad, good, tried, revisions)
        outcome.before = _before(job, outcome)
        outcome.subjects = {name: job.clone.subject(name) for name in _names(outcome)}
        return outcome


class _Job:
    """Builds, measures and judges revisions."""

    def __init__(self, search: Search, workload: Path, home: Home, tell: Callable[[str], None]) -> None:
        self.search, self.tell = search, tell
        self.clone = Clone(search.repository, search.folder / "tree")
        self._builds = Builds(search.folder / "built", self.clone, search.recipe)
        self._bench = Bench(workload, home)
        self._about = {"workload": sha256_of(workload), "engine": sha256_of(home.program("replay"))}
        self._figures = search.folder / "figures"

    def try_one(self, revision: str) -> Tried:
        """Builds and measures a revision. Verdict "skip" where that is impossible, else empty."""
        build = self._builds.of(revision)
        if build.library is None:
            return Tried(revision, SKIP, why=f"does not build: {build.failure} (log: {build.log})")
        try:
            return Tried(revision, "", self._value(build), str(build.library))
        except HeaptapeError as error:
            return Tried(revision, SKIP, library=str(build.library), why=str(error))

    def judge(self, revision: str, good: float | None) -> Tried:
        one = self.try_one(revision)
        if one.value is not None:
            holds = self.search.condition.holds(one.value, good)
            one = Tried(revision, BAD if holds else GOOD, one.value, one.library)
        what = one.why if one.value is None else in_words(self.search.condition.figure, one.value)
        self.tell(f"{self.clone.subject(revision)}: {what}: {one.verdict}")
        return one

    def _value(self, build: Build) -> float:
        """The figure, measured once for each library and workload."""
        assert build.library is not None
        figure = self.search.condition.figure
        about = self._about | {"library": sha256_of(build.library), "figure": figure}
        path = self._figures / f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()}.json"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return float(json.loads(path.read_bytes())["value"])
        data = build.library.read_bytes()
        if "malloc" not in exported_names(data):
            what = " defines no malloc" if data.startswith(b"\x7fELF") else ": not a shared library"
            raise HeaptapeError(f"{build.library.name}{what}")
        choice = Choice(build.library.name, "default", build.library, str(build.library), {})
        value = self._bench.figures(choice, [figure])[figure]
        self._figures.mkdir(exist_ok=True)
        write_json(str(path), about | {"value": value})
        return value


def in_words(figure: str, value: float) -> str:
    if figure == BROKEN:
        return "verification failed" if value else "verification passed"
    return f"{figure} {shown(figure, value)}"


def _ends(job: _Job) -> tuple[Tried, Tried]:
    search, clone = job.search, job.clone
    good, bad = clone.resolve(search.good), clone.resolve(search.bad)
    if good == bad:
        raise UsageError(f"bisect: --good and --bad are the same revision, {good[:ABBREVIATED]}")
    if clone.is_ancestor(bad, good):
        raise UsageError("bisect: --bad is before --good: regressions are searched after the good revision")
    ends = []
    for name, revision in ((GOOD, good), (BAD, bad)):
        one = job.try_one(revision)
        if one.value is None:
            raise HeaptapeError(f"the {name} revision {clone.subject(revision)}: {one.why}")
        job.tell(f"{name}: {clone.subject(revision)}: {in_words(search.condition.figure, one.value)}")
        ends.append(Tried(revision, name, one.value, one.library))
    _require_apart(search.condition, *ends)
    return ends[0], ends[1]


def _require_apart(condition: Condition, good: Tried, bad: Tried) -> None:
    assert good.value is not None
    assert bad.value is not None
    values = [in_words(condition.figure, one.value) for one in (good, bad) if one.value is not None]
    both = f"good: {values[0]}, bad: {values[1]}"
    if condition.holds(good.value, good.value):
        raise HeaptapeError(f"{condition.text} holds at the good revision already, so it can't decide ({both})")
    if not condition.holds(bad.value, good.value):
        raise HeaptapeError(f"{condition.text} does not hold at the bad revision, so there is nothing to find ({both})")


def _before(job: _Job, outcome: Outcome) -> Tried:
    """The nearest measured revision before the first bad one."""
    known = {one.revision: one for one in (outcome.good, *outcome.tried) if one.verdict == GOOD}
    revision = job.clone.parent(outcome.first_bad[0]) if len(outcome.first_bad) == 1 else None
    while revision is not None and revision not in known and revision != outcome.good.revision:
        revision = job.clone.parent(revision)
    return known.get(revision or "", outcome.good)


def _names(outcome: Outcome) -> list[str]:
    revisions = [outcome.good.revision, outcome.bad.revision, *(one.revision for one in outcome.tried)]
    return list(dict.fromkeys([*revisions, *outcome.first_bad]))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the folder, as two bisections would share a work tree. Raises HeaptapeError where another is under way."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(folder / "lock"))
        except BlockingIOError:
            raise HeaptapeError(f"another bisection of this repository is under way (in {folder})") from None
        yield
