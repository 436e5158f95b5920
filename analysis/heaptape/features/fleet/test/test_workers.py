# SPDX-License-Identifier: MIT
"""Plans run by the workers of a scheduler: the same figures whatever the number and deaths of workers and the
scheduler's death; only members connect. Long: more deaths, at any time, of each of them.
"""

import contextlib
import random
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError
from heaptape.features.fleet.cluster import make_keys
from heaptape.features.fleet.dispatch import Outcome, Scheduler
from heaptape.features.fleet.test.fleets import ALLOCATORS, cell_files, plan, same_figures, started

from tests.support import run

NUMBER = 2
PASSES = "memory,verify"
CELLS = NUMBER * len(ALLOCATORS) * 2

pytestmark = pytest.mark.usefixtures("cache")


def replaying(store, workloads, *arguments, **options):
    """`heaptape fleet replay`, started."""
    chosen = [word for name in ALLOCATORS for word in ("-a", name)]
    return started("replay", *workloads, *chosen, "--passes", PASSES, "--store", store, *arguments, **options)


def wait_for(what, *processes):
    """Waits until `what` holds; the processes must not end before."""
    while not what():
        ended = [process for process in processes if process.poll() is not None]
        assert not ended, ended[0].communicate()
        time.sleep(0.005)


def ended_well(process):
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert f"{CELLS} cells: {CELLS} done" in out
    return errors


def test_this_process_gives_the_same_figures_with_several_runs_at_a_time(workloads, undisturbed, tmp_path):
    with replaying(tmp_path / "s", workloads, "--scheduler", "local=3") as process:
        ended_well(process)
    same_figures(tmp_path / "s", undisturbed)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet") / "keys"
    make_keys(folder)
    return folder


def outlives_peers(process):
    """Is a lost peer an error of its connection, and not a SIGPIPE that ends the process?"""
    status = Path(f"/proc/{process.pid}/status").read_text()
    ignored = int(next(line for line in status.splitlines() if line.startswith("SigIgn")).split()[1], 16)
    return ignored >> (signal.SIGPIPE - 1) & 1 == 1


@pytest.mark.long
def test_a_killed_scheduler_a_stopped_worker_and_a_killed_command_lose_nothing(keys, workloads, undisturbed, tmp_path):
    store = tmp_path / "s"
    plan(store, *workloads, passes=PASSES)
    with started("scheduler", "tls://127.0.0.1:0", "--keys", keys) as scheduler:
        address = scheduler.stdout.readline().strip()
        scheduler_options = ("--scheduler", address, "--keys", keys)
        worker = started("worker", address, "--store", store, "--keys", keys, "--threads", "1")
        with worker as first, replaying(store, workloads, *scheduler_options) as command:
            wait_for(lambda: len(cell_files(store)) >= 2, first, command)
            assert all(outlives_peers(process) for process in (scheduler, first, command))
            first.send_signal(signal.SIGSTOP)  # it stops for a while
            scheduler.kill()
            scheduler.wait()
            first.send_signal(signal.SIGCONT)
            with started("scheduler", address, "--keys", keys) as again:
                wait_for(lambda: len(cell_files(store)) >= 4, again, first, command)
                command.kill()
                command.wait()
                with replaying(store, workloads, *scheduler_options) as second:
                    ended_well(second)
    assert len(cell_files(store)) == CELLS
    same_figures(store, undisturbed)


@pytest.fixture
def fleet(keys, monkeypatch):
    """Starts a scheduler and workers, which end with the test: (address, function that starts a worker)."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT", "1s")
    with started("scheduler", "tls://127.0.0.1:0", "--keys", keys) as scheduler, contextlib.ExitStack() as ends:
        address = scheduler.stdout.readline().strip()

        def worker(store, *options):
            words = ("worker", address, "--store", store, "--keys", keys, "--threads", "1", *options)
            process = ends.enter_context(started(*words))
            assert "works for" in process.stderr.readline()
            return process

        yield address, worker


@pytest.mark.long
@pytest.mark.parametrize(("workers", "kills"), [(2, 1), (3, 12)])
def test_workers_of_any_number_give_the_same_figures_though_they_are_killed(
    workers, kills, fleet, keys, workloads, undisturbed, tmp_path
):
    address, worker = fleet
    store, chance = tmp_path / "s", random.Random(kills)
    plan(store, *workloads, passes=PASSES)
    alive = [worker(store) for _ in range(workers)]
    with replaying(store, workloads, "--scheduler", address, "--keys", keys, "--retries", "50") as process:
        for kill in range(kills):
            wait_for(lambda enough=1 + kill * CELLS // 16: len(cell_files(store)) >= enough, process)
            number = chance.randrange(workers)
            alive[number].kill()
            alive[number] = worker(store)
        ended_well(process)
    assert len(cell_files(store)) == CELLS
    same_figures(store, undisturbed)


THIS, OTHER = {"memory": 1, "engine e": 1, "store s": 1}, {"memory": 1, "engine e": 1, "store t": 1}
UNFIT = "all workers have another store, or another engine or C library, or at another path"


@pytest.mark.parametrize(
    ("error", "workers", "outcome"),
    [
        (KilledWorker("task", None, 3), [], Outcome(retry="its workers died")),
        (ValueError("what"), [THIS], Outcome(retry="ValueError: what")),
        (NoWorkerError("task", 1), [], Outcome(retry="no worker", attempted=False)),
        (NoValidWorkerError("task", set(), set(), {}, 1), [OTHER, THIS], Outcome(retry="no worker", attempted=False)),
        (NoWorkerError("task", 1), [OTHER, {"memory": 1, "store s": 1}], Outcome(retry=UNFIT)),
        (NoWorkerError("task", 1), [{"memory": 1, "engine e": 1}], Outcome(retry=UNFIT)),
        (NoWorkerError("task", 1), None, Outcome(retry="no worker", attempted=False)),
    ],
)
def test_a_task_without_an_outcome_is_tried_again_where_a_worker_may_come(error, workers, outcome):
    class Client:
        def scheduler_info(self, n_workers):
            if workers is None:
                raise OSError("the scheduler has gone")
            return {"workers": {f"tls://{number}": {"resources": one} for number, one in enumerate(workers)}}

    task = SimpleNamespace(resources={"memory": 1, "engine e": 1})
    assert Scheduler("tls://x", None, "s", print, 1, print)._without_outcome(Client(), task, error) == outcome


@pytest.mark.long
def test_a_task_is_not_lost_with_the_only_worker_that_could_run_it(fleet, keys, workloads, undisturbed, tmp_path):
    """The other worker has another store, and so takes none of the tasks. The only one is killed with all of them."""
    address, worker = fleet
    store = tmp_path / "s"
    plan(store, *workloads, passes=PASSES)
    other, only = worker(tmp_path / "other"), worker(store, "--memory", 1 << 40)
    only.send_signal(signal.SIGSTOP)
    options = ("--scheduler", address, "--keys", keys, "--retries", 10**6)
    with (tmp_path / "told").open("w") as told, replaying(store, workloads, *options, stderr=told) as command:
        time.sleep(0.3)  # until they may be with the worker that is stopped
        only.kill()
        only.wait()
        wait_for(lambda: "all workers have another store" in Path(told.name).read_text(), command)
        other.kill()
        other.wait()
        wait_for(lambda: "no worker: 'heaptape fleet worker" in Path(told.name).read_text(), command)
        worker(store, "--memory", 1)  # less than the tasks were to have
        ended_well(command)
    assert not cell_files(tmp_path / "other")
    same_figures(store, undisturbed)


@pytest.mark.long
def test_a_worker_of_another_store_is_reported_and_nothing_is_run_there(fleet, keys, workloads, tmp_path):
    address, worker = fleet
    worker(tmp_path / "other")
    options = ("--scheduler", address, "--keys", keys, "--retries", "1")
    with replaying(tmp_path / "s", workloads, *options) as command:
        _, errors = command.communicate(timeout=240)
    assert command.returncode == 1
    assert errors.count("given up after 2 attempts") == CELLS
    assert not cell_files(tmp_path / "other") + cell_files(tmp_path / "s")


def test_nobody_else_may_connect(keys, workloads, undisturbed, tmp_path):
    """The worker is started before there is a store, as docs/use/FLEET.md describes."""
    make_keys(tmp_path / "others")
    store = tmp_path / "shared" / "s"
    with started("scheduler", "tls://127.0.0.1:0", "--keys", keys) as scheduler:
        address = scheduler.stdout.readline().strip()
        with started("worker", address, "--store", store, "--keys", keys) as worker:
            done = run(sys.executable, "-c", INTRUDER, address, tmp_path / "others")
            assert (done.status, done.stdout.split()) == (0, ["plain", "others"]), done.stderr
            with replaying(store, workloads, "--scheduler", address, "--keys", keys) as command:
                ended_well(command)
            assert worker.poll() is scheduler.poll() is None
    same_figures(store, undisturbed)


# What the Dask client of somebody else could try.
INTRUDER = """
import logging, sys
logging.disable(logging.CRITICAL)
from distributed import Client, Security
address, others = sys.argv[1:]

def refused(what, address, **options):
    try:
        Client(address, timeout=2, **options)
    except OSError:
        print(what)

member = {f"tls_client_{what}": f"{others}/member.{end}" for what, end in (("cert", "pem"), ("key", "key"))}
refused("plain", address.replace("tls", "tcp"))
security = Security(tls_ca_file=f"{others}/authority.pem", require_encryption=True, **member)
refused("others", address, security=security)
"""
