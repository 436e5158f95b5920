"""Recipes of real programs (workloads/apps/NAME.toml): what they are, whether they can run here, and running them.

A recipe says which program to start, on what input, under which load, and when it is done; workloads/apps/README.md
lists the keys. Nothing here knows of recording or measuring: `run` puts a wrapper (a recorder, an observer) before the
command and settings (LD_PRELOAD) into its environment, so the same recipe is recorded, observed live, or both in turns.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heaptape.errors import HeaptapeError
from heaptape.home import PACKAGE

DIRECTORIES = (PACKAGE.parent / "workloads" / "apps", PACKAGE.parent.parent / "workloads" / "apps")
READY_LIMIT_S = 60
STOP_LIMIT_S = 60
SETS = ("tuned", "held-out")


@dataclass(frozen=True)
class Recipe:
    """One program under one load. `command`: its arguments, in which $WORK, $PORT and $HERE are replaced, as in the
    scripts. `trace`: base name of the process meant, where the command starts several. `set`: of which half it is in
    `verify-fidelity` ("tuned", "held-out"; empty: in neither).
    """

    name: str
    path: Path
    summary: str
    stands_for: str
    command: tuple[str, ...]
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: str = ""
    ready: str = ""
    load: str = ""
    stop: str = ""
    trace: str = ""
    set: str = ""
    deterministic: bool = False
    time_limit_s: float = 300
    port: int = 0

    @property
    def process(self) -> str:
        """Base name of the executable that is meant."""
        return self.trace or Path(self.command[0]).name

    def missing(self) -> str:
        """Why it can't run here, in words; empty: it can."""
        absent = [name for name in self.programs or self.command[:1] if not shutil.which(name)]
        if not absent:
            return ""
        packages = f": apt install {' '.join(self.packages)}" if self.packages else ""
        return f"{', '.join(absent)} not found{packages}"


@dataclass(frozen=True)
class Finished:
    """A run that ended. `status`: of the command; negative: ended by that signal. Times in seconds: of the command from
    start to end, and of the load (0 where there is none).
    """

    status: int
    wall_s: float
    load_s: float


def find(directories: Sequence[Path] = DIRECTORIES) -> list[Recipe]:
    """All recipes, by name. Raises HeaptapeError at one that is not well formed."""
    files = {path.stem: path for folder in directories for path in sorted(folder.glob("*.toml"))}
    return [read(path) for _, path in sorted(files.items())]


def read(path: Path) -> Recipe:
    """One recipe. Raises HeaptapeError, naming file and key, at what is missing, unknown or of the wrong type."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise HeaptapeError(f"{path}: {error}") from None
    kinds = {name: kind.type for name, kind in Recipe.__dataclass_fields__.items() if name not in ("name", "path")}
    for key in ("summary", "stands_for", "command"):
        if key not in table:
            raise HeaptapeError(f"{path}: {key} is missing")
    for key, value in table.items():
        if key not in kinds:
            raise HeaptapeError(f"{path}: unknown key '{key}'")
        if not _fits(key, value):
            raise HeaptapeError(f"{path}: {key} has the wrong type or value")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return Recipe(name=path.stem, path=path, **values)


def prepare(recipe: Recipe, cache: Path) -> Path:
    """The folder with the recipe's input, made by its `prepare` script where `cache` does not hold it yet. A recipe
    that has changed is prepared anew. Raises HeaptapeError with the script's last words.
    """
    folder, stamp = cache / recipe.name, cache / f"{recipe.name}.recipe"
    if folder.is_dir() and stamp.is_file() and stamp.read_bytes() == recipe.path.read_bytes():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if recipe.prepare:
        _script(recipe, recipe.prepare, folder, "prepare", recipe.time_limit_s)
    stamp.write_bytes(recipe.path.read_bytes())
    return folder


def run(
    recipe: Recipe,
    prepared: Path,
    scratch: Path,
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    output: Path | None = None,
) -> Finished:
    """Runs the command in a fresh copy of `prepared` made at `scratch` (which must not exist, and is removed), under
    its load, to its end. `wrapper` goes before the command, `environment` into its surroundings only, not the load's.
    `output`: where what it prints goes (default: nowhere). Raises HeaptapeError where it never gets ready, its load
    fails, or the time limit ends it.
    """
    shutil.copytree(prepared, scratch, symlinks=True)
    try:
        with (output or Path(os.devnull)).open("wb") as told:
            return _run(recipe, scratch, wrapper, dict(environment or {}), told.fileno())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(recipe: Recipe, work: Path, wrapper: Sequence[str], settings: dict[str, str], told: int) -> Finished:
    surroundings = _surroundings(recipe, work, recipe.port or _free_port())
    command = [*wrapper, *(_expand(word, surroundings) for word in recipe.command)]
    own = {name: _expand(value, surroundings) for name, value in recipe.environment.items()}
    deadline = time.monotonic() + recipe.time_limit_s
    began = time.monotonic()
    load_s = 0.0
    process = subprocess.Popen(
        command,
        cwd=work,
        env=surroundings | own | settings,
        stdin=subprocess.DEVNULL,
        stdout=told,
        stderr=told,
        start_new_session=True,
    )
    try:
        if recipe.ready:
            _wait_until_ready(recipe, process, work, surroundings)
        if recipe.load:
            load_began = time.monotonic()
            _script(recipe, recipe.load, work, "load", deadline - load_began, surroundings)
            load_s = time.monotonic() - load_began
        if recipe.stop and process.poll() is None:
            _stop(recipe, process)
        status = process.wait(max(deadline - time.monotonic(), STOP_LIMIT_S if recipe.stop else 1))
    except subprocess.TimeoutExpired:
        raise HeaptapeError(f"{recipe.name}: not done after {recipe.time_limit_s:g} s") from None
    finally:
        _end_session(process)
    return Finished(status, time.monotonic() - began, load_s)


def _stop(recipe: Recipe, process: subprocess.Popen) -> None:
    """Signals the program itself. A wrapper passes on what it gets, as `heaptape record` does."""
    process.send_signal(signal.Signals[f"SIG{recipe.stop}"])


def _end_session(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_until_ready(recipe: Recipe, process: subprocess.Popen, work: Path, surroundings: dict[str, str]) -> None:
    limit = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise HeaptapeError(
                f"{recipe.name}: {recipe.command[0]} ended with {process.returncode} before it was ready"
            )
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        if subprocess.run(["sh", "-ec", recipe.ready], cwd=work, env=surroundings, **quiet).returncode == 0:
            return
        time.sleep(0.05)
    raise HeaptapeError(f"{recipe.name}: not ready after {READY_LIMIT_S} s")


def _script(
    recipe: Recipe, text: str, work: Path, what: str, limit_s: float, surroundings: dict[str, str] | None = None
) -> None:
    try:
        done = subprocess.run(
            ["sh", "-ec", text],
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
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return kept | {"WORK": str(work), "HERE": str(recipe.path.parent), "PORT": str(port), "LC_ALL": "C.UTF-8"}


def _expand(word: str, surroundings: Mapping[str, str]) -> str:
    for name in ("WORK", "HERE", "PORT"):
        word = word.replace(f"${name}", surroundings[name])
    return word


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _fits(key: str, value: object) -> bool:
    if key in ("packages", "programs", "command"):
        good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return good and (key != "command" or bool(value))
    if key == "environment":
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    if key == "deterministic":
        return isinstance(value, bool)
    if key in ("time_limit_s", "port"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if key == "set":
        return value in SETS
    if key == "stop":
        return isinstance(value, str) and f"SIG{value}" in signal.Signals.__members__
    return isinstance(value, str)
