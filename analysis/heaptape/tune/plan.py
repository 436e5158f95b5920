# SPDX-License-Identifier: MIT
"""Which settings a search tries next.

First the default and the allocator's variants. Then each tunable alone, at the ends of its levels: this shows its exact
effect. Then the best of these together, for each objective and for their balance. Then batches, half of them proposed
by Optuna's TPE from all points so far, half neighbours of the best points: one tunable at another level.

No settings are tried twice. A batch depends only on the seed and the batches before it: so an interrupted search
continues as if it had not been, and the number of processors changes nothing.
"""

import random
from collections.abc import Iterable, Sequence

from heaptape.tune.goals import Goals
from heaptape.tune.judged import Judged, by_key, front, judged
from heaptape.tune.space import Key, Settings, Space, key_of
from heaptape.tune.store import distributions
from heaptape.tune.trials import Point

BATCH = 4
ASKED_AT_MOST = 40  # proposals of TPE for one batch; further ones only repeat tried settings
STARTUP_TRIALS = 5
WITHOUT_EFFECT = 0.2  # how often a tunable without effect alone is moved, relative to one with effect


class Plan:
    """The batches of one search, in turn."""

    def __init__(self, space: Space, goals: Goals, seed: int) -> None:
        self._space, self._goals, self._seed = space, goals, seed
        self.number = 0

    def next(self, before: Sequence[Point]) -> list[Settings]:
        """The next batch, empty when all settings were tried. `before`: the points of all batches before it."""
        seen = {point.key for point in before}
        firsts = (self._variants, self._singles, self._together)
        wanted: list[Settings] = []
        while not wanted:
            number, self.number = self.number, self.number + 1
            if number < len(firsts):
                wanted = _unseen(firsts[number](before), seen)
            else:
                return self._proposals(before, seen, random.Random(f"{self._seed} {number}"))
        return wanted

    def _variants(self, before: Sequence[Point]) -> Iterable[Settings]:
        return self._space.variants.values()

    def _singles(self, before: Sequence[Point] = ()) -> Iterable[Settings]:
        tunables = self._space.allocator.tunables
        assert tunables
        for name, levels in self._space.levels.items():
            ends = tunables.space[name].ends
            yield from (self._space.normal({name: level}) for level in levels if level in ends)

    def _together(self, before: Sequence[Point]) -> Iterable[Settings]:
        rows = by_key(judged(before, self._goals))
        singles = [rows[key] for one in self._singles() if (key := key_of(one)) in rows]
        for among in ([row for row in singles if row.feasible], singles):
            for objective in range(-1, len(self._goals.objectives) if len(self._goals.objectives) > 1 else 0):
                best = _best_of_each(among, objective)
                for count in dict.fromkeys((len(best), (len(best) + 1) // 2)):
                    yield self._space.normal({name: value for one in best[:count] for name, value in one.items()})

    def _proposals(self, before: Sequence[Point], seen: set[Key], chance: random.Random) -> list[Settings]:
        rows = judged(before, self._goals)
        found = _unseen(self._neighbours(rows, seen, chance), seen, BATCH // 2)
        mine = seen | set(map(key_of, found))
        found += _unseen(self._by_model(before, rows), mine, BATCH - len(found))
        if not found:
            found = _unseen(self._by_chance(chance), seen, BATCH)
        return found

    def _neighbours(self, rows: Sequence[Judged], seen: set[Key], chance: random.Random) -> Iterable[Settings]:
        """Neighbours of the front's points, by balance: one tunable at another level, chosen at random; endless as long
        as one was not tried.
        """
        here = [row for row in front(rows) if self._space.places(row.settings) is not None]
        weights = self._effects(rows)
        for row in sorted(here, key=lambda row: row.balance):
            moves = [
                (weights[name], settings)
                for name, levels in self._space.levels.items()
                for level in levels
                if key_of(settings := self._space.normal(row.settings | {name: level})) not in seen
            ]
            while moves:
                (move,) = chance.choices(moves, [weight for weight, _ in moves])
                moves.remove(move)
                yield move[1]

    def _effects(self, rows: Sequence[Judged]) -> dict[str, float]:
        """tunable -> how often it is moved."""
        found = by_key(rows)
        changed = {
            name
            for one in self._singles()
            for name in one
            if (row := found.get(key_of(one))) and any(value != 1 for value in row.values)
        }
        return {name: 1.0 if name in changed else WITHOUT_EFFECT for name in self._space.levels}

    def _by_model(self, before: Sequence[Point], rows: Sequence[Judged]) -> Iterable[Settings]:
        """Proposals of TPE, which gets all points again each time: so they depend only on these and the seed."""
        import optuna

        sampler = optuna.samplers.TPESampler(
            seed=self._seed + len(before), multivariate=True, n_startup_trials=STARTUP_TRIALS
        )
        study = optuna.create_study(directions=["minimize"] * len(self._goals.objectives), sampler=sampler)
        study.add_trials(trials(rows, self._space))
        ranges = distributions(self._space)
        for _ in range(ASKED_AT_MOST):
            yield self._space.at(study.ask(ranges).params)

    def _by_chance(self, chance: random.Random) -> Iterable[Settings]:
        for _ in range(min(ASKED_AT_MOST, 4 * self._space.size)):
            yield self._space.at({name: chance.randrange(len(levels)) for name, levels in self._space.levels.items()})


def trials(rows: Sequence[Judged], space: Space) -> list:
    """Optuna's trials of the points in the space, in a fixed order; their values are ratios."""
    from optuna.trial import create_trial

    ranges = distributions(space)
    made = []
    for row in sorted(rows, key=lambda row: sorted(row.settings.items())):
        places = space.places(row.settings)
        if places is not None:
            excess = {str(number): one for number, one in enumerate(row.excess)}
            made.append(
                create_trial(
                    values=list(row.values), params=dict(places), distributions=ranges, constraints=excess or None
                )
            )
    return made


def _best_of_each(singles: Sequence[Judged], objective: int) -> list[Settings]:
    """The best setting of each tunable alone where better than the default, best first. `objective` -1: the balance."""

    def value(row: Judged) -> float:
        return row.balance if objective < 0 else row.values[objective]

    best: dict[str, Judged] = {}
    for row in sorted(singles, key=value):
        for name in row.settings:
            best.setdefault(name, row)
    better = sorted((row for row in best.values() if value(row) < 1), key=value)
    return [row.settings for row in better]


def _unseen(wanted: Iterable[Settings], seen: set[Key], most: int | None = None) -> list[Settings]:
    """The settings that are not in `seen`, each once, at most `most`."""
    found: dict[Key, Settings] = {}
    for settings in wanted:
        if most is not None and len(found) >= most:
            break
        if key_of(settings) not in seen:
            found.setdefault(key_of(settings), settings)
    return list(found.values())
