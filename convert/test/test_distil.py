# SPDX-License-Identifier: MIT
"""Distillates: the windows of the plan are there, op for op, on the same live heap; the manifest is correct.

Long: more windows chosen by chance.
"""

import bisect
import functools
import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from heaptape.tape import calls

from convert.test.models import workload_ops
from convert.test.models.workload_ops import NO_SLOT, WorkloadOp
from replay.test.engine import make
from tests.support import CONVERT, refused, succeed

OPS, GAP_NS = 6000, 1000

Window = tuple[int, int, int, float]


def done(*arguments: object) -> str:
    return succeed(CONVERT, *map(str, arguments)).stdout


@functools.cache
def ops_of(path: Path) -> list[WorkloadOp]:
    """The ops of a workload, cached."""
    return workload_ops.ops_of(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("distil") / "whole.work"
    make(path, ops=OPS, threads=4, live_objects=150, remote_percent=25, gap_ns=GAP_NS)
    return path


@dataclass
class Distilled:
    tape: Path
    work: Path
    ops: list[WorkloadOp]
    manifest: dict


def distil(whole: Path, folder: Path, windows: list[Window], **plan: object) -> Distilled:
    (folder / "plan.json").write_text(json.dumps({"windows": windows, **plan}))
    tape, work = folder / "d.tape", folder / "d.work"
    done("distil", whole, "--plan", folder / "plan.json", "-o", tape)
    assert json.loads(done("check", tape, "--json"))["ok"]
    done("compile", tape, "-o", work)
    return Distilled(tape, work, workload_ops.ops_of(work), manifest_of(tape))


def manifest_of(path: Path) -> dict:
    return json.loads(done("info", path, "--json"))["info"]["distilled"]


@dataclass
class Object:
    """An object of a workload, as defined in WORKLOAD.md: places of its ops, from birth to death (or to the end)."""

    size: int
    ops: list[int] = field(default_factory=list)
    dead: bool = False


def objects_of(ops: list[WorkloadOp]) -> list[Object]:
    found, in_slot = [], {}
    for place, op in enumerate(ops):
        _, acquires, release, _, param = calls.CALLS[op.call & calls.ID_MASK]
        if op.slot == NO_SLOT or release == calls.NOTHING or op.call & calls.NULL_IN:
            of = Object((op.size or 0) * ((op.param or 1) if param == calls.COUNT else 1))
            found.append(of)
            in_slot[op.slot] = of
        of = in_slot[op.slot]
        of.ops.append(place)
        of.dead = op.slot == NO_SLOT or (release == calls.RELEASES and not (acquires and not op.call & calls.NULL_OUT))
    return found


def lives_in(thing: Object, window: Window) -> bool:
    return thing.ops[0] < window[2] and (not thing.dead or thing.ops[-1] >= window[0])


def normalised(ops: list[WorkloadOp], places: list[int]) -> list[tuple]:
    """The ops at the places, with threads and objects numbered as they appear there."""
    threads: dict[int, int] = {}
    chosen, number_of = set(places), {}
    for number, of in enumerate(thing for thing in objects_of(ops) if thing.ops[0] in chosen):
        number_of.update(dict.fromkeys(of.ops, number))
    return [
        (threads.setdefault(op.thread, len(threads)), op.call, op.size, op.param or 1, number_of[place])
        for place, op in ((place, ops[place]) for place in places)
    ]


def some_windows(seed: int) -> list[Window]:
    """Rising; some begin at the start, end at the end, touch one another, have no warm-up."""
    source = random.Random(seed)
    edges = sorted(source.sample(range(OPS + 1), 12) + source.choice([[], [0], [OPS], [0, OPS]]))
    chosen = [edges[i : i + 2] for i in range(0, len(edges) - 1, source.choice([1, 2]))]
    return [(a, source.choice([a, (a + b) // 2]), b, source.randint(1, 9) / 2) for a, b in chosen if a < b]


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 12))])
def test_distillate_is_the_ops_of_the_objects_that_live_in_a_window(whole, tmp_path, seed):
    windows, ops = some_windows(seed), ops_of(whole)
    kept = [thing for thing in objects_of(ops) if any(lives_in(thing, window) for window in windows)]
    places = sorted(itertools.chain.from_iterable(thing.ops for thing in kept))
    made = distil(whole, tmp_path, windows)
    assert normalised(made.ops, list(range(len(made.ops)))) == normalised(ops, places)
    segments = made.manifest["segments"]
    assert [(row[3], row[4], row[5]) for row in segments] == [window[1:] for window in windows]
    for row, window in zip(segments, windows, strict=True):
        assert [places[row[0]], places[row[1]], places[row[2] - 1]] == [window[0], window[1], window[2] - 1]
        assert row[2] - row[0] == window[2] - window[0]


@pytest.mark.parametrize("seed", range(4))
def test_map_counts_the_kept_ops_before_each_position_of_the_whole(whole, tmp_path, seed):
    windows, ops = some_windows(seed), ops_of(whole)
    kept = [thing for thing in objects_of(ops) if any(lives_in(thing, window) for window in windows)]
    places = set(itertools.chain.from_iterable(thing.ops for thing in kept))
    made = distil(whole, tmp_path, windows).manifest["map"]
    assert made[0] == [0, 0]
    assert made[-1] == [len(places), OPS]
    before = [0, *itertools.accumulate(place in places for place in range(OPS))]
    assert all(before[of_whole] == position for position, of_whole in made)
    assert all(left[1] < right[1] for left, right in itertools.pairwise(made))
    for begin, _, end, _ in windows:
        assert {begin, end} <= {of_whole for _, of_whole in made}


def test_manifest_describes_the_whole_and_keeps_the_keys_of_the_plan(whole, tmp_path):
    given = {"kind": "time", "whole": {"name": "it", "sha256": "ab", "ops": OPS}, "expected": {"instructions": 1.5}}
    made = distil(whole, tmp_path, [(100, 200, 300, 2.5)], manifest=given, seed=3)
    info = json.loads(done("info", whole, "--json"))
    names = Counter(calls.CALLS[op.call & calls.ID_MASK][0] for op in ops_of(whole))
    assert made.manifest["whole"] == {
        **given["whole"], "threads": 4, "calls": names, "peak_live_bytes": info["peak_live_bytes"],
    }  # fmt: skip
    assert made.manifest["kind"] == "time"
    assert made.manifest["expected"] == given["expected"]
    assert made.manifest["version"] == 2
    assert made.manifest["ratio"] == pytest.approx(len(made.ops) / OPS, rel=1e-4)
    assert made.manifest["kept"] == {"heap": "live", "highs": 0, "churn": 0, "seed": 3}


def test_all_churn_is_the_whole_and_some_is_its_share(whole, tmp_path):
    window = [(1000, 1000, 1100, 1.0)]
    ops = ops_of(whole)
    everything = distil(whole, tmp_path, window, churn=1)
    assert normalised(everything.ops, list(range(OPS))) == normalised(ops, list(range(OPS)))
    others = [thing for thing in objects_of(ops) if not lives_in(thing, window[0])]
    needed = len(objects_of(ops)) - len(others)
    kept = {
        seed: len(objects_of(distil(whole, tmp_path, window, churn=0.3, seed=seed).ops)) - needed for seed in range(3)
    }
    deviation = (len(others) * 0.3 * 0.7) ** 0.5
    assert all(abs(count - 0.3 * len(others)) < 5 * deviation for count in kept.values())


def test_large_objects_have_a_share_of_their_own(whole, tmp_path):
    window = (1000, 1000, 1100, 1.0)
    ops = ops_of(whole)
    limit = sorted(thing.size for thing in objects_of(ops))[-40]
    made = distil(whole, tmp_path, [window], large={"bytes": limit, "share": 1})
    kept = [
        thing
        for thing in objects_of(ops)
        if lives_in(thing, window) or any(size >= limit for _, size in sizes_over_time(ops, thing))
    ]
    assert len(objects_of(made.ops)) == len(kept)
    places = sorted(itertools.chain.from_iterable(thing.ops for thing in kept))
    assert normalised(made.ops, list(range(len(made.ops)))) == normalised(ops, places)


@pytest.mark.parametrize("seed", range(4))
def test_a_heap_that_is_touched_has_the_objects_of_the_windows_ops_alone(whole, tmp_path, seed):
    windows, ops = some_windows(seed), ops_of(whole)
    inside = {place for begin, _, end, _ in windows for place in range(begin, end)}
    kept = [thing for thing in objects_of(ops) if inside.intersection(thing.ops)]
    places = sorted(itertools.chain.from_iterable(thing.ops for thing in kept))
    made = distil(whole, tmp_path, windows, heap="touched")
    assert normalised(made.ops, list(range(len(made.ops)))) == normalised(ops, places)
    for row, window in zip(made.manifest["segments"], windows, strict=True):
        assert [places[row[0]], places[row[1]], places[row[2] - 1]] == [window[0], window[1], window[2] - 1]


def sizes_over_time(ops: list[WorkloadOp], thing: Object) -> Iterator[tuple[int, int]]:
    """The places from which the object has each size; 0: it has ended."""
    for place in thing.ops:
        op = ops[place]
        _, acquires, release, _, param = calls.CALLS[op.call & calls.ID_MASK]
        if acquires and not op.call & calls.NULL_OUT:
            yield place, op.size * ((op.param or 1) if param == calls.COUNT else 1)
        elif release == calls.RELEASES:
            yield place, 0


def class_edges() -> list[int]:
    return [0, 1, 2, 3] + [(4 + part) << shift for shift in range(40) for part in range(4)]


def at_highs(ops: list[WorkloadOp], parts: int) -> set[int]:
    """Numbers of the objects that live when the live bytes of their size class, or all live bytes, are highest: by the
    definition, part by part and class by class.
    """
    edges = class_edges()
    things = objects_of(ops)
    changes: dict[int | None, Counter] = defaultdict(Counter)
    spans: list[tuple[int, int | None, int, int]] = []  # object, class, from place, up to place
    for number, thing in enumerate(things):
        steps = [*sizes_over_time(ops, thing), (len(ops), 0)]
        for (place, size), (until, _) in itertools.pairwise(steps):
            if thing.dead and place == thing.ops[-1]:
                continue  # its end
            for key in (bisect.bisect_right(edges, size) - 1, None):
                changes[key][place] += size
                if until < len(ops):
                    changes[key][until] -= size
                spans.append((number, key, place, until))
    high: dict[int | None, list[int]] = {}
    for key, of_class in changes.items():
        total, best = 0, {}
        for place in sorted(of_class):
            total += of_class[place]
            part = 0 if key is None else place * parts // len(ops)
            if part not in best or total > best[part][0]:
                best[part] = (total, place)
        high[key] = [place for _, place in best.values()]
    return {number for number, key, begin, end in spans if any(begin <= place < end for place in high[key])}


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_objects_live_at_the_highs_of_their_size_classes_are_kept(whole, tmp_path, parts):
    ops = ops_of(whole)
    kept, things = at_highs(ops, parts), objects_of(ops)
    places = sorted(itertools.chain.from_iterable(things[number].ops for number in kept))
    made = distil(whole, tmp_path, [], highs=parts)
    assert normalised(made.ops, list(range(len(made.ops)))) == normalised(ops, places)
    assert made.manifest["segments"] == []


def test_rules_add_up(whole, tmp_path):
    """Highs, windows and large objects."""
    ops, windows = ops_of(whole), some_windows(3)
    things = objects_of(ops)
    limit = sorted(thing.size for thing in things)[-30]
    inside = {place for begin, _, end, _ in windows for place in range(begin, end)}
    kept = {
        number
        for number, thing in enumerate(things)
        if inside.intersection(thing.ops) or any(size >= limit for _, size in sizes_over_time(ops, thing))
    } | at_highs(ops, 3)
    places = sorted(itertools.chain.from_iterable(things[number].ops for number in kept))
    made = distil(whole, tmp_path, windows, heap="touched", highs=3, large={"bytes": limit, "share": 1})
    assert normalised(made.ops, list(range(len(made.ops)))) == normalised(ops, places)


def test_a_plan_gives_the_same_distillate_of_a_trace_and_of_its_workload(whole, tmp_path):
    everything = distil(whole, tmp_path, [(0, 0, OPS, 1.0)])
    tape = everything.tape.rename(tmp_path / "whole.tape")
    info = json.loads(done("info", tape, "--json"))["info"]
    assert info["distilled"]["segments"] == [[0, 0, OPS, 0, OPS, 1.0]]
    done("convert", "--slice", "progress=0..", tape, tmp_path / "plain.tape")
    windows = some_windows(5)
    of_work = distil(whole, tmp_path, windows)
    of_tape = distil(tmp_path / "plain.tape", tmp_path, windows)
    assert normalised(of_tape.ops, list(range(len(of_tape.ops)))) == normalised(
        of_work.ops, list(range(len(of_work.ops)))
    )


def test_without_out_the_same_ops_are_only_counted(whole, tmp_path):
    windows = [(100, 150, 300, 1.0), (2000, 2010, 2500, 1.0)]
    made = distil(whole, tmp_path, windows)
    counted = json.loads(done("distil", whole, "--plan", tmp_path / "plan.json", "--json"))
    assert counted == {
        "schema": 1, "out": None, "ops": len(made.ops), "whole_ops": OPS, "counted_ops": 640, "warm_up_ops": 60,
        "objects": len(objects_of(made.ops)),
    }  # fmt: skip


def test_times_are_kept(whole, tmp_path):
    made = distil(whole, tmp_path, [(OPS - 10, OPS - 10, OPS, 1.0)])
    duration = json.loads(done("info", made.tape, "--json"))["duration_ns"]
    assert duration == pytest.approx(OPS * GAP_NS, abs=110_000)  # a workload has a time every 100 µs


@pytest.fixture
def made(whole, tmp_path):
    given = {"kind": "both", "whole": {"name": "secret", "sha256": "ab"}, "expected": {"rss-peak": 2.0}}
    return distil(whole, tmp_path, [(500, 600, 900, 2.0)], manifest=given)


def test_manifest_stays_in_workloads_and_archives(made, tmp_path):
    assert json.loads(done("info", made.work, "--json"))["distilled"] == made.manifest
    done("convert", "--archive", made.tape, tmp_path / "a.tape")
    assert manifest_of(tmp_path / "a.tape") == made.manifest
    assert "distillate of" in done("info", made.tape)
    assert "rss-peak" in done("info", "--table", "all", made.work)


def test_an_anonymised_distillate_does_not_name_the_whole(made, tmp_path):
    done("convert", "--anonymise", made.tape, tmp_path / "a.tape")
    manifest = manifest_of(tmp_path / "a.tape")
    assert manifest["whole"].pop("name", None) is None
    del made.manifest["whole"]["name"]
    assert manifest == made.manifest
    assert "secret" not in done("info", tmp_path / "a.tape", "--json")


@pytest.mark.parametrize("arguments", [["--slice", "progress=10%..50%"], ["--merge"]])
def test_slices_and_merged_traces_are_not_distillates_and_report_it(made, tmp_path, arguments):
    sources = [made.tape] * (1 + (arguments == ["--merge"]))
    assert "not a distillate any more" in succeed(CONVERT, "convert", *arguments, *sources, tmp_path / "s.tape").stderr
    assert "distilled" not in json.loads(done("info", tmp_path / "s.tape", "--json"))["info"]


def test_a_rewritten_history_is_not_a_distillate(made, tmp_path):
    done("compile", made.tape, "-o", tmp_path / "g.work", "--group", "size=1..16=remove")
    assert "distilled" not in json.loads(done("info", tmp_path / "g.work", "--json"))["info"]


def windows_of(path: Path, window_ops: int, folder: Path) -> tuple[dict, pd.DataFrame]:
    out = folder / "windows.bin"
    done("windows", path, "--ops", window_ops, "-o", out)
    header, _, rows = out.read_bytes().partition(b"\n")
    about = json.loads(header)
    table = np.frombuffer(rows, "<u8").astype(np.int64).reshape(about["windows"], len(about["columns"]))
    return about, pd.DataFrame(table, columns=about["columns"])


def classes(columns: list[str], kind: str) -> Callable[[int], str]:
    """Maps a value to the last column of that kind whose number is not above it."""
    named = [column for column in columns if column.startswith(kind)]
    numbers = [int(column.split(":")[1]) for column in named]
    assert numbers == sorted(numbers)
    return lambda value: named[max(bisect.bisect_right(numbers, value) - 1, 0)]


@dataclass
class Live:
    born: int
    size: int
    thread: int


def modelled_windows(ops: list[WorkloadOp], window_ops: int, columns: list[str]) -> list[Counter]:  # noqa: C901
    """The columns by their definition."""
    of_size, of_age = classes(columns, "acquires:"), classes(columns, "deaths:")
    rows: list[Counter] = []
    live: dict[int, Live] = {}
    stock: Counter = Counter()
    highest = live_bytes = 0
    last = None
    for place, op in enumerate(ops):
        if place % window_ops == 0:
            heap = {"live_objects": len(live), "live_bytes": live_bytes}
            rows.append(Counter(heap | {f"{name}_highest": value for name, value in heap.items()}))
            threads = set()
        row = rows[-1]
        name, acquires, release, _, param = calls.CALLS[op.call & calls.ID_MASK]
        row.update(["ops", f"calls:{name}"])
        row["turns"] += op.thread != last
        last = op.thread
        threads.add(op.thread)
        row["threads"] = len(threads)
        if op.slot == NO_SLOT:
            continue
        releases = release == calls.RELEASES and not op.call & calls.NULL_IN
        given = acquires and not op.call & calls.NULL_OUT
        before = live.get(op.slot)
        if releases:
            assert before
            row["remote_frees"] += before.thread != op.thread
            stock[of_size(before.size)] += 1
            live_bytes -= live.pop(op.slot).size
            if not given:
                row[of_age(place - before.born)] += 1
        if given:
            size = op.size * ((op.param or 1) if param == calls.COUNT else 1)
            row.update({"acquired_bytes": size, of_size(size): 1})
            row["reusing"] += stock[of_size(size)] > 0
            stock[of_size(size)] -= stock[of_size(size)] > 0
            live[op.slot] = Live(before.born if before and releases else place, size, op.thread)
            live_bytes += size
            row["new_high_bytes"] += max(live_bytes - highest, 0)
            highest = max(highest, live_bytes)
        row["live_objects_highest"] = max(row["live_objects_highest"], len(live))
        row["live_bytes_highest"] = max(row["live_bytes_highest"], live_bytes)
    return rows


@pytest.mark.parametrize("window_ops", [1, 7, 1000, OPS, 2 * OPS])
def test_windows_have_the_features_of_their_ops(whole, tmp_path, window_ops):
    about, table = windows_of(whole, window_ops, tmp_path)
    expected = modelled_windows(ops_of(whole), window_ops, about["columns"])
    assert (about["ops"], about["window_ops"], about["windows"]) == (OPS, window_ops, -(-OPS // window_ops))
    assert table.equals(
        pd.DataFrame(expected).reindex(columns=about["columns"], fill_value=0).fillna(0).astype(np.int64)
    )


def test_windows_of_a_trace_are_those_of_its_workload(whole, tmp_path):
    everything = distil(whole, tmp_path, [(0, 0, OPS, 1.0)])
    assert windows_of(everything.tape, 100, tmp_path)[1].equals(windows_of(everything.work, 100, tmp_path)[1])


def test_memory_does_not_grow_with_the_number_of_ops(tmp_path):
    """3 M ops in 24 MiB, 16 MiB of which hold the plan: 3 bytes per op would be too much."""
    many, data_bytes = tmp_path / "many.work", 24 << 20
    make(many, ops=3_000_000, threads=4, live_objects=100, remote_percent=20)
    (tmp_path / "plan.json").write_text(json.dumps({"windows": [[10, 20, 90, 1]], "highs": 5, "churn": 0.01}))
    for arguments in (
        ["distil", many, "--plan", tmp_path / "plan.json", "-o", tmp_path / "d.tape"],
        ["windows", many, "--ops", "1000", "-o", tmp_path / "windows.bin"],
    ):
        succeed("prlimit", f"--data={data_bytes}", CONVERT, *arguments)


PLANS = [
    ("", "offset 0"),
    ("[1]", "Expected object, got array"),
    ("{}", "Object item not found: windows"),
    ('{"windows": 5}', "no windows"),
    ('{"windows": [], "heap": "dead"}', '"heap" needs'),
    ('{"windows": [], "heap": 5}', "Expected string, got integer"),
    ('{"windows": [], "highs": -1}', '"highs" needs'),
    ('{"windows": [], "highs": 5000}', '"highs" needs'),
    ('{"windows": [], "highs": "2"}', "Expected integer, got string"),
    ('{"windows": [[0, 1, 2]]}', "window 0 is not [begin"),
    ('{"windows": [[0, 0, 0, 1]]}', "window 0 does not rise"),
    ('{"windows": [[5, 4, 9, 1]]}', "window 0 does not rise"),
    ('{"windows": [[-1, 4, 9, 1]]}', "window 0 does not rise"),
    ('{"windows": [[1.5, 4, 9, 1]]}', "window 0 is not [begin"),
    ('{"windows": [[0, 4, 9, "1"]]}', "window 0 is not [begin"),
    ('{"windows": [[0, 4, 9, 1], [8, 9, 10, 1]]}', "window 1 begins before the end"),
    ('{"windows": [[0, 1, 9, 1]], "window": 3}', "left unpacked: window"),
    ('{"windows": [[0, 1, 9, 1]], "churn": 1.5}', '"churn" and "share" need a share'),
    ('{"windows": [[0, 1, 9, 1]], "seed": "x"}', "Expected integer, got string"),
    ('{"windows": [[0, 1, 9, 1]], "large": {"bytes": 5}}', "Object item not found: share"),
    ('{"windows": [[0, 1, 9, 1]], "large": {"byte": 5}}', "Object item not found: bytes"),
    ('{"windows": [[0, 1, 9, 1]], "manifest": []}', '"manifest" needs an object'),
    ('{"windows": [[0, 1, 6001, 1]]}', "has 6000 ops: the plan's last window ends at 6001"),
    ('{"windows": [[0, 1, 9, 1]], "manifest": {"whole": {"ops": 7}}}', "the plan is for a workload of 7"),
    (json.dumps({"windows": [[i, i, i + 1, 1] for i in range(4097)]}), "window 4096 is one too many"),
    (json.dumps({"windows": [[0, 0, 1, 1]], "manifest": {"x": "y" * 1000000}}), "plan fewer windows"),
]


@pytest.mark.parametrize(("text", "message"), PLANS)
def test_a_wrong_plan_is_one_clear_error_and_leaves_no_file(whole, tmp_path, text, message):
    plan, out = tmp_path / "plan.json", tmp_path / "d.tape"
    plan.write_text(text)
    refused(CONVERT, "distil", whole, "--plan", plan, "-o", out, says=message)
    assert list(tmp_path.iterdir()) == [plan]


def test_a_distillate_is_not_distilled_again(made, tmp_path):
    out = ("-o", tmp_path / "e.tape")
    refused(CONVERT, "distil", made.tape, "--plan", tmp_path / "plan.json", *out, says="a distillate itself")
