# SPDX-License-Identifier: MIT
"""compile --group: the remaining ops, their order, and the info of the workload."""

import json
import struct
import zlib
from collections import Counter
from pathlib import Path

import pytest
from heaptape.tape.workload_format import read_workload
from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.history_maker import legal
from convert.test.models.history_model import text
from convert.test.models.workload_ops import MARK, NO_SLOT, REGION, WorkloadOp, ops_of, streams_of
from convert.test.test_history import SHAPES, import_text, used_threads
from tests.examples import examples
from tests.support import CONVERT, run, succeed

PROPERTY = examples(40)
MALLOC, FREE = 0, 1
FREES = {1, 11, 12, *range(24, 36)}
NULL_IN, NULL_OUT = 0x40, 0x80
ACTIONS = ("remove", "segregate", "pool=4096", "early", "late")


def tape_of(folder: Path, lines: list[str]) -> Path:
    return import_text(folder, "\n".join(lines) + "\n")


def rewritten(tape: Path, *groups: str) -> Path:
    """The workload with these groups treated differently, proved legal."""
    work = tape.with_suffix(".work")
    succeed(CONVERT, "compile", tape, "-o", work, *[part for group in groups for part in ("--group", group)])
    succeed(CONVERT, "check", work)
    return work


def about(work: Path) -> list[dict]:
    return read_workload(work).info["whatif"]


def refused(tape: Path, *groups: str) -> str:
    """The one line that compile prints; it must write nothing."""
    work = tape.with_suffix(".refused")
    result = run(CONVERT, "compile", tape, "-o", work, *[part for group in groups for part in ("--group", group)])
    assert result.status == 1
    assert not work.exists()
    assert result.stderr.count("\n") == 1
    return result.stderr


def rows(ops: list[WorkloadOp]) -> list[tuple]:
    """(thread, call, object by order of birth, size, param): slots differ if other objects are gone."""
    living: dict[int, int] = {}
    births, out = 0, []
    for op in ops:
        if op.slot == NO_SLOT:
            out.append((op.thread, op.call, None, op.size, op.param))
            continue
        if op.slot not in living:
            living[op.slot] = births
            births += 1
        out.append((op.thread, op.call, living[op.slot], op.size, op.param))
        if op.call & 0x3F in FREES or op.call & NULL_OUT:
            del living[op.slot]
    return out


def request(op: WorkloadOp) -> int:
    counted = op.call & 0x3F in (2, 4)
    return op.size * (1 if op.param is None else op.param) if counted else op.size


def without(ops: list[WorkloadOp], belongs) -> list[WorkloadOp]:
    """The ops except those of objects for which belongs(op of the birth)."""
    inside: dict[int, bool] = {}
    kept = []
    for op in ops:
        if op.slot != NO_SLOT and op.slot not in inside:
            inside[op.slot] = belongs(op)
        member = inside.get(op.slot, False)
        if not member:
            kept.append(op)
        if op.slot != NO_SLOT and (op.call & 0x3F in FREES or op.call & NULL_OUT):
            del inside[op.slot]
    return kept


def renumbered(found: list[tuple]) -> list[tuple]:
    """Objects and threads by first appearance: a thread whose ops are all gone has no number."""
    objects: dict[int, int] = {}
    threads: dict[int, int] = {}
    out = []
    for thread, call, obj, size, param in found:
        number = None if obj is None else objects.setdefault(obj, len(objects))
        out.append((threads.setdefault(thread, len(threads)), call, number, size, param))
    return out


def live_bytes(ops: list[WorkloadOp]) -> tuple[int, int]:
    """At the end, and the peak."""
    sizes: dict[int, int] = {}
    now = peak = 0
    for op in ops:
        if op.slot == NO_SLOT or op.call & 0x3F == 10:
            continue
        now -= sizes.pop(op.slot, 0)
        if not (op.call & 0x3F in FREES or op.call & NULL_OUT):
            sizes[op.slot] = request(op)
            now += request(op)
        peak = max(peak, now)
    return now, peak


def history(folder: Path, seed: int, threads: int, steps: int, addresses: int) -> Path:
    events, threads = used_threads(legal(seed, threads, steps, addresses))
    return import_text(folder, text(events, threads))


def compiled(tape: Path) -> list[WorkloadOp]:
    whole = tape.with_suffix(".whole")
    succeed(CONVERT, "compile", tape, "-o", whole)
    return ops_of(whole)


@PROPERTY
@given(**SHAPES, limit=st.sampled_from([1, 24, 100, 5000]))
def test_removing_a_group_leaves_all_other_ops_in_their_order(tmp_path, seed, threads, steps, addresses, limit):
    tape = history(tmp_path, seed, threads, steps, addresses)
    before = compiled(tape)
    expected = without(before, lambda op: request(op) <= limit)
    if len(expected) == len(before):
        assert "no object belongs" in refused(tape, f"size=..{limit}=remove")
        return
    work = rewritten(tape, f"size=..{limit}=remove")
    after = ops_of(work)
    assert renumbered(rows(after)) == renumbered(rows(expected))
    (group,) = about(work)
    assert group["ops"] == len(before) - len(expected)
    made = read_workload(work)
    assert (made.ops, made.peak_live_bytes) == (len(after), live_bytes(expected)[1])


@PROPERTY
@given(**SHAPES, limit=st.sampled_from([24, 100, 5000]))
def test_segregating_changes_nothing_but_who_serves(tmp_path, seed, threads, steps, addresses, limit):
    tape = history(tmp_path, seed, threads, steps, addresses)
    before = compiled(tape)
    expected = without(before, lambda op: request(op) <= limit)
    if len(expected) == len(before):
        return
    after = ops_of(rewritten(tape, f"size=..{limit}=segregate"))
    assert rows(after) == rows(before)
    inside = without(after, lambda op: op.apart == 0)
    outside = without(after, lambda op: op.apart != 0)
    assert {op.apart for op in outside} <= {0}
    assert {op.apart for op in inside if op.slot != NO_SLOT} == {1}
    assert rows(outside) == rows(expected)


@PROPERTY
@given(**SHAPES, action=st.sampled_from(["early", "late"]))
def test_moved_births_leave_all_other_ops_in_their_order(tmp_path, seed, threads, steps, addresses, action):
    tape = history(tmp_path, seed, threads, steps, addresses)
    before = compiled(tape)
    if len(without(before, lambda op: request(op) >= 24)) == len(before):
        return
    after = ops_of(rewritten(tape, f"size=24..={action}"))
    before_them, after_them = (Counter((op.call, op.size, op.param) for op in ops) for ops in (before, after))
    assert before_them == after_them
    births = {index for index, op in enumerate(before) if is_birth(before, index) and request(op) >= 24}
    others = [(op.call, op.size) for index, op in enumerate(before) if index not in births]
    moved = {index for index, op in enumerate(after) if is_birth(after, index) and request(op) >= 24}
    assert [(op.call, op.size) for index, op in enumerate(after) if index not in moved] == others
    assert live_bytes(after)[0] == live_bytes(before)[0]


def is_birth(ops: list[WorkloadOp], index: int) -> bool:
    call = ops[index].call
    identifier = call & 0x3F
    acquires = identifier not in FREES and identifier != 10 and not call & NULL_OUT
    return acquires and (identifier not in (3, 4) or bool(call & NULL_IN))


@PROPERTY
@given(**SHAPES, chunk=st.sampled_from([64, 4096, 1 << 20]))
def test_a_pools_chunks_hold_what_they_replace(tmp_path, seed, threads, steps, addresses, chunk):
    tape = history(tmp_path, seed, threads, steps, addresses)
    before = compiled(tape)
    expected = without(before, lambda op: True)
    if len(expected) == len(before):
        return
    work = rewritten(tape, f"size=0..=pool={chunk}")
    after = ops_of(work)
    (group,) = about(work)
    carved = [op for op in after if op.call == MALLOC and op.size == chunk]
    assert group["chunks"] <= len(carved)
    assert group["objects"] == sum(is_birth(before, index) for index in range(len(before)))
    if group["left_alone"] == 0:
        assert {op.call for op in after if op.slot != NO_SLOT} <= {MALLOC, FREE}
        assert len([op for op in after if op.call == MALLOC]) == group["chunks"]
        assert live_bytes(after)[1] >= live_bytes(before)[1]
    live_at_end = len({op.slot for op in before if op.slot != NO_SLOT}) and read_workload(work).live_at_end
    if live_bytes(before)[0] == 0 and not [op for op in before if request(op) == 0]:
        assert live_at_end == 0


def test_a_chunk_is_freed_with_its_last_object_and_takes_no_more(tmp_path):
    tape = tape_of(tmp_path, [
        "0 0 malloc(40) = 0x1000",
        "1 0 malloc(40) = 0x2000",
        "2 0 malloc(48) = 0x3000",
        "3 0 free(0x1000)",
        "4 0 free(0x2000)",
        "5 0 malloc(16) = 0x4000",
        "6 0 malloc(200) = 0x5000",
        "7 0 free(0x3000)",
        "8 0 free(0x4000)",
    ])  # fmt: skip
    work = rewritten(tape, "size=..300=pool=128")
    assert [(op.call, op.size) for op in ops_of(work)] == [
        (MALLOC, 128),  # two of 48 bytes
        (MALLOC, 128),  # the third, and then 16 bytes
        (FREE, 0),
        (MALLOC, 200),  # too large
        (FREE, 0),
    ]
    (group,) = about(work)
    assert group | {"group": ""} == {
        "group": "", "action": "pool", "objects": 5, "bytes": 344, "peak_live_bytes": 264, "ops": 9,
        "pool_bytes": 128, "chunks": 2, "left_alone": 1,
    }  # fmt: skip


def test_a_realloc_within_a_pool_moves_only_where_it_grows(tmp_path):
    tape = tape_of(tmp_path, [
        "0 0 malloc(10) = 0x1000",
        "1 0 realloc(0x1000, 16) = 0x2000",
        "2 0 realloc(0x2000, 17) = 0x3000",
        "3 0 realloc(0x3000, 5000) = 0x4000",
        "4 0 free(0x4000)",
    ])  # fmt: skip
    ops = ops_of(rewritten(tape, "size=..=pool=4096"))
    assert [(op.call, op.size) for op in ops] == [(MALLOC, 4096), (MALLOC, 5000), (FREE, 0), (FREE, 0)]


def test_early_births_come_before_the_first_op_of_their_thread(tmp_path):
    tape = tape_of(tmp_path, [
        "0 0 malloc(8) = 0x1000",
        "1 1 malloc(9) = 0x2000",
        "2 0 malloc(100) = 0x3000",
        "3 1 calloc(3, 50) = 0x4000",
        "4 0 malloc(101) = 0x5000",
        "5 1 free(0x3000)",
    ])  # fmt: skip
    ops = ops_of(rewritten(tape, "size=100..=early"))
    assert [(op.thread, op.size) for op in ops] == [(0, 100), (0, 101), (0, 8), (1, 50), (1, 9), (1, 0)]


def test_late_births_come_right_before_the_next_op_on_the_object_or_at_the_threads_end(tmp_path):
    tape = tape_of(tmp_path, [
        "0 0 malloc(100) = 0x1000",
        "1 0 malloc(101) = 0x2000",
        "2 1 malloc(9) = 0x3000",
        "3 0 malloc(8) = 0x4000",
        "4 1 realloc(0x1000, 120) = 0x1000",
        "5 0 free(0x4000)",
        "6 1 free(0x1000)",
    ])  # fmt: skip
    ops = ops_of(rewritten(tape, "size=100..=late"))  # thread 1 of the trace comes first now
    assert [(op.thread, op.size) for op in ops] == [(0, 9), (1, 8), (1, 100), (0, 120), (1, 0), (1, 101), (0, 0)]


def test_groups_may_stand_beside_each_other(tmp_path):
    tape = tape_of(tmp_path, [f"{i} {i % 2} malloc({10 * (i + 1)}) = {hex(0x1000 * (i + 1))}" for i in range(8)])
    work = rewritten(tape, "size=..20=remove", "size=30..40=segregate", "size=50..60=segregate", "size=70=early")
    assert [(op.size, op.apart) for op in ops_of(work)] == [(70, 0), (30, 1), (40, 1), (50, 2), (60, 2), (80, 0)]
    assert [group["objects"] for group in about(work)] == [2, 2, 2, 1]
    assert sum(group["bytes"] for group in about(work)) == 280


def test_terms_joined_must_all_hold(tmp_path):
    tape = tape_of(tmp_path, [f"{i} {i % 2} malloc({10 * (i + 1)}) = {hex(0x1000 * (i + 1))}" for i in range(8)])
    ops = ops_of(rewritten(tape, "size=20..50,80&thread=1=remove"))
    assert [op.size for op in ops] == [10, 30, 50, 60, 70]


def test_a_group_that_does_not_fit_the_trace_is_one_line(tmp_path):
    tape = tape_of(tmp_path, ["0 0 malloc(10) = 0x1000", "1 0 free(0x1000)"])
    assert "no object belongs to the group 'size=11..=remove'" in refused(tape, "size=11..=remove")
    assert "'size=5..=remove' and 'thread=0=early' overlap" in refused(tape, "size=5..=remove", "thread=0=early")
    assert "no call stacks" in refused(tape, "site=1=remove")
    assert "no call stacks" in refused(tape, "function=main=remove")
    assert "no marks" in refused(tape, "phase=warm=remove")


def segregated(tmp_path: Path) -> Path:
    tape = tape_of(tmp_path, ["0 0 malloc(10) = 0x1000", "1 0 calloc(2, 20) = 0x2000", "2 0 free(0x1000)"])
    return rewritten(tape, "size=..20=segregate")


def test_the_header_names_the_highest_number_of_isolated_heaps(tmp_path):
    work = segregated(tmp_path)
    streams, header = streams_of(work)
    assert struct.unpack_from("<I", header, 128) == (1,)
    assert [word & 0xFF for word in streams[0]][:3] == [MARK, REGION, MALLOC]
    assert list(read_workload(work).ops_of(0)["apart"]) == [1, 0, 1]
    lines = [json.loads(line) for line in succeed(CONVERT, "dump", work, "--format", "jsonl").stdout.splitlines()]
    assert [line.get("apart", 0) for line in lines] == [1, 0, 1]


@pytest.mark.parametrize(
    ("found", "put", "why"),
    [((REGION, 1), (REGION, 0), "REGION of a number"), ((REGION, 1), (REGION, 16), "REGION of a number"),
     ((REGION, 1), (REGION, 2), "not where the object was acquired")],
)  # fmt: skip
def test_damaged_words_of_isolated_heaps_are_found(tmp_path, found, put, why):
    work = segregated(tmp_path)
    data = work.read_bytes()
    old, new = (struct.pack("<Q", code | number << 8) for code, number in (found, put))
    assert data.count(old) == 2
    work.write_bytes(with_regions(data, 15).replace(old, new, 1))
    result = run(CONVERT, "check", work)
    assert result.status == 1
    assert why in result.stderr
    assert "offset" in result.stderr


def with_regions(data: bytes, regions: int) -> bytes:
    """The workload with another highest number of an isolated heap in its header."""
    changed = bytearray(data)
    struct.pack_into("<I", changed, 128, regions)
    struct.pack_into("<I", changed, 252, zlib.crc32(bytes(changed[:252])))
    return bytes(changed)


@pytest.mark.parametrize(("regions", "why"), [(0, "REGION of a number"), (16, "more isolated heaps")])
def test_memory_apart_beyond_what_the_header_names_is_found(tmp_path, regions, why):
    work = segregated(tmp_path)
    work.write_bytes(with_regions(work.read_bytes(), regions))
    result = run(CONVERT, "check", work)
    assert result.status == 1
    assert why in result.stderr
