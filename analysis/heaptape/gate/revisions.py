# SPDX-License-Identifier: MIT
"""A git repository whose revisions are built and tried: in a clone, so that the user's checkout is not touched."""

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
    """Where a bisection stands. `next`: the revision to try; else it has ended: `first_bad` is the one, or one of
    these, of which none could be tried.
    """

    next: str | None
    first_bad: tuple[str, ...] = ()


class Clone:
    """A clone of a repository, in a folder that is kept: objects are shared, work tree and bisection are its own."""

    def __init__(self, repository: Path, folder: Path) -> None:
        """Raises HeaptapeError where that is no repository."""
        self.repository, self.tree = repository.resolve(), folder
        top = _git(["-C", str(repository), "rev-parse", "--git-common-dir"], f"{repository}: not a git repository")
        self._source = (repository / top).resolve()
        if not (folder / ".git").is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            _git(["clone", "-q", "--shared", "--no-checkout", str(self._source), str(folder)], "can't be cloned")

    def resolve(self, revision: str) -> str:
        """The commit's full name, as the user's repository knows it. Raises HeaptapeError for an unknown one."""
        command = ["rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}"]
        return _git(["-C", str(self.repository), *command], f"{self.repository}: no revision '{revision}'")

    def is_ancestor(self, one: str, other: str) -> bool:
        """Is `one` the other, or before it?"""
        return self._run("merge-base", "--is-ancestor", one, other).returncode == 0

    def check_out(self, revision: str) -> None:
        """The work tree as that revision has it, without a file of another's build."""
        self.git("checkout", "-q", "--force", "--detach", revision)
        self.git("clean", "-q", "-ffdx")

    def subject(self, revision: str) -> str:
        """Abbreviated name, date and subject, in one line."""
        return self.git("log", "-1", f"--abbrev={ABBREVIATED}", "--date=short", "--format=%h (%ad) %s", revision)

    def parent(self, revision: str) -> str | None:
        """The first one; None: it has none."""
        done = self._run("rev-parse", "--verify", "-q", f"{revision}^")
        return done.stdout.strip() or None

    def between(self, good: str, bad: str) -> int:
        """How many revisions may be the first bad one."""
        return int(self.git("rev-list", "--count", bad, f"^{good}"))

    def begin(self, good: str, bad: str) -> Step:
        """Starts a bisection, whatever there was of another."""
        self._run("bisect", "reset")
        return self._step("start", "--no-checkout", bad, good)

    def mark(self, revision: str, verdict: str) -> Step:
        """`verdict`: good, bad or skip."""
        return self._step(verdict, revision)

    def git(self, *arguments: str) -> str:
        """What it prints. Raises HeaptapeError with its last line."""
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
    """git's own words in English; of no repository that the surroundings name."""
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
