# SPDX-License-Identifier: MIT
"""Whether a saving is one: figures of replays that were made again, the default's against a candidate's.

Most allocators give the same figures each time. Some look at the clock, at random numbers or at addresses: of these a
replay is one draw, and the best of sixty draws is the luckiest, not the best settings. So the default and the best
settings are replayed again, each time with a longer variable in the environment (trials.py), and a candidate is judged
by the replays that were made after it had been chosen. It is better only if each of these is better than each of the
default's, and keeps each limit against each of them. Where the figures come out the same again, one more replay is
enough; otherwise each of the two is replayed AGAIN times. Settings that are all alike then pass by chance in 1 of 462.
"""

from collections.abc import Sequence
from enum import Enum

from heaptape.tuning.goals import Figures, Goals, balance_of
from heaptape.tuning.judged import Judged, winner
from heaptape.tuning.space import Key, Settings, key_of
from heaptape.tuning.trials import Point

AGAIN = 5


class Standing(Enum):
    """Of settings against the default. OPEN: not replayed again often enough."""

    BETTER = "better"
    NOT_BETTER = "not better"
    OPEN = "open"


def replays(points: Sequence[Point]) -> dict[Key, list[Point]]:
    """All replays of each settings, in the order in which they were made."""
    found: dict[Key, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.again):
        found.setdefault(point.key, []).append(point)
    return found


def standing(default: Sequence[Point], candidate: Sequence[Point], goals: Goals) -> Standing:
    """Of all replays of both. The candidate's first, for which it was chosen, does not count."""
    later = candidate[1:]
    if any(point.error for point in candidate):
        return Standing.NOT_BETTER
    if not all(_saves(one.figures, base.figures, goals) for one in later for base in default):
        return Standing.NOT_BETTER
    return Standing.BETTER if _settled(default) and _settled(candidate) else Standing.OPEN


def named(rows: Sequence[Judged], points: Sequence[Point], goals: Goals) -> tuple[Judged | None, Standing]:
    """The winner: the best of the default and what is better than it; and its standing. Where that is the default, and
    its own figures are not known to vary, what leads is named though it is still OPEN.
    """
    found = replays(points)
    default = found.get(key_of({}), [])
    known = {key: standing(default, candidate, goals) for key, candidate in found.items() if key}
    best = winner(rows, {key for key, one in known.items() if one is not Standing.BETTER})
    if (best is None or not best.settings) and (len(default) < 2 or exact(default)):
        best = winner(rows, refuted(points, goals))
    return best, known.get(best.point.key, Standing.BETTER) if best else Standing.OPEN


def refuted(points: Sequence[Point], goals: Goals) -> set[Key]:
    """The settings that were replayed again, and are not better than the default."""
    found = replays(points)
    default = found.get(key_of({}), [])
    return {
        key
        for key, candidate in found.items()
        if key and len(candidate) > 1 and standing(default, candidate, goals) is Standing.NOT_BETTER
    }


def ratios(default: Sequence[Point], candidate: Sequence[Point], goals: Goals) -> dict[str, dict[str, float]]:
    """figure -> of the candidate's later replays to the default's: "ratio" (the geometric mean), and the "least" and
    "most" of any two; nothing where there are none.
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
    """The figures came out the same again."""
    return len(same_settings) > 1 and all(one.figures == same_settings[0].figures for one in same_settings)


def lacking(points: Sequence[Point]) -> int:
    """How many replays of the default and of new settings their standing takes."""
    default = replays(points)[key_of({})]
    return 1 if exact(default) else max(AGAIN + 1 - len(default), 0) + AGAIN


def wanted(best: Settings, points: Sequence[Point]) -> tuple[list[Settings], int]:
    """Which of the default and the best settings are to be replayed again next, and how many times they were replayed
    before; none: their standing is known.
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
    """Where the default itself breaks a limit, it is enough to keep all of them."""
    ratios = goals.ratios(found, default)
    better = balance_of([ratios[name] for name in goals.objectives]) < 1
    broken = any(one > 0 for one in goals.excess(default, default))
    return (better or broken) and all(one <= 0 for one in goals.excess(found, default))
