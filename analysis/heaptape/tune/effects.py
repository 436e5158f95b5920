# SPDX-License-Identifier: MIT
"""Effects of each tunable: exact figures at the ends of its search against the default's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.results.comparing.intervals import COUNTED_AGREES
from heaptape.run.registry import Allocator
from heaptape.tune.goals import Figures, Goals
from heaptape.tune.space import UNSET, Key, Settings, Space, key_of, space_of
from heaptape.tune.trials import Point, Trials

FIGURES = ("rss-peak", "rss-mean", "vmsize-peak", "syscalls", "instructions")


@dataclass(frozen=True)
class Effect:
    """Effect of one value. `changes`: figure -> (change in percent where it is largest, workload), without changes as
    small as those from spelling the default out (they occur where an allocator depends on the clock or on its stack's
    addresses); `error`: why there are none.
    """

    tunable: str
    value: str
    changes: dict[str, tuple[float, str]]
    error: str = ""

    @property
    def none(self) -> bool:
        return not self.changes and not self.error


def effects(
    allocator: Allocator,
    workloads: Mapping[str, Path],
    home: Home,
    jobs: int,
    tell: Callable[[str, float], None] = lambda what, share: None,
) -> list[Effect]:
    """Effects of every tunable, also of those that no search sets, in the registry's order. Raises HeaptapeError where
    the default fails.
    """
    assert allocator.tunables
    space = space_of(allocator.name, {allocator.name: allocator}, allocator.tunables.names)
    goals = Goals(FIGURES, (), {name: 1 / len(workloads) for name in workloads})
    trials = Trials(workloads, space, goals, home)
    wanted = [{}, *_ends(space), *_spelt_out(space)]
    found: dict[Key, Point] = {}
    for point in trials.measure(wanted, 0, jobs):
        found[point.key] = point
        tell(space.label(point.settings), len(found) / len(wanted))
        if not point.settings and point.error:
            raise HeaptapeError(point.error)
    default = found[key_of({})]
    spelt = {name: found[key_of(one)] for one in _spelt_out(space) for name in one}
    return [_effect(found[key_of(one)], default, spelt) for one in _ends(space)]


def silent(found: Sequence[Effect]) -> list[str]:
    names = dict.fromkeys(one.tunable for one in found)
    return [name for name in names if all(one.none for one in found if one.tunable == name)]


def _ends(space: Space) -> Iterable[Settings]:
    tunables = space.allocator.tunables
    assert tunables
    for name in space.levels:
        for value in tunables.space[name].ends:
            if value != UNSET and (settings := space.normal({name: value})):
                yield settings


def _spelt_out(space: Space) -> list[Settings]:
    """Each tunable set explicitly to its default, where that is a single value."""
    return [{name: value} for name in space.levels if (value := space.default_level(name)) != UNSET]


def _effect(point: Point, default: Point, spelt: Mapping[str, Point]) -> Effect:
    ((name, value),) = point.settings.items()
    if point.error:
        return Effect(name, value, {}, point.error)
    same = spelt.get(name, default)
    first, second = default.figures, (default if same.error else same).figures
    return Effect(name, value, {one: most for one in FIGURES if (most := _largest(one, point.figures, first, second))})


def _largest(figure: str, here: Figures, first: Figures, second: Figures) -> tuple[float, str] | None:
    """The largest change in percent, and its workload; None: nowhere larger than the change from spelling the default
    out.
    """
    found = []
    for workload in here:
        value, one, two = (figures[workload][figure] for figures in (here, first, second))
        same = COUNTED_AGREES * one if figure == "instructions" else 0.0
        if min(abs(value - one), abs(value - two)) > max(abs(one - two), same):
            found.append((100 * (value - one) / one if one else 100.0, workload))
    return max(found, key=lambda change: abs(change[0]), default=None)
