# SPDX-License-Identifier: MIT
"""dump prints what a reader written from WORKLOAD.md finds in a workload."""

import csv
import io
import json
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.history_maker import legal
from convert.test.models.history_model import text
from convert.test.models.workload_ops import NO_SLOT, WorkloadOp, ops_of
from tests.examples import examples
from tests.support import CONVERT, REPOSITORY, compile_trace, import_text, run, succeed

PROPERTY = examples(15)
SHAPES = {"seed": st.integers(0, 1 << 32), "threads": st.integers(1, 5), "steps": st.integers(1, 150)}
CALL = re.compile(r'CALL\((\d+), (\w+), "([^"]+)", \d, \w+, (\d), (\w+)\)')
CALLS = [found.groups() for found in CALL.finditer((REPOSITORY / "core" / "trace" / "calls.def").read_text())]
NUMBER = {name: int(number) for number, ident, label, *_ in CALLS for name in (ident, label)}
HAS_SIZE = {int(number) for number, _, _, size, _ in CALLS if size == "1"}
HAS_PARAM = {int(number) for number, _, _, _, param in CALLS if param != "NONE"}


def compiled(folder, seed, threads, steps):
    return compile_trace(import_text(folder, text(legal(seed, threads, steps, 8), threads)))


def facts(op: WorkloadOp) -> tuple:
    """The op as all three formats have it; a call with a param but no PARAM word has 1."""
    call = op.call & 0x3F
    return (
        op.thread,
        op.call,
        None if op.slot == NO_SLOT else op.slot,
        op.size if call in HAS_SIZE else None,
        (1 if op.param is None else op.param) if call in HAS_PARAM else None,
        op.waits,
    )


def call_byte(name: str, null: bool, frees: bool) -> int:
    return NUMBER[name] | null << 6 | frees << 7


def number(value: str) -> int | None:
    return int(value) if value else None


def from_csv(output: str) -> list[tuple]:
    rows = list(csv.DictReader(io.StringIO(output)))
    assert [int(row["position"]) for row in rows] == list(range(len(rows)))
    return [
        (
            int(row["thread"]),
            call_byte(row["call"], row["null"] == "1", row["frees"] == "1"),
            number(row["slot"]),
            number(row["size_bytes"]),
            number(row["param"]),
            [tuple(map(int, wait.split(":"))) for wait in row["waits"].split()],
        )
        for row in rows
    ]


def from_jsonl(output: str) -> list[tuple]:
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["position"] for row in rows] == list(range(len(rows)))
    return [
        (
            row["thread"],
            call_byte(row["call"], row.get("null", False), row.get("frees", False)),
            row.get("slot"),
            row.get("size_bytes"),
            row.get("count", row.get("align_bytes")),
            [tuple(wait) for wait in row.get("waits", [])],
        )
        for row in rows
    ]


LINE = re.compile(r"(\d+) (\d+) (\w+)\(([\d, ]*)\)(.*)")


def from_text(output: str) -> list[tuple]:
    out = []
    for position, line in enumerate(output.splitlines()[1:]):
        found = LINE.fullmatch(line)
        assert found, line
        at, thread, ident, numbers, rest = found.groups()
        assert int(at) == position
        words = rest.split()
        slot = next((int(word[5:]) for word in words if word.startswith("slot=")), None)
        waits = [tuple(map(int, word[5:].split(":"))) for word in words if word.startswith("wait=")]
        call, values = call_byte(ident, "null" in words, "frees" in words), [int(v) for v in numbers.split(", ") if v]
        size = values[-1] if call & 0x3F in HAS_SIZE else None
        out.append((int(thread), call, slot, size, values[0] if call & 0x3F in HAS_PARAM else None, waits))
    return out


@PROPERTY
@given(**SHAPES)
def test_all_ops_are_printed_in_their_total_order(tmp_path, seed, threads, steps):
    work = compiled(tmp_path, seed, threads, steps)
    expected = [facts(op) for op in ops_of(work)]
    for name, read in {"text": from_text, "csv": from_csv, "jsonl": from_jsonl}.items():
        assert read(succeed(CONVERT, "dump", "--format", name, work).stdout) == expected, name


def test_every_thread_but_the_first_is_started_once(tmp_path):
    work = compiled(tmp_path, 3, 5, 150)
    rows = [json.loads(line) for line in succeed(CONVERT, "dump", "--format", "jsonl", work).stdout.splitlines()]
    threads = {row["thread"] for row in rows}
    assert sorted(started for row in rows for started in row.get("starts", [])) == sorted(threads - {0})


def test_one_thread_is_its_part_of_all_ops(tmp_path):
    work = compiled(tmp_path, 4, 3, 100)
    lines = succeed(CONVERT, "dump", work).stdout.splitlines()
    one = succeed(CONVERT, "dump", "--thread", "1", work).stdout.splitlines()
    assert one == [lines[0]] + [line for line in lines[1:] if line.split()[1] == "1"]
    assert len(one) > 1
    result = run(CONVERT, "dump", "--thread", "99", work)
    assert (result.status, result.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("at", [0, 4])
def test_schedule_that_does_not_fit_is_one_error(tmp_path, at):
    work = compiled(tmp_path, 5, 2, 60)
    data = bytearray(work.read_bytes())
    threads, table = struct.unpack_from("<I", data, 40)[0], struct.unpack_from("<Q", data, 88)[0]
    extents = [struct.unpack_from("<IIQ", data, table + 16 * i) for i in range(struct.unpack_from("<Q", data, 96)[0])]
    schedule = next(offset for stream, _, offset in extents if stream == threads)
    struct.pack_into("<I", data, schedule + at, 0x7FFFFFFF)
    work.write_bytes(data)
    result = run(CONVERT, "dump", work)
    assert result.status == 1
    assert re.fullmatch(rf"heaptape-convert: {re.escape(str(work))}: offset \d+: .*\n", result.stderr)
