# SPDX-License-Identifier: MIT
"""The parts of an EVENTS block that depend on all earlier events (core/trace/FORMAT.md, sections 4 and 4b), as loops
over its events: references to acquires, simulated free lists, stamps. Numba compiles them at their first call and keeps
the machine code beside this file or in the user's cache, so that only the first read after an installation takes
seconds.

The kept code is renewed when this file changes, but not when another file does. So everything that it depends on is in
this file, and tables of calls are arguments. Indices are int64, values modulo 2^64 are uint64: the two must not meet in
one operation, whose result would be a float.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import int64, njit

from heaptape.tape.tape_numbers import Malformed

# What a call byte stands for (`traits`).
LEGAL, SIZE, PARAM, COUNT, TAKES, RELEASES, ACQUIRES, FAILED = 1, 2, 4, 8, 16, 32, 64, 128
# What an event did (`deeds`).
TOOK, RELEASED, ACQUIRED, SIZED, WITH_PARAM = 1, 2, 4, 8, 16
# `meant`, where it is not the number of an acquire.
NO_OBJECT, STORED, UNKNOWN = -1, -2, -3

U64, I64 = np.uint64, int64
ZERO, ONE, SEVEN, FOUR, LARGEST = U64(0), U64(1), U64(7), U64(4), U64(2**64 - 1)
STACKS = 4096  # of the prediction of addresses
FRESH, ELSEWHERE = U64(63), U64(64)  # entries of column 17
CURSORS, STEPS, NEWEST = 4, 4, 8  # references of column 18
FIRST_CURSOR, FAR = 1 + NEWEST, 1 + NEWEST + CURSORS * 2 * STEPS
Four = tuple[int, int, int, int]  # one for each cursor: tuples are kept in registers, arrays took 50 % longer
END, NOT_LIVE, OLDER, NEWER = 0, -1, 0, 1  # node of acquire n: n + 1


# A helper of the compiled functions, kept with them. Indices are checked, as files are not trusted.
part = njit(boundscheck=True)


def compiled(function: Callable) -> Any:  # noqa: ANN401 (a dispatcher of numba's, which has no type)
    """Compiles the function, and keeps the code if there is a writable folder."""
    try:
        return njit(boundscheck=True, cache=True)(function)
    except RuntimeError:
        return part(function)


@part
def number_at(data: np.ndarray, at: int) -> tuple[np.uint64, int]:
    """The LEB128 number at `at`, and where the next one begins: -1 if there is no complete number of 64 bits."""
    if at >= len(data):
        return ZERO, -1
    value, shift = U64(data[at]), SEVEN
    if value < 0x80:
        return value, at + 1
    value &= U64(0x7F)
    while True:
        at += 1
        if at >= len(data) or shift > 63 or (shift == 63 and data[at] > 1):
            return ZERO, -1
        value |= U64(data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return value, at + 1
        shift += SEVEN


@part
def unzigzag(value: np.uint64) -> np.uint64:
    """The signed number of a zigzag form, modulo 2^64."""
    return (value >> ONE) ^ (ZERO - (value & ONE))


@part
def product(size: np.uint64, count: np.uint64) -> np.uint64:
    return LARGEST if count > ZERO and size > LARGEST // count else size * count


@part
def deed(trait: int, request: np.uint64) -> int:
    """What an event did. A realloc that returned NULL released its object only if it requested 0 bytes."""
    did = (SIZED if trait & SIZE else 0) | (WITH_PARAM if trait & PARAM else 0)
    if trait & TAKES:
        did |= TOOK
        if trait & RELEASES and (not trait & FAILED or request == ZERO):
            did |= RELEASED
    if trait & ACQUIRES:
        did |= ACQUIRED
    return did


@compiled
def plain_rows(
    calls: np.ndarray,
    columns: tuple[np.ndarray, np.ndarray, np.ndarray],
    traits: np.ndarray,
    numbers: np.ndarray,
    deeds: np.ndarray,
    meant: np.ndarray,
) -> None:
    """Decodes columns 1, and 2 to 4 (`columns`). Writes `numbers` (size, param, request of each event), `deeds` and
    `meant`: the acquire whose address was passed in. Raises Malformed.
    """
    sizes, params, distances = columns
    at_size = at_param = at_distance = acquires = 0
    for event in range(len(calls)):
        trait = traits[calls[event]]
        size = param = ZERO
        if trait & SIZE:
            size, at_size = number_at(sizes, at_size)
            if at_size < 0:
                raise Malformed("column size: too few numbers, or one cut off or of more than 64 bits")
        if trait & PARAM:
            param, at_param = number_at(params, at_param)
            if at_param < 0:
                raise Malformed("column param: too few numbers, or one cut off or of more than 64 bits")
        request = product(size, param) if trait & COUNT else size
        numbers[0, event], numbers[1, event], numbers[2, event] = size, param, request
        deeds[event] = deed(trait, request)
        meant[event] = NO_OBJECT
        if trait & TAKES:
            distance, at_distance = number_at(distances, at_distance)
            if at_distance < 0:
                raise Malformed("column release distance: too few numbers, or one cut off or of more than 64 bits")
            if distance > U64(acquires):
                raise Malformed("a release distance reaches back before the block")
            meant[event] = acquires - I64(distance) if distance else STORED
        if trait & ACQUIRES:
            acquires += 1
    if at_size < len(sizes) or at_param < len(params) or at_distance < len(distances):
        raise Malformed("column size, param or release distance: more entries than events that have one")


@compiled
def archived_rows(
    rows: np.ndarray,
    far: np.ndarray,
    traits: np.ndarray,
    calls: np.ndarray,
    numbers: np.ndarray,
    deeds: np.ndarray,
    meant: np.ndarray,
) -> None:
    """Decodes column 18 with `far`, column 19. Writes `calls`, and what `plain_rows` writes.
    Raises Malformed.
    """
    links = np.zeros((len(calls) + 1, 2), np.int32)  # the list: the next older and next newer node of each node
    places, numbers_of = (0, 0, 0, 0), (0, 0, 0, 0)  # of the cursors
    at = at_far = acquires = 0
    for event in range(len(calls)):
        call, at = number_at(rows, at)
        if at < 0:
            raise Malformed("column rows: too few rows, or the last one is cut off")
        if call > 255 or not traits[call] & LEGAL:
            raise Malformed("a row of a call that can't be")
        trait = traits[call]
        size = param = ZERO
        if trait & SIZE:
            size, at = number_at(rows, at)
        if trait & PARAM and at >= 0:
            param, at = number_at(rows, at)
        request = product(size, param) if trait & COUNT else size
        did = deed(trait, request)
        calls[event], deeds[event], meant[event] = call, did, NO_OBJECT
        numbers[0, event], numbers[1, event], numbers[2, event] = size, param, request
        if trait & TAKES and at >= 0:
            reference, at = number_at(rows, at)
            entry = ZERO
            if reference == FAR:
                entry, at_far = number_at(far, at_far)
                if at_far < 0:
                    raise Malformed("column far: too few numbers, or one cut off or of more than 64 bits")
            number = _live_object(reference, entry, acquires, links, places, numbers_of)
            node = number + 1
            if number >= 0 and links[node, OLDER] != NOT_LIVE:
                cursor = _cursor(I64(reference))
                after = I64(links[node, NEWER])
                places, numbers_of = _put_in_front(places, cursor, after), _put_in_front(numbers_of, cursor, number)
                if did & RELEASED:
                    before = links[node, OLDER]
                    links[before, NEWER], links[after, OLDER], links[node, OLDER] = after, before, NOT_LIVE
                    places = _replaced(places, node, after)
            if number == UNKNOWN:
                raise Malformed("a release names no acquire of its block")
            meant[event] = number
        if at < 0:
            raise Malformed("column rows: the last row is cut off, or has a number of more than 64 bits")
        if trait & ACQUIRES:
            acquires += 1
            newest = links[END, OLDER]
            links[acquires, OLDER], links[newest, NEWER], links[END, OLDER] = newest, acquires, acquires
    if at < len(rows):
        raise Malformed("column rows: more rows than the block has")
    if at_far < len(far):
        raise Malformed("column far: more entries than references to it")


@part
def _live_object(
    reference: np.uint64, entry: np.uint64, acquires: int, links: np.ndarray, places: Four, numbers_of: Four
) -> int:
    """The acquire that a reference of column 18 means. `entry`: its entry in column 19, if it has one."""
    if reference > FAR:
        return UNKNOWN
    code = I64(reference)
    if code == 0:
        return STORED
    if code == FAR:
        number = I64(U64(_of(numbers_of, I64(entry & U64(CURSORS - 1)))) + unzigzag(entry >> U64(2)))
        return number if 0 <= number < acquires else UNKNOWN
    if code < FIRST_CURSOR:
        node, steps, way = I64(links[END, OLDER]), code - 1, OLDER
    else:
        step = (code - FIRST_CURSOR) % (2 * STEPS)
        node, steps, way = _of(places, _cursor(code)), step >> 1, OLDER if step & 1 else NEWER
        if way == OLDER:
            node = I64(links[node, OLDER])
    while steps and node != END:
        node, steps = I64(links[node, way]), steps - 1
    return node - 1 if node != END else UNKNOWN


@part
def _cursor(code: int) -> int:
    """The cursor that moves after a reference."""
    return (code - FIRST_CURSOR) // (2 * STEPS) if FIRST_CURSOR <= code < FAR else CURSORS - 1


@part
def _of(four: Four, cursor: int) -> int:
    if cursor < 2:
        return four[1] if cursor else four[0]
    return four[2] if cursor == 2 else four[3]


@part
def _put_in_front(four: Four, cursor: int, value: int) -> Four:
    """Removes the cursor's value, and puts `value` in front."""
    first, second, third, fourth = four
    return value, first if cursor >= 1 else second, second if cursor >= 2 else third, third if cursor >= 3 else fourth


@part
def _replaced(four: Four, old: int, new: int) -> Four:
    first, second, third, fourth = four
    return (
        new if first == old else first,
        new if second == old else second,
        new if third == old else third,
        new if fourth == old else fourth,
    )


@part
def _class(system: int, request: np.uint64) -> int:
    """The class of a request. System 0 is the one of section 4."""
    if system == 0:
        return max(2, I64((min(request, LARGEST - U64(23)) + U64(23)) >> FOUR))
    units = max(1, I64((min(request, LARGEST - U64(15)) + U64(15)) >> FOUR))
    shift = 0
    while units > 8 and units >> shift >= 8:
        shift += 1
    return ((units + (1 << shift) - 1) >> shift) << shift


@compiled
def addresses(
    events: tuple[np.ndarray, np.ndarray, np.ndarray],
    acquires: int,
    stored: tuple[np.ndarray, np.uint64],
    predicted: tuple[np.ndarray, np.ndarray, np.uint64],
    archive: bool,
    out: np.ndarray,
) -> None:
    """Decodes addresses passed in (out[0]) and handed out (out[1]). `events`: requests, deeds, meant; `acquires`: how
    many of them acquire; `stored`: column 6 and its shift; `predicted`: columns 7 and 8, or 17 in place of 8
    (`archive`), and the shift. Raises Malformed.
    """
    request, deeds, meant = events
    column6, shift6 = stored
    hits, entries, shift = predicted
    address, group = np.empty(acquires, np.uint64), np.empty(acquires, np.int64)  # of each acquire
    # The stacks: events that pushed, the one below each, and the pushed address. An acquire may be pushed more than
    # once: other threads handed its address out again.
    top, below, pushed = np.full(STACKS, -1, np.int32), np.empty(len(deeds), np.int32), np.empty(len(deeds), np.uint64)
    fresh = np.zeros((2, STACKS), np.uint64)  # last address; step
    expected = last = ZERO
    at = at6 = number = system = 0
    if archive and len(entries):
        chosen, at = number_at(entries, at)
        if at < 0 or chosen > 1:
            raise Malformed("column places: an unknown system of classes")
        system = I64(chosen)
    for event in range(len(deeds)):
        did, object_ = deeds[event], meant[event]
        if object_ == STORED:
            entry, at6 = number_at(column6, at6)
            if at6 < 0:
                raise Malformed("column release address: too few numbers, or one cut off or of more than 64 bits")
            last += unzigzag(entry) << shift6
            out[0, event] = last
        elif object_ >= 0:
            out[0, event] = address[object_]
            kind = group[object_]
            if did & RELEASED and kind < STACKS:
                pushed[event], below[event], top[kind] = address[object_], top[kind], event
        if not did & ACQUIRED:
            continue
        kind, entry = _class(system, request[event]), ZERO
        moves = archive or not hits[number >> 3] >> (number & 7) & 1
        if moves:
            entry, at = number_at(entries, at)
            if at < 0:
                raise Malformed("column acquire address or places: too few numbers, or one cut off or too long")
        if not moves:
            found = _popped(kind, 0, top, below, pushed)
        elif not archive:
            found = expected + (unzigzag(entry) << shift)
        elif entry < FRESH:
            found = _popped(kind, I64(entry), top, below, pushed)
            moves = entry != ZERO
        else:
            found = _not_from_a_stack(kind, entry, expected + (unzigzag(entry - ELSEWHERE) << shift), fresh)
        if moves:
            expected = found + (U64(_class(0, request[event])) << FOUR)
        address[number], group[number], out[1, event] = found, kind, found
        number += 1
    if at < len(entries) or at6 < len(column6):
        raise Malformed("column release address, acquire address or places: more entries than events that have one")


@part
def _not_from_a_stack(kind: int, entry: np.uint64, elsewhere: np.uint64, fresh: np.ndarray) -> np.uint64:
    """The address by an entry of column 17 that is at least FRESH. Raises Malformed."""
    if kind >= STACKS:
        if entry == FRESH:
            raise Malformed("an acquire from a stack that does not exist")
        return elsewhere
    before, step = fresh[0, kind], fresh[1, kind]
    found = elsewhere
    if entry == FRESH:
        found = before + (step if step else U64(kind) << FOUR)
    fresh[0, kind], fresh[1, kind] = found, found - before if before else ZERO
    return found


@part
def _popped(kind: int, place: int, top: np.ndarray, below: np.ndarray, pushed: np.ndarray) -> np.uint64:
    """Removes and returns the address `place` entries below the top of a stack. Raises Malformed."""
    if kind >= STACKS:
        raise Malformed("a predicted acquire is too large to have a stack")
    above, found = -1, top[kind]
    while place and found >= 0:
        above, found, place = found, below[found], place - 1
    if found < 0:
        raise Malformed("a predicted acquire finds its stack empty, or too low")
    if above < 0:
        top[kind] = below[found]
    else:
        below[above] = below[found]
    return pushed[found]


@compiled
def stamps(
    deeds: np.ndarray, columns: tuple[np.ndarray, np.ndarray], steps: int, span: tuple[int, int], out: np.ndarray
) -> None:
    """The stamp of each event's taking step (out[0]) and of its acquiring or only step (out[1]). `columns`: 9 and 10;
    `span`: the first and the last stamp. Raises Malformed.
    """
    gaps, deltas = columns
    (stamp, last), step, at_gap, at_delta = span, 0, 0, 0
    following = -1  # the next step that has a stamp
    for event in range(len(deeds)):
        both = deeds[event] & TOOK and deeds[event] & RELEASED and deeds[event] & ACQUIRED
        for part in range(2 if both else 1):
            if following < step and at_gap < len(gaps):
                gap, at_gap = number_at(gaps, at_gap)
                if at_gap < 0:
                    raise Malformed("column stamp gap: a number cut off or of more than 64 bits")
                if gap >= U64(steps - step):
                    raise Malformed("a stamp beyond the last step")
                following = step + I64(gap)
            if following == step:
                delta, at_delta = number_at(deltas, at_delta)
                if at_delta < 0:
                    raise Malformed("column stamp delta: too few numbers, or one cut off or of more than 64 bits")
                if stamp + delta < stamp:
                    raise Malformed("a stamp is lower than the one before it")
                stamp += delta
            step += 1
            out[0 if deeds[event] & TOOK and part == 0 else 1, event] = stamp
    if at_gap < len(gaps):
        raise Malformed("a stamp beyond the last step")
    if at_delta < len(deltas):
        raise Malformed("column stamp delta: more entries than gaps")
    if steps and stamp != last:
        raise Malformed("its last stamp is not the one in its header")
