# SPDX-License-Identifier: MIT
"""A space with a known best: figures that are a formula of the settings, without a replay."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from heaptape.measure.registry import Allocator
from heaptape.measure.tunables import Tunable, Tunables
from heaptape.tuning import store
from heaptape.tuning.goals import Goals
from heaptape.tuning.judged import Judged
from heaptape.tuning.search import Budget, Search
from heaptape.tuning.space import Settings, Space, space_of
from heaptape.tuning.trials import Point

WORKLOAD = "planted"
BEST = {"a": "40", "b": "8", "mode": "y"}
# As allocators.toml has them; the library of test_tune_command.py computes the same.
TUNABLES = Tunables(
    variable="PLANTED_{NAME}",
    space={
        "a": Tunable("integer", "best at 40", range=(0, 64), default="0"),
        "b": Tunable("integer", "best at 8", range=(1, 256), scale="log", default="256"),
        "mode": Tunable("choice", "best is y, and z doubles the harm of a", values=("x", "y", "z"), default="x"),
    },
)
GOALS = Goals(("rss-peak",), (), {WORKLOAD: 1.0})


def planted_space(only: Sequence[str] = ()) -> Space:
    """Of an allocator that is found."""
    allocator = Allocator(name="planted", library="planted.so", path=Path("/bin/true"), tunables=TUNABLES)
    return space_of("planted", {"planted": allocator}, only)


def pages(settings: Settings) -> int:
    """What the planted allocator wastes."""
    chosen = {name: settings.get(name, one.default) for name, one in TUNABLES.space.items()}
    of_a = 16 * abs(int(chosen["a"]) - 40) * (2 if chosen["mode"] == "z" else 1)
    return 100 + of_a + 64 * abs(int(chosen["b"]).bit_length() - 4) + 200 * (chosen["mode"] != "y")


class Formula:
    """Stands for Trials. `fails`: settings that fail; `measured`: what was asked for, in order."""

    def __init__(self, fails: Callable[[Settings], bool] = lambda settings: False) -> None:
        self.fails = fails
        self.measured: list[tuple[Settings, int]] = []

    def measure(self, wanted: Sequence[Settings], batch: int, jobs: int, again: int = 0) -> Iterator[Point]:
        """Last first, as points may come in any order."""
        for settings in reversed(wanted):
            self.measured.append((settings, again))
            if self.fails(settings):
                yield Point(settings, batch, error="planted: killed by SIGSEGV", again=again)
            else:
                yield Point(settings, batch, {WORKLOAD: self.figures(settings, again)}, again=again)

    def figures(self, settings: Settings, again: int) -> dict[str, float]:
        """The same however many times the settings were replayed before."""
        return {"rss-peak": 4096.0 * pages(settings), "syscalls": 1000.0 + int(settings.get("a", "0"))}


@contextlib.contextmanager
def _kept(path: Path | None, objectives: int, space: Space) -> Iterator[store.Store]:
    if path:
        with store.opened(path, {"search": "planted"}, objectives, space) as kept:
            yield kept
        return
    import optuna

    yield store.Store(optuna.create_study(directions=["minimize"] * objectives), space, Path("memory"))


def search_in(
    path: Path | None,
    points: int,
    goals: Goals = GOALS,
    trials: Formula | None = None,
    seed: int = 0,
    jobs: int = 1,
    space: Space | None = None,
) -> tuple[list[Point], Judged | None]:
    """A search of so many points: (its points, the winner). Kept in the file, which takes four fifths of the time, or
    without a path in memory: a search that nothing goes on with.
    """
    store.require_optuna()
    space = space or planted_space()
    with _kept(path, len(goals.objectives), space) as kept:
        search = Search(space, goals, trials or Formula(), kept, seed)
        search.run(Budget(points, jobs=jobs))
        return kept.points, search.winner()
