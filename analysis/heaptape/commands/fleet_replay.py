# SPDX-License-Identifier: MIT
"""`heaptape fleet replay` runs a plan's cells on workers; `heaptape fleet work` runs a share of them here."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.fleet_members import add_keys, add_store_wait
from heaptape.commands.outcome import Subcommand
from heaptape.common import console
from heaptape.common.errors import UsageError
from heaptape.common.output import STANDARD_OUTPUT, write_text
from heaptape.common.progress import WorkProgress

if TYPE_CHECKING:
    from heaptape.fleet.plan import Plan, PlanFile, Task
    from heaptape.fleet.status import Left
    from heaptape.fleet.store import Store
    from heaptape.fleet.worker import Ended

FAILURES_SHOWN = 20
DEFAULT_SHARES = 100
SCHEDULER_WAIT_S = 60.0
INTERRUPTED = 130


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs", nargs="+", metavar="PLAN.toml|F", help="a plan; or traces, workloads, folders of them"
    )
    parser.add_argument(
        "-a",
        "--allocator",
        action="append",
        default=[],
        metavar="NAME",
        help="as 'heaptape replay -a' takes it; repeatable (default: the plan's, or all that are found)",
    )
    parser.add_argument("--store", required=True, metavar="URL", help="folder or fsspec URL; made where there is none")
    parser.add_argument("--baseline", metavar="NAME", help="the allocator to compare with (default glibc)")
    parser.add_argument(
        "--pass",
        dest="passes",
        metavar="LIST",
        help="passes, joined by commas (default instructions,memory). Passes that read the clock are run in blocks",
    )
    parser.add_argument("--reps", type=int, metavar="N", help="repetitions of passes that read the clock (default 5)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the order within blocks (default 0)")
    parser.add_argument(
        "--scheduler",
        default="local",
        metavar="ADDRESS",
        help="tls://HOST:PORT or tcp://127.0.0.1:PORT, whose workers see the same store; or local=N: N workers on this "
        "machine (default local: as many as there are processors)",
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
    from heaptape.fleet.plan import requested
    from heaptape.fleet.prepare import prepare
    from heaptape.fleet.store import open_store

    workers = local_workers(arguments.scheduler)
    if workers is None:
        from heaptape.fleet.cluster import check_address

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
    if arguments.reps is not None:
        replaying.check_repeats(arguments.reps, "fleet replay")
        changes["repetitions"] = arguments.reps
    if arguments.seed is not None:
        changes["seed"] = arguments.seed
    return msgspec.structs.replace(plan, **changes)


def local_workers(scheduler: str) -> int | None:
    """The number of workers on this machine; None: a scheduler at an address has the workers. Raises UsageError."""
    from heaptape.common.processors import processors

    match = re.fullmatch(r"local(=([1-9][0-9]{0,3}))?", scheduler)
    if match:
        return int(match[2]) if match[2] else processors()
    if scheduler.startswith("local"):
        raise UsageError(f"fleet --scheduler: '{scheduler}' is none of local, local=N, tls://..., tcp://...")
    return None


def _run_plan(arguments: argparse.Namespace, plan: "Plan", store: "Store", workers: int | None) -> int:
    from heaptape.fleet.status import left

    first = left(list(plan.tasks()), store, again=arguments.again)
    if not first.tasks:
        return _report(plan, first, first, {}, store)
    failed: dict[str, str] = {}
    try:
        with WorkProgress() as progress:
            on_done = _progress(progress, first)
            failed = _dispatched(arguments, store, workers, first.tasks, progress.note, on_done).failed
    except KeyboardInterrupt:
        console.note(f"interrupted: the same command continues from {store.url}")
        return INTERRUPTED
    return _report(plan, first, left(list(plan.tasks()), store), failed, store)


def _dispatched(
    arguments: argparse.Namespace,
    store: "Store",
    workers: int | None,
    tasks: "list[Task]",
    tell: Callable[[str], None],
    on_done: "Callable[[Task, Ended], None]",
) -> "Ended":
    """Has the tasks run by the scheduler's workers, or by workers on this machine."""
    from heaptape.fleet.cluster import configure, local_cluster, security_of
    from heaptape.fleet.dispatch import Dispatch
    from heaptape.run import machine

    configure()
    from heaptape.fleet.dask_worker import WorkerStart, run_cells

    if workers is None:
        security = security_of(arguments.scheduler, arguments.keys)
        dispatch = Dispatch(run_cells, store.id, arguments.retries, SCHEDULER_WAIT_S, tell, on_done)
        return dispatch.run(tasks, arguments.scheduler, security)
    start = WorkerStart(store.url, arguments.home, arguments.store_wait)
    resources = start.resources(1, machine.available_bytes() // workers)
    with local_cluster(start, resources, workers, tell) as (address, own_security, is_any_left):
        dispatch = Dispatch(run_cells, store.id, arguments.retries, 0, tell, on_done, is_any_left)
        return dispatch.run(tasks, address, own_security)


def _progress(progress: WorkProgress, first: "Left") -> "Callable[[Task, Ended], None]":
    total, done = len(first.tasks), 0

    def on_done(task: "Task", ended: "Ended") -> None:
        nonlocal done
        done += 1
        progress.update(f"{done:,} of {total:,}: {task.name}", done / total)

    return on_done


def _report(plan: "Plan", first: "Left", last: "Left", failed: dict[str, str], store: "Store") -> int:
    """Prints how much of the plan is done, by the store and not by what workers reported. Returns the exit status."""
    reasons = {key: f"{one.workload}: {one.label}, {one.pass_} pass: {one.reason}" for key, one in last.failed.items()}
    open_keys = [key for task in last.tasks for key in task.keys]
    reasons |= {key: failed.get(key, "not run") for key in open_keys}
    print(
        f"{plan.cells():,} cells: {last.done:,} done ({first.done:,} were there before), {len(reasons):,} not. "
        f"Store {store.url}"
    )
    lines = list(dict.fromkeys(reasons.values()))
    for line in lines[:FAILURES_SHOWN]:
        console.error(f"failed: {line}")
    if len(lines) > FAILURES_SHOWN:
        console.error(f"and {len(lines) - FAILURES_SHOWN} more: heaptape fleet status {store.url}")
    return 1 if reasons else 0


def _write_slurm(arguments: argparse.Namespace, plan: "Plan") -> None:
    from heaptape.fleet.batch import script

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
    from heaptape.fleet import batch
    from heaptape.fleet.machine import scratch_of
    from heaptape.fleet.plan import plans_of, share, tasks_of
    from heaptape.fleet.status import left
    from heaptape.fleet.store import open_store
    from heaptape.fleet.worker import new_worker

    index, number = _share(arguments.share)
    if arguments.jobs < 0 or arguments.retries < 0:
        raise UsageError("fleet work: --jobs and --retries are not negative")
    store = open_store(arguments.store, patience_s=arguments.store_wait, tell=console.note)
    found = left(share(tasks_of(plans_of(store)), index, number), store, again=arguments.again)
    worker = new_worker(store, arguments.home, arguments.machine)
    with scratch_of(worker.name), worker.heartbeat(), WorkProgress() as progress:
        on_done = _progress(progress, found)
        ended = batch.run(found.tasks, worker, arguments.jobs, arguments.retries, console.note, on_done)
    failed = len(ended.failed) + len(found.failed)
    print(f"{ended.done:,} cells done here, {found.done:,} were there, {failed:,} failed. Store {store.url}")
    return 1 if failed else 0


def _share(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,9})/([1-9][0-9]{0,8})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise UsageError(f"fleet work --share: '{text}' is not I/N with I from 0 to N - 1")
    return int(match[1]), int(match[2])


REPLAY = Subcommand(
    "replay a plan's workloads on allocators, on many machines",
    "Replays each workload on each allocator, by as many workers as there are. Cells that the store has are not run "
    "again, so the same command continues where it was stopped. Exact passes (instructions, memory, misses, ...) are "
    "one cell each; passes that read the clock (time, bare, contention) are run in blocks: baseline and candidates "
    "alternately on one machine, alone there.",
    _replay_arguments,
    _replay,
)
WORK = Subcommand(
    "run a share of a store's plans here",
    "Runs the cells of a store's plans that the store does not have, in this process, as a task of a batch system's "
    "job array. Needs no scheduler.",
    _work_arguments,
    _work,
)
