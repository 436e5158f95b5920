# SPDX-License-Identifier: MIT
"""A git repository whose revisions are built and tried, in a clone, so that the user's checkout is not changed."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError

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
