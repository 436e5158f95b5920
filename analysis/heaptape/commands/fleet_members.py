# SPDX-License-Identifier: MIT
"""`heaptape fleet keys`, `scheduler` and `worker`: the processes of a fleet, and their TLS keys."""

import argparse
from pathlib import Path

from heaptape.commands.outcome import Subcommand
from heaptape.common import console
from heaptape.common.errors import UsageError

STORE_WAIT_S = 300.0


def add_store_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store-wait",
        type=float,
        default=STORE_WAIT_S,
        metavar="SECONDS",
        help=f"how long to wait for a store that can't be read or written (default {STORE_WAIT_S:g})",
    )


def add_keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", metavar="DIR", help="folder that 'heaptape fleet keys' made; for tls:// addresses")


def _keys_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="for the keys; made where there is none")


def _keys(arguments: argparse.Namespace) -> int:
    from heaptape.fleet.cluster import make_keys

    make_keys(Path(arguments.folder))
    print(f"keys in {arguments.folder}: whoever has them may submit work; copy the folder to each machine of the fleet")
    return 0


def _scheduler_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="where to listen: tls://HOST:PORT, or tcp://127.0.0.1:PORT")
    add_keys(parser)


def _scheduler(arguments: argparse.Namespace) -> int:
    from heaptape.fleet.cluster import serve_scheduler

    serve_scheduler(arguments.address, arguments.keys, lambda address: print(address, flush=True))
    return 0


def _worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="address of the scheduler")
    parser.add_argument(
        "--store", required=True, metavar="STORE", help="the one store that it works for; made where there is none"
    )
    add_keys(parser)
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="exact cells at a time (default: the processors)"
    )
    parser.add_argument(
        "--memory", type=int, default=0, metavar="BYTES", help="for all of them (default: what is available)"
    )
    parser.add_argument("--machine", default="", metavar="NAME", help="counts as a separate machine of that name")
    add_store_wait(parser)


def _worker(arguments: argparse.Namespace) -> int:
    if arguments.threads < 0 or arguments.memory < 0:
        raise UsageError("fleet worker: --threads and --memory must not be negative")
    from heaptape.common.processors import processors
    from heaptape.fleet.cluster import security_of
    from heaptape.run import machine

    security = security_of(arguments.address, arguments.keys)
    from heaptape.fleet.dask_worker import WorkerStart, serve_worker

    start = WorkerStart(arguments.store, arguments.home, arguments.store_wait, arguments.machine)
    threads = arguments.threads or processors()
    memory_bytes = arguments.memory or machine.available_bytes()
    serve_worker(arguments.address, security, start, threads, memory_bytes, console.note)
    return 0


KEYS = Subcommand(
    "make the keys of a fleet",
    "Makes an authority and one certificate for all members of a fleet, for TLS: whoever has none can neither submit "
    "work nor see it.",
    _keys_arguments,
    _keys,
)
SCHEDULER = Subcommand(
    "run a scheduler",
    "Runs a Dask scheduler until it is ended. Prints its address.",
    _scheduler_arguments,
    _scheduler,
)
WORKER = Subcommand(
    "run a worker",
    "Runs a worker for a scheduler, until it is ended: it takes the cells of one store.",
    _worker_arguments,
    _worker,
)
