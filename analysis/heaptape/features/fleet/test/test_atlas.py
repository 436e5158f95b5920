# SPDX-License-Identifier: MIT
"""The atlas: made of a store's cells, kept as a file with a line for each figure of a program, compared with another,
and choosing allocators by profiles of other programs.
"""

import gzip
import json
import math
import re
import shutil

import heaptape
import msgspec
import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.fleet import atlas, atlas_page
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


def test_changes_name_what_is_better_worse_new_and_gone_with_both_versions():
    old = made_up({"a": [100, 50, 10], "b": [100, 200, None], "c": [1, 1, 1]})
    new = made_up({"a": [100, 40, 10], "b": [100, 300, 7], "d": [1, 1, 1]}, "1.1")
    found = atlas.changes(old, new)
    rows = {
        (row.program, row.column): (row.change, row.percent) for row in found.itertuples() if row.percent == row.percent
    }
    assert rows == {("a", "x"): ("better", pytest.approx(-20)), ("b", "x"): ("worse", pytest.approx(50))}
    assert list(found["percent"].abs().head(2)) == pytest.approx([50, 20])
    assert set(zip(found["change"], found["program"])) >= {("new", "b"), ("gone", "c"), ("new", "d")}
    assert set(found["version_before"]) == {"1.0"}
    assert set(found["version_after"]) == {"1.1"}


def test_an_atlas_does_not_differ_from_itself_and_changes_below_the_limit_are_not_named():
    one = made_up({"a": [1000, 0, 10]})
    assert atlas.changes(one, one).empty
    assert atlas.changes(one, made_up({"a": [1004, 0, 10]})).empty
    assert list(atlas.changes(one, made_up({"a": [1000, 3, 10]}))["change"]) == ["worse"]  # from 0


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


@pytest.mark.parametrize("damage", [b"{", b'{"schema":2}', b"\xff"])
def test_a_damaged_file_is_refused_by_name(tmp_path, damage):
    path = tmp_path / "a.json"
    path.write_bytes(damage)
    with pytest.raises(HeaptapeError, match=r"a\.json"):
        atlas.read(str(path))
    one = made_up({"a": [1, 2, 3]})
    atlas.write(msgspec.structs.replace(one, columns=one.columns[:2]), str(path))
    with pytest.raises(HeaptapeError, match="3 of 2 values"):
        atlas.read(str(path))


def test_a_program_is_chosen_for_by_the_nearest_of_other_programs_never_by_its_own_recordings():
    # Of small sizes x is best, of large ones y; `odd` is small but best on y, as only its other recording shows.
    small, large = [100, 50, 90], [100, 90, 50]
    peaks = {
        "s1": small,
        "s2": small,
        "s3": small,
        "odd": large,
        "odd.short": large,
        "l1": large,
        "l2": large,
        "l3": large,
    }
    sizes = [16, 17, 18, 16, 16, 4096, 4097, 4098]
    found = atlas.picks(made_up(peaks, sizes=sizes), "peak_rss").set_index("program")
    assert found.loc["odd", "nearest"] == "s1, s2, s3"
    assert found.loc["odd.short", "nearest"] == "s1, s2, s3"
    assert found.loc["odd", ["pick", "best"]].to_list() == ["x", "y"]
    assert found.loc["odd", "ratio"] == pytest.approx(91 / 51)
    assert found.loc[["l1", "l2", "l3"], "pick"].to_list() == ["y"] * 3
    assert found["baseline_ratio"].to_list() == pytest.approx([101 / 51] * 8)
    of = atlas.summary(found.reset_index())
    good = (found["ratio"] <= 1).sum()
    assert of["pick_best"] == good / 8
    assert of["baseline_best"] == 0
    assert of["pick_near"] >= of["pick_best"]


def test_columns_for_study_and_those_that_were_not_measured_everywhere_are_not_chosen():
    one = made_up({name: [100, 1, 2, None] for name in "abcd"}, sizes=(1, 2, 3, 4), names=("glibc", "x", "y", "z"))
    columns = [msgspec.structs.replace(column, study=column.name == "x") for column in one.columns]
    found = atlas.picks(msgspec.structs.replace(one, columns=columns), "peak_rss")
    assert set(found["pick"]) == {"y"}
    assert set(found["best"]) == {"y"}
    assert atlas.picks(one, "page_faults").empty


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


@pytest.mark.parametrize(("ratio", "said"), [(0.5, "−50 %"), (1.004, "+0 %"), (1.5, "+50 %"), (2.0, "× 2.0")])
def test_a_ratio_is_said_in_percent_until_it_is_a_factor(ratio, said):
    assert atlas_page._change(ratio) == said


def test_how_often_a_choice_was_good_by_hand():
    ratios = {"ratio": [1.0, 1.01, 1.5], "always_ratio": [1.0] * 3, "baseline_ratio": [2.0] * 3}
    table = atlas_page._choices({"peak_rss": pd.DataFrame(ratios)})
    (row,) = ([cell.text for cell in cells[1:]] for cells in table.rows)
    assert row == ["3", "67 %", "+15 %", "100 %", "+0 %", "0 %", "+100 %", "33 %"]
