# SPDX-License-Identifier: MIT
"""Libraries built from revisions, and kept: each built once per revision and build command."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.scratch import scratch_folder
from heaptape.gate.revisions import Clone


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
