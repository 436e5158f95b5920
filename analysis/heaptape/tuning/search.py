"""A search from beginning to end: batches of points within the budget, then the check of the winner."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from heaptape.common.errors import HeaptapeError
from heaptape.tuning.goals import Goals
from heaptape.tuning.judged import Judged, judged, winner
from heaptape.tuning.plan import Plan
from heaptape.tuning.space import Key, Settings, Space, key_of
from heaptape.tuning.store import Store
from heaptape.tuning.trials import CHECKED, Point, Trials

KEPT_FOR_CHECK = 6  # one of so many points, at most one for each tunable: what dropping each of the winner's costs


@dataclass(frozen=True)
class Budget:
    """`points`: of all starts together; None: no bound. `until`: of time.monotonic(). `jobs`: replays at once."""

    points: int | None = None
    until: float = float("inf")
    jobs: int = 1


class Search:
    """Points are measured, or taken from the store where they are there already."""

    def __init__(self, space: Space, goals: Goals, trials: Trials, store: Store, seed: int) -> None:
        self._space, self._goals, self._trials, self._store = space, goals, trials, store
        self._plan = Plan(space, goals, seed)

    def run(self, budget: Budget, tell: Callable[[int], None] = lambda points: None) -> None:
        """Until the budget is spent or every setting was tried. `tell`: is given how many points there are. Raises
        HeaptapeError where the default fails, KeyboardInterrupt where it is interrupted; the store has all that was
        measured.
        """
        self._measure([{}], 0, budget, tell)
        broken = next((point.error for point in self._store.points if not point.settings and point.error), "")
        if broken:
            raise HeaptapeError(broken)
        kept = 0
        if budget.points is not None:
            kept = min(len(self._space.levels), budget.points // KEPT_FOR_CHECK)
        planned: list[Point] = []
        while not self._spent(_less(budget, kept)):
            number, wanted = self._plan.number, self._plan.next(planned)
            if not wanted:
                break
            self._measure(wanted, number, _less(budget, kept), tell)
            known = self._known()
            planned += [known[key_of(one)] for one in wanted if key_of(one) in known]
        self._check(budget, tell)

    def _check(self, budget: Budget, tell: Callable[[int], None]) -> None:
        """The winner without each of its settings; where that is no worse, it is the winner from then on."""
        best = self.winner()
        while best is not None:
            less = [without(best.settings, name) for name in best.settings]
            self._measure(less, CHECKED, budget, tell)
            after = self.winner()
            if after is None or after.point.key == best.point.key or self._spent(budget):
                return
            best = after

    def rows(self) -> list[Judged]:
        """The points so far."""
        return judged(self._store.points, self._goals)

    def winner(self) -> Judged | None:
        """So far."""
        return winner(self.rows())

    def _known(self) -> dict[Key, Point]:
        return {point.key: point for point in self._store.points}

    def _spent(self, budget: Budget) -> bool:
        spent = budget.points is not None and len(self._store.points) >= budget.points
        return spent or time.monotonic() >= budget.until

    def _measure(self, wanted: Sequence[Settings], batch: int, budget: Budget, tell: Callable[[int], None]) -> None:
        """Those that are not known, as far as the budget goes."""
        known = self._known()
        missing = [one for one in wanted if key_of(one) not in known]
        if budget.points is not None:
            missing = missing[: max(budget.points - len(self._store.points), 0)]
        while missing and (not known or time.monotonic() < budget.until):
            now, missing = missing[: budget.jobs], missing[budget.jobs :]
            for point in self._trials.measure(now, batch, budget.jobs):
                self._keep(point)
                tell(len(self._store.points))

    def _keep(self, point: Point) -> None:
        values: Iterable[float] = ()
        if not point.error:
            default = self._known().get(key_of({}), point)
            values = tuple(self._goals.ratios(point.figures, default.figures)[name] for name in self._goals.objectives)
        self._store.keep(point, tuple(values))


def _less(budget: Budget, kept: int) -> Budget:
    return budget if budget.points is None else replace(budget, points=budget.points - kept)


def without(settings: Settings, name: str) -> Settings:
    """The settings but for one."""
    return {one: value for one, value in settings.items() if one != name}
