# SPDX-License-Identifier: MIT
"""Any legal sequence of malloc, realloc and free, written in a format, is read back by its importer call by call."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convert.test.formats.importer_samples import bytehound, dj_record, mallocbench_line, op, wl
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


def chosen(call: Call, born: Any, moved: Any, gone: Any) -> Any:  # noqa: ANN401
    """What that kind of call is written as."""
    return gone if call.size is None else born if call.born else moved


def dj(call: Call) -> bytes:
    at, size = address(call.slot), call.size or 0
    name, was, now = chosen(call, ("malloc", 0, at), ("realloc", at, at), ("free", at, 0))
    return dj_record(5, name, ptr1=was, ptr2=now, size=size)


def wl_op(call: Call) -> bytes:
    number, size = call.slot + 1, call.size or 0
    return op(*chosen(call, (2, number, size), (4, number, number, size), (5, number)))


def replay_export(calls: list[Call]) -> bytes:
    return bytehound(8, [(chosen(call, 1, 3, 2), call.slot, 7, call.size or 0) for call in calls])


def mallocbench(call: Call) -> bytes:
    slot, size = call.slot, call.size or 0
    return mallocbench_line(*chosen(call, (1, {1: slot, 2: size}), (3, {1: slot, 2: slot, 3: size}), (2, {1: slot})))


def json_line(call: Call) -> bytes:
    at, name = address(call.slot), chosen(call, "malloc", "realloc", "free")
    return json.dumps({"call": name, "to": at, "from": hex(at), "n": call.size}).encode() + b"\n"


KDUMP = "  7 p     USER  "
# What comes first, then malloc, realloc and free: {a} is the address, {i} the object's number, {n} the size.
LINES = {
    "rep": ("0\n8\n{count}\n1\n", "a {i} {n}", "r {i} {n}", "f {i}"),
    "mtrace": ("= Start\n", "@ p + {a:#x} {n:#x}", "@ p < {a:#x}\n@ p > {a:#x} {n:#x}", "@ p - {a:#x}"),
    "valgrind": ("--7-- free(0x0)\n", "--7-- malloc({n}) = 0x{a:X}", "--7-- realloc({a:#x},{n}) = {a:#x}",
                 "--7-- free({a:#x})"),
    "kdump": (f"{KDUMP}malloc_init()\n", KDUMP + "{a:#x} = malloc({n})", KDUMP + "{a:#x} = realloc({a:#x}, {n})",
              KDUMP + "free({a:#x})"),
    "ltrace": ("p->free(0)    = <void>\n", "p->malloc({n})   = {a:#x}", "p->realloc({a:#x}, {n}) = {a:#x}",
               "p->free({a:#x})   = <void>"),
    "android": ("", "5: malloc {a:#x} {n}", "5: realloc {a:#x} {a:#x} {n}", "5: free {a:#x}"),
    "script": ("# a run\n", "a {i} {n}", "r {i} {n}", "f {i}"),
    "logalloc": ("5 5 free(0x0)\n", "5 5 malloc({n})={a:#x}", "5 5 realloc({a:#x},{n})={a:#x}", "5 5 free({a:#x})"),
    "columns": ("call,n,to,from\nfree,,0,\n", "malloc,{n},{a},", "realloc,{n},{a},{a:#x}", 'free,,"{a}",'),
}  # fmt: skip
WHOLE: dict[str, Callable[[list[Call]], bytes]] = {
    "dj": lambda calls: b"".join(map(dj, calls)),
    "wl": lambda calls: wl(8, 0, [b"".join(map(wl_op, calls)) + op(1)]),
    "bytehound": replay_export,
    "mallocbench": lambda calls: b"".join(map(mallocbench, calls)) + bytes([0x10, 8]),
    "columns of JSON": lambda calls: b'{"call": "free", "to": null}\n' + b"".join(map(json_line, calls)),
}


def written(name: str, calls: list[Call]) -> bytes:
    """A recording of the calls in that format."""
    if name in WHOLE:
        return WHOLE[name](calls)
    first, *forms = LINES[name]
    lines = (chosen(call, *forms).format(a=address(call.slot), i=call.slot, n=call.size or 0) + "\n" for call in calls)
    return (first.format(count=len(calls)) + "".join(lines)).encode()


@pytest.mark.parametrize("name", sorted({*LINES, *WHOLE}))
@examples(25)
@given(calls=runs())
def test_every_call_comes_back(name, calls, tmp_path: Path):
    path = tmp_path / "recording"
    path.write_bytes(written(name, calls))
    how = ["--from", name] if "columns" not in name else ["--columns", "op=call,size=n,ptr=to,old=from"]
    dumped = succeed(CONVERT, "dump", *how, path).stdout.splitlines()[1:]
    assert [line.split(" ", 2)[2] for line in dumped if "free(NULL)" not in line] == [printed(call) for call in calls]
