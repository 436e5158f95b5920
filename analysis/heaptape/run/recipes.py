# SPDX-License-Identifier: MIT
"""Recipes of real programs (workloads/apps/KIND/NAME.toml): reads them, checks whether they can run here, runs them.

A recipe names the program to start, its input, its load, and when it is done; workloads/apps/README.md
lists the keys. Nothing here knows of recording or measuring: `run` puts a wrapper (a recorder, an observer) before the
command and settings (LD_PRELOAD) into its environment, so the same recipe is recorded, observed live, or both
alternately.

A run is unattended and leaves nothing behind: its HOME is its own folder, and all processes that it started, including
daemons, are ended with it.
"""

import contextlib
import fnmatch
import glob
import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from heaptape.common.checked import read_named
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import SHARED, cache_folder
from heaptape.common.process import adopt_orphans, descendants, end_group, has_ended, scratch_folder, send_signal
from heaptape.run.environment import PRELOAD, without_allocator

KINDS = ("desktop", "languages", "servers", "tools")
DIRECTORIES = tuple(SHARED / "workloads" / "apps" / kind for kind in KINDS)
READY_LIMIT_S = 60
STOP_LIMIT_S = 60
END_LIMIT_S = 2
NOBODY = "nobody"
DESKTOP = ("XDG_", "DBUS_", "DISPLAY", "WAYLAND_")


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program under one load: the keys of its file. `command`: its arguments, in which $WORK, $PORT and $HERE are
    replaced, as in the scripts. `trace`: base name (or pattern) of the recipe's process, if the command starts several.
    `set`: its half in tests/bench/fidelity (empty: in neither). `unprivileged`: it refuses to run as root, so
    for root it runs as nobody. `known`: the parts that can't be recorded, in words.
    """

    name: str
    path: Path
    summary: str
    stands_for: str
    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    packages: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    prepare: str = ""
    ready: str = ""
    load: str = ""
    stop: str = ""
    trace: str = ""
    set: Literal["", "tuned", "held-out"] = ""
    deterministic: bool = False
    time_limit_s: float = 300
    port: int = 0
    unprivileged: bool = False
    known: str = ""

    def __post_init__(self) -> None:
        if self.stop and f"SIG{self.stop}" not in signal.Signals.__members__:
            raise ValueError(f"stop: there is no signal SIG{self.stop}")

    @property
    def process(self) -> str:
        """Base name of the recipe's executable."""
        return self.trace or Path(self.command[0]).name

    def is_meant(self, program: str) -> bool:
        """Whether a recorded executable of this name is the recipe's. A command may be a link to it."""
        path = None if self.trace else shutil.which(self.command[0])
        return fnmatch.fnmatchcase(program, self.process) or (path is not None and Path(path).resolve().name == program)

    @property
    def venv(self) -> Path:
        """Where `heaptape workloads setup` puts its Python packages."""
        return cache_directory() / "venv" / self.name

    def missing(self) -> str:
        """Why it can't run here, in words; empty if it can."""
        absent = [name for name in self.programs or self.command[:1] if not _is_here(name)]
        if self.pip and not (self.venv / "complete").is_file():
            absent += self.pip
        if not absent:
            return ""
        if not self.packages and not self.pip:
            return f"{', '.join(absent)} not found"
        return f"{', '.join(absent)} not found: heaptape workloads setup {self.name}"

    def ended_well(self, status: int) -> bool:
        """Whether it ended as it should: with status 0, or by the signal that ends its load. A recorder reports a
        signal as 128 + number.
        """
        number = signal.Signals[f"SIG{self.stop}"] if self.stop else 0
        return status == 0 or (number > 0 and status in (-number, 128 + number))


@dataclass(frozen=True)
class Finished:
    """A run that ended. `status`: of the command; negative: ended by that signal. Times in seconds: of the command from
    start to end, and of the load (0 if there is none).
    """

    status: int
    wall_s: float
    load_s: float


def find(directories: Sequence[Path] = DIRECTORIES) -> list[Recipe]:
    """All recipes, by name. Raises HeaptapeError at one that is not well formed."""
    return [read(path) for path in toml_files(directories)]


def toml_files(directories: Sequence[Path]) -> list[Path]:
    """The .toml files of the folders, by name; of two with one name, the later folder's."""
    files = {path.stem: path for folder in directories for path in sorted(folder.glob("*.toml"))}
    return [path for _, path in sorted(files.items())]


def cache_directory() -> Path:
    return cache_folder("workloads")


def read(path: Path) -> Recipe:
    """One recipe. Raises HeaptapeError, naming file and key, for a missing or unknown key, or one of the wrong type."""
    return read_named(path, Recipe)


def prepare(recipe: Recipe, cache: Path) -> Path:
    """The folder with the recipe's input, made by its `prepare` script if `cache` does not have it yet. A recipe
    that has changed is prepared again. Raises HeaptapeError with the script's last line.

    It is made in a temporary folder, which an unprivileged script can reach, and moved when complete.
    """
    folder, stamp, wanted = cache / recipe.name, cache / f"{recipe.name}.recipe", _fingerprint(recipe)
    if folder.is_dir() and stamp.is_file() and stamp.read_text() == wanted:
        return folder
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    with scratch_directory() as scratch:
        made = scratch / recipe.name
        made.mkdir()
        if recipe.prepare:
            _give_to_nobody(recipe, made)
            _script(recipe, recipe.prepare, made, "prepare", recipe.time_limit_s)
        cache.mkdir(parents=True, exist_ok=True)
        shutil.move(made, folder)
    stamp.write_text(wanted)
    return folder


def install_python_packages(recipe: Recipe) -> None:
    """Installs its `pip` packages into a separate environment. Raises HeaptapeError with pip's last line."""
    mark = recipe.venv / "complete"
    if not recipe.pip or (mark.is_file() and mark.read_text() == "\n".join(recipe.pip)):
        return
    shutil.rmtree(recipe.venv, ignore_errors=True)
    pip = [str(recipe.venv / "bin" / "pip"), "--disable-pip-version-check", "-q", "install", *recipe.pip]
    for command in (["python3", "-m", "venv", str(recipe.venv)], pip):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise HeaptapeError(f"{recipe.name}: {done.stdout.decode(errors='replace').strip().rpartition(chr(10))[2]}")
    mark.write_text("\n".join(recipe.pip))


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A temporary folder that programs of other users can reach; removed at the end, whoever owns its files."""
    with scratch_folder() as folder:
        folder.chmod(0o755)
        yield folder


def run(
    recipe: Recipe,
    prepared: Path,
    scratch: Path,
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    output: Path | None = None,
) -> Finished:
    """Runs the command in a fresh copy of `prepared` made at `scratch` (which must not exist, and is removed), under
    its load, to its end. `wrapper` goes before the command; `environment` is set for the command, not for the load.
    `output`: file for what it prints (default: none). Raises HeaptapeError if it does not get ready, its load
    fails, or the time limit ends it.
    """
    shutil.copytree(prepared, scratch, symlinks=True)
    try:
        _give_to_nobody(recipe, scratch)
        with _own_orphans(), (output or Path(os.devnull)).open("wb") as log:
            return _run(recipe, scratch, wrapper, dict(environment or {}), log.fileno())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(recipe: Recipe, work: Path, wrapper: Sequence[str], settings: dict[str, str], log: int) -> Finished:
    surroundings = _surroundings(recipe, work, recipe.port or _free_port())
    command = [*wrapper, *_drop(recipe), *(_expand(word, surroundings) for word in recipe.command)]
    own = {name: _expand(value, surroundings) for name, value in recipe.environment.items()}
    deadline = time.monotonic() + recipe.time_limit_s
    began = time.monotonic()
    load_s = 0.0
    process = subprocess.Popen(
        command,
        cwd=work,
        env=surroundings | own | settings,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        if recipe.ready:
            _wait_until_ready(recipe, process, work, surroundings)
        if recipe.load:
            load_began = time.monotonic()
            _script(recipe, recipe.load, work, "load", deadline - load_began, surroundings)
            load_s = time.monotonic() - load_began
        if recipe.stop:
            os.kill(process.pid, signal.Signals[f"SIG{recipe.stop}"])  # a wrapper passes it on, as our recorder does
        if not has_ended(process, max(deadline - time.monotonic(), STOP_LIMIT_S if recipe.stop else 1)):
            raise HeaptapeError(f"{recipe.name}: not done after {recipe.time_limit_s:g} s")
        wall_s = time.monotonic() - began
    finally:
        status = _end_session(process)
    return Finished(status, wall_s, load_s)


@contextlib.contextmanager
def _own_orphans() -> Iterator[None]:
    """Processes that are orphaned within the context (daemons, and children of a recorder that has ended) become
    children of this process instead of init's, and are ended at its end.
    """
    before = set(descendants(os.getpid()))
    adopt_orphans(True)
    try:
        yield
    finally:
        while left := {pid: one for pid, one in descendants(os.getpid()).items() if pid not in before}:
            for pid, seen in left.items():
                send_signal(pid, seen, signal.SIGKILL)
            for pid in left:
                with contextlib.suppress(ChildProcessError):  # a grandchild becomes ours when its parent has gone
                    os.waitpid(pid, 0)
        adopt_orphans(False)


def _end_session(process: subprocess.Popen) -> int:
    """Ends the process and its session; first by SIGTERM, so that a recorder can remove its files elsewhere. Returns
    its status.
    """
    if not has_ended(process, 0):
        os.kill(process.pid, signal.SIGTERM)
        has_ended(process, END_LIMIT_S)
    return end_group(process)


def _wait_until_ready(recipe: Recipe, process: subprocess.Popen, work: Path, surroundings: dict[str, str]) -> None:
    limit = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < limit:
        if has_ended(process, 0):
            raise HeaptapeError(
                f"{recipe.name}: {recipe.command[0]} ended with {end_group(process)} before it was ready"
            )
        command, nothing = [*_drop(recipe), "sh", "-ec", recipe.ready], subprocess.DEVNULL
        done = subprocess.run(command, cwd=work, env=surroundings, stdin=nothing, stdout=nothing, stderr=nothing)
        if done.returncode == 0:
            return
        time.sleep(0.05)
    raise HeaptapeError(f"{recipe.name}: not ready after {READY_LIMIT_S} s")


def _script(
    recipe: Recipe, text: str, work: Path, what: str, limit_s: float, surroundings: dict[str, str] | None = None
) -> None:
    try:
        done = subprocess.run(
            [*_drop(recipe), "sh", "-ec", text],
            cwd=work,
            env=surroundings or _surroundings(recipe, work, 0),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=max(limit_s, 1),
        )
    except subprocess.TimeoutExpired:
        raise HeaptapeError(f"{recipe.name}: its {what} script is not done after {limit_s:.0f} s") from None
    if done.returncode != 0:
        last = done.stdout.decode(errors="replace").strip().rpartition("\n")[2]
        raise HeaptapeError(f"{recipe.name}: its {what} script failed ({done.returncode}): {last}")


def _surroundings(recipe: Recipe, work: Path, port: int) -> dict[str, str]:
    known = without_allocator(os.environ)
    kept = {name: value for name, value in known.items() if not name.startswith(DESKTOP) and name != PRELOAD}
    own = {"WORK": work, "HOME": work, "XDG_RUNTIME_DIR": work, "HERE": recipe.path.parent, "VENV": recipe.venv}
    return kept | {name: str(value) for name, value in own.items()} | {"PORT": str(port), "LC_ALL": "C.UTF-8"}


def _must_drop(recipe: Recipe) -> bool:
    return recipe.unprivileged and os.geteuid() == 0


def _drop(recipe: Recipe) -> list[str]:
    if not _must_drop(recipe):
        return []
    user = pwd.getpwnam(NOBODY)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _give_to_nobody(recipe: Recipe, folder: Path) -> None:
    if not _must_drop(recipe):
        return
    user = pwd.getpwnam(NOBODY)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def _fingerprint(recipe: Recipe) -> str:
    """Digest of the recipe and the files beside it that have its name."""
    digest = hashlib.sha256()
    for path in sorted(recipe.path.parent.glob(f"{glob.escape(recipe.name)}.*")):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _is_here(program: str) -> bool:
    return any(Path("/").glob(program[1:])) if program[0] == "/" else shutil.which(program) is not None


def _expand(word: str, surroundings: Mapping[str, str]) -> str:
    for name in ("WORK", "HERE", "PORT", "VENV"):
        word = word.replace(f"${name}", surroundings[name])
    return word


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
