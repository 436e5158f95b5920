# SPDX-License-Identifier: MIT
"""`heaptape fleet`: many recordings, many machines. `replay` runs a plan's cells on workers, `work` a share of them
here; `keys`, `scheduler` and `worker` are the fleet's processes. Commands about a store's traces: fleet_data.py.
"""

import argparse
import contextlib
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import Parser, Subcommand, add_allocator_option, add_format_option
from heaptape.common import console
from heaptape.common.console import WorkProgress
from heaptape.common.errors import UsageError
from heaptape.common.output import STANDARD_OUTPUT, print_json, write_text
from heaptape.features.fleet import store_commands as data
from heaptape.features.fleet.store_commands import (
    SCHEDULER_WAIT_S,
    add_keys,
    add_store_wait,
    local_workers,
    progress_of,
)

if TYPE_CHECKING:
    from heaptape.features.fleet.dispatch import Attempt
    from heaptape.features.fleet.plan import Plan, PlanFile, Task
    from heaptape.features.fleet.status import Left
    from heaptape.features.fleet.store import Store

SUMMARY = "replay many recordings on many machines, and keep what was measured in a store"
DESCRIPTION = (
    "Replays workloads x allocators x passes, each once, on this machine, on the workers of a Dask scheduler or in a "
    "batch system, and keeps every result in a store: a folder, or any URL that fsspec knows. docs/use/FLEET.md."
)
FAILURES_SHOWN = 20
DEFAULT_SHARES = 100
INTERRUPTED = 130


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs", nargs="+", metavar="PLAN.toml|F", help="a plan; or traces, workloads, folders of them"
    )
    words = "as 'heaptape replay -a' takes it; repeatable (default: the plan's, or all that are found)"
    add_allocator_option(parser, words, "NAME")
    parser.add_argument("--store", required=True, metavar="URL", help="folder or fsspec URL; made where there is none")
    parser.add_argument("--baseline", metavar="NAME", help="the allocator to compare with (default glibc)")
    parser.add_argument(
        "--passes",
        metavar="LIST",
        help="passes, joined by commas (default instructions,memory). Passes that read the clock are run in blocks",
    )
    parser.add_argument(
        "-n", "--repeats", type=int, metavar="N", help="repetitions of passes that read the clock (default 5)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the order within blocks (default 0)")
    parser.add_argument(
        "--scheduler",
        default="local",
        metavar="ADDRESS",
        help="tls://HOST:PORT or tcp://127.0.0.1:PORT, whose workers see the same store; or local=N: N cells at a "
        "time on this machine (default local: as many as processors and memory allow)",
    )
    add_keys(parser)
    parser.add_argument(
        "--slurm-script", metavar="F", help="run nothing: write the script of a job array ('-': print it)"
    )
    parser.add_argument(
        "--shares", type=int, default=0, metavar="N", help=f"tasks of that array (default at most {DEFAULT_SHARES})"
    )
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="retries of a task that fails (default 2)")
    parser.add_argument("--timeout", type=float, default=0, metavar="SECONDS", help="for one run (default: none)")
    parser.add_argument("--curves", action="store_true", help="keep time lines, memory maps and histograms, too")
    parser.add_argument("--again", action="store_true", help="also try cells whose allocator was at fault")
    add_store_wait(parser)


def _replay(arguments: argparse.Namespace) -> int:
    from heaptape.features.fleet.plan import prepare, requested
    from heaptape.features.fleet.store import open_store

    workers = local_workers(arguments.scheduler)
    if workers is None:
        from heaptape.features.fleet.cluster import check_address

        check_address(arguments.scheduler, arguments.keys)
    if arguments.shares < 0 or arguments.retries < 0 or arguments.timeout < 0:
        raise UsageError("fleet replay: --shares, --retries and --timeout are not negative")
    wanted = _wanted(arguments, requested(arguments.inputs))
    store = open_store(arguments.store, create=True, patience_s=arguments.store_wait, tell=console.note)
    prepared = prepare(wanted, store, arguments.home, arguments.timeout, arguments.curves, console.note)
    for line in prepared.plan.left_out():
        console.warning(line)
    if arguments.slurm_script:
        _write_slurm(arguments, prepared.plan)
        return 1 if prepared.refused else 0
    status = _run_plan(arguments, prepared.plan, store, workers)
    return 1 if prepared.refused else status


def _wanted(arguments: argparse.Namespace, plan: "PlanFile") -> "PlanFile":
    """The plan, with the options of the command line in place of its own."""
    import msgspec

    changes: dict[str, object] = {}
    if arguments.allocator:
        changes["allocators"] = tuple(arguments.allocator)
    if arguments.baseline:
        changes["baseline"] = arguments.baseline
    if arguments.passes is not None:
        changes["passes"] = replaying.passes_of(arguments.passes, "fleet replay")
    if arguments.repeats is not None:
        replaying.check_repeats(arguments.repeats, "fleet replay")
        changes["repetitions"] = arguments.repeats
    if arguments.seed is not None:
        changes["seed"] = arguments.seed
    return msgspec.structs.replace(plan, **changes)


def _run_plan(arguments: argparse.Namespace, plan: "Plan", store: "Store", workers: int | None) -> int:
    from heaptape.features.fleet import dispatch
    from heaptape.features.fleet.status import left

    first = left(list(plan.tasks()), store, again=arguments.again)
    if not first.tasks:
        return _report(plan, first, first, {}, store)
    try:
        with WorkProgress() as progress, _attempts(arguments, store, workers, progress) as attempt:
            on_done = progress_of(progress, len(first.tasks))
            failed = dispatch.run(first.tasks, attempt, arguments.retries, progress.note, on_done).failed
    except KeyboardInterrupt:
        console.note(f"interrupted: the same command continues from {store.url}")
        return INTERRUPTED
    return _report(plan, first, left(list(plan.tasks()), store), failed, store)


@contextlib.contextmanager
def _attempts(
    arguments: argparse.Namespace, store: "Store", workers: int | None, progress: WorkProgress
) -> "Iterator[Attempt[Task]]":
    """What attempts tasks: the scheduler's workers, or this process."""
    if workers is None:
        from heaptape.features.fleet.cluster import run_cells, security_of
        from heaptape.features.fleet.dispatch import Scheduler

        address, security = arguments.scheduler, security_of(arguments.scheduler, arguments.keys)
        yield Scheduler(address, security, store.id, run_cells, SCHEDULER_WAIT_S, progress.note).attempt
    else:
        with _local_worker(arguments, store, workers) as attempt:
            yield attempt


@contextlib.contextmanager
def _local_worker(
    arguments: argparse.Namespace, store: "Store", jobs: int, machine: str = ""
) -> "Iterator[Attempt[Task]]":
    """This process as a worker."""
    from heaptape.features.fleet import dispatch
    from heaptape.features.fleet.machine import scratch_of
    from heaptape.features.fleet.worker import new_worker

    worker = new_worker(store, arguments.home, machine)
    with scratch_of(worker.name), worker.heartbeat():
        yield dispatch.in_threads(worker.run, worker.processes, jobs)


def _report(plan: "Plan", first: "Left", last: "Left", failed: dict[str, str], store: "Store") -> int:
    """Prints how much of the plan is done, by the store and not by what workers reported. Returns the exit status."""
    reasons = {key: f"{one.workload}: {one.label}, {one.pass_} pass: {one.reason}" for key, one in last.failed.items()}
    open_keys = [key for task in last.tasks for key in task.keys]
    reasons |= {key: failed.get(key, "not run") for key in open_keys}
    print(
        f"{plan.cells():,} cells: {last.done:,} done ({first.done:,} were there before), {len(reasons):,} not. "
        f"Store {store.url}"
    )
    if not reasons:
        print(f"More: heaptape fleet report {shlex.quote(store.url)}")
    lines = list(dict.fromkeys(reasons.values()))
    for line in lines[:FAILURES_SHOWN]:
        console.error(f"failed: {line}")
    if len(lines) > FAILURES_SHOWN:
        console.error(f"and {len(lines) - FAILURES_SHOWN} more: heaptape fleet status {store.url}")
    return 1 if reasons else 0


def _write_slurm(arguments: argparse.Namespace, plan: "Plan") -> None:
    from heaptape.features.fleet.dispatch import script

    shares = arguments.shares or min(DEFAULT_SHARES, sum(1 for _ in plan.tasks()))
    options = ["--retries", str(arguments.retries), "--store-wait", f"{arguments.store_wait:g}"]
    write_text(arguments.slurm_script, script(arguments.home.command(), _anywhere(arguments.store), shares, options))
    if arguments.slurm_script != STANDARD_OUTPUT:
        print(f"{plan.cells():,} cells in {shares} shares: sbatch {arguments.slurm_script}")


def _anywhere(store: str) -> str:
    """The store's name, valid in whatever folder a batch system starts the script."""
    return store if "://" in store else str(Path(store).resolve())


def _work_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder or URL")
    parser.add_argument("--share", default="0/1", metavar="I/N", help="every N-th task from the I-th, I from 0")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="exact cells at a time (default: as fit)")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="retries of a task that fails (default 2)")
    parser.add_argument("--machine", default="", metavar="NAME", help="counts as a separate machine of that name")
    parser.add_argument("--again", action="store_true", help="also try cells whose allocator was at fault")
    add_store_wait(parser)


def _work(arguments: argparse.Namespace) -> int:
    from heaptape.features.fleet import dispatch
    from heaptape.features.fleet.plan import plans_of, share, tasks_of
    from heaptape.features.fleet.status import left
    from heaptape.features.fleet.store import open_store

    index, number = _share(arguments.share)
    if arguments.jobs < 0 or arguments.retries < 0:
        raise UsageError("fleet work: --jobs and --retries are not negative")
    store = open_store(arguments.store, patience_s=arguments.store_wait, tell=console.note)
    found = left(share(tasks_of(plans_of(store)), index, number), store, again=arguments.again)
    with _local_worker(arguments, store, arguments.jobs, arguments.machine) as attempt, WorkProgress() as progress:
        on_done = progress_of(progress, len(found.tasks))
        ended = dispatch.run(found.tasks, attempt, arguments.retries, console.note, on_done)
    failed = len(ended.failed) + len(found.failed)
    print(f"{ended.done:,} cells done here, {found.done:,} were there, {failed:,} failed. Store {store.url}")
    return 1 if failed else 0


def _share(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,9})/([1-9][0-9]{0,8})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise UsageError(f"fleet work --share: '{text}' is not I/N with I from 0 to N - 1")
    return int(match[1]), int(match[2])


def _keys_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="for the keys; made where there is none")


def _keys(arguments: argparse.Namespace) -> int:
    from heaptape.features.fleet.cluster import make_keys

    make_keys(Path(arguments.folder))
    print(f"keys in {arguments.folder}: whoever has them may submit work; copy the folder to each machine of the fleet")
    return 0


def _scheduler_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="where to listen: tls://HOST:PORT, or tcp://127.0.0.1:PORT")
    add_keys(parser)


def _scheduler(arguments: argparse.Namespace) -> int:
    from heaptape.features.fleet.cluster import serve_scheduler

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
    from heaptape.common.process import processors
    from heaptape.features.fleet.cluster import serve_worker
    from heaptape.features.fleet.store import open_store
    from heaptape.features.fleet.worker import Worker, new_worker
    from heaptape.run import machine

    def worker() -> Worker:
        store = open_store(arguments.store, create=True, patience_s=arguments.store_wait, tell=console.note)
        return new_worker(store, arguments.home, arguments.machine)

    threads = arguments.threads or processors()
    memory_bytes = arguments.memory or machine.available_bytes()
    serve_worker(arguments.address, arguments.keys, worker, threads, memory_bytes, console.note)
    return 0


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder or URL")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    add_format_option(parser, words="; csv: the cells that failed")


def _status(arguments: argparse.Namespace) -> int:
    import msgspec

    from heaptape.features.fleet.status import failed_table, in_words, status
    from heaptape.features.fleet.store import open_store
    from heaptape.show.screen import Screen, render

    found = status(open_store(arguments.store, tell=console.note), time.time())
    if arguments.json:
        print_json(msgspec.to_builtins(found))
    else:
        first, *lines = in_words(found)
        table = failed_table(found) if arguments.format == "csv" else None
        write_text(STANDARD_OUTPUT, render(Screen(first, table, lines), arguments.format))
    return 0


def _merge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="store")
    parser.add_argument("into", metavar="INTO", help="store; made where there is none")


def _merge(arguments: argparse.Namespace) -> int:
    data.needed()
    from heaptape.features.fleet.merge import merge
    from heaptape.features.fleet.store import open_store

    source = open_store(arguments.source, tell=console.note)
    merged = merge(source, open_store(arguments.into, create=True, tell=console.note))
    print(f"{merged.cells:,} cells and {merged.others:,} other files taken over")
    for name in merged.damaged:
        console.warning(f"{arguments.source}: {name}: damaged, and left out")
    return 1 if merged.damaged else 0


SUBCOMMANDS: dict[str, Subcommand] = {
    "replay": Subcommand(
        "replay a plan's workloads on allocators, on many machines",
        "Replays each workload on each allocator, by as many workers as there are. Cells that the store has are not "
        "run again, so the same command continues where it was stopped. Passes that only count "
        "are one cell each; those that read the clock are run in blocks: baseline and "
        "candidates alternately on one machine, alone there.",
        _replay_arguments,
        _replay,
    ),
    "work": Subcommand(
        "run a share of a store's plans here",
        "Runs the cells of a store's plans that the store does not have, in this process, as a task of a batch "
        "system's job array. Needs no scheduler.",
        _work_arguments,
        _work,
    ),
    "status": Subcommand(
        "how far a store's plans are",
        "Prints what of a store's plans is done, who runs what, what failed and why, and when the rest will be ready.",
        _status_arguments,
        _status,
    ),
    "merge": Subcommand(
        "put one store into another",
        "Takes over what the second store lacks: workloads, libraries, plans, results, traces. Nothing is replaced "
        "except blocks that are not whole.",
        _merge_arguments,
        _merge,
    ),
    **data.SUBCOMMANDS,
    "keys": Subcommand(
        "make the keys of a fleet",
        "Makes an authority and one certificate for all members of a fleet, for TLS: whoever has none can neither "
        "submit work nor see it.",
        _keys_arguments,
        _keys,
    ),
    "scheduler": Subcommand(
        "run a scheduler",
        "Runs a Dask scheduler until it is ended. Prints its address.",
        _scheduler_arguments,
        _scheduler,
    ),
    "worker": Subcommand(
        "run a worker",
        "Runs a worker for a scheduler, until it is ended: it takes the cells of one store.",
        _worker_arguments,
        _worker,
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", parser_class=Parser, required=True)
    for name, subcommand in SUBCOMMANDS.items():
        added = commands.add_parser(name, help=subcommand.summary, description=subcommand.description)
        subcommand.add_arguments(added)


def run(arguments: argparse.Namespace) -> int:
    return SUBCOMMANDS[arguments.subcommand].run(arguments)
