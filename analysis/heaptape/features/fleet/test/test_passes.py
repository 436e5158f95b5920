# SPDX-License-Identifier: MIT
"""Every pass of a plan: a fleet's cells have the figures of `heaptape replay`, and a pass gets the files it needs."""

import json
import tempfile

import pandas as pd
import pytest
from heaptape.common.home import default_home
from heaptape.features.fleet.plan import plans_of
from heaptape.features.fleet.store import open_store
from heaptape.features.fleet.test.fleets import ALLOCATORS, NOT_EXACT, make_workloads, plan
from heaptape.features.gate.test.pieces import make_workload
from heaptape.results.schema import figures as figures_of
from heaptape.results.schema import results as read_results
from heaptape.run import machine, registry

from tests import access_streams
from tests.support import call_heaptape

CHOSEN = [word for name in ALLOCATORS for word in ("-a", name)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("of_this_machine", "measure_costs"):  # takes seconds, and is not needed here
        monkeypatch.setattr(machine, name, lambda home: None)


def by_fleet(source, store, passes):
    """The cells' figures, and the store."""
    assert plan(store, source, passes=passes).status == 0
    done = call_heaptape("fleet", "work", store)
    assert done.status == 0, done.stderr
    opened = open_store(str(store))
    return opened.results(), opened


def by_replay(source, output, passes):
    """The figures of the same source by one command."""
    done = call_heaptape("replay", source, *CHOSEN, "--passes", passes, "-o", output)
    assert done.status == 0, done.stderr
    return figures_of([read_results(output)])


def exact(frame, label, figure, without=()):
    """label, figure -> value, without times, and without figures whose names begin with `without`."""
    kept = frame[~frame[figure].isin(NOT_EXACT) & ~frame[figure].str.startswith(tuple(without) or ("none",))]
    kept = kept.drop_duplicates([label, figure])
    return kept.set_index([label, figure])[["value"]].rename_axis(["label", "figure"]).sort_index()


def runs_of(path):
    """Of a results file."""
    return json.loads(path.read_text())["runs"]


def less_start(frame, runs):
    """Subtracts what was resident before the first op: one more OS page where paths are longer."""
    starts = {run["allocator"]: run["rss_anon_start_bytes"] for run in runs if "rss_anon_start_bytes" in run}
    for allocator, start_bytes in starts.items():
        frame.loc[[(allocator, f"{name}_rss") for name in ("held", "mean", "peak", "purged")], "value"] -= start_bytes


def accessed(folder):
    """A workload with data accesses beside it: the program's accesses to its objects, and to other memory."""
    work, slots = access_streams.compiled(folder, access_streams.mallocs([4096, 100, 70_000]))
    items = [("object", slot, granule) for slot in slots for granule in range(0, 6)]
    calls = [("event", access_streams.STACK)] * len(slots)
    items = [*calls, *items, ("other", 1 << 20)]
    work.with_suffix(".accesses").write_bytes(access_streams.file(items))
    return work


@pytest.mark.parametrize(
    ("passes", "made"),
    [
        ("misses", accessed),
        ("blame", lambda folder: make_workload(folder, 200, 2)),
        ("sharing,verify", lambda folder: make_workload(folder, 200, 2)),
    ],
    ids=["misses", "blame", "sharing and verify"],
)
def test_cells_of_each_exact_pass_say_what_a_replay_says(passes, made, tmp_path):
    source = made(tmp_path)
    found, store = by_fleet(source, tmp_path / "s", passes)
    expected = by_replay(source, tmp_path / "R.json", passes)
    assert set(found["figure"]) == set(expected["metric"])
    # Figures of start-up, which depend on the lengths of paths and on the environment: both differ in a cell.
    startup = ("misses/", "startup_instructions", "vm_size")
    left, right = exact(found, "label", "figure", startup), exact(expected, "allocator", "metric", startup)
    for frame, runs in ((left, [one.result for one in store.records()]), (right, runs_of(tmp_path / "R.json"))):
        less_start(frame, runs)
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    assert set(found["pass_"]) == set(passes.split(","))
    records = list(store.records())
    (workload,) = store.workloads().values()
    if passes == "misses":
        assert workload.companions
        assert all(record.cell.companion == workload.companions["accesses"] for record in records)
        assert all(record.result["misses"]["program"]["caches"][0]["misses"] > 0 for record in records)
    if passes == "blame":
        assert all(record.result["blame"] for record in records)
    libraries = {record.cell.allocator: record.cell.library for record in records}
    assert found.set_index("allocator")["library"].to_dict() == libraries


def test_figures_do_not_depend_on_a_worker_s_environment_nor_on_where_it_has_temporary_files(tmp_path, monkeypatch):
    """Bit for bit, also misses and start-up: a Slurm task has its own TMPDIR and fifty more variables."""
    source, found = accessed(tmp_path), []
    for number, length in enumerate((1, 80)):
        folder = tmp_path / ("t" * length)
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        for variable in range(60 * number):
            monkeypatch.setenv(f"SLURM_OF_THE_TESTS_{variable}", "x" * 300)
        monkeypatch.setenv("REFERENCE_TUNABLES", f"tcache={number}")
        results, _ = by_fleet(source, tmp_path / f"s{number}", "memory,instructions,misses")
        found.append(exact(results, "label", "figure"))
    assert len(found[0]) > 50
    pd.testing.assert_frame_equal(*found, check_exact=True)


def test_a_path_for_temporary_files_that_is_too_long_is_reported(tmp_path, monkeypatch):
    (workload,) = make_workloads(tmp_path, 1)
    plan(tmp_path / "s", workload)
    folder = tmp_path / ("t" * 240)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    done = call_heaptape("fleet", "work", tmp_path / "s", "--retries", "0")
    assert done.status == 1
    assert "too long a path for temporary files (TMPDIR)" in done.stderr


def test_a_workload_without_accesses_is_left_out_of_the_passes_that_need_them_and_reported(tmp_path):
    (workload,) = make_workloads(tmp_path, 1)
    done = plan(tmp_path / "s", workload, passes="memory,misses")
    assert "no data accesses, which the misses pass needs: left out" in done.stderr
    (planned,) = plans_of(open_store(str(tmp_path / "s")))
    assert {cell.cell.pass_ for task in planned.tasks() for cell in task.cells} == {"memory"}


def test_in_the_contention_pass_an_allocator_counts_its_locks_and_keeps_its_name(tmp_path):
    found, store = by_fleet(make_workload(tmp_path, 200, 3), tmp_path / "s", "contention,bare")
    counting = registry.choose("reference", registry.load(default_home())).counting
    assert counting
    for record in store.records():
        counts = record.cell.allocator == "reference" and record.cell.pass_ == "contention"
        assert dict(record.cell.environment) == (counting if counts else {})
        if record.cell.pass_ == "contention":
            assert record.result["contention"]["count"] >= 0
            assert ("reference_stats" in record.result) == counts
    waits = found[found["figure"] == "contention/waits"]
    assert sorted(waits["label"]) == sorted([*ALLOCATORS] * 5)
    assert (waits.groupby("block")["label"].nunique() == len(ALLOCATORS)).all()
