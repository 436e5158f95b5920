# SPDX-License-Identifier: MIT
"""Plans run by the workers of a scheduler: the same figures whatever the number and deaths of workers and the
scheduler's death; and no foreign functions are run. Long: storms of kills.
"""

import contextlib
import io
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.fleet import worker
from heaptape.fleet.cluster import local, make_keys, tasks
from heaptape.fleet.cluster.tasks import RefusedError, _OnlyNames
from heaptape.fleet.dispatch import Dispatch, Request
from heaptape.fleet.machine import Cache
from heaptape.fleet.plan import plans_of
from heaptape.fleet.store import open_store
from heaptape.fleet.worker import Here

from analysis.test.fleet.fleets import ALLOCATORS, cell_files, figures, make_workloads, plan, started, workers_of
from tests.support import call_heaptape, run

NUMBER = 2
PASSES = "memory,verify"
CELLS = NUMBER * len(ALLOCATORS) * 2

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def workloads(tmp_path_factory):
    return make_workloads(tmp_path_factory.mktemp("workloads"), NUMBER)


@pytest.fixture(scope="module")
def undisturbed(workloads, cache, tmp_path_factory):
    """The figures of a plan that one process ran, without a scheduler."""
    store = tmp_path_factory.mktemp("undisturbed") / "s"
    plan(store, *workloads, passes=PASSES)
    assert call_heaptape("fleet", "work", store).status == 0
    return figures(store)


def replaying(store, workloads, *arguments, **options):
    """`heaptape fleet replay`, started."""
    chosen = [word for name in ALLOCATORS for word in ("-a", name)]
    return started("replay", *workloads, *chosen, "--pass", PASSES, "--store", store, *arguments, **options)


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


@pytest.mark.parametrize(
    ("workers", "kills"),
    [(2, 1), pytest.param(1, 0, marks=pytest.mark.long), pytest.param(3, 12, marks=pytest.mark.long)],
)
def test_workers_of_any_number_give_the_same_figures_though_they_are_killed(
    workers, kills, workloads, undisturbed, tmp_path
):
    store, chance = tmp_path / "s", random.Random(kills)
    with replaying(store, workloads, "--scheduler", f"local={workers}", "--retries", "50") as process:
        for kill in range(kills):
            wait_for(lambda enough=1 + kill * CELLS // 16: len(cell_files(store)) >= enough, process)
            alive = workers_of(process)
            if alive:
                chance.choice(alive).kill()
        output = ended_well(process)
    assert ("died (signal 9): started again" in output) == (kills > 0)
    assert len(cell_files(store)) == CELLS
    pd.testing.assert_frame_equal(figures(store), undisturbed, check_exact=True)


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
    pd.testing.assert_frame_equal(figures(store), undisturbed, check_exact=True)


def test_a_task_is_not_lost_with_the_only_worker_that_could_run_it(keys, workloads, undisturbed, tmp_path):
    """The other worker has another store, and so is avoided; it is ended too, or it would be asked all the time. Of 8
    tasks at most 4 are under way at the same time, so 4 are refused.
    """
    store, refused = tmp_path / "s", "has another store"
    plan(store, *workloads, passes=PASSES)
    with started("scheduler", "tls://127.0.0.1:0", "--keys", keys) as scheduler, contextlib.ExitStack() as ends:
        address = scheduler.stdout.readline().strip()

        def worker(of):
            process = ends.enter_context(started("worker", address, "--store", of, "--keys", keys, "--threads", "1"))
            assert "works for" in process.stderr.readline()
            return process

        other = worker(tmp_path / "other")
        only = worker(store)
        only.send_signal(signal.SIGSTOP)
        options = ("--scheduler", address, "--keys", keys, "--retries", 10**6)
        with (tmp_path / "told").open("w") as told, replaying(store, workloads, *options, stderr=told) as command:
            wait_for(lambda: (tmp_path / "told").read_text().count(refused) >= CELLS - 4, command)
            time.sleep(0.3)  # until they are with the worker that is stopped
            for gone in (other, only):
                gone.kill()
                gone.wait()
            worker(store)
            ended_well(command)
    pd.testing.assert_frame_equal(figures(store), undisturbed, check_exact=True)


def test_workers_that_always_die_are_reported_and_end_the_command(keys, workloads, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "RESTARTS", 1)
    store, lines = tmp_path / "s", []
    plan(store, workloads[0])
    opened = open_store(str(store))
    (found,) = plans_of(opened)
    wrong = ["--threads", "-1"]
    with local.cluster(default_home(), str(store), 2, wrong, lines.append) as (address, folder):
        dispatch = Dispatch(address, folder, opened.id, 0, 0, lines.append)
        with pytest.raises(HeaptapeError, match="no scheduler answers"):
            dispatch.run(list(found.tasks()))
    for number in range(2):
        assert f"worker {number} died (exit status 2): started again" in lines
        assert f"worker {number} died 2 times: not started again" in lines


def test_nobody_else_may_submit_and_workers_run_nothing_but_cells(keys, workloads, undisturbed, tmp_path):
    """The worker is started before there is a store, as docs/use/FLEET.md describes."""
    make_keys(tmp_path / "others")
    store, mark = tmp_path / "shared" / "s", tmp_path / "mark"
    with started("scheduler", "tls://127.0.0.1:0", "--keys", keys) as scheduler:
        address = scheduler.stdout.readline().strip()
        with started("worker", address, "--store", store, "--keys", keys) as worker:
            done = run(sys.executable, "-c", INTRUDER, address, keys, tmp_path / "others", mark)
            assert done.status == 0, done.stderr
            assert done.stdout.split() == ["plain", "others", "submit", "run", "scheduler", "plugin", "alive"]
            assert not mark.exists()
            with replaying(store, workloads, "--scheduler", address, "--keys", keys) as command:
                ended_well(command)
            assert worker.poll() is scheduler.poll() is None
    pd.testing.assert_frame_equal(figures(store), undisturbed, check_exact=True)


# What the Dask client of a member, or of somebody else, could try.
INTRUDER = """
import sys, logging, os
logging.disable(logging.CRITICAL)
from distributed import Client, Security
from distributed.diagnostics.plugin import WorkerPlugin
address, keys, others, mark = sys.argv[1:]

def touch(*arguments, **options):
    open(mark, "w").close()
    return 1

class Plugin(WorkerPlugin):
    def setup(self, worker):
        open(mark, "w").close()

def refused(what, work):
    try:
        found = work()
    except BaseException:
        print(what)
    else:
        raise SystemExit(f"{what} was not refused: {found}")

def security(folder):
    member = {f"tls_client_{what}": f"{folder}/member.{end}" for what, end in (("cert", "pem"), ("key", "key"))}
    return Security(tls_ca_file=f"{folder}/authority.pem", require_encryption=True, **member)

refused("plain", lambda: Client(address.replace("tls", "tcp"), timeout=2))
refused("others", lambda: Client(address, security=security(others), timeout=2))
def member():
    return Client(address, security=security(keys), timeout=30)
client = member()
client.wait_for_workers(1)
refused("submit", lambda: client.submit(touch, pure=False).result(timeout=5))
refused("run", lambda: member().run(touch))
refused("scheduler", lambda: member().run_on_scheduler(touch))
refused("plugin", lambda: member().register_plugin(Plugin()))
assert not os.path.exists(mark)
from heaptape.fleet.cluster.tasks import run
refused("alive", lambda: member().submit(run, "nosuch", "{}", pure=False).result(timeout=20))
os._exit(0 if sys.stdout.flush() is None else 1)
"""


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    "what",
    [Evil(), os.getpid, subprocess.Popen, getattr, __import__],
    ids=["reduces to a call", "getpid", "Popen", "getattr", "__import__"],
)
def test_no_pickle_of_anything_else_is_read(what):
    with pytest.raises(RefusedError, match="nothing but heaptape's tasks"):
        _OnlyNames(io.BytesIO(pickle.dumps(what))).load()


def test_a_worker_of_another_store_is_reported_and_nothing_is_run_there(keys, workloads, tmp_path, monkeypatch):
    plan(tmp_path / "s", workloads[0])
    plan(tmp_path / "other", workloads[0])
    store, other = open_store(str(tmp_path / "s")), open_store(str(tmp_path / "other"))
    (task, *_) = plans_of(store)[0].tasks()
    monkeypatch.setattr(tasks, "_table", {})
    worker.runs(Here(other, default_home(), Cache(tmp_path / "cache"), "w"))
    outcome = msgspec.json.decode(tasks.run("cells", msgspec.json.encode(Request(store.id, task)).decode()))
    assert "another store" in outcome["retry"]
    assert outcome["machine_at_fault"]
    assert not cell_files(tmp_path / "other")
