# SPDX-License-Identifier: MIT
"""The oracle's trace: open_trace, and its contents as the tables of heaptape.tape.trace."""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from heaptape.common.errors import FormatError
from heaptape.tape import calls
from heaptape.tape.batches import SCHEMA, frame_of

from tests.oracle import annotations, event_columns
from tests.oracle.accesses import decode_accesses, decode_switches, rows_in_bursts
from tests.oracle.blocks import (
    ACCESSES,
    BURSTS,
    EVENTS,
    FOOTER,
    GAP,
    INFO,
    MAX_INFO,
    SAMPLES,
    Block,
    BlockFile,
    check_file_header,
    usable_columns,
    walk,
)
from tests.oracle.numbers import Malformed, exactly, leb, zigzag

SAMPLE_NAMES = (
    "stamp", "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "vm_size_bytes", "vm_hwm_bytes",
    "minor_faults", "major_faults", "user_ns", "system_ns", "queued_ns", "reading_ns",
    "waited_ns", "calls", "active_threads", "throttled_ns",
)  # fmt: skip

ACCESS_TOTALS = ("calls", "objects", "other")  # of the footer, by kind of row


@dataclass
class Trace(BlockFile):
    """An open trace. `info` and `footer` are the JSON objects of those blocks; `footer` is None in a truncated file.

    `differences`: where the footer's totals differ from the blocks', in words. `dropped`: events lost, from the GAP
    blocks.
    """

    info: dict = field(default_factory=dict)
    footer: dict | None = None
    truncated: bool = False
    dropped: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def threads(self) -> int:
        return max((b.thread + 1 for b in self.blocks if b.type in (EVENTS, GAP)), default=0)

    @property
    def event_count(self) -> int:
        return sum(b.rows for b in self.blocks if b.type == EVENTS)

    def events(self, thread: int | None = None) -> Iterator[pa.RecordBatch]:
        """One record batch (heaptape.tape.batches.SCHEMA) per EVENTS block in file order, of all threads or one."""
        seen: dict[int, int] = {}
        for block in self.blocks:
            if block.type != EVENTS:
                continue
            begin = seen.get(block.thread, 0)
            seen[block.thread] = begin + block.rows
            if thread is None or thread == block.thread:
                yield self._batch(block, begin)

    def frames(self, thread: int | None = None) -> Iterator[pd.DataFrame]:
        """`events` as DataFrames. Numbers keep pandas' nullable types: 64-bit addresses don't survive being floats."""
        for batch in self.events(thread):
            yield frame_of(batch)

    def samples(self) -> pd.DataFrame:
        """Memory of the recorded process over time: columns of SAMPLE_NAMES, without those that were not recorded."""
        parts = [self._samples(block) for block in self.blocks if block.type == SAMPLES]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["stamp"])

    def stacks(self) -> pd.DataFrame:
        """The tree of call stacks, indexed by node from 1: parent (0: the outermost frame), instruction, modules (how
        many rows of `modules` precede it). Raises FormatError.
        """
        return annotations.stacks(self)

    def modules(self) -> pd.DataFrame:
        """The mapped modules, in file order: name, path, build_id (None where not stored), start, end, bias."""
        return annotations.modules(self)

    def marks(self) -> pd.DataFrame:
        """The program's marks: stamp, thread, events (of that thread, before it), text."""
        return annotations.marks(self)

    def thread_names(self) -> dict[int, str]:
        return annotations.thread_names(self)

    @property
    def access_rows(self) -> int:
        """Rows of data accesses in the file, including the calls between them."""
        return sum(b.rows for b in self.blocks if b.type == ACCESSES)

    @property
    def in_bursts(self) -> bool:
        """Were accesses recorded in bursts only?"""
        about = self.info.get("accesses")
        return any(b.type == BURSTS for b in self.blocks) or (
            isinstance(about, dict) and isinstance(about.get("bursts"), dict)
        )

    def bursts(self) -> pd.DataFrame:
        """`begin` and `end` of each burst: rows of `accesses` before it, and up to its end; NA if it did not end.
        Raises FormatError.
        """
        switches, rows = np.array([], np.uint64), 0
        for block in self.blocks:
            if block.type == BURSTS:
                switches = self._switches(block, switches, rows)
            rows += block.rows if block.type == ACCESSES else 0
        begins, ends = pd.array(switches[::2], "UInt64"), pd.array(switches[1::2], "UInt64")
        return pd.DataFrame({"begin": begins, "end": pd.Series(ends).reindex(range(len(begins)))})

    def _switches(self, block: Block, before: np.ndarray, rows: int) -> np.ndarray:
        """The switches of the blocks before and of this one. rows: of the ACCESSES blocks before it."""
        try:
            found = decode_switches(block.rows, self.raw_columns(block))
        except Malformed as error:
            raise FormatError(self.path, block.offset, str(error)) from error
        if block.rows and ((before > rows).any() or (found < rows).any()):
            raise FormatError(self.path, block.offset, "a burst that begins or ends beyond the rows about the block")
        return np.concatenate([before, found])

    def accesses(self) -> Iterator[pd.DataFrame]:
        """The data accesses and the calls between them, in order: one frame per block, its columns those of
        tests.oracle.accesses.decode_accesses. After the last one, `differences` includes counts of the footer
        that differ. Raises FormatError.
        """
        found = dict.fromkeys(ACCESS_TOTALS, 0)
        switches = np.array([], np.uint64)
        for block in self.blocks:
            rows = sum(found.values())
            if block.type == BURSTS:
                switches = self._switches(block, switches, rows)
            if block.type != ACCESSES:
                continue
            try:
                frame = decode_accesses(block.rows, block.first_stamp, block.last_stamp, self.raw_columns(block))
            except Malformed as error:
                raise FormatError(self.path, block.offset, str(error)) from error
            if self.in_bursts and ((frame["kind"] != "call") & ~rows_in_bursts(switches, rows, block.rows)).any():
                raise FormatError(self.path, block.offset, "an access outside of a burst")
            for total, count in zip(ACCESS_TOTALS, frame["kind"].value_counts(sort=False), strict=True):
                found[total] += int(count)
            yield frame
        totals = (self.footer or {}).get("accesses")
        if isinstance(totals, dict):
            words = [f"{t}: the footer says {totals.get(t)}, the blocks have {n}" for t, n in found.items()]
            self.differences += [
                f"accesses, {w}" for (t, n), w in zip(found.items(), words, strict=True) if totals.get(t) != n
            ]

    def _batch(self, block: Block, begin: int) -> pa.RecordBatch:
        shifts = {c.id: c.shift for c in block.columns}
        header = (block.rows, block.steps, block.first_stamp, block.last_stamp)
        try:
            events = event_columns.decode_events(
                event_columns.Block(*header, self.raw_columns(block), shifts, block.stack_nodes)
            )
        except Malformed as error:
            raise FormatError(self.path, block.offset, str(error)) from error
        rows = [
            {
                "thread": block.thread, "event": number, "call": calls.CALLS[event.id][0],
                "failed": bool(event.call & calls.NULL_OUT), "null": bool(event.call & calls.NULL_IN),
                "request_bytes": None if event.size is None else event.request_bytes, "size": event.size,
                "param": event.param, "released_address": event.released, "acquired_address": event.acquired,
                "release_stamp": event.release_stamp, "acquire_stamp": event.acquire_stamp,
                "releases": event.releases, "touched_os_pages": event.touched, "latency": event.latency,
                "usable_bytes": None if event.slack is None else event.request_bytes + event.slack & event_columns.MASK,
                "stack": event.stack,
            }
            for number, event in enumerate(events, begin)
        ]  # fmt: skip
        return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def _samples(self, block: Block) -> pd.DataFrame:
        out = {}
        try:
            for column in usable_columns(block):
                name = SAMPLE_NAMES[column.id - 1]
                values = exactly(leb(self.column(block, column), name), block.rows, name)
                out[name] = np.cumsum(zigzag(values), dtype=np.uint64)
        except Malformed as error:
            raise FormatError(self.path, block.offset, str(error)) from error
        return pd.DataFrame(out)


def open_trace(path: str | Path) -> Trace:
    """Opens a trace: walks and checks all block headers, reads info and footer. Events are decoded on demand. Raises
    FormatError (path, offset, what) for a malformed file, OSError if it can't be read.
    """
    trace = Trace(str(path), descriptor=os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    try:
        size = os.fstat(trace.descriptor).st_size
        check_file_header(trace)
        trace.truncated = not walk(trace, size)
        _read_metadata(trace)
    except BaseException:
        trace.close()
        raise
    return trace


def _read_metadata(trace: Trace) -> None:
    """Reads info, gaps and footer; checks what must hold between blocks of one thread."""
    following: dict[int, tuple[int, int]] = {}
    acquired = switches = 0
    for block in trace.blocks:
        if block.type == INFO and not trace.info:
            trace.info = trace.json_object(block, MAX_INFO)
            if not isinstance(trace.info.get("clock"), dict):
                raise FormatError(trace.path, block.offset, "the info has no clock")
        elif block.type in (EVENTS, GAP):
            sequence, stamp = following.get(block.thread, (0, 0))
            if block.sequence != sequence:
                raise FormatError(trace.path, block.offset, f"block {sequence} of thread {block.thread} is missing")
            if block.type == EVENTS and block.first_stamp < stamp:
                raise FormatError(trace.path, block.offset, f"the stamps of thread {block.thread} go back")
            following[block.thread] = (sequence + 1, block.last_stamp if block.type == EVENTS else stamp)
        if block.type == ACCESSES:
            if block.first_stamp != acquired:
                raise FormatError(trace.path, block.offset, "accesses that do not follow those before")
            acquired = block.last_stamp
        if block.type == BURSTS:
            if block.first_stamp != switches or block.last_stamp != switches + block.rows:
                raise FormatError(trace.path, block.offset, "bursts that do not follow those before")
            switches = block.last_stamp
        if block.type == GAP:
            dropped = trace.json_object(block).get("dropped")
            if block.rows or not isinstance(dropped, int) or isinstance(dropped, bool) or dropped < 0:
                raise FormatError(trace.path, block.offset, "a gap that does not say how many events it dropped")
            trace.dropped += dropped
        elif block.type == FOOTER:
            trace.footer = trace.json_object(block)
            trace.differences = _differences(trace, block)
    if trace.truncated:
        trace.footer = None


def _differences(trace: Trace, block: Block) -> list[str]:
    footer, out = trace.footer or {}, []
    for key, found in (("events", trace.event_count), ("dropped", trace.dropped), ("threads", trace.threads)):
        if key in footer and footer[key] != found:
            out.append(f"{key}: the footer says {footer[key]}, the blocks have {found}")
    sums = footer.get("accesses", {})
    rows = sum(sums.get(t, 0) for t in ACCESS_TOTALS if isinstance(sums.get(t), int)) if isinstance(sums, dict) else 0
    if rows != trace.access_rows:
        out.append(f"accesses: the footer says {rows} rows, the blocks have {trace.access_rows}")
    bursts = (sum(b.rows for b in trace.blocks if b.type == BURSTS) + 1) // 2
    if trace.in_bursts and isinstance(sums, dict) and sums.get("bursts", 0) != bursts:
        out.append(f"accesses: the footer says {sums.get('bursts')} bursts, the blocks have {bursts}")
    index = next((c for c in usable_columns(block) if c.id == 2), None)
    expected = b"".join(
        struct.pack("<QQQ", b.offset, b.first_stamp, b.thread << 32 | b.rows) for b in trace.blocks if b.type == EVENTS
    )
    if index is not None and trace.column(block, index) != expected:
        out.append("the footer's index is not that of the blocks")
    return out
