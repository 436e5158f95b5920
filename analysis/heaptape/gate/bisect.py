# SPDX-License-Identifier: MIT
"""Finds the revision that made an allocator worse: git bisect, judged by an exact figure of one workload.

All data of bisections are kept in one folder for each repository: a clone, in which revisions are built, their
libraries, and the figures. So an interrupted bisection is continued by the same command, and another bisection of the
same repository builds nothing twice.
"""

import contextlib
import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import write_json
from heaptape.gate.builds import ABBREVIATED, Build, Builds, Clone, Recipe, defines_malloc
from heaptape.gate.condition import Condition, parse
from heaptape.gate.minimise import shown
from heaptape.run.exact import Bench
from heaptape.run.registry import Choice, sha256_of

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
        if not defines_malloc(build.library):
            raise HeaptapeError(f"{build.library.name} defines no malloc")
        choice = Choice(build.library.name, "default", build.library, str(build.library), {})
        value = self._bench.figures(choice, [figure])[figure]
        self._figures.mkdir(exist_ok=True)
        write_json(str(path), about | {"value": value})
        return value


def in_words(figure: str, value: float) -> str:
    if figure == BROKEN:
        return "a promise is broken" if value else "promises are kept"
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
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeaptapeError(f"another bisection of this repository is under way (in {folder})") from None
        yield
