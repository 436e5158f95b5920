# SPDX-License-Identifier: MIT
"""Traces in Python: what the C reader finds in a file (core/trace/FORMAT.md), as tables.

Memory is bounded by one block: `Trace.events` yields one Arrow record batch per block.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd

from heaptape import features
from heaptape.common.errors import HeaptapeError
from heaptape.tape.info import TraceFooter, TraceInfo, checked
from heaptape.tape.library import OpenTrace

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = np.uint64(2**64 - 1)
MODULES, MARKS, THREADS = 7, 8, 9  # blocks of FORMAT.md
ACCESS_KINDS = ("call", "object", "other")
ACCESS_ROWS = 1 << 16
CALL_NS = 10.0  # of a call recorded without options, in traces that do not say it


class Module(msgspec.Struct):
    """What was mapped where."""

    name: str
    start: int
    end: int
    bias: int
    path: str | None = None
    build_id: str | None = None


class Mark(msgspec.Struct):
    """A mark of the program; `events`: of its thread, before it."""

    stamp: int
    thread: int
    events: int
    text: str


class ThreadName(msgspec.Struct):
    """Of several for one thread the last one is valid."""

    thread: int
    name: str


class Trace:
    """An open trace. `info` and `footer` are the JSON objects of those blocks; `footer` is None in a truncated file.
    Stamps are in units of the trace's clock.

    Opening walks and checks all block headers; events are decoded on demand. Raises FormatError (path, offset, what)
    for a malformed file, here and in every method, and OSError if it can't be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        os.close(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))
        self._opened = OpenTrace(self.path)
        summary = self._opened.summary
        self.info = checked(json.loads(summary.info_json), TraceInfo, self.path, None)
        self.footer: dict | None = None
        if summary.footer_json is not None:
            self.footer = checked(json.loads(summary.footer_json), TraceFooter, self.path, None)
        self.threads: int = summary.threads
        self.event_count: int = summary.events
        self.dropped: int = summary.dropped  # events lost, from the GAP blocks
        self.first_stamp: int = summary.first_stamp
        self.last_stamp: int = summary.last_stamp
        self.access_rows: int = summary.access_rows  # of data accesses, including the calls between them
        self.in_bursts = bool(summary.in_bursts)  # were accesses recorded in bursts only?

    @property
    def truncated(self) -> bool:
        return self.footer is None

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; nothing can be read any more."""
        self._opened.close()

    def events(self, thread: int | None = None) -> "Iterator[pa.RecordBatch]":
        """One record batch (heaptape.tape.batches.SCHEMA) per EVENTS block in file order, of all threads or one.
        Raises HeaptapeError where pyarrow is missing.
        """
        try:
            from heaptape.tape.batches import batch_of
        except ImportError as error:
            raise HeaptapeError(
                f"a trace's events can't be read: Python package {error.name} is not installed "
                "(pip install 'heaptape[events]')"
            ) from error
        for number in range(self._opened.summary.event_blocks):
            block = self._opened.block(number)
            if thread is None or thread == block.thread:
                yield batch_of(block, self._opened.events(number, block))

    def frames(self, thread: int | None = None) -> Iterator[pd.DataFrame]:
        """`events` as DataFrames. Numbers keep pandas' nullable types: 64-bit addresses don't survive being floats."""
        from heaptape.tape.batches import frame_of

        for batch in self.events(thread):
            yield frame_of(batch)

    def profile(self) -> Any:  # noqa: ANN401
        """The profile of the whole trace, counted by the C program: `heaptape.profile`, a feature."""
        return features.named("profile").profile(self.path)

    def samples(self) -> pd.DataFrame:
        """Memory of the recorded process over time: the columns of FORMAT.md section 6, without those that were
        not recorded.
        """
        columns = {}
        for name, values in self._opened.samples().items():
            missing = values == MISSING
            if not missing.all():
                columns[name] = pd.array(values, "UInt64") if missing.any() else values
                if missing.any():
                    columns[name][missing] = pd.NA
        return pd.DataFrame(columns) if columns else pd.DataFrame(columns=["stamp"])

    def stacks(self) -> pd.DataFrame:
        """The tree of call stacks, indexed by node from 1: parent (0: the outermost frame), instruction, modules (how
        many rows of `modules` precede it).
        """
        parent, instruction, modules = self._opened.stacks()
        nodes = pd.RangeIndex(1, len(parent) + 1, name="node").astype(np.uint32)
        columns = {"parent": parent, "instruction": instruction, "modules": modules.astype(np.int64)}
        return pd.DataFrame(columns, index=nodes)

    def modules(self) -> pd.DataFrame:
        """The mapped modules, in file order: name, path, build_id (None where not stored), start, end, bias."""
        rows = self._opened.rows(MODULES, Module)
        return _frame(rows, ("name", "path", "build_id"), ("start", "end", "bias"))

    def marks(self) -> pd.DataFrame:
        """The program's marks: stamp, thread, events (of that thread, before it), text."""
        return _frame(self._opened.rows(MARKS, Mark), (), ("stamp", "thread", "events"), ("text",))

    def thread_names(self) -> dict[int, str]:
        return {row.thread: row.name for row in self._opened.rows(THREADS, ThreadName)}

    def bursts(self) -> pd.DataFrame:
        """`begin` and `end` of each burst: rows of `accesses` before it, and up to its end; NA if it did not end."""
        switches = self._opened.switches()
        begins, ends = pd.array(switches[::2], "UInt64"), pd.array(switches[1::2], "UInt64")
        return pd.DataFrame({"begin": begins, "end": pd.Series(ends).reindex(range(len(begins)))})

    def accesses(self) -> Iterator[pd.DataFrame]:
        """The data accesses and the calls between them, in order, in frames of up to ACCESS_ROWS rows: `kind` (one of
        ACCESS_KINDS); for calls `thread`, `acquires` and `stack_pointer`; for accesses to objects `object` (number of
        the call that acquired it, among calls that acquired) and `granule` in it, signed; for accesses to other memory
        `granule`, their address divided by 16. Values that a row does not have are NA.
        """
        if not self.access_rows:
            return
        for rows in self._opened.accesses(ACCESS_ROWS):
            kind = rows["kind"]
            call, of_object = kind == 0, kind == 1
            yield pd.DataFrame({
                "kind": pd.Categorical.from_codes(kind, list(ACCESS_KINDS)),
                "thread": pd.arrays.IntegerArray(rows["thread"], ~call),
                "acquires": pd.arrays.BooleanArray(rows["acquires"].astype(bool), ~call),
                "stack_pointer": pd.arrays.IntegerArray(rows["stack_pointer"], ~call),
                "object": pd.arrays.IntegerArray(rows["object"], ~of_object),
                "granule": pd.arrays.IntegerArray(rows["granule"], call),
            })  # fmt: skip


def open_trace(path: str | Path) -> Trace:
    """Opens a trace: walks and checks all block headers, reads info and footer. Events are only decoded on demand.

    Raises FormatError (path, offset, what) for a malformed file, OSError if it can't be read.

    >>> import heaptape
    >>> with heaptape.open("small.tape") as trace:
    ...     print(trace.threads, trace.event_count, sum(batch.num_rows for batch in trace.events()))
    ...     frame = next(trace.frames(thread=0))
    2 6666 6666
    >>> frame["call"].iloc[0], int(frame["request_bytes"].iloc[0])
    ('malloc', 16)
    """
    return Trace(path)


def recorded_cpu_ns(path: str | Path) -> float | None:
    """User and system time of the recorded program, at its end or at its last sample, less what recording it is known
    to cost. None where the file is no trace, or lacks it.
    """
    try:
        with open_trace(path) as trace:
            samples, final = trace.samples(), (trace.footer or {}).get("final") or {}
            cost = call_ns_of(trace) * trace.event_count
    except (HeaptapeError, OSError):
        return None
    if "user_ns" in final:
        return without_recording(_own(final), cost)
    if not {"user_ns", "system_ns"} <= set(samples.columns):
        return None
    known = samples[samples["user_ns"].notna() & samples["system_ns"].notna()]
    return without_recording(_own(known.iloc[-1]), cost) if len(known) else None


def call_ns_of(trace: Trace) -> float:
    """CPU time that recording a call takes in the program, as known of the recorder's options."""
    return float(trace.info.get("call_ns", CALL_NS))


def _own(times: Mapping | pd.Series) -> float:
    """User and system time, without reads of which OS pages are resident."""
    whole = float(times["user_ns"]) + float(times.get("system_ns", 0))
    return max(whole - float(times.get("reading_ns", 0)), 0.0)


def without_recording(cpu_ns: float, cost_ns: float) -> float | None:
    """The CPU time without what recording cost, which is no more than half of it; None for 0."""
    return float(max(cpu_ns - cost_ns, cpu_ns / 2)) or None


def _frame(
    rows: Sequence[msgspec.Struct], texts: tuple[str, ...], numbers: tuple[str, ...], last: tuple[str, ...] = ()
) -> pd.DataFrame:
    columns = [*texts, *numbers, *last]
    values = [[getattr(row, column) for column in columns] for row in rows]
    return pd.DataFrame(values, columns=columns).astype(dict.fromkeys(numbers, np.uint64))


def clock_of(trace: Trace) -> tuple[float, int]:
    """Stamps per second (0: not known) and the stamp of time 0."""
    clock = trace.info["clock"]
    hz = (trace.footer or {}).get("clock_hz") or clock.get("hz") or 0
    return float(hz), int(clock.get("origin_stamp") or 0)


def times_ns(trace: Trace, stamps: np.ndarray) -> np.ndarray:
    """Stamps as int64 ns since the recording's start."""
    hz, origin = clock_of(trace)
    if hz <= 0:
        return np.zeros(len(stamps), np.int64)
    since = stamps.astype(np.uint64) - np.uint64(origin)
    return (since.astype(np.int64) * (1e9 / hz)).astype(np.int64).clip(min=0)


def first_stamps(batch: "pa.RecordBatch") -> np.ndarray:
    """Stamp of each event's first step, uint64."""
    from pyarrow import compute

    taken, given = batch.column("release_stamp"), batch.column("acquire_stamp")
    return compute.coalesce(taken, given).to_numpy(zero_copy_only=False)
