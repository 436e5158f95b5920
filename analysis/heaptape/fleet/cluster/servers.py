# SPDX-License-Identifier: MIT
"""The scheduler and the workers of a fleet: Dask's, without everything that could run anything but tasks.

Connections are TLS with the fleet's own keys (keys.py); plain TCP is for the loopback interface only. Neither opens a
port for a web page.
"""

import asyncio
import contextlib
import ipaddress
import logging
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from heaptape.common.connections import outlive_peers
from heaptape.common.errors import HeaptapeError
from heaptape.fleet.cluster.keys import AUTHORITY, CERTIFICATE, KEY
from heaptape.fleet.cluster.tasks import only_tasks
from heaptape.fleet.store.files import MISSING

if TYPE_CHECKING:
    from distributed.security import Security

# Which requests a worker and the scheduler answer: only those for running tasks and reporting their ends.
WORKER_ANSWERS = {"identity", "gather", "get_data", "free_keys", "terminate", "ping", "keys", "versions"}
SCHEDULER_ANSWERS = {
    *("identity", "register-client", "register-worker", "unregister", "gather", "terminate"),
    *("ncores", "ncores_running"),
    *("who_has", "has_what", "nbytes", "processing", "versions", "add_keys", "heartbeat_worker", "set_resources"),
    *("get_task_status", "retire_workers", "subscribe_worker_status", "log_event", "get_metadata", "set_metadata"),
    *("connection_stream", "stream-start", "echo", "dump_state"),
}
RECONNECT_S = 2.0
LOUD = ("distributed", "tornado")
# Dask's settings. worker-ttl: after this silence a worker is given up, and its tasks are run by others.
# allowed-failures: a task that killed this many workers is not tried on more. retry.count: failed requests are not
# repeated, as the scheduler, asked for the result of a killed worker, kept calling it for a minute after its removal.
WORKER_SILENT_S = 60
SETTINGS = {
    "distributed.scheduler.worker-ttl": f"{WORKER_SILENT_S}s",
    "distributed.scheduler.allowed-failures": 2,
    "distributed.scheduler.work-stealing": True,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "60s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.comm.retry.count": 0,
}


def configure() -> None:
    """Configures Dask; settings from the environment (DASK_...) stay. Raises HeaptapeError where Dask is missing."""
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError:
        raise HeaptapeError(f"fleet {MISSING}") from None
    given = dask.config.collect(paths=[])
    ours = {key: value for key, value in SETTINGS.items() if dask.config.get(key, None, config=given) is None}
    dask.config.set(ours)
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in LOUD]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # our own lines report what matters
    only_tasks()
    outlive_peers()


def security(keys: str | None) -> "Security | None":
    """TLS with the keys in a folder (`heaptape fleet keys`). Raises HeaptapeError where one is missing."""
    from distributed.security import Security

    if keys is None:
        return None
    for name in (AUTHORITY, CERTIFICATE, KEY):
        if not (Path(keys) / name).is_file():
            raise HeaptapeError(f"{keys}: no keys of a fleet ({name} is missing): heaptape fleet keys {keys}")
    certificate, key = str(Path(keys) / CERTIFICATE), str(Path(keys) / KEY)
    roles = {
        f"tls_{role}_{what}": path
        for role in ("client", "scheduler", "worker")
        for what, path in (("cert", certificate), ("key", key))
    }
    return Security(tls_ca_file=str(Path(keys) / AUTHORITY), require_encryption=True, **roles)


def check_address(address: str, keys: str | None) -> None:
    """Raises HeaptapeError for a malformed address, and for a plain one that others could reach."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None or parts.scheme not in ("tcp", "tls"):
        raise HeaptapeError(f"{address}: not an address: tls://HOST:PORT, or tcp://127.0.0.1:PORT")
    if parts.scheme == "tls" and keys is None:
        raise HeaptapeError(f"{address}: needs --keys, the folder that 'heaptape fleet keys' made")
    if parts.scheme == "tcp" and not is_loopback(host):
        raise HeaptapeError(f"{address}: plain TCP is for the loopback interface alone: tls://, with --keys")


def is_loopback(host: str) -> bool:
    """Can it be reached only from this machine?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve_scheduler(address: str, keys: str | None, tell: Callable[[str], None]) -> None:
    """Runs a scheduler until it is ended. `tell`: called with its address when it listens."""
    check_address(address, keys)
    configure()
    from distributed import Scheduler
    from distributed.stealing import WorkStealing

    class TaskScheduler(Scheduler):
        def start_http_server(self, *arguments: object, **options: object) -> None:
            """None."""

    async def serve() -> None:
        scheduler = TaskScheduler(
            host=address, security=security(keys), dashboard=False, extensions={"stealing": WorkStealing}
        )
        async with scheduler:
            _answers_only(scheduler, SCHEDULER_ANSWERS)
            tell(scheduler.address)
            await scheduler.finished()

    _run(serve)


def serve_worker(
    address: str, keys: str | None, name: str, threads: int, memory_bytes: int, tell: Callable[[str], None]
) -> None:
    """Runs a worker until it is ended: it connects, and reconnects when the scheduler comes back. `tell`: called with a
    line each time.
    """
    check_address(address, keys)
    configure()
    from distributed import Worker

    host = urlsplit(address).hostname or ""

    class TaskWorker(Worker):
        def start_http_server(self, *arguments: object, **options: object) -> None:
            """None."""

    async def once() -> None:
        worker = TaskWorker(
            address,
            host=host if is_loopback(host) else None,  # a worker for this machine only listens only on it
            name=name,
            nthreads=threads,
            resources={"timed": 1, "memory": memory_bytes},
            security=security(keys),
            dashboard=False,
            extensions={},
            memory_limit=0,
        )
        _answers_only(worker, WORKER_ANSWERS)
        async with worker:
            tell(f"works for {address}")
            await worker.finished()
        tell(f"{address} has gone: waiting for it")

    async def serve() -> None:
        while True:
            with contextlib.suppress(Exception):  # of whatever kind: it ends one connection, not the worker
                await once()
            await asyncio.sleep(RECONNECT_S)

    _run(serve)


def _answers_only(server: object, names: set[str]) -> None:
    handlers = server.handlers  # type: ignore[attr-defined]
    for name in [name for name in handlers if name not in names]:
        del handlers[name]


def _run(serve: Callable[[], Awaitable[None]]) -> None:

    async def until_ended() -> None:
        loop, work = asyncio.get_running_loop(), asyncio.ensure_future(serve())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work

    asyncio.run(until_ended())
