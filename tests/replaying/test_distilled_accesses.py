# SPDX-License-Identifier: MIT
"""Distillates with data accesses: windows have all their accesses, other parts none, and misses follow from them."""

import json
import random
import shutil
from pathlib import Path

import msgspec
import pytest
from heaptape.results import distilled
from heaptape.results.schema import figures, results
from heaptape.results.structs import Distilled, Misses, Run
from heaptape.tape import calls
from heaptape.tape.workload_format import read_workload

from convert.test.models.access_maker import Row, compiled_rows
from convert.test.models.workload_ops import NO_SLOT, WorkloadOp, ops_of
from replay.test.engine import make
from tests.access_streams import STACK, file
from tests.support import CONVERT, OUT, REPLAY, call_heaptape, check, published, refused, succeed

OPS = 6000
WINDOWS = [[0, 200, 900, 2.0], [2000, 2600, 3000, 3.0], [3000, 3000, 3100, 1.0], [5000, 5500, OPS, 1.5]]
ALLOCATORS = [word for name in ("glibc", "reference", "magazine") for word in ("-a", name)]

needs_tool = pytest.mark.skipif(
    not shutil.which("valgrind") or not (OUT / "libexec/valgrind/heaptape-amd64-linux").exists(),
    reason="our Valgrind tool was not built, or Valgrind is not installed",
)


def follow(live: dict[int, int], op: WorkloadOp, place: int) -> None:
    """`live`: slot -> place of its object's birth."""
    _, acquires, release, _, _ = calls.CALLS[op.call & calls.ID_MASK]
    given = release != calls.NOTHING and not op.call & calls.NULL_IN
    if op.slot == NO_SLOT:
        return
    if release == calls.RELEASES and given and not (acquires and not op.call & calls.NULL_OUT):
        del live[op.slot]
    elif not given:
        live[op.slot] = place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workload, with random accesses to its live objects and to other memory before each of its ops."""
    path = tmp_path_factory.mktemp("accesses") / "whole.work"
    make(path, ops=OPS, threads=3, live_objects=150, remote_percent=25, gap_ns=1000)
    luck, live, items = random.Random(4), {}, []
    for place, op in enumerate(ops_of(path)):
        for _ in range(luck.randrange(6)):
            slot = luck.choice([None, *live])
            granule = luck.randrange(1 << 12) if slot is None else luck.randrange(4)
            items.append(("other", granule + (1 << 24)) if slot is None else ("object", slot, granule))
        items.append(("event", STACK + 64 * op.thread))
        follow(live, op, place)
    path.with_suffix(".accesses").write_bytes(file(items))
    return path


def distil(whole: Path, folder: Path, **plan: object) -> Path:
    """The workload of the distillate, accesses beside it."""
    (folder / "plan.json").write_text(json.dumps({"windows": WINDOWS, **plan}))
    accesses = whole.with_suffix(".accesses")
    succeed(CONVERT, "distil", whole, "--plan", folder / "plan.json", "--accesses", accesses, "-o", folder / "d.tape")
    assert check(folder / "d.tape")["ok"]
    succeed(CONVERT, "compile", folder / "d.tape", "-o", folder / "d.work", "--accesses", folder / "d.accesses")
    return folder / "d.work"


def manifest_of(work: Path) -> Distilled:
    return msgspec.convert(read_workload(work).info["distilled"], Distilled)


def edges_of(work: Path, folder: Path) -> Path:
    """The file of the positions between which misses are counted."""
    path = folder / "positions"
    path.write_text("".join(f"{position}\n" for position in distilled.edges(manifest_of(work))))
    return path


def before_calls(work: Path) -> list[list[Row]]:
    """For each op the accesses before it, with objects numbered by the order of their births' places, and its call."""
    out: list[list[Row]] = [[]]
    live: dict[int, int] = {}
    ops = ops_of(work)
    for row in compiled_rows(work.with_suffix(".accesses"))[1]:
        if row.kind == "object":
            row = Row("object", object=live[row.object], granule=row.granule)
        out[-1].append(row)
        if row.kind == "call":
            follow(live, ops[len(out) - 1], len(out) - 1)
            out.append([])
    return out[:-1]


@pytest.mark.parametrize("heap", ["live", "touched"])
def test_windows_have_each_access_of_the_whole_and_the_parts_between_none(
    whole: Path, tmp_path: Path, heap: str
) -> None:
    work = distil(whole, tmp_path, heap=heap)
    here, there = before_calls(work), before_calls(whole)
    place_in_whole, played = {}, set()
    segments = [list(map(int, segment)) for segment in manifest_of(work).segments]
    for (begin, _, end, *_), window in zip(segments, WINDOWS, strict=True):
        place_in_whole |= {begin + number: window[0] + number for number in range(end - begin)}
    births: dict[int, int] = {}
    for place, rows in enumerate(here):
        if place not in place_in_whole:
            assert [row.kind for row in rows] == ["call"]
            continue
        of_whole = there[place_in_whole[place]]
        assert len(rows) == len(of_whole)
        played.add(place)
        for row, other in zip(rows, of_whole, strict=True):
            assert (row.kind, row.granule, row.stack_pointer) == (other.kind, other.granule, other.stack_pointer)
            if row.kind == "object":
                assert births.setdefault(row.object, other.object) == other.object
    assert len(played) == sum(end - begin for begin, _, end, _ in WINDOWS)
    assert len(set(births.values())) == len(births) > 100


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_accesses_of_another_workload_are_refused_and_leave_no_file(whole: Path, tmp_path: Path, damage: str) -> None:
    data = whole.with_suffix(".accesses").read_bytes()
    wrong = tmp_path / "wrong.accesses"
    wrong.write_bytes(data[: len(data) // 2] if damage == "cut" else file([("object", 1 << 20, 0), ("event", STACK)]))
    (tmp_path / "plan.json").write_text(json.dumps({"windows": WINDOWS}))
    words = ["--plan", tmp_path / "plan.json", "--accesses", wrong, "-o", tmp_path / "d.tape"]
    refused(CONVERT, "distil", whole, *words, says="wrong.accesses")
    assert not (tmp_path / "d.tape").exists()


def misses_pass(work: Path, *options: object) -> dict:
    words = ["--pass", "misses", "--accesses", work.with_suffix(".accesses"), *map(str, options), work]
    return json.loads(succeed(REPLAY, *words).stdout)["misses"]


def levels(found: dict) -> list[list[int]]:
    return [level["misses"] for level in [*found["caches"], *found["tlbs"]]]


@needs_tool
def test_misses_up_to_positions_are_some_of_the_whole_run_and_change_nothing(whole: Path, tmp_path: Path) -> None:
    fine, coarse = [0, 17, 1000, 3000, 3001, OPS], [17, 3000]
    found = {}
    for name, positions in (("fine", fine), ("coarse", coarse)):
        (tmp_path / name).write_text("".join(f"{position}\n" for position in positions))
        found[name] = misses_pass(whole, "--windows", tmp_path / name)
    plain = misses_pass(whole)
    assert "windows" not in plain
    assert found["fine"]["windows"]["positions"] == fine
    assert levels(found["fine"]) == levels(found["coarse"]) == levels(plain)
    for until, other, end in zip(levels(found["fine"]["windows"]), levels(found["coarse"]["windows"]), levels(plain)):
        assert until == sorted(until)
        assert 0 < until[0] < until[-1] <= end  # a process has a start and an end
        assert other == [until[1], until[3]]


@needs_tool
def test_of_a_window_of_all_ops_the_misses_are_those_of_the_whole(whole: Path, tmp_path: Path) -> None:
    expected = {"misses/all/cache_32768": 1.0}
    work = distil(whole, tmp_path, windows=[[0, 0, OPS, 1.0]], manifest={"expected": expected})
    simulated = msgspec.convert(misses_pass(work, "--windows", edges_of(work, tmp_path)), Misses)
    run = Run("glibc", pass_="misses", misses=simulated)
    estimate = distilled.estimate("misses/all/cache_32768", run, manifest_of(work))
    assert estimate == pytest.approx(levels(misses_pass(whole))[0], rel=0.005)


@needs_tool
def test_a_distillate_has_the_margins_of_misses_and_of_kinds_of_calls(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    words = ["distil", whole, "-o", tmp_path / "d.tape", *ALLOCATORS, "--misses", "--json"]
    answer = published("distil", call_heaptape(*words, "--ratio", "0.8").stdout)["distilled"]
    of_misses = [row for row in answer["errors"] if row["figure"].startswith("misses/all/cache")]
    assert {row["allocator"] for row in of_misses} == {"glibc", "reference", "magazine"}
    assert all(abs(row["error_percent"]) <= row["expected_percent"] for row in of_misses)
    assert set(answer["sampling"]) == {figure for figure in answer["expected"] if distilled.is_by_windows(figure)}
    assert {"instructions/malloc", "instructions/free"} <= set(answer["expected"])
    replayed = tmp_path / "r.json"
    call_heaptape("replay", tmp_path / "d.tape", "-a", "glibc", "--passes", "misses", "-n", "1", "-o", replayed)
    table = figures([results(replayed)]).set_index("metric")
    for figure in {row["figure"] for row in of_misses}:
        assert table.at[figure, "margin_percent"] == pytest.approx(answer["expected"][figure], rel=1e-4)
        program = figure.replace("/all/", "/program/")
        assert table.at[figure, "value"] >= table.at[program, "value"]
    shown = call_heaptape("compare", replayed, "--table", "misses").stdout
    [row] = [line for line in shown.splitlines() if line.startswith("glibc ")]
    assert "±" in row
    assert "†" in row


@needs_tool
@pytest.mark.parametrize(("options", "says"), [(["--kind", "memory"], "--misses"), ([], "record with --accesses")])
def test_misses_of_what_has_none_are_refused(whole: Path, tmp_path: Path, options: list[str], says: str) -> None:
    bare = tmp_path / "bare.work"
    shutil.copy(whole, bare)
    result = call_heaptape("distil", bare, "-o", tmp_path / "d.tape", *ALLOCATORS, "--misses", *options)
    assert result.status == (2 if options else 1)
    assert says in result.stderr
