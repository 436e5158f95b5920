# SPDX-License-Identifier: MIT
"""A complete search: batches of points, the check of the winner, its confirmation; then further rounds with the rest of
the budget.

Within a start only the points that it requested count, measured now or by the start that it continues: so it decides as
if it had never been interrupted. Points of a start with another budget count from the beginning.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from heaptape.common.errors import HeaptapeError
from heaptape.tune import confirm
from heaptape.tune.goals import Goals
from heaptape.tune.judged import Judged, judged, winner
from heaptape.tune.plan import Plan
from heaptape.tune.space import Key, Settings, Space, key_of
from heaptape.tune.store import Store
from heaptape.tune.trials import CHECKED, CONFIRMED, Point, Trials

# Share of the budget that the first batches leave for dropping each of the winner's settings, and replaying it.
KEPT = 1 / 6
KEPT_IF_INEXACT = 1 / 2  # where the default's figures vary
KEPT_LATER = 1 / 2  # share that each later round of batches leaves, for a new winner


@dataclass(frozen=True)
class Budget:
    """`points`: of all starts together; None: no bound. `until`: of time.monotonic(). `jobs`: replays at once."""

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
        self._of_budget: int | None = None
        self._seen: dict[tuple[Key, int], Point] = {}  # by settings and how many times they were replayed before

    def run(self, budget: Budget, tell: Callable[[int], None] = lambda points: None) -> None:
        """Searches until the budget is spent or every setting was tried. `tell`: called with the number of points.
        Raises HeaptapeError where the default fails, KeyboardInterrupt where it is interrupted; the store has all
        measured points.
        """
        self._of_budget = budget.points
        self._seen = {(point.key, point.again): point for point in self._store.points if point.budget != budget.points}
        for again, batch in ((0, 0), (1, CONFIRMED)):
            self._measure([{}], batch, budget, tell, again)
            broken = next((point.error for point in self._seen.values() if not point.settings and point.error), "")
            if broken:
                raise HeaptapeError(broken)
        exact = confirm.exact(confirm.replays(self._points)[key_of({})])
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
        lacking = confirm.lacking(self._points)
        kept = math.floor(share * max(budget.points - len(self._seen), 0))
        return replace(budget, points=budget.points - max(lacking, min(kept, len(self._space.levels) + lacking)))

    def rows(self) -> list[Judged]:
        return judged(self._points, self._goals)

    def winner(self) -> Judged | None:
        return confirm.named(self.rows(), self._points, self._goals)[0]

    def leading(self) -> Judged | None:
        """The best so far, confirmed or not."""
        return winner(self.rows(), confirm.refuted(self._points, self._goals))

    @property
    def _points(self) -> list[Point]:
        return list(self._seen.values())

    def _explore(self, budget: Budget, tell: Callable[[int], None]) -> bool:
        """Measures batches, as far as the budget allows. False: nothing was tried."""
        before = len(self._seen)
        while not self._spent(budget):
            if not self._batch:
                self._batch = self._plan.next(self._planned)
            if not self._batch:
                break
            self._measure(self._batch, self._plan.number - 1, budget, tell)
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
            less = [without(best.settings, name) for name in best.settings]
            self._measure(less, CHECKED, budget, tell)
            after = self.leading()
            if after is None or after.point.key == best.point.key or self._spent(budget):
                return
            best = after

    def _confirm(self, budget: Budget, tell: Callable[[int], None]) -> None:
        """Replays the default and the winner again, until the winner is better each time, or is the default."""
        while (best := self.leading()) and not self._spent(budget):
            wanted, again = confirm.wanted(best.settings, self._points)
            if not wanted:
                return
            self._measure(wanted, CONFIRMED, budget, tell, again)

    def _spent(self, budget: Budget) -> bool:
        spent = budget.points is not None and len(self._seen) >= budget.points
        return spent or time.monotonic() >= budget.until

    def _measure(
        self, wanted: Sequence[Settings], batch: int, budget: Budget, tell: Callable[[int], None], again: int = 0
    ) -> None:
        """Measures the settings that are not known, as far as the budget allows."""
        stored = {(point.key, point.again): point for point in self._store.points}
        missing = [one for one in wanted if (key_of(one), again) not in self._seen]
        if budget.points is not None:
            missing = missing[: max(budget.points - len(self._seen), 0)]
        known = [point for one in missing if (point := stored.get((key_of(one), again)))]
        self._seen |= {(point.key, again): point for point in known}
        missing = [one for one in missing if (key_of(one), again) not in self._seen]
        while missing and (not self._seen or time.monotonic() < budget.until):
            now, missing = missing[: budget.jobs], missing[budget.jobs :]
            for point in self._trials.measure(now, batch, budget.jobs, again):
                self._keep(replace(point, budget=self._of_budget))
                tell(len(self._seen))

    def _keep(self, point: Point) -> None:
        values: Iterable[float] = ()
        if not point.error:
            default = self._seen.get((key_of({}), 0), point)
            values = tuple(self._goals.ratios(point.figures, default.figures)[name] for name in self._goals.objectives)
        self._store.keep(point, tuple(values))
        self._seen[point.key, point.again] = point


def without(settings: Settings, name: str) -> Settings:
    return {one: value for one, value in settings.items() if one != name}
