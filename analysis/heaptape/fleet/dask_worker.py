# SPDX-License-Identifier: MIT
"""A process of Dask's as a worker of one store: how it starts, what it takes, and the functions that it runs."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import distributed
from distributed.security import Security

from heaptape.common import console
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.fleet.cluster import ANY_PORT, is_loopback, until_ended
from heaptape.fleet.files import StoreError
from heaptape.fleet.machine import engine_hash, scratch_of
from heaptape.fleet.plan import Task
from heaptape.fleet.store import Store, open_store
from heaptape.fleet.worker import Outcome, Worker, new_worker

if TYPE_CHECKING:
    from heaptape.fleet.ingest import Batch

RECONNECT_S = 2.0


@dataclass
class WorkerStart(distributed.WorkerPlugin):
    """Makes a process of Dask's a worker of one store ; sent to it as a pickle. `wait_s`: how
    long to wait for a store that can't be read or written.
    """

    store_url: str
    home: Home
    wait_s: float
    machine_name: str = ""

    def setup(self, worker: distributed.Worker) -> None:
        global _worker
        _worker = new_worker(self._store(), self.home, self.machine_name)
        self._ends = contextlib.ExitStack()
        self._ends.enter_context(scratch_of(_worker.name))
        self._ends.enter_context(_worker.heartbeat())

    def teardown(self, worker: distributed.Worker) -> None:
        self._ends.close()

    def resources(self, threads: int, memory_bytes: int) -> dict[str, float]:
        """What its tasks may take: Dask places a task only where its store and its engine are. `timed`: one task
        at a time measures time.
        """
        own = {f"store {self._store().id}": threads, f"engine {engine_hash(self.home)}": threads}
        return {"timed": 1, "memory": memory_bytes, **own}

    def _store(self) -> Store:
        return open_store(self.store_url, create=True, patience_s=self.wait_s, tell=console.note)


_worker: Worker | None = None


def current_worker(store: str) -> Worker:
    """The worker that this process is. Raises HeaptapeError where that is of another store than the one of this id."""
    if _worker is None or _worker.store.id != store:
        raise HeaptapeError("a worker has another store")
    return _worker


def run_cells(store: str, task: Task) -> Outcome:
    """Runs a task on the Dask worker that this process is."""
    outcome = current_worker(store).run(task)
    outcome.worker = distributed.get_worker().address
    return outcome


def run_batch(store: str, batch: "Batch") -> Outcome:
    """Ingests traces on the Dask worker that this process is."""
    from heaptape.fleet import ingest  # loads Arrow, which cells do without

    worker = current_worker(store)
    try:
        return ingest.ingest(worker.store, batch, ingest.stored_traces(worker.store, batch.run), worker.home)
    except StoreError as error:
        return Outcome(retry=str(error))


def serve_worker(
    address: str,
    security: Security | None,
    start: "WorkerStart",
    threads: int,
    memory_bytes: int,
    tell: Callable[[str], None],
) -> None:
    """Runs a worker until it is ended: it connects, and reconnects when the scheduler comes back. `tell`: called with a
    line each time.
    """
    host = urlsplit(address).hostname or ""
    resources = start.resources(threads, memory_bytes)

    async def once() -> None:
        worker = distributed.Worker(
            address,
            host=host if is_loopback(host) else None,  # a worker for this machine only listens only on it
            nthreads=threads,
            resources=resources,
            security=security,
            plugins=(start,),
            dashboard_address=ANY_PORT,
            memory_limit=0,
        )
        async with worker:
            tell(f"works for {address}")
            await worker.finished()
        tell(f"{address} has gone: waiting for it")

    async def serve() -> None:
        while True:
            with contextlib.suppress(Exception):  # of whatever kind: it ends one connection, not the worker
                await once()
            await asyncio.sleep(RECONNECT_S)

    until_ended(serve)
