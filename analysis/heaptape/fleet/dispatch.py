# SPDX-License-Identifier: MIT
"""Runs tasks on the workers of a Dask scheduler, and counts attempts.

A worker's results are in the store before it reports them: when a scheduler dies, or a command is killed, only tasks
under way are lost. Dask places a task by resources: the store that it is of, the engine that it needs, its memory.
"""

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from heaptape.common.errors import HeaptapeError
from heaptape.fleet.worker import Ended, Outcome

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.security import Security

SUBMITTED = 4096  # tasks that the scheduler has at a time, so that its memory is bounded for any plan
CONNECT_S, CLOSE_S = 10.0, 2.0
REMINDER_S = 20.0


class Work(Protocol):
    """A unit of work. `keys`: of its parts. `resources`: what it takes of its worker's, by name."""

    @property
    def name(self) -> str: ...
    @property
    def keys(self) -> list[str]: ...
    @property
    def resources(self) -> dict[str, float]: ...


W = TypeVar("W", bound=Work)


@dataclass
class _Open(Generic[W]):
    """A task that is not done: how often it was tried, and the addresses of workers that could not run it."""

    task: W
    attempts: int = 0
    avoid: set[str] = field(default_factory=set)


class Dispatch(Generic[W]):
    """`work`: the function that workers call with the store's id and a task. `retries`: how often a task is tried
    again. `wait_s`: how long to wait for a scheduler that has gone. `on_done`: called with each task that is not tried
    again. `is_any_left`: for workers of this process, as nobody starts others: is one left?
    """

    def __init__(
        self,
        work: Callable[[str, W], Outcome],
        store: str,
        retries: int,
        wait_s: float,
        tell: Callable[[str], None],
        on_done: Callable[[W, Ended], None] = lambda task, ended: None,
        is_any_left: Callable[[], bool] | None = None,
    ) -> None:
        self._function, self._store, self._retries, self._wait_s = work, store, retries, wait_s
        self._tell, self._on_done, self._is_any_left = tell, on_done, is_any_left
        self._ended = Ended()
        self._most_memory = math.inf  # of the largest worker
        self._reminded_s = -math.inf

    def run(self, tasks: Sequence[W], address: str, security: "Security | None") -> Ended:
        """Runs all tasks. Raises HeaptapeError where there is no scheduler for `wait_s`, or no own worker is left."""
        waiting = deque(_Open(task) for task in tasks)
        while waiting:
            client = self._connected(address, security)
            try:
                self._work(client, waiting)
            finally:
                with contextlib.suppress(Exception):  # a scheduler that has gone can't be notified
                    client.close(timeout=CLOSE_S)
            if waiting:
                self._tell(f"{address}: the scheduler has gone: waiting for it")
        return self._ended

    def _connected(self, address: str, security: "Security | None") -> "Client":
        from distributed import Client

        until = time.monotonic() + self._wait_s
        while True:
            try:
                return Client(address, security=security, timeout=CONNECT_S, set_as_default=False)
            except (OSError, RuntimeError, ValueError) as error:
                if time.monotonic() >= until:
                    raise HeaptapeError(f"{address}: no scheduler answers: {error or type(error).__name__}") from None
            time.sleep(1)

    def _work(self, client: "Client", waiting: deque[_Open[W]]) -> None:
        """Runs tasks until all are done or the scheduler is gone: then `waiting` has the tasks that are left."""
        from distributed import as_completed

        under_way: dict[Future, _Open[W]] = {}
        completed = as_completed(loop=client.loop)
        self._refresh_workers(client)

        def submit() -> None:
            while waiting and len(under_way) < SUBMITTED:
                future = self._submit(client, waiting[0])
                under_way[future] = waiting.popleft()
                completed.add(future)

        submit()
        for future in completed:
            one = under_way[future]
            try:
                again = self._count(one, future.result())
            except Exception as error:  # of whatever kind: the scheduler's, a worker's, or both have gone
                if future.status in ("cancelled", "lost"):
                    break
                again = self._failed(client, one, error)
            del under_way[future]
            if again:
                waiting.append(one)
            submit()
        waiting.extendleft(under_way.values())

    def _submit(self, client: "Client", one: _Open[W]) -> "Future":
        needed = {**one.task.resources, f"store {self._store}": 1}
        others = [address for address in _workers(client) if address not in one.avoid] if one.avoid else []
        return client.submit(
            self._function,
            self._store,
            one.task,
            pure=False,
            resources=needed | {"memory": min(needed["memory"], self._most_memory)},
            workers=others or None,
            allow_other_workers=bool(others),
        )

    def _count(self, one: _Open[W], outcome: Outcome) -> bool:
        """Counts an outcome. True: the task is to be tried again."""
        self._ended.count(outcome, self._tell)
        if not outcome.retry:
            self._on_done(one.task, self._ended)
            return False
        if outcome.machine_at_fault:
            one.avoid.add(outcome.worker)
        return self._attempted(one, outcome.retry)

    def _failed(self, client: "Client", one: _Open[W], error: Exception) -> bool:
        """Counts a task that has no outcome. True: it is to be tried again."""
        from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

        if isinstance(error, KilledWorker):
            return self._attempted(one, "its workers died")
        if not isinstance(error, NoWorkerError | NoValidWorkerError):
            return self._attempted(one, f"{type(error).__name__}: {error}")
        workers = self._refresh_workers(client)
        needed = {*one.task.resources, f"store {self._store}"}
        if any(needed <= worker["resources"].keys() for worker in workers.values()):
            return True  # by now there is one, or a smaller one than before
        if workers:
            return self._attempted(
                one, "all workers have another store, or another engine or C library, or at another path"
            )
        if self._is_any_left:
            if self._is_any_left():
                return True
            raise HeaptapeError("no worker is left on this machine")
        if time.monotonic() - self._reminded_s > REMINDER_S:  # not for each task
            self._reminded_s = time.monotonic()
            self._tell("no worker: 'heaptape fleet worker ADDRESS --store URL' starts one")
        return True

    def _attempted(self, one: _Open[W], reason: str) -> bool:
        one.attempts += 1
        if one.attempts <= self._retries:
            self._tell(f"{one.task.name}: {reason}: tried again")
            return True
        self._tell(f"{one.task.name}: {reason}: given up after {self._ended.give_up(one.task, reason, one.attempts)}")
        self._on_done(one.task, self._ended)
        return False

    def _refresh_workers(self, client: "Client") -> dict[str, dict]:
        """All workers, by address; notes the memory of the largest."""
        workers = _workers(client)
        self._most_memory = max((worker["resources"].get("memory", 0) for worker in workers.values()), default=math.inf)
        return workers


def _workers(client: "Client") -> dict[str, dict]:
    """All workers, by address; none where the scheduler has gone, as the tasks will show."""
    try:
        return client.scheduler_info(n_workers=-1)["workers"]
    except OSError:
        return {}
