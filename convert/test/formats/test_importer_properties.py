# SPDX-License-Identifier: MIT
"""Any legal sequence of malloc, realloc and free, written in a format, is read back by its importer call by call."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convert.test.importer_samples import bytehound, dj_record, mallocbench_line, op, wl
from tests.examples import examples
from tests.support import CONVERT, succeed


class Call(NamedTuple):
    """malloc if the object does not exist; else realloc, or free if size is None."""

    slot: int
    born: bool
    size: int | None


SIZES = st.one_of(st.integers(1, 300), st.integers(1, 1 << 40))


@st.composite
def runs(draw: st.DrawFn) -> list[Call]:
    """At most 60 calls on at most 8 objects."""
    live: set[int] = set()
    calls = []
    for slot, frees, size in draw(st.lists(st.tuples(st.integers(0, 7), st.booleans(), SIZES), max_size=60)):
        born = slot not in live
        gone = frees and not born
        live = live - {slot} if gone else live | {slot}
        calls.append(Call(slot, born, None if gone else size))
    return calls


def address(slot: int) -> int:
    """The address of an object in formats that number objects."""
    return 16 * (slot + 1)


def printed(call: Call) -> str:
    """The call as dump prints it, without time and thread."""
    at = hex(address(call.slot))
    if call.size is None:
        return f"free({at})"
    return f"malloc({call.size}) = {at}" if call.born else f"realloc({at}, {call.size}) = {at}"


def lines(calls: list[Call], born: str, moved: str, gone: str) -> bytes:
    """One line per call: a is the address, n the size."""
    chosen = [gone if call.size is None else born if call.born else moved for call in calls]
    texts = [form.format(a=address(call.slot), i=call.slot, n=call.size or 0) for call, form in zip(calls, chosen)]
    return "".join(f"{text}\n" for text in texts).encode()


def rep(calls: list[Call]) -> bytes:
    header = f"0\n8\n{len(calls)}\n1\n".encode()
    return header + lines(calls, "a {i} {n}", "r {i} {n}", "f {i}")


def mtrace(calls: list[Call]) -> bytes:
    body = lines(calls, "@ p + {a:#x} {n:#x}", "@ p < {a:#x}\n@ p > {a:#x} {n:#x}", "@ p - {a:#x}")
    return b"= Start\n" + body


def valgrind(calls: list[Call]) -> bytes:
    first = b"--7-- free(0x0)\n"
    return first + lines(
        calls, "--7-- malloc({n}) = {a:#X}", "--7-- realloc({a:#x},{n}) = {a:#x}", "--7-- free({a:#x})"
    ).replace(b"0X", b"0x")


def kdump(calls: list[Call]) -> bytes:
    head = "  7 p     USER  "
    first = f"{head}malloc_init()\n".encode()
    return first + lines(
        calls, head + "{a:#x} = malloc({n})", head + "{a:#x} = realloc({a:#x}, {n})", head + "free({a:#x})"
    )


def ltrace(calls: list[Call]) -> bytes:
    return b"p->free(0)    = <void>\n" + lines(
        calls, "p->malloc({n})   = {a:#x}", "p->realloc({a:#x}, {n}) = {a:#x}", "p->free({a:#x})   = <void>"
    )


def android(calls: list[Call]) -> bytes:
    return lines(calls, "5: malloc {a:#x} {n}", "5: realloc {a:#x} {a:#x} {n}", "5: free {a:#x}")


def dj(calls: list[Call]) -> bytes:
    return b"".join(
        dj_record(5, "free", ptr1=address(call.slot))
        if call.size is None
        else dj_record(5, "malloc", ptr2=address(call.slot), size=call.size)
        if call.born
        else dj_record(5, "realloc", ptr1=address(call.slot), ptr2=address(call.slot), size=call.size)
        for call in calls
    )


def one_thread_wl(calls: list[Call]) -> bytes:
    stream = b"".join(
        op(5, call.slot + 1)
        if call.size is None
        else op(2, call.slot + 1, call.size)
        if call.born
        else op(4, call.slot + 1, call.slot + 1, call.size)
        for call in calls
    )
    return wl(8, 0, [stream + op(1)])


def replay_export(calls: list[Call]) -> bytes:
    kinds = [2 if call.size is None else 1 if call.born else 3 for call in calls]
    return bytehound(8, [(kind, call.slot, 7, call.size or 0) for kind, call in zip(kinds, calls)])


def mallocbench(calls: list[Call]) -> bytes:
    return b"".join(
        mallocbench_line(2, {1: call.slot})
        if call.size is None
        else mallocbench_line(1, {1: call.slot, 2: call.size})
        if call.born
        else mallocbench_line(3, {1: call.slot, 2: call.slot, 3: call.size})
        for call in calls
    ) + bytes([0x10, 8])


def script(calls: list[Call]) -> bytes:
    return b"# a run\n" + lines(calls, "a {i} {n}", "r {i} {n}", "f {i}")


def logalloc(calls: list[Call]) -> bytes:
    return b"5 5 free(0x0)\n" + lines(
        calls, "5 5 malloc({n})={a:#x}", "5 5 realloc({a:#x},{n})={a:#x}", "5 5 free({a:#x})"
    )


def table(calls: list[Call]) -> bytes:
    return b"call,n,to,from\nfree,,0,\n" + lines(calls, "malloc,{n},{a},", "realloc,{n},{a},{a:#x}", 'free,,"{a}",')


def json_lines(calls: list[Call]) -> bytes:
    rows = [
        {
            "call": "free" if call.size is None else "malloc" if call.born else "realloc",
            "to": address(call.slot),
            "from": hex(address(call.slot)),
            "n": call.size,
        }
        for call in calls
    ]
    return "".join(json.dumps(row) + "\n" for row in [{"call": "free", "to": None}, *rows]).encode()


FORMATS: dict[str, Callable[[list[Call]], bytes]] = {
    "rep": rep,
    "mtrace": mtrace,
    "valgrind": valgrind,
    "kdump": kdump,
    "ltrace": ltrace,
    "android": android,
    "dj": dj,
    "wl": one_thread_wl,
    "bytehound": replay_export,
    "mallocbench": mallocbench,
    "script": script,
    "logalloc": logalloc,
    "columns": table,
    "columns of JSON": json_lines,
}


@pytest.mark.parametrize("name", sorted(FORMATS))
@examples(25)
@given(calls=runs())
def test_every_call_comes_back(name, calls, tmp_path: Path):
    path = tmp_path / "recording"
    path.write_bytes(FORMATS[name](calls))
    how = ["--from", name] if "columns" not in name else ["--columns", "op=call,size=n,ptr=to,old=from"]
    dumped = succeed(CONVERT, "dump", *how, path).stdout.splitlines()[1:]
    assert [line.split(" ", 2)[2] for line in dumped if "free(NULL)" not in line] == [printed(call) for call in calls]
