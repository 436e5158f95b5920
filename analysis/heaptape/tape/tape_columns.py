# SPDX-License-Identifier: MIT
"""Columns of an EVENTS block to events (core/trace/FORMAT.md, sections 4 and 4b): the loops of tape_loops.py decode
what each event did, its numbers, addresses and stamps; numpy decodes the optional columns.
"""

from dataclasses import dataclass

import numpy as np

from heaptape.tape import calls, tape_loops
from heaptape.tape.tape_numbers import LARGEST, U64, Malformed, exactly, leb, shift_of, zigzag


@dataclass(frozen=True)
class Events:
    """One block's events as arrays of one length. Masks show where other arrays have a meaning (elsewhere they are 0);
    optional arrays are None where the block lacks their column.
    """

    call: np.ndarray  # uint8: id and flags
    size: np.ndarray  # uint64 bytes, as passed to the call
    param: np.ndarray  # uint64: element count or alignment in bytes
    request_bytes: np.ndarray  # uint64: count included, saturated
    has_size: np.ndarray  # bool: the call has a size, and so request_bytes
    has_param: np.ndarray  # bool
    takes: np.ndarray  # bool: a non-null address was passed in
    releases: np.ndarray  # bool: ... and its object was released
    acquires: np.ndarray  # bool: an object was handed out
    released: np.ndarray  # uint64: address passed in
    acquired: np.ndarray  # uint64: address handed out
    release_stamp: np.ndarray  # uint64
    acquire_stamp: np.ndarray  # uint64: of the acquire, or of the only step if it neither acquires nor releases
    touched: np.ndarray | None  # uint32 OS pages, plus 1; 0: not known
    latency: np.ndarray | None  # uint64 units of the trace's clock, plus 1; 0: not known
    slack: np.ndarray | None  # uint64: usable size less request_bytes, plus 1; 0: not known
    stack: np.ndarray | None  # uint32: a node of the tree of stacks; 0: not known


@dataclass(frozen=True)
class Raw:
    """The columns of a block. `columns`: id -> raw bytes, without empty columns; `shifts`: id -> shift."""

    columns: dict[int, bytes]
    shifts: dict[int, int]

    def bytes_of(self, column: int) -> np.ndarray:
        """A column's bytes, uint8."""
        return np.frombuffer(self.columns.get(column, b""), np.uint8)

    def shift(self, column: int) -> np.uint64:
        """A column's shift. Raises Malformed."""
        return shift_of(self.shifts.get(column, 0))

    def has(self, column: int) -> bool:
        return bool(self.columns.get(column))


def decode_events(
    rows: int,
    steps: int,
    first_stamp: int,
    last_stamp: int,
    columns: dict[int, bytes],
    shifts: dict[int, int],
    stack_nodes: int = 0,
) -> Events:
    """Decodes a block. Raises Malformed. `columns`, `shifts`: see Raw; `stack_nodes`: how many precede this block."""
    raw = Raw(columns, shifts)
    archive = raw.has(18)
    numbers = np.empty((3, rows), U64)
    deeds, meant = np.empty(rows, np.uint8), np.empty(rows, np.int32)
    call = (_archived_rows if archive else _plain_rows)(rows, raw, numbers, deeds, meant)
    has_size, has_param = _that(deeds, tape_loops.SIZED), _that(deeds, tape_loops.WITH_PARAM)
    takes, releases = _that(deeds, tape_loops.TOOK), _that(deeds, tape_loops.RELEASED)
    acquires = _that(deeds, tape_loops.ACQUIRED)
    size, param, request = numbers
    released, acquired = _addresses(raw, archive, (request, deeds, meant), int(np.count_nonzero(acquires)))
    release_stamp, acquire_stamp = _stamps(deeds, steps, first_stamp, last_stamp, raw)
    acquiring = calls.ACQUIRES[call & calls.ID_MASK] if raw.has(14) or raw.has(15) else acquires
    return Events(
        call, size, param, request, has_size, has_param, takes, releases, acquires,
        released, acquired, release_stamp, acquire_stamp,
        _touched(releases, columns),
        _optional(np.ones(rows, bool), columns, 12, "latency", LARGEST),
        _optional(acquires, columns, 13, "slack", U64(0xFFFFFFFF)),
        _stacks(acquiring, columns, stack_nodes),
    )  # fmt: skip


def _that(deeds: np.ndarray, bit: int) -> np.ndarray:
    return (deeds & bit) != 0


def _traits() -> np.ndarray:
    """The traits of each call byte, for tape_loops."""
    byte = np.arange(256)
    number = byte & calls.ID_MASK
    null_in, null_out = (byte & calls.NULL_IN) != 0, (byte & calls.NULL_OUT) != 0
    kind, param = calls.RELEASE_KIND[number], calls.PARAM_KIND[number]
    out = np.zeros(256, np.uint8)
    out[calls.LEGAL] |= tape_loops.LEGAL
    out[calls.HAS_SIZE[number]] |= tape_loops.SIZE
    out[param != calls.NO_PARAM] |= tape_loops.PARAM
    out[param == calls.COUNT] |= tape_loops.COUNT
    out[(kind != calls.NOTHING) & ~null_in] |= tape_loops.TAKES
    out[kind == calls.RELEASES] |= tape_loops.RELEASES
    out[calls.ACQUIRES[number] & ~null_out] |= tape_loops.ACQUIRES
    out[calls.ACQUIRES[number] & null_out] |= tape_loops.FAILED
    return out


TRAITS = _traits()
LEGAL = bytes(np.flatnonzero(calls.LEGAL).tolist())


def _plain_rows(rows: int, raw: Raw, numbers: np.ndarray, deeds: np.ndarray, meant: np.ndarray) -> np.ndarray:
    """Returns the calls; fills `numbers`, `deeds` and `meant`."""
    call = exactly(raw.bytes_of(1), rows, "call")
    if others := raw.columns.get(1, b"").translate(None, LEGAL):
        raise Malformed(f"call byte {others[0]:#x} can't be")
    columns = (raw.bytes_of(2), raw.bytes_of(3), raw.bytes_of(4))
    tape_loops.plain_rows(call, columns, TRAITS, numbers, deeds, meant)
    return call


def _archived_rows(rows: int, raw: Raw, numbers: np.ndarray, deeds: np.ndarray, meant: np.ndarray) -> np.ndarray:
    if any(raw.has(column) for column in (1, 2, 3, 4, 7, 8)):
        raise Malformed("columns of two forms")
    call = np.empty(rows, np.uint8)
    tape_loops.archived_rows(raw.bytes_of(18), raw.bytes_of(19), TRAITS, call, numbers, deeds, meant)
    return call


def _addresses(raw: Raw, archive: bool, events: tuple[np.ndarray, np.ndarray, np.ndarray], acquires: int) -> np.ndarray:
    """Addresses passed in and handed out, per event. `events`: requests, deeds, and which acquire each refers to."""
    hits = raw.bytes_of(7)
    if not archive:
        if len(hits) != (acquires + 7) // 8:
            raise Malformed(f"column acquire hit: {len(hits)} bytes for {acquires} bits")
        if acquires % 8 and hits[-1] >> acquires % 8:
            raise Malformed("column acquire hit: an unused bit is set")
    column = 17 if archive else 8
    predicted = (hits, raw.bytes_of(column), raw.shift(column))
    out = np.zeros((2, len(events[0])), U64)
    tape_loops.addresses(events, acquires, (raw.bytes_of(6), raw.shift(6)), predicted, archive, out)
    return out


def _stamps(deeds: np.ndarray, steps: int, first: int, last: int, raw: Raw) -> np.ndarray:
    """Stamp of each event's taking step and of its acquiring (or only) one; 0 where it has no such step."""
    both = tape_loops.RELEASED | tape_loops.ACQUIRED
    found = len(deeds) + np.count_nonzero((deeds & both) == both)
    if found != steps:
        raise Malformed(f"{found} steps, its header says {steps}")
    out = np.zeros((2, len(deeds)), U64)
    tape_loops.stamps(deeds, (raw.bytes_of(9), raw.bytes_of(10)), steps, (U64(first), U64(last)), out)
    return out


def _optional(
    mask: np.ndarray, columns: dict[int, bytes], column: int, name: str, limit: np.uint64
) -> np.ndarray | None:
    """The column's numbers at the events of `mask`, 0 elsewhere."""
    if not columns.get(column):
        return None
    out = np.zeros(len(mask), U64)
    out[mask] = exactly(leb(columns[column], name), int(mask.sum()), name)
    if (out > limit).any():
        raise Malformed(f"column {name}: {int(out.max())} is above {int(limit)}")
    return out


def _stacks(acquiring: np.ndarray, columns: dict[int, bytes], nodes: int) -> np.ndarray | None:
    """Stack nodes of the calls. Calls that acquire (`acquiring`) and other calls have a column of differences each."""
    if not columns.get(14) and not columns.get(15):
        return None
    out = np.zeros(len(acquiring), U64)
    for column, mask, name in ((14, acquiring, "stack"), (15, ~acquiring, "stack of the other calls")):
        if columns.get(column):
            entries = exactly(leb(columns[column], name), int(mask.sum()), name)
            out[mask] = np.cumsum(zigzag(entries), dtype=U64)
        if (out > U64(nodes)).any():
            raise Malformed(f"column {name}: node {int(out.max())} of {nodes}")
    return out.astype(np.uint32)


def _touched(releases: np.ndarray, columns: dict[int, bytes]) -> np.ndarray | None:
    if not columns.get(11):
        return None
    pairs = leb(columns[11], "touched")
    if len(pairs) % 2:
        raise Malformed("column touched: half a pair")
    gaps, pages = pairs[0::2], pairs[1::2]
    at = np.flatnonzero(releases)
    if (gaps >= max(len(at), 1)).any() or int((gaps + U64(1)).sum()) > len(at) or (pages > 0xFFFFFFFF).any():
        raise Malformed("column touched: names an event that is not there")
    named = at[np.cumsum(gaps + U64(1)).astype(np.int64) - 1]
    touched = np.zeros(len(releases), U64)
    touched[named] = pages + U64(1)
    return touched
