# SPDX-License-Identifier: MIT
"""Traces in a store: kept once each, whatever is stopped, malformed or damaged; and queries on them."""

import io
import json
import shutil
from pathlib import Path

import heaptape
import pandas as pd
import pyarrow.parquet
import pytest
from distributed import LocalCluster
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.features.fleet import cluster, dataset, dispatch, ingest
from heaptape.features.fleet.dataset import query
from heaptape.features.fleet.files import StoreError
from heaptape.features.fleet.machine import Cache
from heaptape.features.fleet.plan import read_plan_file
from heaptape.features.fleet.store import open_store
from heaptape.features.fleet.worker import Worker
from heaptape.features.gate import gate
from heaptape.profile.data import profile

from tests.support import HEAPTAPE_HERE, OUT, compile_c, import_text, published, record, refused, run, succeed

HERE = Home(OUT)


def tape(folder: Path, number: int) -> Path:
    """A small trace, different for each number."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{n} 0 malloc({16 + number}) = {0x1000 * (n + 1):#x}" for n in range(10)]
    lines += [f"{100 + n} {n % 2} free({0x1000 * (n + 1):#x})" for n in range(8)]
    made = import_text(folder, "\n".join(lines) + "\n", "clock=nanoseconds")
    return made.rename(folder / f"t{number}.tape")


@pytest.fixture(scope="module")
def tapes(tmp_path_factory):
    """Seven traces."""
    folder = tmp_path_factory.mktemp("tapes")
    return [tape(folder, number) for number in range(7)]


def names(store):
    """The names of the traces in the store, one for each row of each file."""
    return sorted(dataset.opened(store).to_table(columns=["name"]).column(0).to_pylist())


def take(store, tapes, labels=None):
    """Ingests the traces in this process; returns each batch's outcome."""
    todo = ingest.batches([str(one) for one in tapes], labels or ingest.Labels())
    return [outcome for _, outcome in ingest.locally(store, HERE, 1, todo)]


def test_a_row_says_what_the_profile_says(tapes, tmp_path):
    store = open_store(str(tmp_path / "s"), create=True)
    take(store, tapes[:1])
    row = dataset.traces(store).iloc[0]
    assert (row["ops"], row["threads"], row["acquired"], row["released"]) == (18, 2, 10, 8)
    assert row["unreleased_share"] == pytest.approx(0.2)
    assert row["remote_share"] == pytest.approx(0.5)
    assert row["size_p50_bytes"] == row["size_p99_bytes"] == 16
    assert (row["allocated_bytes"], row["peak_live_bytes"]) == (160, 160)
    assert row["source"] == str(tapes[0])
    found = profile(tapes[0], HERE)
    for unit, table in (("bytes", found.lifetimes_bytes), ("ns", found.lifetimes_ns)):
        here = query(store, f"SELECT size_bytes, age, objects, bytes FROM histogram WHERE unit = '{unit}'")
        pd.testing.assert_frame_equal(here, table, check_dtype=False)


def test_what_is_there_is_not_counted_again_and_what_was_stopped_continues(tapes, tmp_path, monkeypatch):
    store = open_store(str(tmp_path / "s"), create=True)
    monkeypatch.setattr(ingest, "BATCH_TRACES", 3)
    write, written = store.files.write, []

    def one_file_and_then_none(name, data):
        if name.startswith("dataset/") and written:
            raise StoreError("the disk is full")
        written.append(name)
        write(name, data)

    monkeypatch.setattr(store.files, "write", one_file_and_then_none)
    with pytest.raises(StoreError):
        take(store, tapes)
    assert names(store) == ["t0.tape", "t1.tape", "t2.tape"]
    monkeypatch.setattr(store.files, "write", write)
    monkeypatch.setattr(ingest, "BATCH_TRACES", 2)  # batches of others than before
    assert sum(len(outcome.done) for outcome in take(store, tapes)) == 4
    assert names(store) == sorted(one.name for one in tapes)
    assert not any(outcome.done for outcome in take(store, tapes))


def test_a_trace_that_two_commands_took_at_a_time_counts_once(tapes, tmp_path):
    store = open_store(str(tmp_path / "s"), create=True)
    for some in (tapes[:2], tapes[1:3]):
        for batch in ingest.batches([str(one) for one in some], ingest.Labels()):
            ingest.ingest(store, batch, set(), HERE)
    assert len(names(store)) == 4
    assert sorted(dataset.traces(store)["name"]) == ["t0.tape", "t1.tape", "t2.tape"]
    assert query(store, "SELECT count(*) AS n FROM traces")["n"].tolist() == [3]
    objects = query(store, "SELECT sum(objects) AS n FROM histogram WHERE unit = 'bytes' GROUP BY trace")
    assert objects["n"].tolist() == [8, 8, 8]


def test_a_malformed_trace_is_reported_and_the_others_are_taken(tapes, tmp_path):
    (tmp_path / "in").mkdir()
    for one in tapes[:3]:
        shutil.copy(one, tmp_path / "in")
    broken = tmp_path / "in" / "t1.tape"
    broken.write_bytes(broken.read_bytes()[:100] + b"\xff" * 50)
    store = tmp_path / "s"
    result = run(HEAPTAPE_HERE, "fleet", "ingest", tmp_path / "in", tmp_path / "gone.tape", "--store", store)
    assert result.status == 1
    assert result.stdout.startswith("2 traces ingested, 0 were there before, 2 not.")
    assert [line for line in result.stderr.splitlines() if str(broken) in line]
    assert f"{tmp_path}/gone.tape: No such file or directory" in result.stderr
    text = run(HEAPTAPE_HERE, "fleet", "ingest", tmp_path / "in", "--store", store, "--json").stdout
    output = published("fleet-ingest", text)
    assert (output["ingested"], output["there"], list(output["failed"])) == (0, 2, [str(broken)])


def cut(data):
    """A half-written file."""
    return data[:-200]


def flipped(data):
    """One flipped bit, in a page of the histogram."""
    at = pyarrow.parquet.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    page = next(
        at.column(n) for n in range(at.num_columns) if at.column(n).path_in_schema == "histogram.list.element.objects"
    )
    place = (page.dictionary_page_offset or page.data_page_offset) + page.total_compressed_size - 8
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped])
def test_a_damaged_file_is_reported_and_its_traces_are_counted_again(damage, tapes, tmp_path):
    lines = []
    store = open_store(str(tmp_path / "s"), create=True, tell=lines.append)
    take(store, tapes[:2], ingest.Labels(program="a"))
    take(store, tapes[2:4], ingest.Labels(program="b"))
    path = next((tmp_path / "s").glob("dataset/program=b/*/*/*/*.parquet"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(HeaptapeError, match="ingest its traces again"):
        query(store, "FROM histogram")
    assert sum(len(outcome.done) for outcome in take(store, tapes[:4], ingest.Labels(program="b"))) == 2
    assert len(lines) == 1
    assert "set aside as damaged/" in lines[0]
    assert len(dataset.traces(store)) == 4


@pytest.mark.parametrize("damage", [cut, flipped])
def test_merging_takes_over_each_trace_once_and_sets_damaged_files_aside(damage, tapes, tmp_path):
    """Traces of one program that both stores have, that the source has twice, and that neither has."""
    stores = [open_store(str(tmp_path / name), create=True) for name in ("from", "into", "whole")]
    source, into, whole = stores
    for some, program in ((tapes[:3], "a"), (tapes[2:4], "a"), (tapes[4:5], "b"), (tapes[5:6], "x" * 250)):
        for batch in ingest.batches([str(one) for one in some], ingest.Labels(program=program)):
            ingest.ingest(source, batch, set(), HERE)
            ingest.ingest(whole, batch, dataset.traces_in(whole), HERE)
    for store in (into, whole):
        for some in (tapes[:1], tapes[6:]):
            batches = ingest.batches([str(one) for one in some], ingest.Labels(program="a"))
            ingest.ingest(store, batches[0], dataset.traces_in(store), HERE)
    path = next((tmp_path / "from").glob("dataset/program=x*/*/*/*/*.parquet"))
    good = path.read_bytes()
    path.write_bytes(damage(good))
    merge = [HEAPTAPE_HERE, "fleet", "merge", tmp_path / "from", tmp_path / "into"]
    result = run(*merge)
    assert result.status == 1
    assert f"{path.name}: half written or changed since: set aside as damaged/" in result.stderr
    assert f"{path.name}: damaged, and left out" in result.stderr
    assert len(source.files.names("damaged")) == 1
    assert names(into) == [f"t{number}.tape" for number in (0, 1, 2, 3, 4, 6)]  # no row twice, whoever reads the files
    path.write_bytes(good)
    assert succeed(*merge).stdout.startswith("0 cells and 1 other files taken over")
    before = into.files.names("dataset")
    assert succeed(*merge).stdout.startswith("0 cells and 0 other files taken over")
    assert into.files.names("dataset") == before
    pd.testing.assert_frame_equal(dataset.traces(into), dataset.traces(whole))
    for table in ("histogram", "sites"):
        sql = f"SELECT * FROM {table} ORDER BY ALL"
        pd.testing.assert_frame_equal(query(into, sql), query(whole, sql))


@pytest.mark.parametrize("program", ["../../etc", "a/b", "x" * 250, "~", "é=%2F", " "])
def test_a_strangers_name_of_a_program_stays_in_the_store_and_is_reported_as_it_is(program, tapes, tmp_path):
    store = open_store(str(tmp_path / "s"), create=True)
    take(store, tapes[:1], ingest.Labels(program=program))
    assert {one.name for one in tmp_path.iterdir()} == {"s"}
    stored = dataset.traces(store)["program"].iloc[0]
    assert stored == program or (len(program) > dataset.LONGEST_VALUE and stored.startswith(program[:100]))


def test_a_recording_has_its_program_build_machine_day_and_sites(tmp_path):
    program = compile_c(
        tmp_path / "asks", "#include <stdlib.h>\nint main(void) { free(malloc(99)); return 0; }",
        "-g", "-Wl,--build-id=0xabcdef12",
    )  # fmt: skip
    record(tmp_path / "a.tape", program, options=["--stacks"])
    store = tmp_path / "s"
    succeed(HEAPTAPE_HERE, "fleet", "ingest", tmp_path / "a.tape", "--store", store)
    tables = heaptape.fleet.frames(str(store))
    row = tables.traces.iloc[0]
    about = ["program", "build_id", "host_class", "truncated"]
    assert list(row[about]) == ["asks", "abcdef12", "x86_64", False]
    assert len(row["day"].split("-")) == 3
    assert tables.sites.loc[tables.sites["bytes"] == 99, "stack"].str.startswith("main").all()
    assert len(tables.sites) >= 1
    assert tables.cells.empty
    assert tables.histogram["objects"].sum() > 0


def test_a_worker_takes_a_batch_of_its_own_store_only(tapes, tmp_path, monkeypatch):
    store = open_store(str(tmp_path / "s"), create=True)
    monkeypatch.setattr(cluster.Member, "worker", Worker(store, HERE, Cache(tmp_path / "cache"), "worker"))
    (batch,) = ingest.batches([str(one) for one in tapes[:2]], ingest.Labels())
    with pytest.raises(HeaptapeError, match="another store"):
        cluster.run_batch("another", batch)
    assert cluster.run_batch(store.id, batch).done == [str(one) for one in tapes[:2]]
    assert names(store) == ["t0.tape", "t1.tape"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "COPY traces TO '{out}'",
        "SELECT 1; SELECT 2",
        "CREATE TABLE x AS FROM traces",
        "ATTACH '{out}'",
        "SET enable_external_access = true",
        "SELEC",
        "FROM nothing",
    ],
)
def test_a_query_reads_the_tables_and_nothing_else(sql, tapes, tmp_path):
    store = open_store(str(tmp_path / "s"), create=True)
    take(store, tapes[:1])
    (tmp_path / "file.csv").write_text("a,b\n1,2\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(HeaptapeError):
        query(store, sql.format(file=tmp_path / "file.csv", out=tmp_path / "out"))
    assert sorted(tmp_path.iterdir()) == before


def test_query_prints_text_csv_and_json(tapes, tmp_path):
    store = tmp_path / "s"
    succeed(HEAPTAPE_HERE, "fleet", "ingest", *tapes, "--store", store, "--program", "p")
    sql = "SELECT program, count(*) AS traces, sum(ops) AS ops FROM traces GROUP BY program"
    text, csv, rows = (
        succeed(HEAPTAPE_HERE, "fleet", "query", store, sql, *how).stdout
        for how in ([], ["--format", "csv"], ["--json"])
    )
    assert text.split() == ["program", "traces", "ops", "p", "7", "126"]
    assert csv == "program,traces,ops\np,7,126\n"
    assert json.loads(rows) == [{"program": "p", "traces": 7, "ops": 126}]


def test_what_is_no_store_or_empty_is_one_line(tapes, tmp_path):
    refused(HEAPTAPE_HERE, "fleet", "query", tmp_path / "none", "FROM traces", says="no store")
    open_store(str(tmp_path / "s"), create=True)
    refused(HEAPTAPE_HERE, "fleet", "query", tmp_path / "s", "FROM traces", says="no trace was ingested")
    refused(HEAPTAPE_HERE, "fleet", "choose", tmp_path / "s", says="no trace was ingested")
    refused(HEAPTAPE_HERE, "fleet", "report", tmp_path / "s", "-o", tmp_path / "r.html", says="no results yet")
    refused(HEAPTAPE_HERE, "fleet", "ingest", tmp_path / "s", "--store", tmp_path / "s", says="no .tape there")
    refused(HEAPTAPE_HERE, "fleet", "choose", tmp_path / "s", "-n", "0", says="1 at least", status=2)
    refused(HEAPTAPE_HERE, "fleet", "report", tmp_path / "s", "--worst", "-1", says="not negative", status=2)
    refused(
        HEAPTAPE_HERE, "fleet", "ingest", tapes[0], "--store", tmp_path / "s", "--scheduler", "local=x",
        says="local=N", status=2,
    )  # fmt: skip


def test_a_choice_becomes_a_plan_that_replay_reads(tapes, tmp_path):
    for number, one in enumerate(tapes):  # files of one name, as different machines record them
        (tmp_path / f"host{number}").mkdir()
        shutil.copy(one, tmp_path / f"host{number}" / "app.tape")
    store, plan = tmp_path / "s", tmp_path / "plan.toml"
    succeed(HEAPTAPE_HERE, "fleet", "ingest", tmp_path, "--store", store)
    text = succeed(HEAPTAPE_HERE, "fleet", "choose", store, "-n", "2", "-o", plan, "--json").stdout
    output = published("fleet-choose", text)
    assert sum(row["recordings"] for row in output["chosen"]) == 7
    assert output["errors"] == []
    found = read_plan_file(plan)
    assert sorted(found.tapes) == sorted(row["source"] for row in output["chosen"])
    files = gate.find(found.tapes)
    assert {str(files[name]): weight for name, weight in found.weights.items()} == {
        row["source"]: row["weight"] for row in output["chosen"]
    }
    (tmp_path / "sub").mkdir()
    refused(HEAPTAPE_HERE, "fleet", "choose", store, "-o", tmp_path / "sub" / "p.toml", says="write the plan above")


def test_workers_of_a_scheduler_ingest_what_one_process_does(tapes, tmp_path, monkeypatch):
    alone, store = open_store(str(tmp_path / "a"), create=True), open_store(str(tmp_path / "b"), create=True)
    take(alone, tapes)
    broken = tmp_path / "broken.tape"
    broken.write_bytes(b"heaptape")
    todo = ingest.batches([str(one) for one in (*tapes, broken)], ingest.Labels())
    told: list[str] = []
    monkeypatch.setattr(cluster.Member, "worker", Worker(store, HERE, Cache(tmp_path / "cache"), "worker"))
    cluster.configure()
    options = {"n_workers": 1, "processes": False, "dashboard_address": None, "protocol": "tcp://"}
    with LocalCluster(resources={"memory": 1 << 30, f"store {store.id}": 1}, **options) as workers:
        address, tell = workers.scheduler_address, told.append
        scheduler = dispatch.Scheduler(address, None, store.id, cluster.run_batch, 0, tell)
        ended = dispatch.run(todo, scheduler.attempt, tell=tell)
    assert ended.done == 7
    assert list(ended.failed) == [str(broken)]
    assert str(broken) in told[0]
    pd.testing.assert_frame_equal(dataset.traces(store), dataset.traces(alone))
