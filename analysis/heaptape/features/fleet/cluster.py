# SPDX-License-Identifier: MIT
"""A fleet's processes, by Dask: the scheduler and its workers.

Connections are TLS with the fleet's own keys; plain TCP is for the loopback interface only. Dask sends functions as
pickles, so whoever has the keys can run anything on scheduler and workers.
"""

import asyncio
import contextlib
import datetime
import ipaddress
import logging
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import replace_whole
from heaptape.common.process import outlive_peers
from heaptape.features.fleet.dispatch import Outcome
from heaptape.features.fleet.files import MISSING, StoreError
from heaptape.features.fleet.machine import engine_hash, scratch_of
from heaptape.features.fleet.plan import Task
from heaptape.features.fleet.worker import Worker

if TYPE_CHECKING:
    from distributed.security import Security

    from heaptape.features.fleet.ingest import Batch

AUTHORITY, CERTIFICATE, KEY = "authority.pem", "member.pem", "member.key"
YEARS = 10
ANY_PORT = "127.0.0.1:0"
RECONNECT_S = 2.0
# worker-ttl: after this silence a worker is given up, and its tasks are run by others. no-workers-timeout: a task that
# no worker can run comes back to the command. http.routes: no web pages. profile: it would disturb timed passes.
SETTINGS = {
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.scheduler.no-workers-timeout": "30s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
}


def make_keys(folder: Path) -> None:
    """Makes an authority and one certificate, for all members, in a folder. The authority's own key is discarded: it
    can't add anybody later. Raises HeaptapeError where there are keys already, or they can't be made.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError:
        raise HeaptapeError(f"fleet {MISSING}") from None
    if any((folder / name).exists() for name in (AUTHORITY, CERTIFICATE, KEY)):
        raise HeaptapeError(f"{folder}: has keys already")
    now = datetime.datetime.now(datetime.timezone.utc)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "heaptape fleet authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "heaptape fleet member")])

    def certificate(name: x509.Name, public: ec.EllipticCurvePublicKey, is_authority: bool) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .sign(authority_key, hashes.SHA256())
        )

    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_private(folder / AUTHORITY, certificate(issuer, authority_key.public_key(), True).public_bytes(pem))
        _write_private(folder / CERTIFICATE, certificate(subject, key.public_key(), False).public_bytes(pem))
        _write_private(folder / KEY, secret)
    except OSError as error:
        raise HeaptapeError(f"{folder}: keys can't be written: {error.strerror}") from error


def security_of(address: str, keys: str | None) -> "Security | None":
    """TLS with the keys in a folder (`heaptape fleet keys`); None for a plain connection on the loopback interface. The
    process is then configured for Dask. Raises HeaptapeError where a key is missing, or the address is not for them.
    """
    check_address(address, keys)
    configure()
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


def configure() -> None:
    """Configures Dask; settings from the environment (DASK_...) stay. Raises HeaptapeError where Dask is missing."""
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError:
        raise HeaptapeError(f"fleet {MISSING}") from None
    given = dask.config.collect(paths=[])
    dask.config.set({key: value for key, value in SETTINGS.items() if dask.config.get(key, None, config=given) is None})
    for name in [
        name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")
    ]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # our own lines report what matters
    outlive_peers()


def serve_scheduler(address: str, keys: str | None, tell: Callable[[str], None]) -> None:
    """Runs a scheduler until it is ended. `tell`: called with its address when it listens."""
    security = security_of(address, keys)
    from distributed import Scheduler

    async def serve() -> None:
        async with Scheduler(host=address, security=security, dashboard_address=ANY_PORT) as scheduler:
            tell(scheduler.address)
            await scheduler.finished()

    until_ended(serve)


class Member:
    """This process as a worker of one store, between two losses of its scheduler."""

    worker: Worker | None = None


def _member(store: str) -> Worker:
    """Raises HeaptapeError where this process's worker is of another store than the one of this id."""
    if Member.worker is None or Member.worker.store.id != store:
        raise HeaptapeError("a worker has another store")
    return Member.worker


def run_cells(store: str, task: Task) -> Outcome:
    """Runs a task on the Dask worker that this process is."""
    from distributed import get_worker

    outcome = _member(store).run(task)
    outcome.worker = get_worker().address
    return outcome


def run_batch(store: str, batch: "Batch") -> Outcome:
    """Ingests traces on the Dask worker that this process is."""
    from heaptape.features.fleet import ingest  # loads Arrow, which cells do without

    worker = _member(store)
    try:
        return ingest.ingest(worker.store, batch, ingest.stored_traces(worker.store, batch.run), worker.home)
    except StoreError as error:
        return Outcome(retry=str(error))


def serve_worker(
    address: str,
    keys: str | None,
    make: Callable[[], Worker],
    threads: int,
    memory_bytes: int,
    tell: Callable[[str], None],
) -> None:
    """Runs a worker until it is ended: it connects, and reconnects when the scheduler comes back. `make`: called for
    each connection. `tell`: called with a line each time.
    """
    security = security_of(address, keys)
    import distributed

    host = urlsplit(address).hostname or ""

    async def once() -> None:
        Member.worker = own = make()
        # What its tasks may take: Dask places a task only where its store and its engine are; one that measures time
        # runs alone.
        places = dict.fromkeys((f"store {own.store.id}", f"engine {engine_hash(own.home)}"), threads)
        with scratch_of(own.name), own.heartbeat():
            async with distributed.Worker(
                address,
                host=host if is_loopback(host) else None,  # a worker for this machine only listens only on it
                nthreads=threads,
                resources={"timed": 1, "memory": memory_bytes, **places},
                security=security,
                dashboard_address=ANY_PORT,
                memory_limit=0,
            ) as worker:
                tell(f"works for {address}")
                try:
                    await worker.finished()
                finally:
                    own.processes.end()
        tell(f"{address} has gone: waiting for it")

    async def serve() -> None:
        while True:
            with contextlib.suppress(Exception):  # of whatever kind: it ends one connection, not the worker
                await once()
            await asyncio.sleep(RECONNECT_S)

    until_ended(serve)


def until_ended(serve: Callable[[], Awaitable[None]]) -> None:
    """Runs it until a signal ends this process."""

    async def cancelled_by_signals() -> None:
        loop, work = asyncio.get_running_loop(), asyncio.ensure_future(serve())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work

    asyncio.run(cancelled_by_signals())


def _write_private(path: Path, data: bytes) -> None:
    """Writes a file that only its owner can read, from the first byte."""
    path.touch(mode=0o600)
    replace_whole(path, data)
