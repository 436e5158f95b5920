# SPDX-License-Identifier: MIT
"""Stores that are not folders: in memory, and on an S3 service that is slow, refuses and breaks off; without locks and
renaming, used by several workers at a time. Long: what needs the service; the rules of a store are tried in memory too.
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.features.fleet import dispatch, frames
from heaptape.features.fleet.files import Files, StoreError
from heaptape.features.fleet.machine import machine_id
from heaptape.features.fleet.merge import merge
from heaptape.features.fleet.plan import plans_of, tasks_of
from heaptape.features.fleet.status import status
from heaptape.features.fleet.store import Running, Store, open_store
from heaptape.features.fleet.test.fleets import ALLOCATORS, plan, same_figures, started
from heaptape.features.fleet.test.object_stores import SECRETS, serving
from heaptape.features.fleet.test.test_store import record
from heaptape.features.fleet.worker import new_worker

from tests.support import call_heaptape, import_text

NUMBER = 2
CELLS = NUMBER * len(ALLOCATORS)

HANG_S = 240  # bounds a hang, and is no claim

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def s3():
    with serving() as service:
        yield service


@pytest.fixture(params=["folder", "memory", pytest.param("s3", marks=pytest.mark.long)])
def url(request, tmp_path):
    """The URL of an empty place of each kind."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3').bucket()}/some/where"
    return f"memory://{tmp_path}" if request.param == "memory" else str(tmp_path / "s")


def test_each_kind_of_store_keeps_lists_moves_and_removes_files_in_the_same_way(url, tmp_path):
    files = Files(url)
    assert files.is_empty("store")
    assert files.names("cells") == []
    assert (files.read("cells/aa/x.json"), files.size("cells/aa/x.json")) == (None, None)
    assert not files.download("workloads/w.work", tmp_path / "none")
    files.write("cells/aa/x.json", b"1")
    files.write("cells/aa/x.json", b"12")
    files.write("plans/x.json", b"3")
    assert (files.read("cells/aa/x.json"), files.size("cells/aa/x.json")) == (b"12", 2)
    assert files.names("cells") == ["cells/aa/x.json"]
    assert files.is_empty("cells") is files.is_empty("plans") is False
    large = tmp_path / "large"
    large.write_bytes(os.urandom(3 << 20))
    files.upload(large, "workloads/w.work")
    assert files.download("workloads/w.work", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == large.read_bytes()
    for _ in range(2):  # the second finds that another did it
        files.move("plans/x.json", "damaged/x")
        files.remove("cells/aa/x.json")
    assert files.names("damaged") == ["damaged/x"]
    assert files.read("plans/x.json") is files.read("cells/aa/x.json") is None


def test_of_many_who_make_a_store_at_a_time_one_does(url):
    with ThreadPoolExecutor(8) as pool:
        ids = {store.id for store in pool.map(lambda _: open_store(url, create=True), range(8))}
    assert ids == {open_store(url).id}


def test_damaged_objects_are_set_aside_reported_and_count_as_missing(url):
    lines = []
    store = open_store(url, create=True, tell=lines.append)
    for number in range(4):
        store.put_cell(record(number))
    another, halved, flipped, kept = store.files.names("cells")
    data = store.files.read(flipped)
    store.files.write(another, store.files.read(kept))
    store.files.write(halved, store.files.read(halved)[:-9])
    store.files.write(flipped, data[:90] + bytes([data[90] ^ 1]) + data[91:])
    with ThreadPoolExecutor(2) as pool:  # both find them
        found = list(pool.map(lambda _: [one.cell.key for one in store.records()], range(2)))
    assert found == [[Path(kept).stem]] * 2
    assert store.files.names("cells") == [kept]
    assert sum("set aside as damaged/" in line for line in lines) >= 3
    # Without renaming each may leave a copy of its own.
    assert len({name.rpartition(".")[0] for name in store.files.names("damaged")}) == 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "method", "count"),
    [("refused", "PUT", 7), ("denied", "PUT", 2), ("broken off", "GET", 7), ("late", "GET", 1)],
)
def test_requests_that_fail_for_a_while_are_tried_again_and_what_is_written_is_whole(kind, method, count, s3):
    lines = []
    store = open_store(f"{s3.bucket()}/s", create=True, patience_s=60, tell=lines.append, sleep=lambda seconds: None)
    if method == "GET":
        store.put_cell(record(0))
    s3.trouble.next(kind, method, count)
    if method == "PUT":
        store.put_cell(record(0))
    assert store.cell(record(0).cell.key) == record(0)
    assert s3.trouble.met == count
    assert len(lines) == (0 if kind == "late" else 1)  # one line; s3fs itself tries a late request again
    assert all("waiting for it" in line for line in lines)


@pytest.mark.long
def test_requests_that_continue_failing_end_in_one_error_and_leave_nothing(s3):
    store = open_store(f"{s3.bucket()}/s", create=True, patience_s=5, sleep=lambda seconds: None)
    s3.trouble.next("denied", "PUT", 1000)
    with pytest.raises(StoreError, match="can't be written after 8 s of waiting: of the tests"):
        store.put_cell(record(0))
    s3.trouble.next("", "", 0)
    assert store.cell_keys() == set()


def everything(url):
    """All bytes of all objects, and their names."""
    system, path = fsspec.core.url_to_fs(url)
    system.invalidate_cache()
    return b"".join(name.encode() + system.cat_file(name) for name in system.find(path))


@pytest.mark.long
def test_two_workers_at_once_on_s3_lose_nothing_and_count_nothing_twice(s3, workloads, undisturbed):
    """Both begin with nothing done, and so may run the same cells: the last writer writes the same content."""
    store = f"{s3.bucket()}/fleet"
    planned = plan(store, *workloads)
    assert planned.status == 0, planned.stderr
    opened = open_store(store)
    with started("work", store) as process:
        while not opened.files.names("running"):  # then it knows its tasks
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)  # the service is in this process
        one = call_heaptape("fleet", "work", store)
        output = process.communicate(timeout=HANG_S)
    assert [one.status, process.returncode] == [0, 0], (one, output)
    done = [int(out.split()[0]) + int(out.split(", ")[1].split()[0]) for out in (one.stdout, output[0])]
    assert done == [CELLS, CELLS]
    assert len(opened.cell_keys()) == CELLS
    assert not opened.files.names("damaged") + opened.files.names("running") + opened.files.names("failures")
    same_figures(opened, undisturbed)
    again = call_heaptape("fleet", "replay", *workloads, "-a", "reference", "--passes", "memory", "--store", store)
    assert again.stdout.startswith(f"{CELLS} cells: {CELLS} done ({CELLS} were there before), 0 not.")


@pytest.mark.long
@pytest.mark.parametrize(("workers", "kills"), [(1, 0), (2, 3)])
def test_a_scheduler_s_workers_on_s3_give_the_same_figures_and_no_key_is_reported_to_anybody(
    workers, kills, s3, workloads, undisturbed, tmp_path
):
    import psutil

    store = f"{s3.bucket()}/fleet"
    words = [word for name in ALLOCATORS for word in ("-a", name)]
    arguments = [*workloads, *words, "--passes", "memory", "--store", store, "--retries", "50"]
    arguments += ["--scheduler", f"local={workers}"]
    with started("replay", *arguments) as process:
        for kill in range(kills):
            while process.poll() is None and len(open_store_or_none(store)) <= kill:
                time.sleep(0.05)  # the service is in this process
            for child in psutil.Process(process.pid).children(recursive=True)[-1:]:
                child.kill()
        output = "".join(process.communicate(timeout=HANG_S))
    assert f"{CELLS} cells: {CELLS} done" in output
    same_figures(open_store(store), undisturbed)
    shown = call_heaptape("fleet", "status", store, "--json")
    assert (json.loads(shown.stdout)["done"], json.loads(shown.stdout)["failed"]) == (CELLS, [])
    script = tmp_path / "array.sh"
    call_heaptape("fleet", "replay", *arguments, "--slurm-script", script)
    s3.trouble.next("denied", "GET", 1000)
    refused = call_heaptape("fleet", "status", store)
    s3.trouble.next("", "", 0)
    assert refused.status == 1
    assert refused.stderr.count("\n") == 1
    kept = everything(store) + (output + shown.stdout + refused.stderr + script.read_text()).encode()
    assert len(kept) > 100_000
    assert not [secret for secret in SECRETS if secret.encode() in kept]


@pytest.mark.parametrize(
    ("passes", "stops_at", "others"),
    [("bare", 1, ()), ("bare", 2, ()), ("memory", 1, ("--curves",))],
    ids=["before a block", "within a block", "before a cell that others want with its curves"],
)
def test_a_worker_that_stood_still_while_another_did_its_task_changes_nothing_of_it(
    passes, stops_at, others, workloads, monkeypatch, tmp_path
):
    """It stops when it is about to put its cell of that number."""
    store, brings, brought = f"memory://{tmp_path}/fleet", Store.add_cell, []
    assert plan(store, workloads[0], "-n", 1, passes=passes).status == 0

    def bring(self, record):
        brought.append(record)
        if len(brought) == stops_at:
            assert plan(store, workloads[0], "-n", 1, *others, passes=passes).status == 0
            worker = new_worker(open_store(store), default_home(), "another")
            ended = dispatch.run(tasks_of(plans_of(worker.store)), dispatch.in_threads(worker.run, worker.processes))
            assert (ended.done, ended.failed) == (2, {})
            before.update({record.cell.key: record for record in worker.store.records()})
        return brings(self, record)

    before = {}
    monkeypatch.setattr(Store, "add_cell", bring)
    done = call_heaptape("fleet", "work", store, "--jobs", 1)
    assert done.stdout.startswith("2 cells done here"), done
    assert {record.cell.key: record for record in open_store(store).records()} == before
    assert len({record.block for record in before.values()}) == 1
    assert {record.whole for record in before.values()} == {bool(others)}
    assert {record.machine for record in before.values()} == {machine_id("another")}


def test_whether_a_worker_lives_is_known_by_the_store_s_clock_whatever_its_own_says(url):
    store, now_s = open_store(url, create=True), time.time()
    for name, ahead_s in (("ahead", 3600), ("behind", -3600)):
        store.put_running(Running(name, "m", now_s + ahead_s, now_s + ahead_s, 0, 0, 0.0, []))
    for later_s, alive in ((0, {"ahead", "behind"}), (1800, set())):
        found = status(store, now_s + later_s)
        assert {one.worker for one in found.running} == alive
        assert {one.worker for one in found.running + found.silent} == {"ahead", "behind"}


def open_store_or_none(url):
    """Its cells, as soon as there is one."""
    try:
        return open_store(url).cell_keys()
    except HeaptapeError:
        return set()


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIAXX:hidden@bucket/fleet",
        "ftp://user:hidden@host/fleet",
        "https://host/x.tape?X-Amz-Signature=hidden",
        "https://host/x.tape?a=b&sig=hidden",
    ],
)
def test_a_url_with_a_password_is_refused_and_not_shown(url):
    for words in (["status", url], ["work", url], ["ingest", url, "--store", "s"], ["merge", "s", url]):
        done = call_heaptape("fleet", *words)
        assert done.status == 1
        assert "hidden" not in done.stdout + done.stderr
    with pytest.raises(HeaptapeError, match="a password or key in a URL"):
        open_store(url)


def test_stores_of_any_kind_merge_into_any_other(undisturbed, url, tmp_path):
    of_kind = open_store(url, create=True)
    in_memory = open_store(f"memory://{tmp_path}/b", create=True)
    folder = open_store(str(tmp_path / "c"), create=True)
    whole = open_store(str(undisturbed))
    for source, into in ((whole, of_kind), (of_kind, in_memory), (in_memory, folder)):
        merged = merge(source, into)
        assert (merged.cells, merged.damaged) == (CELLS, [])
        assert merge(source, into).cells == 0
    same_figures(folder, whole)
    assert [name for name in folder.files.names("workloads") if name.endswith(".work")] == [
        name for name in whole.files.names("workloads") if name.endswith(".work")
    ]


@pytest.mark.long
def test_traces_on_s3_are_ingested_by_several_processes_into_a_store_there_and_asked(s3, tmp_path):
    bucket = s3.bucket()
    system, path = fsspec.core.url_to_fs(bucket)
    for number in range(3):
        lines = f"1 0 malloc({100 + number}) = 0x1000\n2 0 free(0x1000)\n"
        system.put_file(str(import_text(tmp_path, lines)), f"{path}/tapes/{number}.tape")
    store = f"{bucket}/fleet"
    arguments = ["fleet", "ingest", f"{bucket}/tapes/*.tape", "--store", store]
    for done, there in ((3, 0), (0, 3)):
        ingested = call_heaptape(*arguments, "--scheduler", "local=2")
        assert (ingested.status, ingested.stderr) == (0, "")
        assert ingested.stdout.startswith(f"{done} traces ingested, {there} were there before, 0 not.")
    asked = call_heaptape("fleet", "query", store, "--json", "SELECT source, allocated_bytes FROM traces ORDER BY 1")
    assert [row["allocated_bytes"] for row in json.loads(asked.stdout)] == [100, 101, 102]
    assert json.loads(asked.stdout)[0]["source"] == f"{bucket}/tapes/0.tape"
    assert sorted(frames(store).traces["allocated_bytes"]) == [100, 101, 102]


@pytest.mark.long
def test_a_store_is_used_by_a_process_and_those_that_it_forks(s3):
    """Connections and their threads do not survive a fork: each process has its own."""
    code = f"""
import os
from heaptape.features.fleet.store import Running, open_store
store = open_store({s3.bucket() + "/s"!r}, create=True)
child = os.fork()
store.files.write(f"plans/{{'parent' if child else 'child'}}.json", b"x")
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(store.files.names("plans"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "['plans/child.json', 'plans/parent.json']", done.stderr
