"""Exact figures of a workload on an allocator: those that come out the same each time, so that one run answers.

Whoever searches settings, holds one library against another or looks for the change that made one worse asks here, for
a few named figures of one workload on one choice. How exact each of them is, and of which allocators it is not:
docs/RESULTS.md; an allocator that looks at the clock or at random numbers differs from run to run.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.formats.workload_format import read_workload
from heaptape.measure import loaded, replay
from heaptape.measure.registry import Choice
from heaptape.measure.rounds import PASSES, Run, Settings
from heaptape.results.schema import number


class RunError(HeaptapeError):
    """One run of an allocator: which, which pass, and why."""


@dataclass(frozen=True)
class Figure:
    """One figure: of which pass, its unit ("bytes", "" for a count), and where it stands in a run of that pass."""

    pass_: str
    unit: str
    read: Callable[[Mapping], float | None] = field(repr=False)


def _of_run(key: str) -> Callable[[Mapping], float | None]:
    return lambda run: number(run.get(key))


def _syscalls(run: Mapping) -> float | None:
    kinds = run.get("syscalls")
    return float(sum(kinds.values())) if isinstance(kinds, Mapping) else None


def _last_misses(run: Mapping) -> float | None:
    """Of the largest cache."""
    caches = (run.get("misses") or {}).get("caches") or []
    return number(max(caches, key=lambda cache: cache["bytes"])["misses"]) if caches else None


FIGURES = {
    "rss-peak": Figure("memory", "bytes", _of_run("rss_anon_peak_bytes")),
    "rss-mean": Figure("memory", "bytes", _of_run("rss_anon_mean_bytes")),
    "vmsize-peak": Figure("memory", "bytes", _of_run("vm_size_peak_bytes")),
    "faults": Figure("memory", "", _of_run("page_faults")),
    "syscalls": Figure("memory", "", _syscalls),
    "instructions": Figure("instructions", "", _of_run("instructions_total")),
    "misses": Figure("misses", "", _last_misses),
    "broken": Figure("verify", "", lambda run: float("error" in run)),
}

# How the engine's errors tell that the allocator broke a promise, or crashed; other errors are not the allocator's.
ALLOCATOR_AT_FAULT = ("the allocator is at fault", "the allocator was killed", "the allocator made no progress")


class Bench:
    """A workload that is set up once and replayed as often as figures are asked for. `choices`: all allocators that
    will be compared, as far as they are known: what their libraries need is loaded on each of them (loaded.py).

    Runs are not kept: who wants the same figure twice keeps it.
    """

    def __init__(self, workload: Path, home: Home, choices: Iterable[Choice] = (), timeout_s: float = 0) -> None:
        """Raises HeaptapeError if the engine can't run this workload at all."""
        info = read_workload(workload)
        also = tuple(loaded.also_loaded(info.info, list(choices)))
        settings, _ = replay.with_sizes(Settings(repeats=1, passes=PASSES, timeout_s=timeout_s, also_loaded=also))
        program = home.program("replay")
        self._engine = replay.Engine(program, workload, settings, info.ops, replay.baseline(program, workload))
        self.workload, self.ops = workload, info.ops

    def promises(self, choice: Choice, tell: Callable[[float], None] = lambda share: None) -> str:
        """What the allocator does that none may (memory that is misaligned, shared, not zeroed, changed; a crash), one
        line of the pass verify; empty: it keeps its promises. Raises HeaptapeError where the pass can't be made.
        """
        run = self._measured(choice, "verify", tell)
        return str(run.get("error", ""))

    def run(self, choice: Choice, pass_: str, tell: Callable[[float], None] = lambda share: None) -> dict:
        """One run, as in results. Raises RunError."""
        run = self._measured(choice, pass_, tell)
        if "error" in run:
            raise _failure(choice, pass_, run)
        return run

    def _measured(self, choice: Choice, pass_: str, tell: Callable[[float], None]) -> dict:
        """The run, which has an error if a promise was broken."""
        run = replay.measure(self._engine, Run(choice, pass_, 0), tell)
        if "error" in run and not (pass_ == "verify" and any(words in run["error"] for words in ALLOCATOR_AT_FAULT)):
            raise _failure(choice, pass_, run)
        return run

    def figures(
        self, choice: Choice, names: Iterable[str], tell: Callable[[float], None] = lambda share: None
    ) -> dict[str, float]:
        """name -> value of those FIGURES, one run for each pass that they need. Raises RunError, or HeaptapeError for
        an unknown name or a figure that this machine can't count.
        """
        wanted = list(dict.fromkeys(names))
        unknown = [name for name in wanted if name not in FIGURES]
        if unknown:
            raise HeaptapeError(f"unknown figure '{unknown[0]}': there are {', '.join(FIGURES)}")
        passes = list(dict.fromkeys(FIGURES[name].pass_ for name in wanted))
        runs = {}
        for done, pass_ in enumerate(passes):
            runs[pass_] = self._measured(choice, pass_, _part(tell, done, len(passes)))
        found = {name: FIGURES[name].read(runs[FIGURES[name].pass_]) for name in wanted}
        for name, value in found.items():
            if value is None:
                why = runs[FIGURES[name].pass_].get("syscalls_missing_because", "not counted")
                raise HeaptapeError(f"{choice.label}: no figure '{name}': {why}")
        return {name: value for name, value in found.items() if value is not None}


def _failure(choice: Choice, pass_: str, run: Mapping) -> RunError:
    return RunError(f"{choice.label}, {pass_} pass: {run['error']}")


def _part(tell: Callable[[float], None], done: int, passes: int) -> Callable[[float], None]:
    """The progress of one pass, as a share of all."""
    return lambda share: tell((done + share) / passes)
