# SPDX-License-Identifier: MIT
"""Has tasks run, by threads of this process or by the workers of a Dask scheduler, and counts their attempts; and the
script of a job array, whose tasks do the first.

A worker's results are in the store before it reports them: when a scheduler dies, or a command is killed, only tasks
under way are lost. Dask places a task by resources: the store that it is of, the engine that it needs, its memory.
"""

import contextlib
import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from heaptape.common.errors import HeaptapeError
from heaptape.run.engine_process import Processes, side_by_side
from heaptape.run.replay import runs_at_a_time

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

    from heaptape.features.fleet.plan import Task

SUBMITTED = 4096  # tasks that the scheduler has at a time, so that its memory is bounded for any plan
CONNECT_S, CLOSE_S = 10.0, 2.0
# --exclusive: timed passes need a machine alone, and exact passes use all of its processors.
SCRIPT = """\
#!/bin/sh
# Made by 'heaptape fleet replay --slurm-script'. Submit it by sbatch
# Each task runs its share of the plans in the store. To continue after tasks were killed, submit it again: results that
# are in the store are not run again. 'heaptape fleet status' shows the progress.
#SBATCH --job-name=heaptape-fleet
#SBATCH --array=0-{last}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --output=heaptape-fleet-%A_%a.log
exec {command} fleet work {store} --share "$SLURM_ARRAY_TASK_ID/{shares}"{options}
"""


class Outcome(msgspec.Struct):
    """Outcome of an attempt. `done`: cells in the store. `failed`: cell -> why, already written to the store. `retry`:
    why the other cells are worth another attempt; empty: they are not, or there are none. `machine_at_fault`: that
    should be on another machine. `attempted`: False where no worker took the task, which is not counted. `worker`: its
    address, if it is Dask's.
    """

    done: list[str] = []
    failed: dict[str, str] = {}
    retry: str = ""
    machine_at_fault: bool = False
    attempted: bool = True
    worker: str = ""


class Work(Protocol):
    """A unit of work. `keys`: of its parts. `resources`: what it takes of its worker's, by name."""

    @property
    def name(self) -> str: ...
    @property
    def keys(self) -> list[str]: ...
    @property
    def resources(self) -> dict[str, float]: ...


W = TypeVar("W", bound=Work)
# Attempts each task once: yields it with its outcome.
Attempt = Callable[[Sequence[W]], Iterator[tuple[W, Outcome]]]


@dataclass
class Ended:
    """Outcome of a plan. `done`: number of cells. `failed`: cell or task -> why, in words."""

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def run(
    tasks: Sequence[W],
    attempt: Attempt[W],
    retries: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    on_done: Callable[[W, Ended], None] = lambda task, ended: None,
) -> Ended:
    """Attempts all tasks, then those that failed again, at most `retries` times each. `on_done`: called with each task
    that is not tried again. What `attempt` raises is raised.
    """
    ended, attempts = Ended(), Counter[int]()
    left = list(tasks)
    while left:
        again: list[W] = []
        for task, outcome in attempt(left):
            ended.failed |= outcome.failed
            for reason in outcome.failed.values():
                tell(reason)
            attempts[id(task)] += outcome.attempted
            if not outcome.retry:  # a block is done as a whole, or repeated
                ended.done += len(outcome.done)
                on_done(task, ended)
            elif attempts[id(task)] <= retries or not outcome.attempted:
                if outcome.attempted:
                    tell(f"{task.name}: {outcome.retry}: tried again")
                again.append(task)
            else:
                often = f"{attempts[id(task)]} attempts" if retries else "1 attempt"
                tell(f"{task.name}: {outcome.retry}: given up after {often}")
                ended.failed |= dict.fromkeys(task.keys, f"{task.name}: {outcome.retry} ({often})")
                on_done(task, ended)
        left = again
    return ended


def in_threads(work: "Callable[[Task], Outcome]", processes: Processes, jobs: int = 0) -> "Attempt[Task]":
    """Attempts by threads of this process: exact cells side by side, as many as processors and memory allow (or
    `jobs`); then blocks, one by one. `processes`: those that `work` starts.
    """

    def attempt(tasks: "Sequence[Task]") -> "Iterator[tuple[Task, Outcome]]":
        exact, blocks = [one for one in tasks if not one.is_block], [one for one in tasks if one.is_block]
        most = max((one.need_bytes for one in exact), default=1)
        yield from side_by_side(work, exact, jobs or runs_at_a_time(most), processes)
        yield from side_by_side(work, blocks, 1, processes)

    return attempt


class Scheduler:
    """The workers of a Dask scheduler. `work`: they call it with the store's id and a task. `wait_s`: how
    long to wait for a scheduler that has gone, before HeaptapeError is raised.
    """

    def __init__(
        self,
        address: str,
        security: "Security | None",
        store: str,
        work: Callable[[str, Any], Outcome],
        wait_s: float,
        tell: Callable[[str], None],
    ) -> None:
        self._address, self._security, self._store, self._function = address, security, store, work
        self._wait_s, self._tell = wait_s, tell
        self._avoid: dict[int, set[str]] = {}  # task -> addresses of workers that could not run it

    def attempt(self, tasks: Sequence[W]) -> Iterator[tuple[W, Outcome]]:
        for first in range(0, len(tasks), SUBMITTED):
            client = self._connected()
            try:
                yield from self._attempt(client, tasks[first : first + SUBMITTED])
            finally:
                with contextlib.suppress(Exception):  # a scheduler that has gone can't be notified
                    client.close(timeout=CLOSE_S)

    def _connected(self) -> "Client":
        from distributed import Client

        until = time.monotonic() + self._wait_s
        while True:
            try:
                return Client(self._address, security=self._security, timeout=CONNECT_S, set_as_default=False)
            except (OSError, RuntimeError, ValueError) as error:
                if time.monotonic() >= until:
                    why = error or type(error).__name__
                    raise HeaptapeError(f"{self._address}: no scheduler answers: {why}") from None
            time.sleep(1)

    def _attempt(self, client: "Client", tasks: Sequence[W]) -> Iterator[tuple[W, Outcome]]:
        from distributed import as_completed

        workers = _workers(client)
        memory = max((worker["resources"].get("memory", 0) for worker in workers.values()), default=math.inf)
        under_way = {}
        for task in tasks:
            needed = {**task.resources, f"store {self._store}": 1}
            avoid = self._avoid.get(id(task))
            others = [address for address in workers if address not in avoid] if avoid else []
            future = client.submit(
                self._function,
                self._store,
                task,
                pure=False,
                resources=needed | {"memory": min(needed["memory"], memory)},
                workers=others or None,
                allow_other_workers=bool(others),
            )
            under_way[future] = task
        reminded = False
        for future in as_completed(list(under_way), loop=client.loop):
            task = under_way[future]
            try:
                outcome = future.result()
            except Exception as error:  # of whatever kind: the scheduler's, a worker's, or both have gone
                if future.status in ("cancelled", "lost"):
                    self._tell(f"{self._address}: the scheduler has gone: waiting for it")
                    yield from ((left, Outcome(retry="not run", attempted=False)) for left in under_way.values())
                    return
                outcome = self._without_outcome(client, task, error)
            if outcome.machine_at_fault:
                self._avoid.setdefault(id(task), set()).add(outcome.worker)
            if not outcome.attempted and not reminded and not _workers(client):
                self._tell("no worker: 'heaptape fleet worker ADDRESS --store URL' starts one")
                reminded = True
            del under_way[future]
            yield task, outcome

    def _without_outcome(self, client: "Client", task: Work, error: Exception) -> Outcome:
        from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

        if isinstance(error, KilledWorker):
            return Outcome(retry="its workers died")
        if not isinstance(error, NoWorkerError | NoValidWorkerError):
            return Outcome(retry=f"{type(error).__name__}: {error}")
        workers = _workers(client)
        needed = {*task.resources, f"store {self._store}"}
        if not workers or any(needed <= worker["resources"].keys() for worker in workers.values()):
            return Outcome(retry="no worker", attempted=False)  # one may come, or there is a smaller one than before
        return Outcome(retry="all workers have another store, or another engine or C library, or at another path")


def _workers(client: "Client") -> dict[str, dict]:
    """All workers, by address; none where the scheduler has gone, as the tasks will show."""
    try:
        return client.scheduler_info(n_workers=-1)["workers"]
    except OSError:
        return {}


def script(command: Sequence[str], store: str, shares: int, options: Sequence[str]) -> str:
    """The script's text. `options`: of `heaptape fleet work`."""
    words = "".join(f" {shlex.quote(word)}" for word in options)
    return SCRIPT.format(
        command=shlex.join(command), store=shlex.quote(store), last=shares - 1, shares=shares, options=words
    )
