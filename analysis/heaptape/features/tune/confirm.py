# SPDX-License-Identifier: MIT
"""Confirms a saving: figures of repeated replays, the default's against a candidate's.

Most allocators give the same figures each time. Some depend on the clock, random numbers or addresses: their replay is
one draw, and the best of sixty draws is the luckiest, not the best settings. So the default and the best settings are
replayed again, each time with a longer variable in the environment (trials.py). A candidate is judged only by replays
made after it was chosen. It is better only if each of these is better than each of the default's, and keeps each limit
against each of them. Where the figures are the same again, one more replay is enough; otherwise each of the two is
replayed AGAIN times. Settings without any difference then pass by chance in 1 of 462.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from heaptape.features.tune.goals import Figures, Goals, Key, Settings, balance_of, key_of
from heaptape.features.tune.trials import Point


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


AGAIN = 5


class Standing(Enum):
    """Verdict on settings against the default. OPEN: not replayed often enough."""

    BETTER = "better"
    NOT_BETTER = "not better"
    OPEN = "open"


def replays(points: Sequence[Point]) -> dict[Key, list[Point]]:
    """key -> all replays of these settings, in the order in which they were made."""
    found: dict[Key, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.again):
        found.setdefault(point.key, []).append(point)
    return found


def standing(default: Sequence[Point], candidate: Sequence[Point], goals: Goals) -> Standing:
    """The verdict from all replays of both. The candidate's first replay, for which it was chosen, does not count."""
    later = candidate[1:]
    if any(point.error for point in candidate):
        return Standing.NOT_BETTER
    if not all(_saves(one.figures, base.figures, goals) for one in later for base in default):
        return Standing.NOT_BETTER
    return Standing.BETTER if _settled(default) and _settled(candidate) else Standing.OPEN


def named(rows: Sequence[Judged], points: Sequence[Point], goals: Goals) -> tuple[Judged | None, Standing]:
    """The winner, which is the best among the default and the settings that are better than it; and its standing. Where
    that is the default, and its own figures are not known to vary, the leading settings are named though still OPEN.
    """
    found = replays(points)
    default = found.get(key_of({}), [])
    known = {key: standing(default, candidate, goals) for key, candidate in found.items() if key}
    best = winner(rows, {key for key, one in known.items() if one is not Standing.BETTER})
    if (best is None or not best.settings) and (len(default) < 2 or exact(default)):
        best = winner(rows, refuted(points, goals))
    return best, known.get(best.point.key, Standing.BETTER) if best else Standing.OPEN


def refuted(points: Sequence[Point], goals: Goals) -> set[Key]:
    """Settings that were replayed again and are not better than the default."""
    found = replays(points)
    default = found.get(key_of({}), [])
    return {
        key
        for key, candidate in found.items()
        if key and len(candidate) > 1 and standing(default, candidate, goals) is Standing.NOT_BETTER
    }


def ratios(default: Sequence[Point], candidate: Sequence[Point], goals: Goals) -> dict[str, dict[str, float]]:
    """figure -> ratios of the candidate's later replays to the default's: "ratio" (the geometric mean), "least" and
    "most" of any pair; empty where there are none.
    """
    pairs = [
        goals.ratios(one.figures, base.figures)
        for one in candidate[1:]
        for base in default
        if not one.error and not base.error
    ]
    found = {name: [pair[name] for pair in pairs] for name in goals.figures if pairs}
    return {name: {"ratio": balance_of(all_), "least": min(all_), "most": max(all_)} for name, all_ in found.items()}


def exact(same_settings: Sequence[Point]) -> bool:
    """Were the figures the same in all replays?"""
    return len(same_settings) > 1 and all(one.figures == same_settings[0].figures for one in same_settings)


def lacking(points: Sequence[Point]) -> int:
    """How many more replays of the default and of new settings are needed for a verdict."""
    default = replays(points)[key_of({})]
    return 1 if exact(default) else max(AGAIN + 1 - len(default), 0) + AGAIN


def wanted(best: Settings, points: Sequence[Point]) -> tuple[list[Settings], int]:
    """Which of the default and the best settings to replay next, and how many times they were replayed before; none:
    their standing is known.
    """
    found = replays(points)
    counts = {
        key: len(found[key]) for key in dict.fromkeys((key_of({}), key_of(best))) if best and not _settled(found[key])
    }
    fewest = min(counts.values(), default=0)
    return [dict(found[key][0].settings) for key, count in counts.items() if count == fewest], fewest


def _settled(same_settings: Sequence[Point]) -> bool:
    return len(same_settings) > AGAIN or exact(same_settings)


def _saves(found: Figures, default: Figures, goals: Goals) -> bool:
    """Is a replay better, and within all limits? Where the default breaks a limit, keeping the limits suffices."""
    ratios = goals.ratios(found, default)
    better = balance_of([ratios[name] for name in goals.objectives]) < 1
    broken = any(one > 0 for one in goals.excess(default, default))
    return (better or broken) and all(one <= 0 for one in goals.excess(found, default))
