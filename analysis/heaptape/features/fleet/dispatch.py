# SPDX-License-Identifier: MIT
"""Has tasks run by Dask: by threads of this process, or by the workers of a scheduler.

A result is in the store before its worker reports it: when a scheduler dies, or a command is killed, only tasks under
way are lost. Dask sends functions as pickles: whoever may connect can run anything on scheduler and workers.
"""

import contextlib
import functools
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.common.process import outlive_peers
from heaptape.features.fleet.files import MISSING
from heaptape.features.fleet.status import is_done
from heaptape.features.fleet.store import Task, open_store
from heaptape.features.fleet.work import Worker
from heaptape.run.replay import runs_at_a_time

if TYPE_CHECKING:
    from distributed import Client

SUBMITTED = 4096  # tasks that the scheduler has at a time, so that its memory is bounded for any plan
CONNECT = "60s"
# Dask's profiler would disturb timed passes. Local workers are threads: no web pages, no limit of memory.
SETTINGS = {"distributed.worker.profile.enabled": False}

_local: dict[str, Worker] = {}  # session -> this process's worker in it


@functools.lru_cache(maxsize=4)
def _worker(store: str, session: str) -> Worker:
    """This process's worker in a session, one run of the command. The next one checks its files again."""
    return Worker(open_store(store, tell=print), default_home())


def run_task(store: str, session: str, task: Task, again: bool) -> None:
    """Runs a task, unless another session has meanwhile (or `again`). Called by Dask's workers."""
    worker = _local.get(session) or _worker(store, session)
    if again or not is_done(worker.store.record(task.key), task):
        worker.run(task)


@contextlib.contextmanager
def connected(address: str, jobs: int, tasks: Sequence[Task]) -> "Iterator[Client]":
    """A client of the scheduler at an address; empty: of this process, `jobs` tasks at a time, 0: as many as processors
    and memory allow. Raises HeaptapeError where no scheduler or no worker answers.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise HeaptapeError(MISSING) from None
    outlive_peers()
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # our own lines report what matters
    with dask.config.set(SETTINGS), contextlib.ExitStack() as ends:
        if address:
            try:
                client = ends.enter_context(Client(address, timeout=CONNECT, set_as_default=False))
                client.wait_for_workers(1, timeout=CONNECT)
            except (OSError, RuntimeError, ValueError, TimeoutError) as error:
                raise HeaptapeError(f"{address}: no scheduler with workers answers: {error}") from None
        else:
            threads = jobs or runs_at_a_time(max((task.need_bytes for task in tasks), default=1))
            cluster = ends.enter_context(
                LocalCluster(
                    n_workers=1, threads_per_worker=threads, processes=False, dashboard_address=None, memory_limit=0
                )
            )
            client = ends.enter_context(Client(cluster, set_as_default=False))
        yield client


def run(
    worker: Worker,
    tasks: Sequence[Task],
    client: "Client",
    retries: int,
    again: bool,
    on_done: Callable[[Task, str], None],
) -> None:
    """Runs all tasks; `worker`: this process. `on_done`: called with each, and why it has no result (empty: it has
    one), after `retries` further attempts. `again`: also tasks with a result. Raises HeaptapeError where the scheduler
    goes away.
    """
    from distributed import as_completed

    session, waiting, under_way = uuid.uuid4().hex, iter(tasks), {}
    _local[session] = worker
    done = as_completed(loop=client.loop)

    def submit(number: int) -> None:
        for task in islice(waiting, number):
            future = client.submit(run_task, worker.store.url, session, task, again, pure=False, retries=retries)
            under_way[future] = task
            done.add(future)

    try:
        submit(SUBMITTED)
        for future in done:
            if future.status in ("cancelled", "lost"):
                raise HeaptapeError("the scheduler has gone: start it, and the same command continues")
            error = future.exception()
            on_done(under_way.pop(future), "" if error is None else str(error) or type(error).__name__)
            submit(1)
    finally:
        worker.processes.end()
        del _local[session]
