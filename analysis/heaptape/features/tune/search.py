# SPDX-License-Identifier: MIT
"""A complete search: batches of points, the check of the winner, its confirmation; then further rounds with the rest of
the budget.

Which settings come next: first the default and the allocator's variants. Then each tunable alone, at the ends of its
levels: this shows its exact effect. Then the best of these together, for each objective and for their balance. Then
batches, half of them proposed by Optuna's TPE from all points so far, half neighbours of the best points: one tunable
at another level. No settings are tried twice. A batch depends only on the seed and the batches before it: so the number
of processors changes nothing, and a search that continues another takes the same way, past the points that are known.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from heaptape.common.errors import HeaptapeError
from heaptape.features.tune import confirm
from heaptape.features.tune.confirm import Judged, by_key, front, judged, winner
from heaptape.features.tune.goals import Goals, Key, Settings, Space, key_of
from heaptape.features.tune.trials import Point, Store, Trials, distributions

BATCH = 4
MAX_TPE_PROPOSALS = 40  # proposals of TPE for one batch; further ones only repeat tried settings
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
        for _ in range(MAX_TPE_PROPOSALS):
            yield self._space.at(study.ask(ranges).params)

    def _by_chance(self, chance: random.Random) -> Iterable[Settings]:
        for _ in range(min(MAX_TPE_PROPOSALS, 4 * self._space.size)):
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


# Share of the budget that the first batches leave for dropping each of the winner's settings, and replaying it.
KEPT = 1 / 6
KEPT_IF_INEXACT = 1 / 2  # where the default's figures vary
KEPT_LATER = 1 / 2  # share that each later round of batches leaves, for a new winner


@dataclass(frozen=True)
class Budget:
    """`points`: None: no bound. `until`: of time.monotonic(). `jobs`: replays at once."""

    points: int | None = None
    until: float = float("inf")
    jobs: int = 1


class Search:
    """A search whose points are measured, or taken from the store where they are known."""

    def __init__(self, space: Space, goals: Goals, trials: Trials, store: Store, seed: int) -> None:
        self._space, self._goals, self._trials, self._store = space, goals, trials, store
        self._plan = Plan(space, goals, seed)
        self._planned: list[Point] = []  # points of the batches, in order
        self._batch: list[Settings] = []  # the present one
        self._seen: dict[tuple[Key, int], Point] = {}  # those of the store that this start has asked for
        self._asked: dict[tuple[Key, int], None] = {}

    def run(self, budget: Budget, tell: Callable[[int], None] = lambda points: None) -> None:
        """Searches until the budget is spent or every setting was tried. `tell`: called with the number of points.
        Raises HeaptapeError where the default fails, KeyboardInterrupt where it is interrupted; the store has all
        measured points.
        """
        for again in (0, 1):
            self._measure([{}], budget, tell, again)
            broken = next((point.error for point in self._seen.values() if not point.settings and point.error), "")
            if broken:
                raise HeaptapeError(broken)
        exact = confirm.exact(confirm.replays(self.points)[key_of({})])
        share = KEPT if exact else KEPT_IF_INEXACT
        while self._explore(self._but(budget, share), tell):
            self._judge(budget, tell)
            share = KEPT_LATER
        self._judge(budget, tell)

    def _judge(self, budget: Budget, tell: Callable[[int], None]) -> None:
        self._check(self._but(budget, 0), tell)
        self._confirm(budget, tell)

    def _but(self, budget: Budget, share: float) -> Budget:
        """The budget without a share of its rest, which is kept for the check and the confirmation of a new winner;
        share 0: only for its confirmation.
        """
        if budget.points is None:
            left_s = max(budget.until - time.monotonic(), 0)
            return replace(budget, until=budget.until - share * left_s)
        lacking = confirm.lacking(self.points)
        kept = math.floor(share * max(budget.points - len(self._seen), 0))
        return replace(budget, points=budget.points - max(lacking, min(kept, len(self._space.levels) + lacking)))

    def rows(self) -> list[Judged]:
        return judged(self.points, self._goals)

    def winner(self) -> Judged | None:
        return confirm.named(self.rows(), self.points, self._goals)[0]

    def leading(self) -> Judged | None:
        """The best so far, confirmed or not."""
        return winner(self.rows(), confirm.refuted(self.points, self._goals))

    @property
    def points(self) -> list[Point]:
        """Those that this start has asked for, in the order in which it did."""
        return [self._seen[key] for key in self._asked if key in self._seen]

    def _explore(self, budget: Budget, tell: Callable[[int], None]) -> bool:
        """Measures batches, as far as the budget allows. False: nothing was tried."""
        before = len(self._seen)
        while not self._spent(budget):
            if not self._batch:
                self._batch = self._plan.next(self._planned)
            if not self._batch:
                break
            self._measure(self._batch, budget, tell)
            found = [self._seen.get((key_of(one), 0)) for one in self._batch]
            if None in found:
                break  # the next call continues there
            self._planned += [point for point in found if point]
            self._batch = []
        return len(self._seen) > before

    def _check(self, budget: Budget, tell: Callable[[int], None]) -> None:
        """Tries the winner without each of its settings; if that is not worse, it becomes the winner."""
        best = self.leading()
        while best is not None:
            less = [self._space.without(best.settings, name) for name in best.settings]
            self._measure(less, budget, tell)
            after = self.leading()
            if after is None or after.point.key == best.point.key or self._spent(budget):
                return
            best = after

    def _confirm(self, budget: Budget, tell: Callable[[int], None]) -> None:
        """Replays the default and the winner again, until the winner is better each time, or is the default."""
        while (best := self.leading()) and not self._spent(budget):
            wanted, again = confirm.wanted(best.settings, self.points)
            if not wanted:
                return
            self._measure(wanted, budget, tell, again)

    def _spent(self, budget: Budget) -> bool:
        spent = budget.points is not None and len(self._seen) >= budget.points
        return spent or time.monotonic() >= budget.until

    def _measure(self, wanted: Sequence[Settings], budget: Budget, tell: Callable[[int], None], again: int = 0) -> None:
        """Measures the settings that are not known, as far as the budget allows."""
        missing = [one for one in wanted if (key_of(one), again) not in self._seen]
        if budget.points is not None:
            missing = missing[: max(budget.points - len(self._seen), 0)]
        self._asked |= {(key_of(one), again): None for one in missing}
        known = self._store.known
        self._seen |= {key: known[key] for one in missing if (key := (key_of(one), again)) in known}
        missing = [one for one in missing if (key_of(one), again) not in self._seen]
        while missing and (not self._seen or time.monotonic() < budget.until):
            now, missing = missing[: budget.jobs], missing[budget.jobs :]
            for point in self._trials.measure(now, budget.jobs, again):
                self._keep(point)
                tell(len(self._seen))

    def _keep(self, point: Point) -> None:
        values: Iterable[float] = ()
        if not point.error:
            default = self._seen.get((key_of({}), 0), point)
            values = tuple(self._goals.ratios(point.figures, default.figures)[name] for name in self._goals.objectives)
        self._store.keep(point, tuple(values))
        self._seen[point.key, point.again] = point
