# SPDX-License-Identifier: MIT
"""An independent reader of trace files, written from core/trace/FORMAT.md alone and not from the C reader: two readers
that agree prove that the document is complete.

Memory is bounded by one block: `Trace.events` yields one Arrow record batch per block.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd

from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.tape import tape_annotations
from heaptape.tape.tape_accesses import decode_accesses, decode_switches, rows_in_bursts
from heaptape.tape.tape_blocks import (
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
from heaptape.tape.tape_numbers import Malformed, exactly, leb, zigzag

if TYPE_CHECKING:
    import pyarrow as pa

    from heaptape.tape.tape_columns import Events

SAMPLE_NAMES = (
    "stamp", "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "vm_size_bytes", "vm_hwm_bytes",
    "minor_faults", "major_faults", "user_ns", "system_ns",
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

    def events(self, thread: int | None = None) -> "Iterator[pa.RecordBatch]":
        """One record batch (tape_batches.SCHEMA) per EVENTS block in file order, of all threads or one. Raises
        FormatError, and HeaptapeError where pyarrow is missing.
        """
        batch_of = _batches().batch_of
        seen: dict[int, int] = {}
        for block in self.blocks:
            if block.type != EVENTS:
                continue
            begin = seen.get(block.thread, 0)
            seen[block.thread] = begin + block.rows
            if thread is None or thread == block.thread:
                yield batch_of(block, begin, self._decode(block))

    def frames(self, thread: int | None = None) -> Iterator[pd.DataFrame]:
        """`events` as DataFrames. Numbers keep pandas' nullable types: 64-bit addresses don't survive being floats."""
        for batch in self.events(thread):
            yield _batches().frame_of(batch)

    def samples(self) -> pd.DataFrame:
        """Memory of the recorded process over time: columns of SAMPLE_NAMES, without those that were not recorded."""
        parts = [self._samples(block) for block in self.blocks if block.type == SAMPLES]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["stamp"])

    def stacks(self) -> pd.DataFrame:
        """The tree of call stacks, indexed by node from 1: parent (0: the outermost frame), instruction, modules (how
        many rows of `modules` precede it). Raises FormatError.
        """
        return tape_annotations.stacks(self)

    def modules(self) -> pd.DataFrame:
        """The mapped modules, in file order: name, path, build_id (None where not stored), start, end, bias."""
        return tape_annotations.modules(self)

    def marks(self) -> pd.DataFrame:
        """The program's marks: stamp, thread, events (of that thread, before it), text."""
        return tape_annotations.marks(self)

    def thread_names(self) -> dict[int, str]:
        return tape_annotations.thread_names(self)

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
        heaptape.tape.tape_accesses.decode_accesses. After the last one, `differences` includes counts of the footer
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

    def _decode(self, block: Block) -> "Events":
        raw = self.raw_columns(block)
        shifts = {c.id: c.shift for c in block.columns}
        try:
            return _batches().decode_events(
                block.rows, block.steps, block.first_stamp, block.last_stamp, raw, shifts, block.stack_nodes
            )
        except Malformed as error:
            raise FormatError(self.path, block.offset, str(error)) from error

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


Kind = TypeVar("Kind", bound=Trace)


def _batches() -> ModuleType:
    try:  # only here: Numba takes half a second to load
        from heaptape.tape import tape_batches
    except ImportError as error:
        raise HeaptapeError(
            f"a trace's events can't be read: Python package {error.name} is not installed "
            "(pip install 'heaptape[events]')"
        ) from error
    return tape_batches


def open_trace(path: str | Path) -> Trace:
    """`opened` as a Trace."""
    return opened(path, Trace)


def opened(path: str | Path, kind: type[Kind]) -> Kind:
    """Opens a trace: walks and checks all block headers, reads info and footer. Events are decoded on demand.

    `kind`: the class of the result, Trace or one with more methods. Raises FormatError (path, offset, what) for a
    malformed file, OSError if it can't be read.
    """
    trace = kind(str(path), descriptor=os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    try:
        size = os.fstat(trace.descriptor).st_size
        check_file_header(trace)
        complete = walk(trace, size)
        trace.truncated = not complete
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
