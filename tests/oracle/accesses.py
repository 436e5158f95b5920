# SPDX-License-Identifier: MIT
"""Data accesses of a trace (core/trace/FORMAT.md, section 6a): one ACCESSES block to a DataFrame.

Only one step loops over rows: which entry of the move-to-front list a row names depends on all rows before it. Used
through tests.oracle.reader.Trace.
"""

import numpy as np
import pandas as pd

from tests.oracle.numbers import U64, Malformed, exactly, leb, zigzag

KINDS = ("call", "object", "other")
ACCESSES_COLUMNS = ("kind", "thread", "acquires", "stack_pointer", "object", "granule")
CALL, ACQUIRED, NEW_OBJECT, NEW_PAGE, RECENT_OBJECT, KNOWN_PAGE, FAR_PAGE = 0, 1, 2, 3, 64, 128, 255
LIST_PLACES, PAGE_GRANULES, MAX_THREAD = 64, 256, 1 << 24
MAX_GRANULE, MAX_PAGE, MAX_STACK = U64(1 << 59), U64(1 << 52), U64(1 << 61)


def decode_accesses(rows: int, first_acquired: int, last_acquired: int, columns: dict[int, bytes]) -> pd.DataFrame:
    """The rows in order: `kind` (one of KINDS); for calls `thread`, `acquires` and `stack_pointer`; for accesses to
    objects `object` (number of the call that acquired it, among calls that acquired) and `granule` in it, signed; for
    accesses to other memory `granule`, their address divided by 16. Values that a row does not have are NA.

    `columns`: id -> raw bytes. `first_acquired`, `last_acquired`: the block's stamps. Raises Malformed.
    """
    code = exactly(np.frombuffer(columns.get(1, b""), np.uint8), rows, "what")
    if ((code > NEW_PAGE) & (code < RECENT_OBJECT)).any():
        raise Malformed("a code of an access is not known")
    acquires = code == ACQUIRED
    calls = code <= ACQUIRED
    others = (code == NEW_PAGE) | (code >= KNOWN_PAGE)
    objects = ~calls & ~others
    acquired = U64(first_acquired) + np.cumsum(acquires, dtype=U64)
    if first_acquired + int(acquires.sum()) != last_acquired:
        raise Malformed("the calls that acquired are not those of the header")
    thread, stack = _calls(int(calls.sum()), columns)
    number, granule = _objects(code[objects], acquired[objects], columns)
    place = _other(code[others], columns)
    out = {
        "kind": pd.Categorical.from_codes(np.where(calls, 0, np.where(objects, 1, 2)), list(KINDS)),
        "thread": _spread(thread.astype(np.uint32), calls),
        "acquires": pd.arrays.BooleanArray(acquires, ~calls),
        "stack_pointer": _spread(stack << U64(3), calls),
        "object": _spread(number, objects),
        "granule": _merge(granule.astype(np.int64), objects, place.astype(np.int64), others),
    }
    return pd.DataFrame(out, columns=list(ACCESSES_COLUMNS))


def decode_switches(rows: int, columns: dict[int, bytes]) -> np.ndarray:
    """For a BURSTS block: how many rows of ACCESSES blocks precede each beginning and end. Raises Malformed."""
    steps = exactly(leb(columns.get(1, b""), "rows"), rows, "rows")
    switches = np.cumsum(steps, dtype=U64)
    if (switches < steps).any() or (switches[1:] < switches[:-1]).any():
        raise Malformed("a row of more than 64 bits")
    return switches


def rows_in_bursts(switches: np.ndarray, first_row: int, rows: int) -> np.ndarray:
    """For each of `rows` rows from `first_row` on: is it in a burst? `switches`: those of all BURSTS blocks before."""
    number = np.arange(first_row, first_row + rows, dtype=U64)
    return np.searchsorted(switches, number, side="right") % 2 == 1


def _spread(values: np.ndarray, mask: np.ndarray) -> pd.arrays.IntegerArray:
    out = np.zeros(len(mask), values.dtype)
    out[mask] = values
    return pd.arrays.IntegerArray(out, ~mask)


def _merge(
    first: np.ndarray, first_mask: np.ndarray, second: np.ndarray, second_mask: np.ndarray
) -> pd.arrays.IntegerArray:
    out = np.zeros(len(first_mask), first.dtype)
    out[first_mask], out[second_mask] = first, second
    return pd.arrays.IntegerArray(out, ~(first_mask | second_mask))


def _calls(count: int, columns: dict[int, bytes]) -> tuple[np.ndarray, np.ndarray]:
    thread = exactly(leb(columns.get(2, b""), "thread"), count, "thread")
    stack = np.cumsum(zigzag(exactly(leb(columns.get(3, b""), "stack"), count, "stack")), dtype=U64)
    if (thread >= U64(MAX_THREAD)).any() or (stack >= MAX_STACK).any():
        raise Malformed("a thread number or a stack pointer is out of range")
    return thread, stack


def _entries(code: np.ndarray) -> np.ndarray:
    """For each access to an object, the number of its object in the order of insertion into the list."""
    listed: list[int] = []
    out = np.empty(len(code), np.int64)
    count = 0
    for row, place in enumerate((code.astype(np.int64) - RECENT_OBJECT).tolist()):
        if place < 0:
            listed.insert(0, count)
            del listed[LIST_PLACES:]
            count += 1
        elif place >= len(listed):
            raise Malformed("a place beyond the list of objects")
        elif place:
            listed.insert(0, listed.pop(place))
        out[row] = listed[0]
    return out


def _objects(code: np.ndarray, acquired: np.ndarray, columns: dict[int, bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Number and granule of each access to an object. `acquired`: the calls that acquired before each row."""
    fresh = code == NEW_OBJECT
    before = acquired[fresh]
    back = exactly(leb(columns.get(4, b""), "object"), len(before), "object")
    if (back == 0).any() or (back > before).any():
        raise Malformed("an object that no call before has acquired")
    entry = _entries(code)
    step = zigzag(exactly(leb(columns.get(9, b""), "offset"), len(code), "offset"))
    granule = _sums_within(_ungrouped(step, entry), entry)
    if (granule + MAX_GRANULE >= U64(2) * MAX_GRANULE).any():
        raise Malformed("a granule of an object is out of range")
    return (before - back)[entry], granule


def _ungrouped(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The values, which are sorted by group, in the order of the rows. `group`: of each row."""
    out = np.empty_like(values)
    out[np.argsort(group, kind="stable")] = values
    return out


def _sums_within(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Running sums of the values of each group, modulo 2^64."""
    order = np.argsort(group, kind="stable")
    sums = np.cumsum(values[order], dtype=U64)
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    length = np.diff(np.append(first, len(group)))
    out = np.empty_like(sums)
    out[order] = sums - np.repeat(sums[first] - values[order][first], length)
    return out


def _other(code: np.ndarray, columns: dict[int, bytes]) -> np.ndarray:
    """Granule of each access to other memory: its address divided by 16."""
    difference = exactly(leb(columns.get(6, b""), "page"), int((code == NEW_PAGE).sum()), "page")
    page = np.cumsum(zigzag(difference), dtype=U64)
    if (page >= MAX_PAGE).any():
        raise Malformed("the number of an OS page is out of range")
    step = exactly(np.frombuffer(columns.get(10, b""), np.uint8), len(code), "step")
    far = exactly(leb(columns.get(8, b""), "far page"), int((code == FAR_PAGE).sum()), "far page")
    had = np.cumsum(code == NEW_PAGE)
    number = np.where(code == NEW_PAGE, had - 1, code.astype(np.int64) - KNOWN_PAGE)
    number[code == FAR_PAGE] += np.minimum(far, U64(len(code))).astype(np.int64)
    if (number >= had).any():
        raise Malformed("an OS page that the block does not have")
    place = _sums_within(_ungrouped(step, number).astype(U64), number).astype(np.uint8)
    return page[number] * U64(PAGE_GRANULES) + place
