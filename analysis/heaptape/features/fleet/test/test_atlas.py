# SPDX-License-Identifier: MIT
"""The atlas: made of a store's cells, kept as a file, compared with another. Made-up ones are in atlas.examples."""

import gzip
import json
import math
import re
import shutil

import heaptape
import msgspec
import pytest
from heaptape.features.fleet import atlas
from heaptape.features.fleet.atlas import Atlas, Column, Program
from heaptape.features.fleet.features import FEATURES
from heaptape.features.fleet.store import open_store
from heaptape.features.fleet.test.fleets import fleet_run
from heaptape.results.model.time_model import ALL, prediction
from heaptape.results.schema import Results

from tests.support import REPOSITORY, call_heaptape, import_text

NUMBER, PASSES = 2, "memory,instructions"  # fixtures of conftest.py


def made_up(peaks, version="1.0", sizes=(), names=("glibc", "x", "y")):
    """An atlas of peaks: program -> a value for each allocator. `sizes`: the feature that distinguishes profiles."""
    profiles = [dict.fromkeys(FEATURES, 1.0) | {"size_p50_bytes": size} for size in sizes] or [{}] * len(peaks)
    programs = [Program(name, "0" * 16, 10, 1, 100, profile) for name, profile in zip(peaks, profiles)]
    columns = [Column(name, version, "registry", "0" * 16) for name in names]
    cells = {name: {"peak_rss": list(values)} for name, values in peaks.items()}
    return Atlas(1, "2026-11-28", "0.1.0", ["e"], {"cpu": "c"}, columns, {}, programs, [], cells)


def test_a_file_is_read_as_it_was_written_and_a_changed_figure_is_one_changed_line(tmp_path):
    peaks = {"a": [100, 50, None], "b": [1, 2, 3]}
    texts = []
    for value in (50, 51):
        peaks["a"][1] = value
        one = made_up(peaks)
        atlas.write(one, str(tmp_path / "a.json"))
        assert atlas.read(str(tmp_path / "a.json")) == one
        texts.append((tmp_path / "a.json").read_text().splitlines())
        atlas.write(atlas.read(str(tmp_path / "a.json")), str(tmp_path / "again.json"))
        assert (tmp_path / "again.json").read_text().splitlines() == texts[-1]
    assert len(texts[0]) == len(texts[1])
    assert sum(before != after for before, after in zip(*texts)) == 1


@pytest.fixture(scope="module")
def folder(undisturbed, tmp_path_factory):
    """The atlas that the command makes of a real store."""
    path = tmp_path_factory.mktemp("atlas") / "out"
    done = call_heaptape("fleet", "atlas", undisturbed, "-a", "glibc", "-a", "reference", "-a", "nosuch@1", "-o", path)
    assert done.status == 0, done.stderr
    assert done.stdout.startswith("2 recordings, 2 allocators and settings, ")
    return path


def test_an_atlas_of_a_store_has_the_figures_of_its_cells(folder, undisturbed):
    found = atlas.read(str(folder / "atlas.json"))
    assert [column.name for column in found.columns] == ["glibc", "reference"]
    assert [column.study for column in found.columns] == [False, True]
    assert "nosuch" in found.absent["nosuch@1"]
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", found.day)
    results = open_store(str(undisturbed)).results().set_index(["name", "label", "figure"])["value"]
    for program in ("w0", "w1"):
        for at, name in enumerate(("glibc", "reference")):
            for figure in ("peak_rss", "mean_rss", "total_instructions", "page_faults"):
                assert found.cells[program][figure][at] == pytest.approx(results[program, name, figure], rel=1e-5)
            calls = [
                results[program, name, f"syscalls/{one}"] for one in ("mmap", "munmap", "mremap", "madvise", "brk")
            ]
            assert found.cells[program]["syscalls"][at] == sum(calls)
    assert "cpu" not in found.cells["w0"]  # accesses were not recorded


def test_cells_that_failed_are_told_but_not_those_that_another_engine_passed(undisturbed, tmp_path):
    store = open_store(str(shutil.copytree(undisturbed, tmp_path / "store")))
    one = next(found for found in store.records() if found.cells[0].label == "glibc")
    for pass_, engine in (("memory", "0" * 64), ("misses", one.cells[0].engine)):
        cell = msgspec.structs.replace(one.cells[0], pass_=pass_, engine=engine)
        result = {"error": "a.work: it aborted", "kind": "allocator_at_fault"}
        store.put_record(msgspec.structs.replace(one, cells=(cell,), results=(result,)))
    done = call_heaptape("fleet", "atlas", store.url, "-a", "glibc", "-o", tmp_path / "out")
    assert done.status == 0, done.stderr
    assert atlas.read(str(tmp_path / "out/atlas.json")).failures == [atlas.Failure("glibc", "", "misses", "it aborted")]


@pytest.mark.parametrize("newest", ["0" * 64, "f" * 64])
def test_of_the_engines_that_ran_a_cell_the_newest_counts(undisturbed, tmp_path, newest):
    store = open_store(str(shutil.copytree(undisturbed, tmp_path / "store")))
    one = next(r for r in store.records() if (r.cells[0].allocator, r.cells[0].pass_) == ("glibc", "memory"))
    for number, engine in enumerate(("0" * 64, "f" * 64)):
        cell = msgspec.structs.replace(one.cells[0], engine=engine)
        later = one.unix_s + (2 if engine == newest else 1)
        result = one.results[0] | {"page_faults": 777_000 + number}
        store.put_record(msgspec.structs.replace(one, cells=(cell,), unix_s=later, results=(result,)))
    assert call_heaptape("fleet", "atlas", store.url, "-a", "glibc", "-o", tmp_path / "out").status == 0
    name = store.workloads()[one.cells[0].workload].name
    faults = atlas.read(str(tmp_path / "out/atlas.json")).cells[name]["page_faults"]
    assert faults == [777_000 if newest == "0" * 64 else 777_001]


def test_a_recording_s_profile_is_in_the_store_and_its_atlas_and_can_be_asked(tmp_path):
    """Ten calls of malloc(17), eight of which are freed, two by another thread."""
    lines = [f"{n} 0 malloc(17) = {0x1000 * (n + 1):#x}" for n in range(10)]
    lines += [f"{100 + n} {int(n < 2)} free({0x1000 * (n + 1):#x})" for n in range(8)]
    tape = import_text(tmp_path, "\n".join(lines) + "\n", "clock=nanoseconds").rename(tmp_path / "t.tape")
    assert fleet_run(tmp_path / "s", tape).status == 0
    known = {"ops": 18, "threads": 2, "allocated_bytes": 170, "peak_live_objects": 10, "acquired": 10, "released": 8}
    known |= {"size_p50_bytes": 16, "unreleased_share": 0.2, "young_share": 0.8, "remote_share": 0.25, "dropped": 0}
    (row,) = heaptape.fleet.frames(str(tmp_path / "s"))["workloads"].to_dict("records")
    assert {name: row[name] for name in known} == known
    assert call_heaptape("fleet", "atlas", tmp_path / "s", "-a", "glibc", "-o", tmp_path / "out").status == 0
    (program,) = atlas.read(str(tmp_path / "out/atlas.json")).programs
    assert program.profile == {name: pytest.approx(row[name], rel=1e-5) for name in FEATURES}
    for form, said in (("csv", "name,ops\nt,18\n"), ("json", '[{"name": "t", "ops": 18}]\n')):
        asked = call_heaptape("fleet", "query", tmp_path / "s", "SELECT name, ops FROM workloads", "--format", form)
        assert asked.stdout == said
    assert "Peak memory: " in call_heaptape("fleet", "query", tmp_path / "s", "--parquet", tmp_path / "p").stdout
    assert len(list((tmp_path / "p").iterdir())) == 7


def test_the_command_prints_what_changed_since_the_atlas_before(folder, undisturbed, tmp_path):
    before = atlas.read(str(folder / "atlas.json"))
    before.cells["w1"]["peak_rss"][1] *= 2
    before.columns[1] = msgspec.structs.replace(before.columns[1], version="0.0.9")
    atlas.write(before, str(tmp_path / "before.json"))
    done = call_heaptape("fleet", "atlas", folder / "atlas.json", "--against", tmp_path / "before.json")
    assert done.status == 0
    assert "1 better, 0 worse, 0 new, 0 gone" in done.stdout
    assert " -50 " in done.stdout
    assert f"reference: 0.0.9 before, {atlas.read(str(folder / 'atlas.json')).columns[1].version} now." in done.stdout
    again = call_heaptape("fleet", "atlas", undisturbed, "-a", "glibc", "-a", "reference", "-o", folder)
    assert "0 better, 0 worse, 0 new, 0 gone" in again.stdout
    assert call_heaptape("fleet", "atlas", folder / "atlas.json", "-a", "glibc").status == 2
    none = call_heaptape("fleet", "atlas", undisturbed, "-a", "magazine")
    assert none.status == 1
    assert "no exact cell of magazine" in none.stderr


def test_the_predicted_time_is_the_comparisons_as_a_share_of_glibcs_where_accesses_were_counted():
    packed = REPOSITORY / "analysis/test/show/as_before/nodes.json.gz"
    file = Results("nodes.json", json.loads(gzip.decompress(packed.read_bytes())))
    rows = [row for row in prediction([file], "glibc").itertuples() if not math.isnan(row.percent)]
    names = {"glibc": "GLIBC"} | {row.allocator: row.allocator.upper() for row in rows}
    values = {name: {} for name in ("cpu", "cpu/low", "cpu/high", *(f"cpu/{row.part}" for row in rows))}
    atlas._add_time(file, names, values)
    assert not any(values.values()), "without counted misses"
    atlas._add_time(file, names, values | {"misses": {"GLIBC": 1.0}})
    assert len(values["cpu"]) == len({row.allocator for row in rows}) + 1
    assert [values[key].pop("GLIBC") for key in ("cpu", "cpu/low", "cpu/high")] == [100.0] * 3
    for row in rows:
        name = names[row.allocator]
        if row.part == ALL:
            assert [values[key][name] for key in ("cpu", "cpu/low", "cpu/high")] == [
                100 + row.percent, 100 + row.low, 100 + row.high
            ]  # fmt: skip
        else:
            assert values[f"cpu/{row.part}"][name] == row.percent
