# SPDX-License-Identifier: MIT
"""Where a program's memory comes from, for profile viewers: pprof's protobuf and folded stacks (flame graphs).

For traces recorded with call stacks. A frame is named by its function (heaptape.stack_names); without one by
module+0xOFFSET, with offsets as in the file's symbols. Each stack has four values: objects and bytes acquired, objects
and bytes live at the end. Memory is O(stacks + live objects + one block).
"""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.common.console import printable
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.tape.stack_names import Frame, stack_names
from heaptape.tape.trace import Trace

VALUES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
UNITS = ("count", "bytes", "count", "bytes")


@dataclass(frozen=True)
class Sites:
    """`table`: index = stack node (0: not known), columns VALUES. `parent`, `instruction`: by node, entry 0 unused.
    `module`: index into `modules` of each node, -1: none.
    """

    table: pd.DataFrame
    parent: np.ndarray
    instruction: np.ndarray
    module: np.ndarray
    modules: pd.DataFrame

    def path(self, node: int) -> Iterator[int]:
        """The stack's nodes, innermost first."""
        while node:
            yield node
            node = int(self.parent[node])


def _events(trace: Trace) -> Iterator[pd.DataFrame]:
    """Acquires (sign 1) and releases (sign -1) with address, stamp, stack and bytes, block by block."""
    for batch in trace.events():
        got = batch.column("acquired_address").is_valid().to_numpy(zero_copy_only=False)
        lost = batch.column("releases").to_numpy(zero_copy_only=False)
        column = {n: batch.column(n).fill_null(0).to_numpy(zero_copy_only=False) for n in (
            "acquired_address", "released_address", "acquire_stamp", "request_bytes", "stack")}  # fmt: skip
        yield pd.DataFrame({
            "address": np.concatenate((column["acquired_address"][got], column["released_address"][lost])),
            "stamp": np.concatenate((column["acquire_stamp"][got], np.zeros(int(lost.sum()), np.uint64))),
            "stack": np.concatenate((column["stack"][got], np.zeros(int(lost.sum()), np.uint32))).astype(np.int64),
            "bytes": np.concatenate((column["request_bytes"][got], np.zeros(int(lost.sum()), np.uint64))),
            "sign": np.concatenate((np.ones(int(got.sum()), np.int64), -np.ones(int(lost.sum()), np.int64))),
        })  # fmt: skip


def _per_address(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per address with different numbers of acquires and releases: the difference, and its last acquire."""
    groups = frame.sort_values("stamp", kind="stable").groupby("address")
    rows = groups[["stamp", "stack", "bytes"]].last().assign(sign=groups["sign"].sum())
    return rows[rows["sign"] != 0].reset_index()


def sites_of(trace: Trace) -> Sites:
    """What each stack acquired, and what of it was live at the end. Raises HeaptapeError if there are no stacks."""
    nodes = trace.stacks()
    if nodes.empty:
        raise HeaptapeError(f"{trace.path}: has no call stacks: record with --stacks")
    count = int(nodes.index.max()) + 1
    totals = np.zeros((2, count))
    live = pd.DataFrame({"address": [], "stamp": [], "stack": [], "bytes": [], "sign": []})
    for frame in _events(trace):
        acquired = frame[frame["sign"] > 0]
        totals[0] += np.bincount(acquired["stack"], minlength=count)
        totals[1] += np.bincount(acquired["stack"], weights=acquired["bytes"].astype(float), minlength=count)
        live = _per_address(pd.concat([live, frame], ignore_index=True) if len(live) else frame)
    live = live[live["sign"] > 0]
    stack = live["stack"].astype(np.int64)
    table = pd.DataFrame({
        "alloc_objects": totals[0], "alloc_space": totals[1],
        "inuse_objects": np.bincount(stack, minlength=count),
        "inuse_space": np.bincount(stack, weights=live["bytes"].astype(float), minlength=count),
    }).astype(np.int64)  # fmt: skip
    parent, instruction = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    parent[nodes.index], instruction[nodes.index] = nodes["parent"], nodes["instruction"]
    modules = trace.modules()
    return Sites(table, parent, instruction, _modules_of(instruction, nodes, modules), modules)


def _modules_of(instruction: np.ndarray, nodes: pd.DataFrame, modules: pd.DataFrame) -> np.ndarray:
    """Module of each node: the last one before it in the file that contains its address, else the first after it."""
    known = np.zeros(len(instruction), np.int64)
    known[nodes.index] = nodes["modules"]
    found = np.full(len(instruction), -1)
    for at in range(len(modules)):
        module = modules.iloc[at]
        inside = (instruction >= np.uint64(module["start"])) & (instruction < np.uint64(module["end"]))
        found[inside & ((at < known) | (found < 0))] = at
    return found


def write_folded(trace: Trace, path: Path, value: str = "alloc_space", home: Home | None = None) -> None:
    """Writes `outer;...;inner NUMBER` for each stack; stacks with the same names share a line. `value`: one of VALUES.
    Raises HeaptapeError, OSError.
    """
    chosen = sites_of(trace).table[value]
    names = stack_names(trace.path, home)
    lines: Counter[str] = Counter()
    for node, number in chosen[chosen > 0].items():
        frames = [_folded_name(frame) for frame in names.stack(int(node))][::-1] or ["(no stack)"]
        lines[";".join(frames)] += int(number)
    with path.open("w") as file:
        file.writelines(f"{stack} {number}\n" for stack, number in lines.items())


def _folded_name(frame: Frame) -> str:
    return printable(frame.name).replace(";", ":")


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _packed(field: int, values: list[int]) -> bytes:
    return _bytes(field, b"".join(_varint(v) for v in values)) if values else b""


class _Strings:
    """profile.proto's table of strings: number 0 is the empty one."""

    def __init__(self) -> None:
        self.number = {"": 0}

    def __call__(self, text: str) -> int:
        return self.number.setdefault(text, len(self.number))


def write_pprof(trace: Trace, path: Path, home: Home | None = None) -> None:
    """Writes a gzipped profile.proto (github.com/google/pprof) with the four VALUES. Functions have names, files and
    lines as far as they are known; modules without names are marked so that pprof looks them up itself. Raises
    HeaptapeError, OSError.
    """
    sites, text = sites_of(trace), _Strings()
    names = stack_names(trace.path, home)
    out = [_bytes(1, _number(1, text(v)) + _number(2, text(u))) for v, u in zip(VALUES, UNITS)]
    used: dict[int, None] = {}
    for node, row in sites.table[(sites.table > 0).any(axis=1)].iterrows():
        stack = list(sites.path(int(node)))
        used.update(dict.fromkeys(stack))
        out.append(_bytes(2, _packed(1, stack) + _packed(2, [int(v) for v in row])))
    known = {at: _knowledge(frames) for at, frames in _frames_by_module(sites, used, names.frames).items()}
    for number, module in enumerate(sites.modules.to_dict("records"), 1):
        build_id = module.get("build_id")
        out.append(_bytes(3, _number(1, number) + _number(2, int(module["start"])) + _number(3, int(module["end"]))
                          + _number(4, int(module["start"]) - int(module["bias"])) + _number(5, text(module["name"]))
                          + _number(6, text(build_id) if isinstance(build_id, str) else 0)
                          + known.get(number - 1, b"")))  # fmt: skip
    functions: dict[tuple[str, str], int] = {}
    for node in used:
        lines = b""  # innermost first, as in names.frames
        for frame in names.frames[node]:
            function = functions.setdefault((frame.name, frame.file or ""), len(functions) + 1)
            lines += _bytes(4, _number(1, function) + _number(2, frame.line))
        out.append(_bytes(4, _number(1, node) + _number(2, int(sites.module[node]) + 1)
                          + _number(3, int(sites.instruction[node])) + lines))  # fmt: skip
    for (name, file), number in functions.items():
        named = _number(1, number) + _number(2, text(name)) + _number(3, text(name))
        out.append(_bytes(5, named + _number(4, text(file))))
    out.append(_number(9, int(trace.info["clock"].get("origin_unix_ns") or 0)))
    out.append(_number(14, text("alloc_space")))
    out += [_bytes(6, name.encode()) for name in text.number]
    path.write_bytes(gzip.compress(b"".join(out)))


def _frames_by_module(sites: Sites, nodes: Iterable[int], frames: list[list[Frame]]) -> dict[int, list[list[Frame]]]:
    found: dict[int, list[list[Frame]]] = {}
    for node in nodes:
        found.setdefault(int(sites.module[node]), []).append(frames[node])
    return found


def _knowledge(nodes: list[list[Frame]]) -> bytes:
    """A mapping's has_functions, has_filenames, has_line_numbers, has_inline_frames: pprof looks up no more there."""
    frames = [frame for node in nodes for frame in node]
    return (
        _number(7, any(frame.function for frame in frames))
        + _number(8, any(frame.file for frame in frames))
        + _number(9, any(frame.line for frame in frames))
        + _number(10, any(len(node) > 1 for node in nodes))
    )
