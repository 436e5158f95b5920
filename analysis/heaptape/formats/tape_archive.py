"""Columns of an archive's EVENTS block (core/trace/FORMAT.md, section 4b).

Rows become the plain columns without much of a loop: all numbers are found at once, and one pass over the calls finds
where each event begins. Addresses need a loop over the acquires, as they are taken out of the middle of stacks.
"""

import numpy as np

from heaptape.formats import calls
from heaptape.formats.tape_live import FAR, live_distances
from heaptape.formats.tape_numbers import LARGEST, STACKS, U64, Malformed, exactly, leb, shift_of, zigzag

FRESH, ELSEWHERE, SYSTEMS = 63, 64, 2


def _widths() -> np.ndarray:
    """Numbers in the row of an event, by its call byte."""
    call = np.arange(256)
    number = call & calls.ID_MASK
    takes = (calls.RELEASE_KIND[number] != calls.NOTHING) & ((call & calls.NULL_IN) == 0)
    return 1 + calls.HAS_SIZE[number] + (calls.PARAM_KIND[number] != calls.NO_PARAM) + takes


def columns_of_rows(rows: int, columns: dict[int, bytes]) -> dict[int, bytes]:
    """The block's columns with 1 to 4 in place of 16, or of 18 and 19, references as release distances. Raises
    Malformed.
    """
    live = bool(columns.get(18))
    if any(columns.get(i) for i in (1, 2, 3, 4, 7, 8, 16 if live else 19)):
        raise Malformed("columns of two forms")
    numbers = leb(columns[18 if live else 16], "rows")
    begin = _begins(numbers, rows)
    call = numbers[begin]
    if (call > 255).any() or not calls.LEGAL[call.astype(np.uint8)].all():
        raise Malformed("a row of a call that can't be")
    call = call.astype(np.uint8)
    number = call & calls.ID_MASK
    has_size, has_param = calls.HAS_SIZE[number].astype(bool), calls.PARAM_KIND[number] != calls.NO_PARAM
    takes = (calls.RELEASE_KIND[number] != calls.NOTHING) & ((call & calls.NULL_IN) == 0)
    acquires = calls.ACQUIRES[number] & ((call & calls.NULL_OUT) == 0)
    before = (np.cumsum(acquires) - acquires)[takes]
    reference = numbers[(begin + 1 + has_size + has_param)[takes]]
    out = {id: raw for id, raw in columns.items() if id not in (16, 18, 19)}
    out[1] = call.tobytes()
    out[2] = _as_leb(numbers[(begin + 1)[has_size]])
    out[3] = _as_leb(numbers[(begin + 1 + has_size)[has_param]])
    if live:
        far = exactly(leb(columns.get(19, b""), "far"), int((reference == FAR).sum()), "far")
        dies = _releases(call, numbers, begin)[takes]
        out[4] = _as_leb(live_distances(reference, far, before, dies))
    else:
        out[4] = _as_leb(_distances(reference, before))
    return out


def _releases(call: np.ndarray, numbers: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Which events release what is passed in. A realloc that gave nothing does so only where nothing was requested."""
    number = call & calls.ID_MASK
    gave_none = calls.ACQUIRES[number] & ((call & calls.NULL_OUT) != 0)
    releases = calls.RELEASE_KIND[number] == calls.RELEASES
    for event in np.flatnonzero(releases & gave_none):
        first, kind = int(begin[event]) + 1, number[event]
        counted = calls.PARAM_KIND[kind] == calls.COUNT
        releases[event] = numbers[first] == 0 or (counted and numbers[first + 1] == 0)
    return releases


def _begins(numbers: np.ndarray, rows: int) -> np.ndarray:
    """Place of each row's first number."""
    width = _widths()[np.minimum(numbers, U64(255)).astype(np.int64)].tolist()
    begin, at, end = [], 0, len(width)
    while at < end:
        begin.append(at)
        at += width[at]
    if at != end or len(begin) != rows:
        raise Malformed(f"column rows: {len(begin)} rows instead of {rows}, or the last one is cut off")
    return np.array(begin, np.int64)


def _distances(reference: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Release distances; 0 where the address is stored. before: acquires before each event."""
    relative, stored = (reference & U64(1)) == 1, reference == 0
    half = (reference >> U64(1)).astype(np.int64)
    step = np.where(relative, zigzag(reference >> U64(1)).astype(np.int64), 0)
    # Numbers that stand for themselves restart the sum of steps.
    anchors = np.flatnonzero(~relative & ~stored)
    total = np.cumsum(step)
    last = np.searchsorted(anchors, np.arange(len(reference)), side="right") - 1
    anchored = last >= 0
    at = anchors[np.maximum(last, 0)] if len(anchors) else np.zeros(len(reference), np.int64)
    base = np.where(anchored, before[at] - half[at] - total[at], 0) if len(reference) else total
    meant = base + total
    distance = np.where(stored, 0, before - meant)
    if ((meant < 0) & ~stored).any() or ((distance <= 0) & ~stored).any():
        raise Malformed("a release names no acquire of its block")
    return distance.astype(U64)


def _as_leb(values: np.ndarray) -> bytes:
    """Unsigned LEB128."""
    if len(values) == 0:
        return b""
    length = np.ones(len(values), np.int64)
    for more in range(1, 10):
        length += values >= (U64(1) << U64(7 * more))
    end = np.cumsum(length)
    place = np.arange(end[-1]) - np.repeat(end - length, length)
    byte = (np.repeat(values, length) >> (place * 7).astype(U64)) & U64(0x7F)
    byte[place < np.repeat(length, length) - 1] |= U64(0x80)
    return byte.astype(np.uint8).tobytes()


def _classes(system: int, request: np.ndarray) -> np.ndarray:
    if system == 0:
        return np.maximum(U64(2), (np.minimum(request, LARGEST - U64(23)) + U64(23)) >> U64(4))
    units = np.maximum(U64(1), (np.minimum(request, LARGEST - U64(15)) + U64(15)) >> U64(4))
    bits = np.zeros(len(units), U64)
    for bit in range(64):
        bits += units >> U64(bit) > 0
    shift = np.maximum(bits, U64(3)) - U64(3)
    rounded = ((units + (U64(1) << shift) - U64(1)) >> shift) << shift
    return np.where(units <= 8, units, rounded)


def archived_addresses(
    request: np.ndarray,
    handed: np.ndarray,
    push_event: np.ndarray,
    pushed: np.ndarray,
    columns: dict[int, bytes],
    shifts: dict[int, int],
) -> np.ndarray:
    """Address of each acquire, of `request` bytes at event `handed`. Event `push_event` releases acquire `pushed`.
    Raises Malformed.
    """
    places = leb(columns.get(17, b""), "places")
    system = int(places[0]) if len(places) else 0
    if system >= SYSTEMS:
        raise Malformed(f"system of classes {system}")
    return _follow(
        np.concatenate((push_event * 2, handed * 2 + 1)),
        np.concatenate((pushed, np.full(len(handed), -1))),
        exactly(places[1:], len(handed), "places"),
        (_classes(system, request), _classes(0, request)),
        int(shift_of(shifts.get(17, 0))),
    )


def _follow(
    when: np.ndarray, pushed: np.ndarray, entries: np.ndarray, classes: tuple[np.ndarray, np.ndarray], shift: int
) -> np.ndarray:
    """Address of each acquire. `when` orders pushes (`pushed`: an acquire's number) and acquires (`pushed` is -1)."""
    stacks: dict[int, list[int]] = {}
    fresh: dict[int, tuple[int, int]] = {}  # class: last address, step
    mask, expected = (1 << 64) - 1, 0
    moved = (zigzag(entries - np.minimum(entries, U64(ELSEWHERE))) << U64(shift)).tolist()
    entry, group, size = entries.tolist(), classes[0].tolist(), (classes[1] << U64(4)).tolist()
    address: list[int] = []
    for number in pushed[np.argsort(when, kind="stable")].tolist():
        if number >= 0:
            if group[number] < STACKS:
                stacks.setdefault(group[number], []).append(address[number])
            continue
        i = len(address)
        place, c = entry[i], group[i]
        if place < ELSEWHERE and c >= STACKS:
            raise Malformed("an acquire from a stack that there is not")
        if place < FRESH:
            stack = stacks.get(c, [])
            if place >= len(stack):
                raise Malformed("an acquire from beyond the bottom of a stack")
            found = stack.pop(-1 - place)
        else:
            last, step = fresh.get(c, (0, 0))
            found = (last + (step or 16 * c) if place == FRESH else expected + moved[i]) & mask
            if c < STACKS:
                fresh[c] = found, (found - last) & mask if last else 0
        if place:
            expected = found + size[i]
        address.append(found)
    return np.array(address, U64)
