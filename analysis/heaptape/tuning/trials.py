"""Points of a search, measured: one replay for each workload and pass, as many points at once as there are processors.

A replay's memory, instructions and misses are those of its own process, so they are the same beside other replays; the
allocators' clock is the engine's (docs/RESULTS.md), not the machine's.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.formats.workload_format import read_workload
from heaptape.measure import exact, penalties, replay
from heaptape.measure.registry import Choice
from heaptape.model import counts
from heaptape.model.penalties import Penalties
from heaptape.model.penalties import penalties as read_penalties
from heaptape.tuning.goals import CPU, Figures, Goals
from heaptape.tuning.space import Key, Settings, Space, key_of

ENGINE_BYTES = 256 << 20  # beside what the program itself has live; so many of it for each replay
INTERRUPTED = "killed by SIGINT"


@dataclass(frozen=True)
class Point:
    """Settings and what they gave. `batch`: of the search; CHECKED: of the check after it. `error`: why there are no
    figures.
    """

    settings: Settings
    batch: int
    figures: Figures = field(default_factory=dict)
    error: str = ""

    @property
    def key(self) -> Key:
        return key_of(self.settings)


CHECKED = -1


class StoppedError(Exception):
    """A replay is given up: the search ended."""


class Trials:
    """Workloads, set up once. `workloads`: name -> file."""

    def __init__(self, workloads: Mapping[str, Path], space: Space, goals: Goals, home: Home) -> None:
        """Raises HeaptapeError where a workload can't be replayed, or lacks what a pass needs."""
        for name, path in workloads.items():
            replay.require_accesses(path, name, goals.passes)
        self._space, self._goals = space, goals
        # Before a bench asks for this machine's caches, which are measured with the penalties.
        self._penalties = read_penalties(penalties.of_this_machine(home)) if CPU in goals.figures else None
        default = [space.choice({})]
        self._benches = {name: exact.Bench(path, home, default) for name, path in workloads.items()}
        self._room = _replays_in_memory([read_workload(path).peak_live_bytes for path in workloads.values()])

    def measure(self, wanted: Sequence[Settings], batch: int, jobs: int) -> Iterator[Point]:
        """A point for each, as they come; `jobs` at once, or fewer where memory is short. Raises KeyboardInterrupt
        where a replay was ended by Ctrl-C. When the iterator is closed, replays under way are given up as soon as they
        tell of their progress.
        """
        stop = threading.Event()

        def look(share: float) -> None:
            if stop.is_set():
                raise StoppedError

        pool = ThreadPoolExecutor(max(1, min(jobs, self._room)))
        try:
            for future in as_completed([pool.submit(self._point, one, batch, look) for one in wanted]):
                point = future.result()
                if INTERRUPTED in point.error:
                    raise KeyboardInterrupt
                yield point
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)

    def _point(self, settings: Settings, batch: int, look: Callable[[float], None]) -> Point:
        choice, found = self._space.choice(settings), {}
        for name, bench in self._benches.items():
            look(0)
            try:
                found[name] = self._figures(bench.runs(choice, self._goals.passes, look), choice)
            except HeaptapeError as error:
                return Point(settings, batch, error=str(error) if len(self._benches) == 1 else f"{name}: {error}")
        return Point(settings, batch, found)

    def _figures(self, runs: Mapping[str, dict], choice: Choice) -> dict[str, float]:
        return {
            name: _cpu_ns(runs, self._penalties) if name == CPU else exact.read(name, runs, choice.label)
            for name in self._goals.figures
        }


def _cpu_ns(runs: Mapping[str, dict], penalties: Penalties | None) -> float:
    """The sum of the model of time, each penalty in the middle of its range."""
    if penalties is None:
        raise ValueError("no penalties were measured")
    counted = counts.of_misses(runs["misses"]["misses"], runs["memory"], penalties)
    return sum(term.count * term.penalty.middle for term in counted.terms)


def _replays_in_memory(live_bytes: Sequence[int]) -> int:
    """How many replays at once this machine's free memory bears: where it swaps, resident memory is no figure."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return free // (2 * max(live_bytes, default=0) + ENGINE_BYTES)
