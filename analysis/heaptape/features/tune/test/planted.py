# SPDX-License-Identifier: MIT
"""A space with a known best: figures that are a formula of the settings, without a replay."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.allocators.registry import Allocator
from heaptape.allocators.tunables import Tunable, Tunables
from heaptape.features.tune.confirm import Judged
from heaptape.features.tune.goals import Goals, Settings, Space, space_of
from heaptape.features.tune.search import Budget, Search
from heaptape.features.tune.trials import Point, Store, require_optuna

if TYPE_CHECKING:
    import optuna

WORKLOAD = "planted"
BEST = {"a": "40", "b": "8", "mode": "y"}
# As in allocators.toml; the library of test_tune_command.py computes the same.
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
    """The space of an allocator that is found."""
    allocator = Allocator(name="planted", library="planted.so", path=Path("/bin/true"), tunables=TUNABLES)
    return space_of("planted", {"planted": allocator}, only)


def pages(settings: Settings) -> int:
    """The OS pages that the planted allocator wastes."""
    chosen = {name: settings.get(name, one.default) for name, one in TUNABLES.space.items()}
    of_a = 16 * abs(int(chosen["a"]) - 40) * (2 if chosen["mode"] == "z" else 1)
    return 100 + of_a + 64 * abs(int(chosen["b"]).bit_length() - 4) + 200 * (chosen["mode"] != "y")


class Formula:
    """Replaces Trials. `fails`: settings that fail; `measured`: the requested settings, in order."""

    def __init__(self, fails: Callable[[Settings], bool] = lambda settings: False) -> None:
        self.fails = fails
        self.measured: list[tuple[Settings, int]] = []

    def measure(self, wanted: Sequence[Settings], jobs: int, again: int = 0) -> Iterator[Point]:
        """Last first, as points may come in any order."""
        for settings in reversed(wanted):
            self.measured.append((settings, again))
            if self.fails(settings):
                yield Point(settings, error="planted: killed by SIGSEGV", again=again)
            else:
                yield Point(settings, {WORKLOAD: self.figures(settings, again)}, again=again)

    def figures(self, settings: Settings, again: int) -> dict[str, float]:
        """The figures are the same however many times the settings were replayed before."""
        return {"rss-peak": 4096.0 * pages(settings), "syscalls": 1000.0 + int(settings.get("a", "0"))}


def in_memory(objectives: int = 1) -> "optuna.Study":
    """Keeps a search for later starts, five times as fast as a file."""
    require_optuna()
    import optuna

    return optuna.create_study(directions=["minimize"] * objectives)


def search_in(
    kept: "optuna.Study | None",
    points: int,
    goals: Goals = GOALS,
    trials: Formula | None = None,
    seed: int = 0,
    jobs: int = 1,
    space: Space | None = None,
) -> tuple[list[Point], Judged | None]:
    """A search of `points` points: (its points, the winner). `kept`: the study that later starts continue."""
    space = space or planted_space()
    storage = Store(kept or in_memory(len(goals.objectives)), space, Path("memory"))
    search = Search(space, goals, trials or Formula(), storage, seed)
    search.run(Budget(points, jobs=jobs))
    return search.points, search.winner()
