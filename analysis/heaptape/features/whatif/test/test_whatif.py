# SPDX-License-Identifier: MIT
"""heaptape whatif, from a recording with call stacks and marks to the table."""

import json
from pathlib import Path

import pytest
from heaptape.features.whatif.tables import whatif_tables
from heaptape.results.schema import results
from heaptape.tape.workload_format import read_workload

from tests.support import CONVERT, OUT, call_heaptape, record, succeed

PROGRAM = OUT / "test-programs" / "waves"


@pytest.fixture(scope="module")
def tape(tmp_path_factory) -> Path:
    """waves.c at 2 % of its size: eight waves of objects; one of each 32 is group_new's, and these stay."""
    path = tmp_path_factory.mktemp("whatif") / "waves.tape"
    record(path, PROGRAM, "plain", "2", options=("--stacks",))
    return path


def group_of(tape: Path, group: str) -> dict:
    work = tape.with_suffix(".work")
    succeed(CONVERT, "compile", tape, "-o", work, "--group", group)
    succeed(CONVERT, "check", work)
    (about,) = read_workload(work).info["whatif"]
    return about


def entries(wave_bytes: int) -> int:
    """The number of the group's objects in a wave of objects of that size (waves.c)."""
    count = (6 << 20) * 2 // 100 * 4 // wave_bytes
    return (count + 31) // 32


SIZES = (96, 160, 288, 416, 672, 928, 1440, 2080)


def test_a_group_is_found_by_any_frame_by_function_and_by_site(tape):
    whole = group_of(tape, "frame=group_new*=remove")
    assert whole["objects"] == sum(map(entries, SIZES))
    assert group_of(tape, "function=group_new*=remove")["objects"] == whole["objects"]
    assert group_of(tape, "frame=waves&size=40..72=remove")["objects"] == whole["objects"]
    succeed(CONVERT, "compile", tape, "-o", tape.with_suffix(".w"), "--origins", tape.with_suffix(".origins"))
    data = tape.with_suffix(".origins").read_bytes()
    sites = json.loads(data[data.index(b'{"') :])["sites"]
    numbers = [n for n, site in enumerate(sites) if site["name"].startswith("group_new")]
    assert numbers
    by_number = group_of(tape, f"site={','.join(map(str, numbers))}=remove")
    assert by_number["objects"] == whole["objects"]


def test_phases_are_between_marks(tape):
    assert group_of(tape, "frame=group_new*&phase=3=remove")["objects"] == entries(SIZES[2])
    even = group_of(tape, "frame=group_new*&phase=even wave=remove")
    assert even["objects"] == sum(map(entries, SIZES[::2]))
    last = group_of(tape, "frame=group_new*&phase=odd wave,7..=remove")
    assert last["objects"] == sum(map(entries, SIZES[1::2])) + entries(SIZES[6])


def test_late_births_wait_for_the_mark_at_most(tape):
    """The group's objects of a wave are acquired when the wave's other objects have been released."""
    work = tape.with_suffix(".late")
    succeed(CONVERT, "compile", tape, "-o", work, "--group", "frame=group_new*&phase=1=late")
    ops = read_workload(work).ops_of(0)
    place = {size: ops.index[(ops["call"] == 0) & (ops["size"] == size)] for size in SIZES[:2]}
    between = ops[(ops["call"] == 0) & ops["size"].between(40, 72)].index
    first = between[: entries(SIZES[0])]
    assert place[SIZES[0]].max() < first.min()
    assert first.max() < place[SIZES[1]].min()


def test_whatif_prints_each_experiment_beside_the_original_and_keeps_results(tape, tmp_path):
    output = tmp_path / "r.json"
    done = call_heaptape(
        "whatif", tape, "-a", "glibc", "-g", "frame=group_new*=remove", "-g", "frame=group_new*=pool=65536",
        "--passes", "memory", "-o", output,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("as recorded", "frame="))]
    assert len(lines) == 3
    assert "as recorded" in lines[0]
    data = json.loads(output.read_text())
    assert {run["variant"] for run in data["runs"]} == {
        "default", "frame=group_new*=remove", "frame=group_new*=pool=65536",
    }  # fmt: skip
    removed = data["whatif"][0]
    assert removed["labels"] == {"glibc": "glibc:frame=group_new*=remove"}
    assert removed["workload"]["ideal_rss_bytes"] < data["workload"]["ideal_rss_bytes"]
    peaks = {run["variant"]: run["rss_anon_peak_bytes"] for run in data["runs"]}
    (table,) = whatif_tables(results(output))
    whole, *experiments = [row[2].value for row in table.rows]
    assert [whole, *experiments] == pytest.approx(list(peaks.values()), rel=0.001)
    assert [row[3].value for row in table.rows[1:]] == pytest.approx([100 * one / whole for one in experiments])
    compared = call_heaptape("compare", output, "--table", "memory")
    assert compared.status == 0, compared.stderr
    assert "glibc:frame=group_new*=remove" in compared.stdout


def test_whatif_says_who_holds_the_memory_beside_the_original(tape, tmp_path, monkeypatch):
    """At the end only the group lives: with `remove`, nothing is left of it."""
    monkeypatch.setenv("COLUMNS", "200")
    output = tmp_path / "r.json"
    options = "-a glibc -g frame=group_new*=remove --passes blame --at end --table holders"
    done = call_heaptape("whatif", tape, *options.split(), "-o", output)
    assert done.status == 0, done.stderr
    assert "Who holds the memory at the end: from glibc to glibc:frame=group_new*=remove" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("group_new")).split()
    live, live_removed, beside, beside_removed, change = map(float, row[-5:])
    assert live > 0
    assert beside > 0
    assert live_removed == beside_removed == 0
    assert change == pytest.approx(-live - beside, abs=0.2)


def test_together_is_one_experiment(tape, tmp_path):
    output = tmp_path / "r.json"
    done = call_heaptape(
        "whatif", tape, "-a", "glibc", "-g", "size=96=remove", "-g", "size=160=segregate", "--together",
        "--passes", "blame", "--at", "200", "-o", output,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    (only,) = json.loads(output.read_text())["whatif"]
    ((asked, there),) = only["positions"]
    assert asked == 200 > there > 0
    assert [group["action"] for group in only["groups"]] == ["remove", "segregate"]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("-g", "size=1=remove"), 1, "no object belongs to the group 'size=1=remove'"),
        (("-g", "size=..=remove", "-g", "size=96=early", "--together"), 1, "overlap"),
        (("-g", "size=96=sideways"), 2, "needs EXPR=remove"),
        (("-g", "phase=cold=remove"), 1, "no object belongs"),
        ((), 2, "--group"),
        (("-g", "size=96=remove", "--passes", "misses"), 2, "whatif --passes: unknown pass 'misses'"),
    ],
)
def test_wrong_experiments_are_one_line(tape, tmp_path, arguments, status, says):
    done = call_heaptape("whatif", tape, "-a", "glibc", "-o", tmp_path / "r.json", *arguments)
    assert done.status == status
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert not (tmp_path / "r.json").exists()


def test_a_workload_is_not_a_trace(tape, tmp_path):
    succeed(CONVERT, "compile", tape, "-o", tmp_path / "w.work")
    done = call_heaptape("whatif", tmp_path / "w.work", "-g", "size=1=remove", "-o", tmp_path / "r.json")
    assert done.status == 1
    assert "found in a trace" in done.stderr


def test_a_saving_is_that_of_a_program_that_really_makes_the_change(tmp_path):
    """Removal, with glibc; of the program's own peak."""
    tape, output = tmp_path / "w.tape", tmp_path / "r.json"
    record(tape, PROGRAM, "plain", "15", options=("--stacks",))
    done = call_heaptape(
        "whatif", tape, "-a", "glibc", "-g", "frame=group_new*=remove", "--passes", "memory", "-o", output
    )
    assert done.status == 0, done.stderr
    peaks = {run["variant"]: run["rss_anon_peak_bytes"] for run in json.loads(output.read_text())["runs"]}
    plain, removed = (int(succeed(PROGRAM, mode, "15").stdout) for mode in ("plain", "remove"))
    live = plain - removed
    assert live > 0.02 * plain
    assert peaks["default"] - peaks["frame=group_new*=remove"] == pytest.approx(live, rel=0.05)
