"""Columns of an EVENTS block to events, without a loop over events (core/trace/FORMAT.md, section 4).

Numbers are found by the ends of their bytes, distances are gathers, the stacks of the address prediction are matching
brackets (sort by stack and depth, and each pop stands behind its push), and chains of predicted addresses are followed
by pointer jumping.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heaptape.formats import calls
from heaptape.formats.tape_archive import archived_addresses, columns_of_rows
from heaptape.formats.tape_numbers import LARGEST, STACKS, U64, Malformed, exactly, leb, shift_of, zigzag


@dataclass(frozen=True)
class Events:
    """One block's events as arrays of one length. Masks say where the others mean something (elsewhere they are 0)."""

    call: np.ndarray  # uint8: id and flags
    size: np.ndarray  # uint64 bytes, as the call was given it
    param: np.ndarray  # uint64: element count or alignment in bytes
    request_bytes: np.ndarray  # uint64: count included, saturated
    takes: np.ndarray  # bool: a non-null address was passed in
    releases: np.ndarray  # bool: ... and its object was released
    acquires: np.ndarray  # bool: an object was handed out
    released: np.ndarray  # uint64: address passed in
    acquired: np.ndarray  # uint64: address handed out
    release_stamp: np.ndarray  # uint64
    acquire_stamp: np.ndarray  # uint64: of the acquire, or of the only step of an event that does neither
    touched: np.ndarray  # uint32 OS pages
    touched_known: np.ndarray  # bool
    latency: np.ndarray  # uint64 units of the trace's clock, plus 1; 0: not known
    slack: np.ndarray  # uint64: usable size less request_bytes, plus 1; 0: not known
    stack: np.ndarray  # uint32: a node of the tree of stacks; 0: not known


def decode_events(
    rows: int,
    steps: int,
    first_stamp: int,
    last_stamp: int,
    columns: dict[int, bytes],
    shifts: dict[int, int],
    stack_nodes: int = 0,
) -> Events:
    """Raises Malformed. `columns`: id -> raw bytes, those left out missing; `shifts`: id -> shift; `stack_nodes`: how
    many there are before this block.
    """
    archive = bool(columns.get(16) or columns.get(18))
    if archive:
        columns = columns_of_rows(rows, columns)
    call = exactly(np.frombuffer(columns.get(1, b""), np.uint8), rows, "call")
    if not calls.LEGAL[call].all():
        raise Malformed(f"call byte {call[~calls.LEGAL[call]][0]:#x} can't be")
    number = call & calls.ID_MASK
    null_in, null_out = (call & calls.NULL_IN) != 0, (call & calls.NULL_OUT) != 0
    size = _spread(calls.HAS_SIZE[number], columns, 2, "size")
    param = _spread(calls.PARAM_KIND[number] != calls.NO_PARAM, columns, 3, "param")
    request = _request_bytes(size, param, calls.PARAM_KIND[number] == calls.COUNT)
    kind = calls.RELEASE_KIND[number]
    takes = (kind != calls.NOTHING) & ~null_in
    releases = (kind == calls.RELEASES) & ~null_in & (~(calls.ACQUIRES[number] & null_out) | (request == 0))
    acquires = calls.ACQUIRES[number] & ~null_out
    addresses_of_acquires = archived_addresses if archive else _predicted_addresses
    released, acquired = _addresses(request, takes, releases, acquires, columns, shifts, addresses_of_acquires)
    release_stamp, acquire_stamp = _stamps(takes, releases & acquires, steps, first_stamp, last_stamp, columns)
    touched, known = _touched(releases, columns)
    latency = _optional(np.ones(rows, bool), columns, 12, "latency", LARGEST)
    slack = _optional(acquires, columns, 13, "slack", U64(0xFFFFFFFF))
    stack = _stacks(calls.ACQUIRES[number], columns, 14, "stack", stack_nodes)
    stack += _stacks(~calls.ACQUIRES[number], columns, 15, "stack of the other calls", stack_nodes)
    return Events(
        call, size, param, request, takes, releases, acquires, released, acquired,
        release_stamp, acquire_stamp, touched, known, latency, slack, stack.astype(np.uint32),
    )  # fmt: skip


def _spread(mask: np.ndarray, columns: dict[int, bytes], column: int, name: str) -> np.ndarray:
    """The column's numbers at the events that have one, 0 elsewhere."""
    out = np.zeros(len(mask), U64)
    out[mask] = exactly(leb(columns.get(column, b""), name), int(mask.sum()), name)
    return out


def _optional(mask: np.ndarray, columns: dict[int, bytes], column: int, name: str, limit: np.uint64) -> np.ndarray:
    """Like _spread for a column that may be left out."""
    if not columns.get(column):
        return np.zeros(len(mask), U64)
    out = _spread(mask, columns, column, name)
    if (out > limit).any():
        raise Malformed(f"column {name}: {int(out.max())} is above {int(limit)}")
    return out


def _stacks(mask: np.ndarray, columns: dict[int, bytes], column: int, name: str, nodes: int) -> np.ndarray:
    """Nodes of the calls that the column is for; they stand as differences."""
    out = np.zeros(len(mask), U64)
    if columns.get(column):
        entries = exactly(leb(columns[column], name), int(mask.sum()), name)
        out[mask] = np.cumsum(zigzag(entries), dtype=U64)
    if (out > U64(nodes)).any():
        raise Malformed(f"column {name}: node {int(out.max())} of {nodes}")
    return out


def _request_bytes(size: np.ndarray, param: np.ndarray, counted: np.ndarray) -> np.ndarray:
    product = size * param
    overflows = (param > 0) & (size > LARGEST // np.maximum(param, U64(1)))
    return np.where(counted, np.where(overflows, LARGEST, product), size)


def _addresses(
    request: np.ndarray,
    takes: np.ndarray,
    releases: np.ndarray,
    acquires: np.ndarray,
    columns: dict[int, bytes],
    shifts: dict[int, int],
    addresses_of_acquires: Callable[..., np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Addresses passed in and handed out, per event. `addresses_of_acquires`: what the two forms don't share."""
    before = np.cumsum(acquires) - acquires
    at = np.flatnonzero(takes)
    distance = exactly(leb(columns.get(4, b""), "release distance"), len(at), "release distance")
    if (distance > before[at].astype(U64)).any():
        raise Malformed("a release distance reaches back before the block")
    near = distance > 0
    referred = before[at[near]] - distance[near].astype(np.int64)
    handed, pushing = np.flatnonzero(acquires), releases[at[near]]
    address = addresses_of_acquires(request[handed], handed, at[near][pushing], referred[pushing], columns, shifts)
    far = exactly(leb(columns.get(6, b""), "release address"), int((~near).sum()), "release address")
    passed = np.empty(len(at), U64)
    passed[near] = address[referred]
    passed[~near] = np.cumsum(zigzag(far) << shift_of(shifts.get(6, 0)), dtype=U64)
    released, acquired = np.zeros(len(takes), U64), np.zeros(len(takes), U64)
    released[at], acquired[handed] = passed, address
    return released, acquired


def _predicted_addresses(
    request: np.ndarray,
    handed: np.ndarray,
    push_event: np.ndarray,
    pushed: np.ndarray,
    columns: dict[int, bytes],
    shifts: dict[int, int],
) -> np.ndarray:
    """Address of each acquire, of `request` bytes at event `handed`. Event `push_event` releases acquire `pushed`."""
    # s + 23 saturates, like the request itself.
    size_class = np.maximum(U64(2), (np.minimum(request, LARGEST - U64(23)) + U64(23)) >> U64(4))
    hit = _bits(columns.get(7, b""), len(handed), "acquire hit")
    missed = np.zeros(len(handed), U64)
    missed[~hit] = _missed(size_class[~hit], columns.get(8, b""), shifts.get(8, 0))

    parent = _match(push_event, pushed, handed[hit], np.flatnonzero(hit), size_class)
    source = np.arange(len(handed))
    source[hit] = parent
    while True:
        further = source[source]
        if np.array_equal(further, source):
            break
        source = further
    return missed[source] if len(handed) else missed


def _missed(size_class: np.ndarray, column: bytes, shift: int) -> np.ndarray:
    """Addresses of acquires that were not predicted: each against the end of the one before."""
    deltas = exactly(leb(column, "acquire address"), len(size_class), "acquire address")
    ends = np.concatenate((np.zeros(1, U64), size_class[:-1] << U64(4))) if len(size_class) else size_class
    return np.cumsum((zigzag(deltas) << shift_of(shift)) + ends, dtype=U64)


def _bits(column: bytes, count: int, name: str) -> np.ndarray:
    if len(column) != (count + 7) // 8:
        raise Malformed(f"column {name}: {len(column)} bytes for {count} bits")
    bits = np.unpackbits(np.frombuffer(column, np.uint8), bitorder="little").astype(bool)
    if bits[count:].any():
        raise Malformed(f"column {name}: an unused bit is set")
    return bits[:count]


def _match(
    push_event: np.ndarray, pushed: np.ndarray, pop_event: np.ndarray, popping: np.ndarray, size_class: np.ndarray
) -> np.ndarray:
    """For each hit (acquire number `popping`), the acquire whose address it takes: the top of its class's stack."""
    if (size_class[popping] >= STACKS).any():
        raise Malformed("a predicted acquire is too large to have a stack")
    stacked = size_class[pushed] < STACKS
    push_event, pushed = push_event[stacked], pushed[stacked]
    stack = np.concatenate((size_class[pushed], size_class[popping])).astype(np.int64)
    # A realloc pushes before it pops.
    when = np.concatenate((2 * push_event, 2 * pop_event + 1))
    step = np.concatenate((np.ones(len(pushed), np.int64), -np.ones(len(popping), np.int64)))
    what = np.concatenate((pushed, np.arange(len(popping))))

    order = np.lexsort((when, stack))
    stack, step, what = stack[order], step[order], what[order]
    total = np.cumsum(step)
    begins = np.flatnonzero(np.diff(stack, prepend=-1))
    below = np.repeat(np.where(begins > 0, total[begins - 1], 0), np.diff(np.append(begins, len(stack))))
    depth = total - below
    if (depth < 0).any():
        raise Malformed("a predicted acquire finds its stack empty")
    level = depth + (step < 0)  # a pop's level is the one that it takes away
    order = np.lexsort((np.arange(len(stack)), level, stack))
    step, what = step[order], what[order]
    pops = np.flatnonzero(step < 0)
    parent = np.empty(len(popping), np.int64)
    parent[what[pops]] = what[pops - 1]
    return parent


def _stamps(
    takes: np.ndarray, double: np.ndarray, steps: int, first: int, last: int, columns: dict[int, bytes]
) -> tuple[np.ndarray, np.ndarray]:
    """Stamp of each event's taking step and of its acquiring (or only) one; 0 where it has no such step."""
    if len(takes) + int(double.sum()) != steps:
        raise Malformed(f"{len(takes) + int(double.sum())} steps, its header says {steps}")
    gaps = leb(columns.get(9, b""), "stamp gap")
    deltas = exactly(leb(columns.get(10, b""), "stamp delta"), len(gaps), "stamp delta")
    if (gaps >= max(steps, 1)).any() or (len(gaps) and int((gaps + U64(1)).sum()) > steps):
        raise Malformed("a stamp beyond the last step")
    places = np.cumsum(gaps + U64(1)).astype(np.int64) - 1
    values = np.cumsum(np.concatenate((np.array([first], U64), deltas)), dtype=U64)
    if (values[1:] < values[:-1]).any():
        raise Malformed("a stamp is lower than the one before it")
    if steps and int(values[-1]) != last:
        raise Malformed(f"its last stamp is {int(values[-1])}, its header says {last}")
    lengths = np.diff(np.concatenate(([0], places, [steps])))
    stamp = np.repeat(values, lengths)
    begin = np.cumsum(1 + double) - (1 + double)
    one = stamp[begin] if steps else np.empty(0, U64)
    release_stamp = np.where(takes, one, U64(0))
    acquire_stamp = np.where(takes, U64(0), one)
    acquire_stamp[double] = stamp[begin[double] + 1]
    return release_stamp, acquire_stamp


def _touched(releases: np.ndarray, columns: dict[int, bytes]) -> tuple[np.ndarray, np.ndarray]:
    pairs = leb(columns.get(11, b""), "touched")
    if len(pairs) % 2:
        raise Malformed("column touched: half a pair")
    gaps, pages = pairs[0::2], pairs[1::2]
    at = np.flatnonzero(releases)
    if (gaps >= max(len(at), 1)).any() or int((gaps + U64(1)).sum()) > len(at) or (pages > 0xFFFFFFFF).any():
        raise Malformed("column touched: names an event that is not there")
    named = at[np.cumsum(gaps + U64(1)).astype(np.int64) - 1]
    touched, known = np.zeros(len(releases), np.uint32), np.zeros(len(releases), bool)
    touched[named], known[named] = pages, True
    return touched, known
