# SPDX-License-Identifier: MIT
"""Data accesses on their way from a trace to the file beside a workload, and through the conversions of traces."""

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
from heaptape.tape import calls
from heaptape.tape import trace as trace_module
from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.access_maker import (
    TOTALS,
    Row,
    add_accesses,
    add_gap,
    compiled_rows,
    gives_op,
    made_rows,
    stack_pointer,
)
from convert.test.models.history_maker import damage, jitter, legal
from convert.test.models.history_model import Event, text
from convert.test.models.workload_ops import WorkloadOp, ops_of
from convert.test.test_history import SHAPES as HISTORIES
from convert.test.test_history import used_threads
from tests.examples import examples
from tests.oracle.reader import open_trace
from tests.support import CONVERT, convert, import_text, refused, succeed

PROPERTY = examples(30)
SHAPES = HISTORIES | {"addresses": st.integers(1, 40)}
COUNTED = {"program_instructions": 3_000_000, "allocator_instructions": 700_000, "program_accesses": 1_000_000}


def tape_of(folder: Path, events: list[Event], threads: int, rows: list[Row] | None = None, **how: Any) -> Path:
    """A trace with these data accesses. `how`: passed to add_accesses."""
    tape = import_text(folder, text(events, threads))
    if rows is not None:
        add_accesses(tape, rows, **how)
    return tape


def distinct_times(events: list[Event]) -> list[Event]:
    """Gives every step its own time, in the order in which they were made; calls are in the order of their last
    steps.
    """
    steps = []
    for index, event in enumerate(events):
        steps.append((event.first_ns, index, event, False))
        if event.releases and event.hands_out:
            steps.append((event.second_ns, index, event, True))
    for time, (_, _, event, second) in enumerate(sorted(steps, key=lambda step: step[:2])):
        event.second_ns = 10 * time
        if not second:
            event.first_ns = 10 * time
    return sorted(events, key=lambda event: event.second_ns)


def compiled(tape: Path) -> tuple[list[WorkloadOp], list[Row], dict, str]:
    """The workload's ops, the rows beside it, its info's `accesses`, stderr."""
    work, out = tape.with_suffix(".work"), tape.with_suffix(".accesses")
    result = succeed(CONVERT, "compile", tape, "-o", work, "--accesses", out)
    counts = json.loads(succeed(CONVERT, "info", work, "--json").stdout)["info"]["accesses"]
    filter_bytes, rows, totals = compiled_rows(out)
    assert filter_bytes == counts["filter_bytes"] == 4096
    assert totals == {key: counts[key] for key in TOTALS if key in counts}
    assert counts["objects"] == sum(row.kind == "object" for row in rows)
    assert counts["other"] == sum(row.kind == "other" for row in rows)
    return ops_of(work), rows, counts, result.stderr


def expected_rows(rows: list[Row], events: list[Event], ops: list[WorkloadOp]) -> list[Row]:
    """The expected rows if calls and ops are in the same order: calls without an op are left out, objects have their
    ops' slots.
    """
    slots, out = [], []
    op = iter(ops)
    made_of = iter(events)
    for row in rows:
        if row.kind == "other":
            out.append(Row("other", granule=row.granule))
        elif row.kind == "object":
            out.append(Row("object", object=slots[row.object], granule=row.granule))
        else:
            event = next(made_of)
            if not gives_op(event):
                continue
            made = next(op)
            out.append(Row("call", stack_pointer=row.stack_pointer))
            if event.hands_out:
                slots.append(made.slot)
    assert next(op, None) is None
    return out


@PROPERTY
@given(**SHAPES)
def test_accesses_are_between_the_same_ops_as_between_calls(tmp_path, seed, threads, steps, addresses):
    events = distinct_times(used_threads(legal(seed, threads, steps, addresses))[0])
    rows = made_rows(seed, events, 6)
    tape = tape_of(tmp_path, events, threads, rows, block_rows=1 + seed % 150, totals=COUNTED)
    ops, found, counts, stderr = compiled(tape)
    assert found == expected_rows(rows, events, ops)
    assert (counts["lost"], counts["ops_without_call"]) == (0, 0)
    assert "data accesses" not in stderr


@PROPERTY
@given(**SHAPES, most_ns=st.integers(0, 40), lost=st.sampled_from([0, 0, 0.1]))
def test_where_calls_overlap_the_order_is_that_of_the_workload(
    tmp_path, seed, threads, steps, addresses, most_ns, lost
):
    """In any order: each op has the row of its call, every access is there or counted, none is to a dead slot."""
    events = used_threads(damage(seed, jitter(seed, legal(seed, threads, steps, addresses), most_ns), lost, lost))[0]
    if not events:
        return
    rows = made_rows(seed, events, 4)
    tape = tape_of(tmp_path, events, threads, rows)
    ops, found, counts, stderr = compiled(tape)
    made = [row for row in found if row.kind == "call"]
    assert len(made) == len(ops)
    by_pointer = {}
    for thread in range(threads):
        for number, event in enumerate(e for e in events if e.thread == thread):
            by_pointer[stack_pointer(thread, number)] = event
    renumbered: dict[int, int] = {}
    for row, op in zip(made, ops, strict=True):
        thread = by_pointer[row.stack_pointer].thread
        assert renumbered.setdefault(op.thread, thread) == thread
    assert counts["ops_without_call"] == 0
    given_rows = sum(row.kind != "call" for row in rows)
    assert counts["objects"] + counts["other"] + counts["lost"] == given_rows
    assert [r.granule for r in found if r.kind == "other"] == [r.granule for r in rows if r.kind == "other"]
    assert (f"{counts['lost']} of {given_rows} data accesses left out" in stderr) == (counts["lost"] > 0)
    live: set[int] = set()
    op = iter(ops)
    for row in found:
        if row.kind == "call":
            follow(live, next(op))
        elif row.kind == "object":
            assert row.object in live


def follow(live: set[int], op: WorkloadOp) -> None:
    """Updates the set of slots that hold an object."""
    number, failed = op.call & calls.ID_MASK, bool(op.call & calls.NULL_OUT)
    if calls.ACQUIRES[number] and not failed:
        live.add(op.slot)
    elif calls.RELEASE_KIND[number] == calls.RELEASES:
        live.discard(op.slot)


@PROPERTY
@given(seed=st.integers(0, 1 << 32), dropped=st.integers(1, 40), steps=st.integers(2, 80))
def test_calls_that_a_gap_counts_have_rows_and_no_op(tmp_path, seed, dropped, steps):
    """Objects that these calls acquired are unknown: accesses to them are counted."""
    events = distinct_times(used_threads(legal(seed, 2, dropped + steps, 10))[0])
    missing = [e for e in events if e.thread == 0][:dropped]
    kept = [e for e in events if not any(e is m for m in missing)]
    if not missing or not any(e.thread == 0 for e in kept):
        return
    rows = made_rows(seed, events, 4)
    tape = tape_of(tmp_path, kept, 2)
    add_gap(tape, 0, len(missing))
    add_accesses(tape, rows)
    ops, found, counts, _ = compiled(tape)
    assert len([row for row in found if row.kind == "call"]) == len(ops)
    assert counts["ops_without_call"] == 0
    assert counts["objects"] + counts["other"] + counts["lost"] == sum(row.kind != "call" for row in rows)
    numbers = [i for i, e in enumerate(e for e in events if e.hands_out) if any(e is m for m in missing)]
    to_missing = sum(row.kind == "object" and row.object in numbers for row in rows)
    assert counts["lost"] >= to_missing


def test_where_the_accesses_end_early_the_ops_continue(tmp_path):
    events = distinct_times(legal(5, 1, 200, 10))
    rows = made_rows(5, events, 4)
    tape = tape_of(tmp_path, events, 1)
    end = [i for i, row in enumerate(rows) if row.kind == "call"][100]
    add_accesses(tape, rows[:end])
    ops, found, counts, stderr = compiled(tape)
    assert sum(row.kind == "call" for row in found) == len(ops)
    ended = sum(gives_op(event) for event in events[100:])
    assert counts["ops_without_call"] == ended
    assert f"the data accesses end {ended} calls before the events" in stderr


def test_a_call_row_that_is_not_the_events_is_one_error(tmp_path):
    events = distinct_times(legal(5, 1, 50, 10))
    rows = made_rows(5, events, 0)
    place = next(i for i, row in enumerate(rows) if row.acquires)
    rows[place] = Row("call", stack_pointer=rows[place].stack_pointer)
    tape = tape_of(tmp_path, events, 1, [row for row in rows if row.kind == "call"])
    out = tape.with_suffix(".accesses")
    refused(CONVERT, "compile", tape, "--accesses", out, says="is not that of the event, a ")
    assert not out.exists()
    assert not tape.with_suffix(".work").exists()


def test_a_trace_without_accesses_is_reported(tmp_path):
    tape = tape_of(tmp_path, legal(1, 1, 20, 5), 1)
    out = tmp_path / "out.accesses"
    for command in (["compile", tape, "--accesses", out], ["dump", tape, "--accesses"]):
        refused(CONVERT, *command, says="has no data accesses: 'heaptape record --accesses' records them\n")
    assert not out.exists()
    assert not tape.with_suffix(".work").exists()


def dumped(tape: Path) -> list[Row]:
    """What dump prints of a trace's accesses as CSV."""
    lines = csv.DictReader(succeed(CONVERT, "dump", tape, "--accesses", "--format", "csv").stdout.splitlines())
    return [
        Row(
            line["kind"], int(line["thread"] or 0), line["acquires"] == "1", int(line["stack_pointer"] or 0),
            int(line["object"] or 0), int(line["granule"] or 0),
        )
        for line in lines
    ]  # fmt: skip


def read_in_python(tape: Path) -> list[Row]:
    """As the oracle reads them; the library gives the same."""
    with open_trace(tape) as trace:
        frames = list(trace.accesses())
        assert trace.differences == []
    rows = rows_of(frames)
    with trace_module.open_trace(tape) as trace:
        assert rows_of(trace.accesses()) == rows
    return rows


def rows_of(frames: Iterable[pd.DataFrame]) -> list[Row]:
    rows = []
    for frame in frames:
        empty = dict.fromkeys(["thread", "stack_pointer", "object", "granule"], 0) | {"acquires": False}
        rows += [Row(*row) for row in frame.fillna(empty)[[f.name for f in fields(Row)]].itertuples(index=False)]
    return rows


@PROPERTY
@given(**SHAPES)
def test_two_readers_agree(tmp_path, seed, threads, steps, addresses):
    events = used_threads(legal(seed, threads, steps, addresses))[0]
    rows = made_rows(seed, events, 12)
    tape = tape_of(tmp_path, events, threads, rows, block_rows=40 + seed % 500)
    assert dumped(tape) == rows
    assert read_in_python(tape) == rows


def test_info_shows_rows_bytes_filter_and_totals(tmp_path):
    events = legal(3, 2, 100, 10)
    rows = made_rows(3, events, 5)
    tape = tape_of(tmp_path, events, 2)
    before = tape.stat().st_size
    add_accesses(tape, rows, totals=COUNTED)
    info = json.loads(succeed(CONVERT, "info", tape, "--json").stdout)["accesses"]
    assert info["rows"] == len(rows) == info["calls"] + info["objects"] + info["other"]
    assert info["filter_bytes"] == 4096
    assert {key: info[key] for key in COUNTED} == COUNTED
    assert 0 < info["file_bytes"] <= tape.stat().st_size - before + 200
    assert f"{len(rows):,} data accesses" in succeed(CONVERT, "info", tape).stdout
    output = succeed(CONVERT, "info", tape, "--table", "all").stdout
    assert re.search(rf"^rows of data accesses +{len(rows):,}$", output, re.MULTILINE)
    assert re.search("^program's instructions +3,000,000$", output, re.MULTILINE)


def test_footer_that_counts_other_rows_is_refused(tmp_path):
    events = legal(3, 2, 100, 10)
    rows = made_rows(3, events, 5)
    tape = tape_of(tmp_path, events, 2, rows, totals={"objects": 1})
    refused(CONVERT, "info", tape, says="rows of data accesses, blocks hold")
    made, other = (sum(row.kind == kind for row in rows) for kind in ("call", "other"))
    tape = tape_of(tmp_path, events, 2, rows, totals={"calls": other, "other": made})
    refused(CONVERT, "dump", tape, "--accesses", says="ACCESSES blocks hold")
    with open_trace(tape) as trace:
        for _ in trace.accesses():
            pass
        assert [d for d in trace.differences if d.startswith("accesses, calls: the footer says")]


@PROPERTY
@given(**SHAPES)
def test_archive_has_the_same_accesses(tmp_path, seed, threads, steps, addresses):
    events = used_threads(legal(seed, threads, steps, addresses))[0]
    rows = made_rows(seed, events, 6)
    tape, archive = tape_of(tmp_path, events, threads, rows, block_rows=40, totals=COUNTED), tmp_path / "b.tape"
    succeed(CONVERT, "convert", "--archive", tape, archive)
    assert dumped(archive) == rows
    info = json.loads(succeed(CONVERT, "info", archive, "--json").stdout)
    assert {key: info["accesses"][key] for key in COUNTED} == COUNTED
    assert info["info"]["accesses"] == {"granule_bytes": 16, "filter_bytes": 4096}


def assert_hidden(found: list[int], given_addresses: list[int], regions: int) -> None:
    """Addresses keep their offsets in their MiB; each MiB is mapped to another one with a small number."""
    assert [a & 0xFFFFF for a in found] == [a & 0xFFFFF for a in given_addresses]
    pairs = {(a >> 20, b >> 20) for a, b in zip(found, given_addresses, strict=True)}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    assert {a for a, _ in pairs} <= set(range(1, regions + 1))


def addresses_of(rows: list[Row]) -> list[int]:
    return [row.stack_pointer if row.kind == "call" else row.granule << 4 for row in rows if row.kind != "object"]


@PROPERTY
@given(**SHAPES)
def test_anonymised_trace_replays_the_same_accesses_and_hides_where_they_were(
    tmp_path, seed, threads, steps, addresses
):
    events = distinct_times(used_threads(legal(seed, threads, steps, addresses))[0])
    rows = made_rows(seed, events, 6)
    tape, anonymous = tape_of(tmp_path, events, threads, rows, totals=COUNTED), tmp_path / "b.tape"
    convert("--anonymise", tape, anonymous)
    _, before, counts, _ = compiled(tape)
    _, after, again, _ = compiled(anonymous)
    assert [row for row in after if row.kind == "object"] == [row for row in before if row.kind == "object"]
    assert [row.kind for row in after] == [row.kind for row in before]
    assert_hidden(addresses_of(after), addresses_of(before), len({a >> 20 for a in addresses_of(rows)}))
    assert again["lost"] == again["ops_without_call"] == 0
    assert again.get("lost_in_trace", 0) == counts["lost"]


@PROPERTY
@given(**SHAPES, most_ns=st.integers(0, 40), lost=st.sampled_from([0, 0.1]))
def test_anonymised_trace_of_overlapping_calls_loses_no_access_uncounted(
    tmp_path, seed, threads, steps, addresses, most_ns, lost
):
    events = used_threads(damage(seed, jitter(seed, legal(seed, threads, steps, addresses), most_ns), lost, lost))[0]
    if not events:
        return
    rows = made_rows(seed, events, 3)
    tape, anonymous = tape_of(tmp_path, events, threads, rows), tmp_path / "b.tape"
    convert("--anonymise", tape, anonymous)
    _, _, counts, _ = compiled(anonymous)
    assert counts["lost"] == 0
    assert counts["objects"] + counts["other"] + counts.get("lost_in_trace", 0) == sum(
        row.kind != "call" for row in rows
    )


def test_slices_and_merged_traces_state_that_accesses_are_left_out(tmp_path):
    events = used_threads(legal(3, 2, 100, 10))[0]
    tape, out = tape_of(tmp_path, events, 2), tmp_path / "b.tape"
    plain = tape.rename(tmp_path / "plain.tape")
    tape.write_bytes(plain.read_bytes())
    add_accesses(tape, made_rows(3, events, 5))
    for command in (["--slice", "progress=10%..50%", tape], ["--merge", plain, tape], ["--merge", tape, plain]):
        result = succeed(CONVERT, "convert", *command, out)
        assert result.stderr.count("data accesses are left out") == 1
        info = json.loads(succeed(CONVERT, "info", out, "--json").stdout)
        assert "accesses" not in info
        assert "accesses" not in info["info"]
        assert info["footer"]["note"] == "data accesses are left out: they belong to the whole of one trace"
    assert "data accesses" not in succeed(CONVERT, "convert", "--merge", plain, plain, out).stderr


def test_a_truncated_trace_gives_the_rows_of_its_whole_blocks(tmp_path):
    events = used_threads(legal(3, 2, 100, 10))[0]
    rows = made_rows(3, events, 6)
    path = tape_of(tmp_path, events, 2)
    add_accesses(path, rows, block_rows=100)
    offset = [b.offset for b in open_trace(path).blocks if b.type == 10][3]
    path.write_bytes(path.read_bytes()[: offset + 60])
    assert dumped(path) == rows[:300]
    assert read_in_python(path) == rows[:300]
    info = json.loads(succeed(CONVERT, "info", path, "--json").stdout)
    assert info["truncated"]
    assert info["accesses"]["rows"] == 300
