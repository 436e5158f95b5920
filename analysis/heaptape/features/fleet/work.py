# SPDX-License-Identifier: MIT
"""Runs tasks on this machine: brings their files from the store, replays, and puts the results into the store.

A cell's execution is an ordinary engine run (run/replay.py). If the allocator is at fault, that is the result. A run
that fails for another reason is tried again (dispatch.py).
"""

import fcntl
import functools
import hashlib
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from heaptape.allocators.registry import Choice, c_library, sha256_of
from heaptape.common.engine import BY_NAME
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home, cache_folder
from heaptape.common.process import locked, scratch_folder
from heaptape.features.fleet.store import (
    Cell,
    Record,
    Store,
    Task,
    Workload,
    digest,
    file_of_companion,
    file_of_library,
    file_of_workload,
)
from heaptape.results.structs import OF_ALLOCATOR
from heaptape.run import machine, replay
from heaptape.run.engine_process import Processes
from heaptape.run.rounds import Run, Settings

NO_ALLOCATOR_PRELOADED = "glibc"  # its library is the C library that the engine runs on
VALGRIND_TOOL = "valgrind/heaptape-amd64-linux"  # beside the engine, where it is built
# Kept only where the plan requires it: they are at least nine tenths of a run's bytes.
CURVES = ("timeline", "memory_map", "fragmentation", "syscall_rows", "slowest")
CURVES_OF_CALLS = ("histogram", "sizes")
# Length of the path of the folder with a cell's files, wherever a machine keeps temporary files: the dynamic linker
# copies and compares the names of libraries, and the engine the workload's name, which affects instructions and misses.
PLACE_BYTES = 240


class TaskError(HeaptapeError):
    """A task has no result, and no allocator is at fault: another attempt may succeed."""


@functools.cache
def engine_hash(home: Home) -> str:
    """Hash of the engine, of the Valgrind tool under which it counts, and of the C library on which both run. And of
    the engine's path, which affects start-up and the stack: the same engine at another path differs by about 0.3 % in
    misses.
    """
    engine = home.program("replay").resolve()
    tool = engine.parent / VALGRIND_TOOL
    files = [sha256_of(engine), sha256_of(tool) if tool.is_file() else "", sha256_of(_c_library())]
    return digest([*files, str(engine)])


@dataclass
class Worker:
    """This process as a worker for a store. `cache`: of this user, on this machine; may be deleted at any time."""

    store: Store
    home: Home
    processes: Processes = field(default_factory=Processes)
    cache: Path = field(default_factory=lambda: cache_folder("fleet"))

    def __post_init__(self) -> None:
        self.machine = _machine_id()
        self._checked: dict[Path, tuple[int, int, int]] = {}  # inode, size and time when its hash was right

    def run(self, task: Task) -> Record:
        """Runs a task; its record is then in the store. Raises HeaptapeError and OSError, and puts the reason there."""
        try:
            with _machine_for(self.cache, self.machine, task.is_block), scratch_folder() as scratch:
                record = self._run(task, _of_one_length(scratch))
            self.store.put_record(record)
        except (HeaptapeError, OSError) as error:
            if not self.processes.ended:
                self.store.put_failure(task.key, str(error), self.machine, time.time())
            raise
        return record

    def _run(self, task: Task, place: Path) -> Record:
        if any(cell.engine != engine_hash(self.home) for cell in task.cells):
            raise TaskError("this machine has another engine or C library than the plan, or at another path")
        began = time.monotonic()
        made = self._made(task, place)
        for cell, run in zip(task.cells, made, strict=True):
            if "error" in run and (self.processes.ended or run.get("kind") != OF_ALLOCATOR):
                raise TaskError(f"{cell.label}, {cell.pass_} pass: {run['error']}")
        if self.store.files.size(f"machines/{self.machine}.json") is None:
            self.store.put(f"machines/{self.machine}.json", machine.describe())
        results = tuple(run if task.whole else without_curves(run) for run in made)
        return Record(task.cells, results, self.machine, time.monotonic() - began, task.whole, time.time())

    def _made(self, task: Task, place: Path) -> list[dict]:
        first = task.cells[0]
        settings = Settings(
            repeats=1,
            order="" if task.is_block else first.order,
            passes=tuple({cell.pass_ for cell in task.cells}),
            timeout_s=task.timeout_s,
            caches=first.caches,
            tlbs=first.tlbs,
            also_loaded=tuple(str(self._library(sha256, place)) for sha256 in first.beside),
            jobs=1,
        )
        path, program = self._workload(task, place), self.home.program("replay")
        about = self.store.get(f"workloads/{first.workload}.json", Workload)
        if about is None:
            raise self._missing(f"workloads/{first.workload}.json", "missing")
        engine = replay.Engine(program, path, settings, about.ops, replay.baseline(program, path), self.processes)
        choices = [self._choice(cell, place) for cell in task.cells]
        if task.is_block:
            replay.warm_up(engine, list({choice.label: choice for choice in choices}.values()))
        runs = [Run(choice, cell.pass_, cell.repetition) for choice, cell in zip(choices, task.cells)]
        return replay.make_runs(engine, runs)

    def _workload(self, task: Task, place: Path) -> Path:
        """Links the workload as PLACE/w.work, with the files beside it that the passes need."""
        path = place / "w.work"
        path.symlink_to(self._file(file_of_workload(task.cells[0].workload), task.cells[0].workload))
        for cell in task.cells:
            facts = BY_NAME[cell.pass_]
            beside = path.with_suffix(".accesses" if facts.accesses else ".origins")
            if cell.companion and not beside.exists():
                beside.symlink_to(self._file(file_of_companion(cell.companion), cell.companion))
        return path

    def _choice(self, cell: Cell, place: Path) -> Choice:
        environment = dict(cell.environment)
        if cell.allocator == NO_ALLOCATOR_PRELOADED:
            return Choice(cell.allocator, cell.variant, _c_library(), "", environment)
        path = self._library(cell.library, place)
        return Choice(cell.allocator, cell.variant, path, str(path), environment)

    def _library(self, sha256: str, place: Path) -> Path:
        path = place / f"{sha256}.so"
        if not path.exists():
            path.symlink_to(self._file(file_of_library(sha256), sha256))
        return path

    def _file(self, name: str, sha256: str) -> Path:
        """This machine's copy of a store's file. If several processes need it, one fetches it and the others wait."""
        path = self.cache / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path.with_name(f"{path.name}.lock"), fcntl.LOCK_EX):
            if self._is_right(path, sha256):
                return path
            partial = path.with_name(f"{path.name}.partial")
            try:
                if not self.store.files.download(name, partial):
                    raise self._missing(name, "missing")
                if sha256_of(partial) != sha256:
                    self.store.set_aside(name, "has another hash than its name")
                    raise self._missing(name, "damaged")
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        return path

    def _missing(self, name: str, what: str) -> TaskError:
        return TaskError(f"{self.store.url}: {name} is {what}: start 'fleet run' with its file again")

    def _is_right(self, path: Path, sha256: str) -> bool:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return False
        seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if self._checked.get(path) != seen:
            if sha256_of(path) != sha256:
                return False
            self._checked[path] = seen
        return True


@contextmanager
def _machine_for(cache: Path, machine_name: str, alone: bool) -> Iterator[None]:
    """Reserves the machine for one task: alone, or shared with other tasks. Machines may share a home folder. A task
    that needs it alone is served in order: later tasks wait at the gate behind it.
    """
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with (
        locked(cache / f"{machine_name}.gate", fcntl.LOCK_EX) as gate,
        locked(cache / f"{machine_name}.lock", how),
    ):
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def _machine_id() -> str:
    """Id of this machine: the same at each start, without revealing its name."""
    try:
        name = Path("/etc/machine-id").read_text().strip()
    except OSError:
        name = ""
    return hashlib.sha256(f"heaptape fleet {name} {platform.node()}".encode()).hexdigest()[:16]


def _c_library() -> Path:
    path = c_library()
    if path is None:
        raise HeaptapeError("the C library of this process can't be found")
    return path


def _of_one_length(scratch: Path) -> Path:
    """A folder in `scratch` whose path has PLACE_BYTES."""
    missing = PLACE_BYTES - len(os.fsencode(scratch)) - 1
    if missing < 1:
        raise HeaptapeError(f"{scratch.parent}: too long a path for temporary files (TMPDIR)")
    place = scratch / ("_" * missing)
    place.mkdir()
    return place


def without_curves(run: dict) -> dict:
    """A run without the data that only figures need."""
    kept = {key: value for key, value in run.items() if key not in CURVES}
    calls = kept.get("calls")
    if isinstance(calls, dict):
        kept["calls"] = {
            name: {key: value for key, value in call.items() if key not in CURVES_OF_CALLS}
            for name, call in calls.items()
            if isinstance(call, dict)
        }
    return kept
