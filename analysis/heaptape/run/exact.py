# SPDX-License-Identifier: MIT
"""Exact figures of a workload on an allocator: the same in every run, so that one run is enough.

For searches of settings, comparisons of libraries and bisections, which need a few named figures of one workload on one
choice. docs/formats/RESULTS.md defines how exact each of them is, and on which allocators it is not: an allocator that
reads the clock or random numbers differs from run to run.
"""

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from heaptape.allocators.registry import Choice
from heaptape.common.engine import PASSES
from heaptape.common.errors import HeaptapeError, unknown
from heaptape.common.home import Home
from heaptape.results import structs as results
from heaptape.results.structs import number
from heaptape.run import engine_process, replay
from heaptape.run.engine_process import Processes, side_by_side
from heaptape.run.rounds import Run, Settings
from heaptape.tape.workload_format import read_workload


class RunError(HeaptapeError):
    """A failed run: the allocator, the pass, and why. `run`: with its kind."""

    def __init__(self, run: results.Run) -> None:
        super().__init__(f"{run.label}, {run.pass_} pass: {run.error}")
        self.run = run


class TimeUpError(HeaptapeError):
    """A run that was not made, or ended early, as its time was up."""

    def __init__(self) -> None:
        super().__init__("not tried, as the budget has no time for it")


Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Figure:
    """One figure: its pass, its unit ("bytes", "" for a count), and how to read it from a run of that pass."""

    pass_: str
    unit: str
    read: Callable[[results.Run], float | None] = field(repr=False)


def _of_run(key: str) -> Callable[[results.Run], float | None]:
    return lambda run: number(getattr(run, key))


def _syscalls(run: results.Run) -> float | None:
    return None if run.syscalls is None else float(sum(count or 0 for count in run.syscalls.values()))


def _last_misses(run: results.Run) -> float | None:
    caches = (run.misses and run.misses.caches) or []
    return number(max(caches, key=lambda cache: cache.bytes or 0).misses) if caches else None


def _upper_end(run: results.Run) -> float | None:
    peak = number(run.rss_anon_peak_bytes)
    return None if peak is None else max(peak, run.spread_peak_bytes or 0.0)


PEAK, UPPER = "rss-peak", "rss-peak-upper"  # the same where a peak is no range
FIGURES = {
    PEAK: Figure("memory", "bytes", _of_run("rss_anon_peak_bytes")),
    UPPER: Figure("memory", "bytes", _upper_end),
    "rss-mean": Figure("memory", "bytes", _of_run("rss_anon_mean_bytes")),
    "vmsize-peak": Figure("memory", "bytes", _of_run("vm_size_peak_bytes")),
    "faults": Figure("memory", "", _of_run("page_faults")),
    "syscalls": Figure("memory", "", _syscalls),
    "instructions": Figure("instructions", "", _of_run("instructions_total")),
    "misses": Figure("misses", "", _last_misses),
    "broken": Figure("verify", "", lambda run: float(run.error is not None)),
}


class Bench:
    """A workload that is set up once and replayed for each request of figures. Runs are not kept: a caller that needs a
    figure twice keeps it.
    """

    def __init__(
        self,
        workload: Path,
        home: Home,
        timeout_s: float = 0,
        processes: Processes | None = None,
    ) -> None:
        """`processes`: shared by several benches, and ended together. Raises HeaptapeError if the engine can't run this
        workload at all.
        """
        info = read_workload(workload)
        also = tuple(engine_process.also_loaded(info.info))
        settings, _ = replay.with_sizes(
            Settings(repeats=1, passes=PASSES, timeout_s=timeout_s, also_loaded=also, memory_map=False)
        )
        program = home.program("replay")
        before = replay.baseline(program, workload)
        self._engine = replay.Engine(program, workload, settings, info.ops, before, processes or Processes())
        self.workload, self.ops = workload, info.ops

    def counting(self, ops: int) -> "Bench":
        """The same, but the instructions pass counts at most this many ops, the first of the workload."""
        other = copy.copy(self)
        settings = replace(self._engine.settings, instruction_ops=ops)
        other._engine = replace(self._engine, settings=settings)
        return other

    def promises(self, choice: Choice, within_s: float = math.inf) -> str:
        """The promise that the allocator breaks (memory that is misaligned, shared, not zeroed, changed; a crash), one
        line of the pass verify; empty: it keeps its promises. Raises HeaptapeError if the pass can't be made, and
        TimeUpError.
        """
        return self._measured(choice, "verify", within_s).error or ""

    @property
    def jobs(self) -> int:
        """How many runs this machine can make at a time. Their figures are the same as of one alone."""
        return replay.jobs_for(self._engine)

    def run(self, choice: Choice, pass_: str, within_s: float = math.inf) -> results.Run:
        """One run, as in results. Raises RunError, and TimeUpError where it takes longer than `within_s`."""
        run = self._measured(choice, pass_, within_s)
        if run.error is not None:
            raise RunError(run)
        return run

    def side_by_side(self, work: Callable[[Item], Made], items: Sequence[Item]) -> Iterator[tuple[Item, Made]]:
        """Yields each item with the result of `work`, which uses this bench's runs, as they are done; as many at a time
        as processors and memory allow. If `work` or the caller raises, the runs are ended.
        """
        return side_by_side(work, items, replay.jobs_for(self._engine), self._engine.processes)

    def _measured(self, choice: Choice, pass_: str, within_s: float = math.inf) -> results.Run:
        """The run, with its error if a promise was broken. Raises RunError for other errors."""
        if within_s <= 0:
            raise TimeUpError
        about = {"allocator": choice.allocator, "variant": choice.variant, "repeat": 0}
        engine, ends = self._engine, time.monotonic() + within_s
        if within_s < math.inf:
            engine = replace(engine, settings=replace(engine.settings, timeout_s=within_s))
        measured = replay.measure(engine, Run(choice, pass_, 0))
        if "error" in measured and time.monotonic() >= ends:
            raise TimeUpError
        run = msgspec.convert(about | measured, results.Run)
        if run.error is not None and not (pass_ == "verify" and run.kind == results.OF_ALLOCATOR):
            raise RunError(run)
        return run

    def runs(self, choice: Choice, passes: Iterable[str]) -> dict[str, results.Run]:
        """pass -> one run of it, as from `run`."""
        return {pass_: self.run(choice, pass_) for pass_ in dict.fromkeys(passes)}

    def figures(self, choice: Choice, names: Iterable[str]) -> dict[str, float]:
        """name -> value, for names of FIGURES, by one run for each pass that they need. Raises RunError, or
        HeaptapeError for an unknown name or a figure that this machine can't count.
        """
        wanted = list(dict.fromkeys(names))
        runs = {one: self._measured(choice, one) for one in dict.fromkeys(known(name).pass_ for name in wanted)}
        return {name: read(name, runs, choice.label) for name in wanted}


def known(name: str) -> Figure:
    """The figure of that name. Raises HeaptapeError if there is none."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return FIGURES[name]


def read(name: str, runs: Mapping[str, results.Run], label: str) -> float:
    """The figure's value in the run of its pass. Raises HeaptapeError, naming `label`, if it was not counted."""
    run = runs[FIGURES[name].pass_]
    value = FIGURES[name].read(run)
    if value is None:
        raise HeaptapeError(f"{label}: no figure '{name}': {run.syscalls_missing_because or 'not counted'}")
    return value
