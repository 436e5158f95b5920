# SPDX-License-Identifier: MIT
"""Runs tasks on the workers of a Dask scheduler, and counts attempts.

Only a few more tasks are submitted than workers can run, so that the scheduler's memory is bounded for any plan, and a
slow worker holds few. A worker's results are in the store before it reports them: when a scheduler dies, or a command
is killed, only tasks under way are lost.
"""

import contextlib
import math
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from heaptape.common.errors import HeaptapeError
from heaptape.fleet.cluster.servers import check_address, configure, security
from heaptape.fleet.cluster.tasks import run
from heaptape.fleet.running.execute import Here
from heaptape.fleet.running.outcome import Ended, Outcome

if TYPE_CHECKING:
    from distributed import Client, Future

SUBMITTED_PER_THREAD = 2
CONNECT_S = 10.0
ASK_S, NO_WORKER_ASK_S, WAIT_S = 5.0, 0.2, 0.2
NO_WORKER_TOLD_S = 30.0


class Work(Protocol):
    """A unit of work: cells, or other work of a worker's table. `keys`: of its parts."""

    kind: ClassVar[str]

    @property
    def is_block(self) -> bool: ...
    @property
    def need_bytes(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def keys(self) -> list[str]: ...


W = TypeVar("W", bound=Work)


class Request(msgspec.Struct, Generic[W], frozen=True, forbid_unknown_fields=True):
    """A request to a worker: a task, and the id of its store."""

    store: str
    task: W


def answered(text: str, here: Here, kind: type[W], work: Callable[[W], Outcome]) -> str:
    """The outcome of the Request's task, which runs only if it is of this worker's store."""
    request = msgspec.json.decode(text, type=Request[kind])  # type: ignore[valid-type]
    if request.store != here.store.id:
        outcome = Outcome(here.name, retry=f"a worker has another store ({here.store.url})", machine_at_fault=True)
    else:
        outcome = work(request.task)
    return msgspec.json.encode(outcome).decode()


@dataclass
class Open:
    """A task that is not done: how often it was tried, and which workers can't run it. Of the last try: its possible
    addresses (none: all), and the memory that it requested.
    """

    task: Work
    attempts: int = 0
    avoid: set[str] = field(default_factory=set)
    addresses: list[str] = field(default_factory=list)
    memory_bytes: float = 0.0


class Dispatch:
    """`retries`: how often a task is tried again. `wait_s`: how long to wait for a scheduler that has gone."""

    def __init__(
        self,
        address: str,
        keys: str | None,
        store: str,
        retries: int,
        wait_s: float,
        tell: Callable[[str], None],
        on_done: Callable[[Any, Ended], None] = lambda task, ended: None,
    ) -> None:
        check_address(address, keys)
        configure()
        self._address, self._keys, self._store, self._retries = address, keys, store, retries
        self._wait_s, self._tell, self._on_done = wait_s, tell, on_done
        self._ended = Ended()

    def run(self, tasks: Sequence[Work]) -> Ended:
        """Runs all tasks. Raises HeaptapeError where there is no scheduler for `wait_s`."""
        waiting = deque(Open(task) for task in tasks)
        while waiting:
            client = self._connected()
            try:
                self._work(client, waiting)
            finally:
                _close(client)
            if waiting:
                self._tell(f"{self._address}: the scheduler has gone: waiting for it")
        return self._ended

    def _connected(self) -> "Client":
        from distributed import Client

        until = time.monotonic() + self._wait_s
        while True:
            try:
                return Client(self._address, security=security(self._keys), timeout=CONNECT_S, set_as_default=False)
            except (OSError, RuntimeError, ValueError) as error:
                if time.monotonic() >= until:
                    raise HeaptapeError(
                        f"{self._address}: no scheduler answers: {error or type(error).__name__}"
                    ) from None
            time.sleep(1)

    def _work(self, client: "Client", waiting: deque[Open]) -> None:
        """Runs tasks until all are done or the scheduler is gone: then `waiting` has the tasks that are left."""
        under_way: dict[Future, Open] = {}
        ends: Queue[Future] = Queue()
        workers = _Workers(client, self._tell)
        while (waiting or under_way) and client.status == "running":
            if workers.ask():
                _take_back(workers, under_way, waiting)
            while waiting and len(under_way) < SUBMITTED_PER_THREAD * workers.threads():
                future = self._submit(client, waiting[0], workers)
                under_way[future] = waiting.popleft()
                future.add_done_callback(ends.put)
            finished = [future for future in _drained(ends) if future in under_way]
            if finished and not self._take(client, finished, under_way, waiting):
                break
        waiting.extendleft(under_way.values())

    def _submit(self, client: "Client", one: Open, workers: "_Workers") -> "Future":
        task = one.task
        resources = {"timed": 1.0} if task.is_block else {}
        resources["memory"] = one.memory_bytes = float(min(task.need_bytes, workers.most_memory()))
        one.addresses = workers.without(one.avoid) if one.avoid else []
        return client.submit(
            run,
            task.kind,
            msgspec.json.encode(Request(self._store, task)).decode(),
            key=f"{'block' if task.is_block else 'cell'}-{uuid.uuid4().hex}",
            resources=resources,
            workers=one.addresses or None,
            pure=False,
        )

    def _take(
        self, client: "Client", finished: list["Future"], under_way: dict["Future", Open], waiting: deque[Open]
    ) -> bool:
        """Takes the outcomes of ended tasks. False where the scheduler is gone: they stay under way."""
        good = [future for future in finished if future.status == "finished"]
        try:
            texts = dict(zip(good, client.gather(good), strict=True))
        except Exception:  # of whatever kind: a worker has gone with its outcome, but its results are in the store
            texts = {}
        if client.status != "running" or any(future.status in ("cancelled", "lost") for future in finished):
            return False
        for future in finished:
            one = under_way.pop(future)
            if future in texts:
                self._count(one, msgspec.json.decode(texts[future], type=Outcome), waiting)
            else:
                error = future.exception() if future.status == "error" else None
                self._again(one, _in_words(error), waiting)
        return True

    def _count(self, one: Open, outcome: Outcome, waiting: deque[Open]) -> None:
        self._ended.done += len(outcome.done)
        self._ended.failed |= outcome.failed
        self._ended.seconds += outcome.seconds
        for reason in outcome.failed.values():
            self._tell(reason)
        if not outcome.retry:
            self._on_done(one.task, self._ended)
            return
        self._ended.done -= len(outcome.done)  # a block is done as a whole, or repeated
        if outcome.machine_at_fault:
            one.avoid.add(outcome.worker)
        self._again(one, outcome.retry, waiting)

    def _again(self, one: Open, reason: str, waiting: deque[Open]) -> None:
        one.attempts += 1
        what = f"{one.task.name}: {reason}"
        if one.attempts <= self._retries:
            self._tell(f"{what}: tried again")
            waiting.append(one)
            return
        attempts = f"{one.attempts} attempts" if one.attempts > 1 else "1 attempt"
        self._tell(f"{what}: given up after {attempts}")
        self._ended.failed |= dict.fromkeys(one.task.keys, f"{what} ({attempts})")
        self._on_done(one.task, self._ended)


class _Workers:
    """The scheduler's workers; the list is refreshed from time to time."""

    def __init__(self, client: "Client", tell: Callable[[str], None]) -> None:
        self._client, self._tell = client, tell
        self._asked_s = -math.inf
        self._without_s: float | None = None
        self._known: dict[str, dict] = {}

    def threads(self) -> int:
        """How many tasks the workers run at a time."""
        return sum(worker["nthreads"] for worker in self._known.values())

    def most_memory(self) -> float:
        """Memory of the largest worker, in bytes: tasks that need more are run there."""
        return max((worker["resources"].get("memory", math.inf) for worker in self._known.values()), default=math.inf)

    def without(self, names: Iterable[str]) -> list[str]:
        """Addresses of all workers except `names`."""
        left_out = set(names)
        return [address for address, worker in self._known.items() if worker["name"] not in left_out]

    def any_of(self, addresses: Iterable[str]) -> bool:
        """Is one of `addresses` still there?"""
        return any(address in self._known for address in addresses)

    def ask(self) -> bool:
        """Refreshes the list, unless it was refreshed a moment ago. True: it changed."""
        now = time.monotonic()
        if now - self._asked_s < (ASK_S if self._known else NO_WORKER_ASK_S):
            return False
        self._asked_s = now
        try:
            identity = self._client.sync(self._client.scheduler.identity, n_workers=-1)  # type: ignore[union-attr]
        except Exception:  # of whatever kind: the scheduler has gone, as the client's status will show
            return False
        before, self._known = self._known.keys(), identity["workers"]
        if self._known:
            self._without_s = None
        elif self._without_s is None:
            self._without_s = now
        elif now - self._without_s > NO_WORKER_TOLD_S:
            self._without_s = now
            self._tell("no worker: 'heaptape fleet worker ADDRESS --store URL' starts one")
        return before != self._known.keys()


def _take_back(workers: _Workers, under_way: dict["Future", Open], waiting: deque[Open]) -> None:
    """Takes back tasks whose workers have all gone. The scheduler would keep them for ever: without a worker for a
    task, it gives the task to a later worker only if that is a requested one, even with Dask's allow_other_workers.
    """
    most_memory = workers.most_memory()
    for future, one in list(under_way.items()):
        if one.memory_bytes > most_memory or (one.addresses and not workers.any_of(one.addresses)):
            del under_way[future]
            future.release()
            waiting.append(one)


def _drained(ends: "Queue[Future]") -> list["Future"]:
    """All ended futures; waits a while for the first."""
    try:
        found = [ends.get(timeout=WAIT_S)]
    except Empty:
        return []
    with contextlib.suppress(Empty):
        while True:
            found.append(ends.get_nowait())
    return found


def _close(client: "Client") -> None:
    """Closes a client in any state: a scheduler that has gone can't be notified."""
    with contextlib.suppress(Exception):
        client.close(timeout=2)


def _in_words(error: BaseException | None) -> str:
    if error is None:
        return "the worker has gone"
    if type(error).__name__ == "KilledWorker":
        return "its workers died"
    return f"refused by the scheduler or a worker ({type(error).__name__})"
