# SPDX-License-Identifier: MIT
"""Plans run in one process, without a scheduler: shares, failures, damage, kills, blocks, merged stores. Long: more
kills, at more points.
"""

import contextlib
import fcntl
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.fleet.files import StoreError
from heaptape.features.fleet.machine import Cache, locked, machine_for, scratch_of
from heaptape.features.fleet.plan import plans_of, share, tasks_of
from heaptape.features.fleet.status import status
from heaptape.features.fleet.store import Running, Store, open_store
from heaptape.features.fleet.test.fleets import ALLOCATORS, cell_files, fill, plan, same_figures, started

from tests.support import HEAPTAPE, OUT, call_heaptape, published, small_disk

NUMBER = 3
HANG_S = 240  # bounds a hang, and is no claim
FAULTY = OUT / "test-programs" / "libfaulty.so"

pytestmark = pytest.mark.usefixtures("cache")


def test_a_store_that_cannot_be_written_ends_the_command_and_is_no_fault_of_the_files(workloads, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise StoreError("the store is full")

    monkeypatch.setattr(Store, "put_workload", full)
    done = plan(tmp_path / "s", *workloads)
    assert (done.status, done.stderr) == (1, "heaptape: the store is full\n")


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_machine_whose_disk_is_full_waits_for_room_and_reports_it(workloads, undisturbed, tmp_path, monkeypatch):
    store = tmp_path / "s"
    plan(store, *workloads)
    with small_disk(tmp_path / "disk", "8m") as disk, (tmp_path / "told").open("w+") as told:
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        in_the_way = fill(disk)
        with started("work", store, stdout=subprocess.DEVNULL, stderr=told) as process:
            while "No space left on device: waiting for it" not in Path(told.name).read_text():
                assert process.poll() is None, Path(told.name).read_text()
                time.sleep(0.01)
            in_the_way.unlink()
            assert process.wait(timeout=HANG_S) == 0, Path(told.name).read_text()
    same_figures(store, undisturbed)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_machine_whose_disk_stays_full_is_reported_and_the_cells_are_left(workloads, tmp_path, monkeypatch):
    store = tmp_path / "s"
    plan(store, *workloads)
    with small_disk(tmp_path / "disk", "8m") as disk:
        fill(disk)
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        done = call_heaptape("fleet", "work", store, "--store-wait", "0", "--retries", "0")
    assert done.status == 1
    lines = [line for line in done.stderr.splitlines() if "No space left on device: given up" in line]
    assert len(lines) == 3 * len(ALLOCATORS)
    assert all(f"a disk of this machine ({disk}/heaptape/fleet or " in line for line in lines)
    assert not cell_files(store)


def test_shares_together_do_each_cell_once_and_the_figures_are_the_same(workloads, undisturbed, tmp_path):
    plan(tmp_path / "s", *workloads)
    numbers = []
    for index in (1, 0):
        done = call_heaptape("fleet", "work", tmp_path / "s", "--share", f"{index}/2")
        assert done.status == 0, done.stderr
        numbers.append(int(done.stdout.split()[0]))
    assert sum(numbers) == 3 * len(ALLOCATORS)
    assert min(numbers) > 0
    same_figures(tmp_path / "s", undisturbed)


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
    done = call_heaptape("fleet", "work", store)
    assert done.status == 0, done.stderr
    assert done.stdout.startswith(f"3 cells done here, {len(kept)} were there, 0 failed.")
    assert done.stderr.count("set aside as damaged/") == 2
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    same_figures(store, undisturbed)


@pytest.mark.parametrize("folder", ["workloads/*.work", "libraries/*.so"])
def test_a_damaged_workload_or_library_is_reported_and_fetched_again(
    folder, workloads, undisturbed, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = tmp_path / "s"
    plan(store, *workloads)
    damaged = list(store.glob(folder))
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = call_heaptape("fleet", "work", store, "--retries", "0")
    assert done.status == 1
    assert done.stderr.count("has another hash than its name: set aside as damaged/") == len(damaged)
    lines = [line for line in done.stderr.splitlines() if "start 'fleet replay' with its file again" in line]
    assert len(lines) + len(cell_files(store)) == 3 * len(ALLOCATORS)
    assert plan(store, *workloads).status == 0
    assert call_heaptape("fleet", "work", store).status == 0
    same_figures(store, undisturbed)


def test_a_file_of_the_cache_that_changed_is_brought_again(undisturbed, workloads, cache, tmp_path):
    for path in (cache / "heaptape" / "fleet").glob("*/*.work"):
        path.write_bytes(b"x" * path.stat().st_size)
    plan(tmp_path / "s", *workloads)
    assert call_heaptape("fleet", "work", tmp_path / "s").status == 0
    same_figures(tmp_path / "s", undisturbed)


def test_an_allocator_at_fault_fails_at_once_with_its_reason_and_is_not_run_again(workloads, tmp_path):
    store = tmp_path / "s"
    plan(store, workloads[0], passes="verify", allocators=("glibc", f"{FAULTY}:FAULT=misaligned FAULT_AT=3"))
    for _ in range(2):
        done = call_heaptape("fleet", "work", store)
        assert done.status == 1
        status = published("fleet-status", call_heaptape("fleet", "status", store, "--json").stdout)
        assert (status["cells"], status["done"], status["left"]) == (2, 1, 0)
        (failed,) = status["failed"]
        assert failed["final"]
        assert failed["attempts"] == 1
        assert "the allocator is at fault" in failed["reason"]
        assert failed["label"].startswith("libfaulty.so:")
    assert call_heaptape("fleet", "work", store, "--again").status == 1
    status = json.loads(call_heaptape("fleet", "status", store, "--json").stdout)
    assert status["failed"][0]["attempts"] == 2


def test_a_malformed_tape_is_reported_and_the_others_are_planned(workloads, tmp_path):
    bad = tmp_path / "bad.tape"
    bad.write_bytes(b"HEAPTAPE")
    done = plan(tmp_path / "s", workloads[0], bad)
    assert done.status == 1
    assert "bad.tape" in done.stderr
    (found,) = plans_of(open_store(str(tmp_path / "s")))
    assert len(found.workloads) == 1


def test_a_block_is_measured_together_and_again_whole_where_a_part_of_it_is_lost(workloads, tmp_path):
    store = tmp_path / "s"
    plan(store, workloads[0], passes="time,bare")
    assert call_heaptape("fleet", "work", store).status == 0
    opened = open_store(str(store))
    first = {record.cell.key: record.block for record in opened.records()}
    (found,) = plans_of(opened)
    assert len(first) == len(ALLOCATORS) * 2 * 5
    for task in found.tasks():
        assert task.is_block
        assert len({first[key] for key in task.keys}) == 1
    orders = [[p.cell.allocator for p in task.cells if p.cell.pass_ == "time"] for task in found.tasks()]
    assert len({tuple(order) for order in orders}) == 2  # by chance, not always the baseline first
    assert len(set(first.values())) == 5
    lost = cell_files(store)[0]
    lost.unlink()
    done = call_heaptape("fleet", "work", store)
    assert done.stdout.startswith(f"{2 * len(ALLOCATORS)} cells done here")
    second = {record.cell.key: record.block for record in opened.records()}
    changed = {key for key in first if first[key] != second[key]}
    assert len(changed) == 2 * len(ALLOCATORS)
    assert lost.stem in changed
    assert len({second[key] for key in changed}) == 1


def test_who_wants_the_machine_alone_waits_for_the_others_and_is_waited_for(tmp_path):
    cache = Cache(tmp_path)

    def another() -> contextlib.AbstractContextManager:
        return locked(cache.lock_file("m"), fcntl.LOCK_EX | fcntl.LOCK_NB)

    both = machine_for(cache, "m", alone=False), machine_for(cache, "m", alone=False)
    with both[0], both[1], pytest.raises(BlockingIOError), another():
        pass
    with machine_for(cache, "m", alone=True):
        with pytest.raises(BlockingIOError), another():
            pass
        with machine_for(cache, "another", alone=True), locked(tmp_path / "m.gate", fcntl.LOCK_EX):
            pass
    with another():
        pass


def test_two_stores_merge_to_the_whole_and_damage_is_left_out(workloads, undisturbed, tmp_path):
    for index in (0, 1):
        plan(tmp_path / f"s{index}", *workloads)
        call_heaptape("fleet", "work", tmp_path / f"s{index}", "--share", f"{index}/2")
    done = call_heaptape("fleet", "merge", tmp_path / "s1", tmp_path / "s0")
    assert done.status == 0, done.stderr
    same_figures(tmp_path / "s0", undisturbed)
    library = next(tmp_path.glob("s1/libraries/*.so"))
    library.write_bytes(b"?" + library.read_bytes()[1:])
    cell_files(tmp_path / "s1")[0].write_bytes(b"{}")
    done = call_heaptape("fleet", "merge", tmp_path / "s1", tmp_path / "s2")
    assert done.status == 1
    assert f"{library.name}: damaged, and left out" in done.stderr
    assert "1 cells: damaged, and left out" in done.stderr
    assert not list(tmp_path.glob("s2/libraries/*"))


def test_the_script_of_a_job_array_does_all_of_the_plan(workloads, undisturbed, tmp_path):
    script = tmp_path / "array.sh"
    arguments = [
        *map(str, workloads),
        "-a",
        "glibc",
        "-a",
        "reference",
        "--passes",
        "memory",
        "--store",
        tmp_path / "s",
    ]
    done = call_heaptape("fleet", "replay", *arguments, "--slurm-script", script, "--shares", "2")
    assert done.status == 0, done.stderr
    assert "#SBATCH --array=0-1\n" in script.read_text()
    for task in ("0", "1"):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": task}
        subprocess.run(["sh", script], check=True, capture_output=True, env=environment)
    same_figures(tmp_path / "s", undisturbed)


def test_each_task_is_in_one_share_and_stays_there(undisturbed):
    tasks = tasks_of(plans_of(open_store(str(undisturbed))))
    shares = [share(tasks, index, 4) for index in range(4)]
    assert sorted(key for one in shares for task in one for key in task.keys) == sorted(
        key for task in tasks for key in task.keys
    )


@pytest.mark.parametrize("kills", [1, pytest.param(25, marks=pytest.mark.long)])
def test_kills_at_random_points_lose_nothing_and_count_nothing_twice(kills, workloads, undisturbed, tmp_path):
    store = tmp_path / "s"
    plan(store, *workloads)
    chance = random.Random(kills)
    for _ in range(kills):
        there = len(cell_files(store))
        with started("work", store, "--jobs", "1") as process:
            while process.poll() is None and len(cell_files(store)) == there:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
    done = call_heaptape("fleet", "work", store)
    assert done.status == 0, done.stderr
    assert len(cell_files(store)) == 3 * len(ALLOCATORS)
    same_figures(store, undisturbed)


def test_what_a_killed_worker_left_is_removed_by_the_next_and_what_a_living_one_has_is_not(workloads, tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    root = tmp_path / f"heaptape-fleet.{os.getuid()}"

    def folders():
        return {path for path in root.glob("*-*") if path.is_dir() and list(path.glob("heaptape.*"))}

    plan(tmp_path / "s", workloads[0], passes="instructions")
    left: set[Path] = set()
    for number in (signal.SIGKILL, signal.SIGSTOP):
        before = folders()
        process = subprocess.Popen([HEAPTAPE, "fleet", "work", tmp_path / "s", "--jobs", "1"], env=environment)
        while not folders() - before:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait()
            left = folders()
            assert len(left) == 1
    (living,) = folders()
    assert living not in left
    with scratch_in(tmp_path):
        assert {living} == folders()
        assert len(list(root.glob("[!.]*"))) == 2
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 0
    assert [path.name for path in root.iterdir()] == [".lock"]
    assert status(open_store(str(tmp_path / "s")), 0).left == 0


@contextlib.contextmanager
def scratch_in(folder):
    """The temporary folder of one more worker of the machine, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        with scratch_of("another"):
            assert Path(tempfile.gettempdir()).name == "another"
            yield


def test_a_folder_for_temporary_files_that_is_another_s_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"heaptape-fleet.{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"heaptape-fleet.{os.getuid()}").chmod(0o777)
    with pytest.raises(HeaptapeError, match="is not this user's alone"), scratch_of("w"):
        pass


def test_a_machine_whose_disk_is_full_is_reported_and_another_start_does_the_rest(
    workloads, undisturbed, tmp_path, monkeypatch
):
    store, small = tmp_path / "s", tmp_path / "cache"
    plan(store, *workloads)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(small))
        resource.setrlimit(resource.RLIMIT_FSIZE, (min(path.stat().st_size for path in workloads) // 2, limits[1]))
        try:
            done = call_heaptape("fleet", "work", store, "--retries", "0")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.status == 1, done.stderr
    assert "File too large" in done.stderr
    assert not [path for path in small.rglob("*.work") if path.stat().st_size]
    assert call_heaptape("fleet", "work", store).status == 0
    same_figures(store, undisturbed)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["work", "nowhere"], "nowhere: no store"),
        (["work", "s", "--share", "2/2"], "is not I/N"),
        (["replay", "x.tape", "--store", "s", "--scheduler", "tcp://10.0.0.1:1"], "plain TCP is for the loopback"),
        (["replay", "x.tape", "--store", "s", "--scheduler", "tls://10.0.0.1:1"], "needs --keys"),
        (["replay", "x.tape", "--store", "s", "--scheduler", "local=0"], "local=N"),
        (["replay", "x.tape", "--store", "s", "--passes", "nosuch"], "unknown pass 'nosuch'"),
        (["worker", "tcp://example.org:1", "--store", "s"], "plain TCP is for the loopback"),
        (["scheduler", "tcp://0.0.0.0:1"], "plain TCP is for the loopback"),
        (["scheduler", "nonsense"], "not an address"),
    ],
)
def test_wrong_use_is_one_line(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call_heaptape("fleet", *words)
    assert done.status in (1, 2)
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_status_says_when_it_will_be_ready(undisturbed, workloads, tmp_path):
    store = tmp_path / "s"
    shutil.copytree(undisturbed, store)
    cell_files(store)[0].unlink()
    opened = open_store(str(store))
    seconds = [record.seconds for record in opened.records()]
    found = status(opened, 1000.0)
    assert (found.done, found.left, found.ready_in_s) == (5, 1, None)
    assert found.left_s == pytest.approx(sum(seconds) / len(seconds))
    opened.put_running(Running("a", "m", 900, 0, 1, 0, 1.0, ["x", "y"]))
    opened.put_running(Running("b", "m", 100, 0, 1, 0, 1.0, ["z"]))
    for name, told_s in (("a", 990), ("b", 200)):
        os.utime(store / "running" / f"{name}.json", (told_s, told_s))
    found = status(opened, 1000.0)
    assert [one.worker for one in found.running] == ["a"]
    assert [one.worker for one in found.silent] == ["b"]
    assert found.ready_in_s == pytest.approx(found.left_s / 2)
