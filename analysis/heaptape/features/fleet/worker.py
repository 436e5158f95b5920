# SPDX-License-Identifier: MIT
"""Runs tasks on this machine: fetches their files, replays, and puts the cells into the store.

A cell's execution is an ordinary engine run (measure/replay.py). There are three kinds of failure. The allocator is at
fault: the cell would fail again. The run failed for another reason: it is worth another attempt. The machine can't run
it: another machine may.
"""

import contextlib
import errno
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home, cache_folder
from heaptape.common.process import scratch_folder
from heaptape.features.fleet.dispatch import Outcome
from heaptape.features.fleet.files import StoreError
from heaptape.features.fleet.machine import Cache, DamagedError, engine_hash, machine_for, machine_id, running_c_library
from heaptape.features.fleet.plan import COMPANION_OF, Planned, Task
from heaptape.features.fleet.status import index_by_cell, is_done
from heaptape.features.fleet.store import (
    HEARTBEAT_S,
    NO_ALLOCATOR_PRELOADED,
    Failure,
    Record,
    Running,
    Store,
    Workload,
    file_of_companion,
    file_of_library,
    file_of_workload,
)
from heaptape.run import exact, machine, replay
from heaptape.run.engine_process import Processes
from heaptape.run.registry import Choice
from heaptape.run.rounds import Run, Settings

# Kept only where the plan requires it: they are at least nine tenths of a run's bytes.
CURVES = ("timeline", "memory_map", "fragmentation", "syscall_rows", "slowest")
CURVES_OF_CALLS = ("histogram", "sizes")
# Length of the path of the folder with a cell's files, wherever a machine keeps temporary files: the dynamic linker
# copies and compares the names of libraries, and the engine the workload's name, which affects instructions and misses.
PLACE_BYTES = 240


@dataclass
class Worker:
    """This process as a worker, with its store and cache. `name`: unique among all workers. `machine_name`: not empty
    where one computer is to count as several machines.
    """

    store: Store
    home: Home
    cache: Cache
    name: str
    machine_name: str = ""
    processes: Processes = field(default_factory=Processes)

    def __post_init__(self) -> None:
        self.machine = machine_id(self.machine_name)
        self._baselines: dict[str, replay.Baseline] = {}
        self._lock = threading.Lock()
        self._introduced = False
        self._since = time.time()
        self._cells: dict[int, str] = {}
        self._done, self._failed, self._busy_s = 0, 0, 0.0

    def run(self, task: Task) -> Outcome:
        """Runs a task, or the part that the store lacks. Raises nothing: the outcome reports errors."""
        begun = time.monotonic()
        outcome = Outcome()
        try:
            with self._at_work(task), machine_for(self.cache, self.machine, task.is_block):
                disks = f"a disk of this machine ({self.cache.folder} or {tempfile.gettempdir()})"
                self.store.files.patience.wait_for(lambda: self._run(task, outcome), disks, _is_full, HeaptapeError)
        except (StoreError, DamagedError) as error:
            outcome.retry = str(error)
        except (HeaptapeError, OSError) as error:
            outcome.retry, outcome.machine_at_fault = _line(error), True
        with self._lock:
            self._done += len(outcome.done)
            self._failed += len(outcome.failed)
            self._busy_s += time.monotonic() - begun
        return outcome

    def report(self) -> None:
        """Writes this worker's state to the store; if that can't be written, a later call will."""
        with self._lock:
            counts = self._done, self._failed, round(self._busy_s, 3)
            about = Running(self.name, self.machine, self._since, time.time(), *counts, list(self._cells.values()))
        with contextlib.suppress(StoreError):
            self.store.put_running(about)

    def ended(self) -> None:
        """No more tasks follow: ends running processes, and removes this worker from the store's list."""
        self.processes.end()
        with contextlib.suppress(StoreError):
            self.store.remove_running(self.name)

    @contextlib.contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Within the context, writes regularly to the store that this worker is alive."""
        ended = threading.Event()

        def beat() -> None:
            self.report()
            while not ended.wait(HEARTBEAT_S):
                self.report()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(timeout=HEARTBEAT_S)
            self.ended()

    @contextlib.contextmanager
    def _at_work(self, task: Task) -> Iterator[None]:
        first = task.cells[0].cell
        what = f"repetition {first.repetition + 1}" if task.is_block else f"{first.label}, {first.pass_}"
        with self._lock:
            self._cells[id(task)] = f"{task.name}: {what}"
        try:
            yield
        finally:
            with self._lock:
                self._cells.pop(id(task), None)

    def _run(self, task: Task, outcome: Outcome) -> None:
        there = self._stored_cells(task, outcome)
        if outcome.done:
            return
        if any(planned.cell.engine != engine_hash(self.home) for planned in task.cells):
            raise HeaptapeError(
                "this machine has another engine or C library than the plan was made with, or at another path"
            )
        with scratch_folder() as scratch:
            place = _of_one_length(scratch)
            workload = self._workload(task, place)
            begun = time.monotonic()
            made = self._made(task, workload, place)
            self._keep(task, made, time.monotonic() - begun, there, outcome)

    def _stored_cells(self, task: Task, outcome: Outcome) -> set[str]:
        """The task's cells that the store has; if another worker has done all of them, sets that in the outcome."""
        seen = index_by_cell(record for record in map(self.store.cell, task.keys) if record)
        if is_done(task, seen, {}):
            outcome.done = task.keys
        return set(seen)

    def _made(self, task: Task, workload: Workload, place: Path) -> list[dict]:
        first = task.cells[0].cell
        settings = Settings(
            repeats=1,
            order=first.order if not task.is_block else "",
            passes=tuple({planned.cell.pass_ for planned in task.cells}),
            timeout_s=task.timeout_s,
            caches=first.caches,
            tlbs=first.tlbs,
            also_loaded=tuple(str(self._library(sha256, place)) for sha256 in first.beside),
            jobs=1,
        )
        path = place / "w.work"
        engine = replay.Engine(
            self.home.program("replay"),
            path,
            settings,
            workload.ops,
            self._baseline(first.workload, path),
            self.processes,
        )
        choices = {id(planned): self._choice(planned, place) for planned in task.cells}
        if task.is_block:
            replay.warm_up(engine, list({choice.label: choice for choice in choices.values()}.values()))
        runs = [Run(choices[id(p)], p.cell.pass_, p.cell.repetition) for p in task.cells]
        return replay.make_runs(engine, runs)

    def _keep(self, task: Task, made: Sequence[dict], seconds: float, there: set[str], outcome: Outcome) -> None:
        """Puts the measured cells into the store, and failures with their reasons. `there`: cells that the store had
        before: they are replaced after the other cells were added. Where a cell can't be added, another worker has run
        the task while this one was stopped.
        """
        if self.processes.ended:  # not the allocators' fault
            outcome.retry = "the worker was ended"
            return
        block = uuid.uuid4().hex if task.is_block else None
        if not self._introduced:
            self.store.put_machine(self.machine, machine.describe())
            self._introduced = True
        for planned, run in sorted(zip(task.cells, made, strict=True), key=lambda pair: pair[0].cell.key in there):
            cell, error = planned.cell, run.get("error")
            if error is None:
                result = run if task.whole else without_curves(run)
                seconds_each = seconds / len(made)
                record = Record(cell, result, self.machine, block, seconds_each, task.whole, time.time())
                if cell.key in there:
                    self.store.put_cell(record)
                elif not self.store.add_cell(record):
                    outcome.done = []
                    self._stored_cells(task, outcome)
                    outcome.retry = "" if outcome.done else "another worker is running it"
                    return
                outcome.done.append(cell.key)
                continue
            final = is_of_allocator(error)
            failure = Failure(cell.label, cell.pass_, task.name, error, self.machine, time.time(), final)
            self.store.put_failure(cell.key, failure)
            if final:
                outcome.failed[cell.key] = f"{task.name}: {cell.label}, {cell.pass_} pass: {error}"
            else:
                outcome.retry = f"{cell.label}, {cell.pass_} pass: {error}"

    def _about(self, sha256: str) -> Workload:
        about = self.store.get(f"workloads/{sha256}.json", Workload)
        if about is None:
            raise DamagedError(f"{self.store.url}: workload {sha256} is missing: start 'fleet replay' with it again")
        return about

    def _workload(self, task: Task, place: Path) -> Workload:
        """Links the workload as PLACE/w.work, with the files beside it that the passes need."""
        cell = task.cells[0].cell
        about = self._about(cell.workload)
        path = self.cache.file(self.store, file_of_workload(cell.workload), cell.workload)
        (place / "w.work").symlink_to(path)
        for planned in task.cells:
            kind = COMPANION_OF.get(planned.cell.pass_)
            beside = place / f"w.{kind}"
            if kind and planned.cell.companion and not beside.exists():
                beside.symlink_to(
                    self.cache.file(self.store, file_of_companion(planned.cell.companion), planned.cell.companion)
                )
        return about

    def _library(self, sha256: str, place: Path) -> Path:
        path = place / f"{sha256}.so"
        if not path.exists():
            path.symlink_to(self.cache.file(self.store, file_of_library(sha256), sha256))
        return path

    def _choice(self, planned: Planned, place: Path) -> Choice:
        cell = planned.cell
        environment = dict(cell.environment)
        if cell.allocator == NO_ALLOCATOR_PRELOADED:
            return Choice(cell.allocator, planned.variant, running_c_library(), "", environment)
        path = self._library(cell.library, place)
        return Choice(cell.allocator, planned.variant, path, str(path), environment)

    def _baseline(self, sha256: str, path: Path) -> replay.Baseline:
        if sha256 not in self._baselines:
            self._baselines[sha256] = replay.baseline(self.home.program("replay"), path)
        return self._baselines[sha256]


def _of_one_length(scratch: Path) -> Path:
    """A folder in `scratch` whose path has PLACE_BYTES."""
    missing = PLACE_BYTES - len(os.fsencode(scratch)) - 1
    if missing < 1:
        raise HeaptapeError(f"{scratch.parent}: too long a path for temporary files (TMPDIR)")
    place = scratch / ("_" * missing)
    place.mkdir()
    return place


def is_of_allocator(error: str) -> bool:
    """Is the allocator at fault? Not where the engine was killed from outside."""
    return exact.is_of_allocator(error) and "(SIGKILL)" not in error


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


def new_worker(store: Store, home: Home, machine_name: str = "") -> Worker:
    """This process as a worker, with this user's cache and a name that no other worker has."""
    name = f"{machine_id(machine_name)}-{uuid.uuid4().hex[:8]}"
    return Worker(store, home, Cache(cache_folder("fleet")), name, machine_name)


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _line(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)
