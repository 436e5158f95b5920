# SPDX-License-Identifier: MIT
"""`fleet run`: cells have the figures of `heaptape replay`, each once, whatever is killed, lost or damaged on the way,
and whoever runs them.
"""

import contextlib
import csv
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import dask
import pandas as pd
import pytest
from distributed import LocalCluster
from heaptape.allocators import registry
from heaptape.common.home import default_home
from heaptape.features.fleet import work
from heaptape.features.fleet.plan import tasks_of
from heaptape.features.fleet.status import status
from heaptape.features.fleet.store import open_store
from heaptape.features.fleet.test.fleets import (
    ALLOCATORS,
    CHOSEN,
    NOT_EXACT,
    cell_files,
    fleet_run,
    same_figures,
    words,
)
from heaptape.features.gate.test.pieces import make_workload
from heaptape.results.schema import figures as figures_of
from heaptape.results.schema import results as read_results
from heaptape.run import machine

from tests import access_streams
from tests.support import HEAPTAPE, INHERITED, OUT, call_heaptape, published, run

NUMBER = 3
CELLS = NUMBER * len(ALLOCATORS)
HANGS = OUT / "test-programs" / "libwaiting.so"
FAULTY = OUT / "test-programs" / "libfaulty.so"

pytestmark = pytest.mark.usefixtures("cache")


def test_what_is_there_is_not_run_again_and_what_is_damaged_is(workloads, undisturbed, tmp_path):
    store = tmp_path / "s"
    shutil.copytree(undisturbed, store)
    halved, flipped, gone, *kept = cell_files(store)
    times = {path: path.stat().st_mtime_ns for path in kept}
    halved.write_bytes(halved.read_bytes()[: halved.stat().st_size // 2])
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 4
    flipped.write_bytes(data)
    gone.unlink()
    done = fleet_run(store, *workloads)
    assert done.status == 0, done.stderr
    assert done.stdout.startswith(f"{CELLS} cells: {CELLS} done ({len(kept)} were there before), 0 not.")
    assert done.stderr.count("set aside as damaged/") == 2
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    same_figures(store, undisturbed)
    assert fleet_run(store, *workloads).stdout.startswith(f"{CELLS} cells: {CELLS} done ({CELLS} were")


@pytest.mark.parametrize("kills", [1, pytest.param(25, marks=pytest.mark.long)])
def test_kills_at_random_points_lose_nothing_and_count_nothing_twice(kills, workloads, undisturbed, tmp_path):
    store, chance = tmp_path / "s", random.Random(kills)
    store.mkdir()
    command = [HEAPTAPE, *words(store, *workloads), "-j", "1"]
    for _ in range(kills):
        there = len(cell_files(store))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(cell_files(store)) == there:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = fleet_run(store, *workloads)
    assert done.status == 0, done.stderr
    assert len(cell_files(store)) == CELLS
    same_figures(store, undisturbed)


def test_shares_together_do_each_cell_once(workloads, undisturbed, tmp_path):
    numbers = []
    for index in (1, 0):
        done = call_heaptape(*words(tmp_path / "s", *workloads), "--share", f"{index}/2")
        assert done.status == 0, done.stderr
        numbers.append(len(cell_files(tmp_path / "s")))
    assert numbers == [CELLS // 2, CELLS]
    same_figures(tmp_path / "s", undisturbed)


@pytest.fixture(scope="module")
def scheduler():
    """The address of a Dask scheduler with two worker processes."""
    plain = {"distributed.nanny.pre-spawn-environ": {}}  # else MALLOC_TRIM_THRESHOLD_ stays in this process's too
    with (
        dask.config.set(plain),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
    ):
        yield cluster.scheduler_address


def test_the_workers_of_a_scheduler_give_the_same_figures(scheduler, workloads, undisturbed, tmp_path):
    done = call_heaptape(*words(tmp_path / "s", *workloads), "--scheduler", scheduler)
    assert done.status == 0, done.stderr
    same_figures(tmp_path / "s", undisturbed)


@pytest.fixture(scope="module")
def s3():
    """The URL of a bucket of a service like S3 on this machine."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"ENDPOINT_URL": f"http://{host}:{port}", "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret-word"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (settings | {"DEFAULT_REGION": "us-east-1"}).items():
            patch.setenv(f"AWS_{name}", value)
        import s3fs

        s3fs.S3FileSystem().mkdir("fleet")
        yield "s3://fleet"
    server.stop()


def test_a_store_at_a_url_has_the_same_figures_and_names_no_secret(s3, workloads, undisturbed):
    for url in (f"{s3}/s", "memory://s"):
        done = fleet_run(url, *workloads)
        assert done.status == 0, done.stderr
        same_figures(url, undisturbed)
        store = open_store(url)
        key = min(store.keys())
        store.files.write(f"cells/{key[:2]}/{key}.json", b"{")
        again = fleet_run(url, *workloads)
        assert again.stdout.startswith(f"{CELLS} cells: {CELLS} done ({CELLS - 1} were")
        assert len(store.files.names("damaged")) == 1
        assert "secret-word" not in again.stdout + again.stderr


@pytest.mark.parametrize("folder", ["workloads/*.work", "libraries/*.so"])
def test_a_damaged_workload_or_library_is_reported_and_brought_again(folder, workloads, undisturbed, tmp_path, cache):
    store = tmp_path / "s"
    shutil.copytree(undisturbed, store)
    for path in (*store.glob(folder), *cell_files(store), *(cache / "heaptape/fleet").glob(folder)):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    count = len(list(store.glob(folder)))
    done = call_heaptape(*words(store, *workloads), "--retries", "0")
    assert done.status == 1
    assert done.stderr.count("has another hash than its name: set aside as damaged/") == count
    assert "start 'fleet run' with its file again" in done.stderr
    assert fleet_run(store, *workloads).status == 0
    same_figures(store, undisturbed)


def test_an_allocator_at_fault_is_a_result_with_its_reason_and_is_not_run_again(workloads, tmp_path):
    store = tmp_path / "s"
    wanted = ["fleet", "run", workloads[0], "-a", "glibc", "-a", f"{FAULTY}:FAULT=misaligned FAULT_AT=3"]
    wanted += ["--passes", "verify", "--store", store]
    times = set()
    for more in ([], [], ["--again"]):
        done = call_heaptape(*wanted, *more)
        assert done.status == 1
        assert "the allocator is at fault: op " in done.stderr
        found = published("fleet-status", call_heaptape("fleet", "status", store, "--json").stdout)
        assert (found["cells"], found["done"], found["left"]) == (2, 1, 0)
        (failed,) = found["failed"]
        assert failed["final"]
        assert failed["label"].startswith("libfaulty.so:")
        assert f": {failed['label']}, verify pass: " in call_heaptape("fleet", "status", store).stdout
        (row,) = csv.DictReader(call_heaptape("fleet", "status", store, "--format", "csv").stdout.splitlines())
        assert (row["allocator"], row["reason"]) == (failed["label"], failed["reason"])
        times.add(tuple(path.stat().st_mtime_ns for path in cell_files(store)))
    assert len(times) == 2


def test_a_failure_that_may_pass_is_tried_again_counted_and_told(workloads, undisturbed, tmp_path, monkeypatch):
    measured, failing = work.replay.make_runs, []

    def make_runs(engine, runs):
        if len(failing) < 3:
            failing.append(runs)
            return [{"error": "the engine was killed by signal 9"} for _ in runs]
        return measured(engine, runs)

    monkeypatch.setattr(work.replay, "make_runs", make_runs)
    wanted = [*words(tmp_path / "s", *workloads), "-j", "1"]
    done = call_heaptape(*wanted, "--retries", "0")
    assert done.status == 1
    assert done.stderr.count("pass: the engine was killed by signal 9") == 3
    found = status(open_store(str(tmp_path / "s")))
    assert (found.done, found.left, len(found.failed)) == (CELLS - 3, 3, 3)
    assert all(not one.final and one.attempts == 1 for one in found.failed)
    assert found.left_s == pytest.approx(3 * sum(r.seconds for r in open_store(found.store).records()) / (CELLS - 3))
    failing[:] = failing[:1]
    assert call_heaptape(*wanted).status == 0  # after retries
    assert len(failing) == 3
    same_figures(tmp_path / "s", undisturbed)


def test_a_malformed_tape_is_reported_and_the_others_are_run(workloads, tmp_path):
    bad = tmp_path / "bad.tape"
    bad.write_bytes(b"HEAPTAPE")
    done = fleet_run(tmp_path / "s", workloads[0], bad)
    assert done.status == 1
    assert "bad.tape" in done.stderr
    assert len(cell_files(tmp_path / "s")) == len(ALLOCATORS)


def test_a_block_is_one_result_in_an_order_by_chance(workloads, tmp_path):
    store = tmp_path / "s"
    assert fleet_run(store, workloads[0], passes="time,bare").status == 0
    records = list(open_store(str(store)).records())
    assert [len(record.cells) for record in records] == [2 * len(ALLOCATORS)] * 5
    assert len({tuple(cell.allocator for cell in record.cells if cell.pass_ == "time") for record in records}) == 2
    frame = open_store(str(store)).results()
    assert (frame.groupby("block")["label"].nunique() == len(ALLOCATORS)).all()
    cell_files(store)[0].unlink()
    assert fleet_run(store, workloads[0], passes="time,bare").stdout.startswith("20 cells: 20 done (16 were")
    assert len(cell_files(store)) == 5


@pytest.fixture
def no_costs(monkeypatch):
    for name in ("of_this_machine", "measure_costs"):  # takes seconds, and is not needed here
        monkeypatch.setattr(machine, name, lambda home: None)


def accessed(folder):
    """A workload with data accesses beside it: the program's accesses to its objects, and to other memory."""
    path, slots = access_streams.compiled(folder, access_streams.mallocs([4096, 100, 70_000]))
    items = [("object", slot, granule) for slot in slots for granule in range(0, 6)]
    items = [*[("event", access_streams.STACK)] * len(slots), *items, ("other", 1 << 20)]
    path.with_suffix(".accesses").write_bytes(access_streams.file(items))
    return path


def exact(frame, label, figure, without=()):
    """label, figure -> value, without times, and without figures whose names begin with `without`."""
    kept = frame[~frame[figure].isin(NOT_EXACT) & ~frame[figure].str.startswith(tuple(without) or ("none",))]
    kept = kept.drop_duplicates([label, figure])
    return kept.set_index([label, figure])[["value"]].rename_axis(["label", "figure"]).sort_index()


@pytest.mark.parametrize(
    ("passes", "made"),
    [
        ("misses", accessed),
        ("blame", lambda folder: make_workload(folder, 200, 2)),
        ("sharing,verify", lambda folder: make_workload(folder, 200, 2)),
    ],
    ids=["misses", "blame", "sharing and verify"],
)
def test_cells_of_each_exact_pass_say_what_a_replay_says(passes, made, tmp_path, no_costs):
    source = made(tmp_path)
    assert fleet_run(tmp_path / "s", source, passes=passes).status == 0
    replayed = call_heaptape("replay", source, *CHOSEN, "--passes", passes, "-o", tmp_path / "R.json")
    assert replayed.status == 0, replayed.stderr
    store, results = open_store(str(tmp_path / "s")), read_results(tmp_path / "R.json")
    found, expected = store.results(), figures_of([results])
    assert set(found["figure"]) == set(expected["metric"])
    # Figures of start-up, which depend on the lengths of paths and on the environment: both differ in a cell.
    startup = ("misses/", "startup_instructions", "vm_size")
    left, right = exact(found, "label", "figure", startup), exact(expected, "allocator", "metric", startup)
    runs = {"cells": [run for record in store.records() for run in record.results], "replay": results.data["runs"]}
    for frame, made_runs in zip((left, right), runs.values()):  # one more OS page is resident where paths are longer
        for one in made_runs:
            for name in ("held", "mean", "peak", "purged") if "rss_anon_start_bytes" in one else ():
                frame.loc[[(one["allocator"], f"{name}_rss")], "value"] -= one["rss_anon_start_bytes"]
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    (workload,) = store.workloads().values()
    if passes == "misses":
        assert all(one.companion == workload.companions["accesses"] for rec in store.records() for one in rec.cells)
        assert all(run["misses"]["program"]["caches"][0]["misses"] > 0 for run in runs["cells"])


def test_figures_do_not_depend_on_a_worker_s_environment_nor_on_where_it_has_temporary_files(
    tmp_path, monkeypatch, no_costs
):
    """Bit for bit, also misses and start-up: a batch system's task has its own TMPDIR and fifty more variables."""
    source, found = accessed(tmp_path), []
    for number, length in enumerate((1, 80)):
        folder = tmp_path / ("t" * length)
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        for variable in range(60 * number):
            monkeypatch.setenv(f"SLURM_OF_THE_TESTS_{variable}", "x" * 300)
        monkeypatch.setenv("REFERENCE_TUNABLES", f"tcache={number}")
        for name, value in INHERITED.items() if number else ():
            monkeypatch.setenv(name, value)
        assert fleet_run(tmp_path / f"s{number}", source, passes="memory,instructions,misses").status == 0
        found.append(exact(open_store(str(tmp_path / f"s{number}")).results(), "label", "figure"))
    assert len(found[0]) > 50
    pd.testing.assert_frame_equal(*found, check_exact=True)


def test_a_path_for_temporary_files_that_is_too_long_is_reported(workloads, tmp_path, monkeypatch):
    folder = tmp_path / ("t" * 240)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    done = call_heaptape(*words(tmp_path / "s", workloads[0]), "--retries", "0")
    assert done.status == 1
    assert "too long a path for temporary files (TMPDIR)" in done.stderr


def test_a_workload_without_accesses_is_left_out_of_the_passes_that_need_them(workloads, tmp_path):
    done = fleet_run(tmp_path / "s", workloads[0], passes="memory,misses")
    assert "no data accesses, which the misses pass needs: left out" in done.stderr
    _, tasks = tasks_of(open_store(str(tmp_path / "s")))
    assert {cell.pass_ for task in tasks for cell in task.cells} == {"memory"}


def test_in_the_contention_pass_an_allocator_counts_its_locks_and_keeps_its_name(tmp_path):
    assert fleet_run(tmp_path / "s", make_workload(tmp_path, 200, 3), passes="contention,bare").status == 0
    counting = registry.choose("reference", registry.load(default_home())).counting
    for record in open_store(str(tmp_path / "s")).records():
        for cell, one in record.runs:
            counts = (cell.allocator, cell.pass_) == ("reference", "contention")
            assert dict(cell.environment) == (counting if counts else {})
            assert cell.label in ALLOCATORS
            assert cell.pass_ == "bare" or ("reference_stats" in one) == counts


@pytest.mark.parametrize(
    ("more", "says", "code"),
    [
        (["run", "x.tape", "--store", "s", "--share", "2/2"], "is not I/N", 2),
        (["run", "x.tape", "--store", "s", "--jobs", "-1"], "are not negative", 2),
        (["run", "x.tape", "--store", "s", "--passes", "nosuch"], "unknown pass 'nosuch'", 2),
        (["run", "w.work", "--store", "s", "--scheduler", "nonsense:x"], "no scheduler with workers answers", 1),
        (["status", "nowhere"], "nowhere: no store", 1),
        (["query", "nowhere"], "nowhere: no store", 1),
        (["query", "s", "--worst", "-1"], "not negative", 2),
        (["atlas", "a.json", "-a", "glibc"], "-a belongs to a store", 2),
    ],
)
def test_wrong_use_is_one_line(more, says, code, workloads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w.work").symlink_to(workloads[0])
    done = call_heaptape("fleet", *more)
    assert (done.status, done.stderr.count("\n")) == (code, 1), done.stderr
    assert says in done.stderr


def test_who_wants_the_machine_alone_waits_for_the_others_and_is_waited_for(tmp_path):
    def state(alone: bool) -> str:
        """Whether another process gets the machine."""
        how = "" if alone else "-s"
        done = run("flock", *filter(None, ["-n", how]), tmp_path / "m.lock", "true")
        return "free" if done.status == 0 else "taken"

    def reserve(alone: bool):
        return work._machine_for(tmp_path, "m", alone)

    with reserve(False), reserve(False):
        assert (state(alone=True), state(alone=False)) == ("taken", "free")
    with reserve(True):
        assert (state(alone=True), state(alone=False)) == ("taken", "taken")
    assert state(alone=True) == "free"


def test_an_interrupted_command_ends_its_replays_and_does_not_blame_them(workloads, tmp_path):
    wanted = ["fleet", "run", workloads[0], "-a", "glibc", "-a", HANGS, "--passes", "memory", "--store", tmp_path / "s"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen([HEAPTAPE, *map(str, wanted)], stderr=subprocess.DEVNULL, env=environment)
    while not cell_files(tmp_path / "s"):
        assert process.poll() is None
        time.sleep(0.01)
    assert living(f"TMPDIR={tmp_path}")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    found = status(open_store(str(tmp_path / "s")))
    assert (found.done, found.left, found.failed) == (1, 1, [])
    assert living(f"TMPDIR={tmp_path}") == []


def living(variable):
    """The processes that have it in their environment."""
    found = []
    for path in Path("/proc").glob("[1-9]*/environ"):
        with contextlib.suppress(OSError):
            found += [path.parent.name] if variable.encode() in path.read_bytes().split(b"\0") else []
    return found
