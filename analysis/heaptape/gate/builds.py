# SPDX-License-Identifier: MIT
"""Libraries built from a git repository's revisions, and kept: each built once per revision and build command. In a
clone, so that the user's checkout is not changed.
"""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.scratch import scratch_folder

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
        failure = self._make(log)
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

    def _make(self, log: Path) -> str:
        """Builds. Returns why it failed, else empty. If an exception is raised here, all its processes are ended."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["sh", "-c", self._recipe.command],
                cwd=self._clone.tree,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            try:
                status = process.wait()
            except BaseException:
                os.killpg(process.pid, 15)
                process.wait()
                raise
        if not status:
            return ""
        lines = log.read_text(errors="replace").strip().splitlines()
        return f"status {status}: {lines[-1][:200]}" if lines else f"status {status}"


def defines_malloc(library: Path) -> bool:
    """Does the library export malloc? Raises HeaptapeError where nm fails."""
    command = ["nm", "-D", "--defined-only", str(library)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        raise HeaptapeError("nm is not installed: apt-get install binutils") from None
    if done.returncode:
        raise HeaptapeError(f"{library.name}: not a shared library")
    symbols = {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.split()}
    return "malloc" in symbols
