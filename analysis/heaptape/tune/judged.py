# SPDX-License-Identifier: MIT
"""Points against the default: their ratios, which points keep the limits, and which are best."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from heaptape.tune.goals import Goals, balance_of
from heaptape.tune.space import Key, Settings, key_of
from heaptape.tune.trials import Point


@dataclass(frozen=True)
class Judged:
    """A point without error. `ratios`: figure -> ratio to the default's; `excess`: of each limit; `values`: the ratios
    of the objectives.
    """

    point: Point
    ratios: dict[str, float]
    excess: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def settings(self) -> Settings:
        return self.point.settings

    @property
    def feasible(self) -> bool:
        """All limits are kept."""
        return all(one <= 0 for one in self.excess)

    @property
    def balance(self) -> float:
        """All objectives in one number."""
        return balance_of(self.values)

    def beats(self, other: "Judged") -> bool:
        """No objective is worse, and one is better."""
        return self.values != other.values and all(a <= b for a, b in zip(self.values, other.values))


def judged(points: Iterable[Point], goals: Goals) -> list[Judged]:
    """The points without error, each by its first replay; none while the default is not among them."""
    once = {point.key: point for point in points if not point.error and not point.again}
    if key_of({}) not in once:
        return []
    default = once[key_of({})].figures
    found = []
    for point in once.values():
        ratios = goals.ratios(point.figures, default)
        excess = tuple(goals.excess(point.figures, default))
        found.append(Judged(point, ratios, excess, tuple(ratios[name] for name in goals.objectives)))
    return found


def front(rows: Sequence[Judged], refuted: Collection[Key] = ()) -> list[Judged]:
    """The Pareto front of the points that keep the limits and are not `refuted` (confirm.py), sorted by the first
    objective; of equal points the one with fewest settings.
    """
    simplest: dict[tuple[float, ...], Judged] = {}
    for row in sorted(rows, key=lambda row: (len(row.settings), sorted(row.settings.items()))):
        if row.feasible and row.point.key not in refuted:
            simplest.setdefault(row.values, row)
    kept = [row for row in simplest.values() if not any(other.beats(row) for other in simplest.values())]
    return sorted(kept, key=lambda row: row.values)


def winner(rows: Sequence[Judged], refuted: Collection[Key] = ()) -> Judged | None:
    """The front's point with the best balance. None: no point keeps the limits."""
    return min(front(rows, refuted), key=lambda row: (row.balance, len(row.settings)), default=None)


def by_key(rows: Iterable[Judged]) -> dict[Key, Judged]:
    return {row.point.key: row for row in rows}
