"""References of an archive's rows to live objects (core/trace/FORMAT.md, section 4b, rows by live objects): a list of
the live objects of the block, and four cursors into it. What each reference means depends on all before it, so this is
a loop over the references.
"""

import numpy as np

from heaptape.formats.tape_numbers import Malformed

CURSORS, STEPS, NEWEST = 4, 4, 8
STORED, FIRST_CURSOR = 0, 1 + NEWEST
FAR = FIRST_CURSOR + CURSORS * 2 * STEPS
END, NOT_LIVE = 0, -1  # node of acquire n: n + 1


class LiveList:
    """The live objects in order of their acquires, of a block that has at most `acquires`."""

    def __init__(self, acquires: int) -> None:
        self.older = [END] * (acquires + 1)
        self.newer = [END] * (acquires + 1)
        self.acquired = 0
        self.places, self.numbers = [END] * CURSORS, [0] * CURSORS

    def acquire_up_to(self, count: int) -> None:
        """Adds the next acquires, until there are `count`."""
        older, newer = self.older, self.newer
        for node in range(self.acquired + 1, count + 1):
            newest = older[END]
            older[node], newer[newest], older[END] = newest, node, node
        self.acquired = count

    def find(self, code: int, far: int) -> int:
        """The acquire meant; -1 if there is none. `code` is not STORED."""
        if code == FAR:
            half = far // CURSORS
            number = self.numbers[far % CURSORS] + (half >> 1 if half & 1 == 0 else -(half >> 1) - 1)
            return number if 0 <= number < self.acquired else -1
        if code > FAR:
            return -1
        if code < FIRST_CURSOR:
            node, steps, links = self.older[END], code - 1, self.older
        else:
            cursor, way = divmod(code - FIRST_CURSOR, 2 * STEPS)
            steps, links = way >> 1, self.older if way & 1 else self.newer
            node = self.older[self.places[cursor]] if way & 1 else self.places[cursor]
        while steps and node != END:
            node, steps = links[node], steps - 1
        return node - 1

    def refer(self, code: int, number: int, releases: bool) -> None:
        """An event with that reference has taken place; `releases`: the object dies of it."""
        node = number + 1
        older, after = self.older[node], self.newer[node]
        if older == NOT_LIVE:
            return
        replaced = (code - FIRST_CURSOR) // (2 * STEPS) if FIRST_CURSOR <= code < FAR else CURSORS - 1
        del self.places[replaced], self.numbers[replaced]
        self.places.insert(0, after)
        self.numbers.insert(0, number)
        if releases:
            self.newer[older], self.older[after], self.older[node] = after, older, NOT_LIVE
            if node in self.places:
                self.places = [after if place == node else place for place in self.places]


def live_distances(codes: np.ndarray, far: np.ndarray, before: np.ndarray, releases: np.ndarray) -> np.ndarray:
    """Release distances of references, 0 where the address is stored. Per reference `codes`, `before` (acquires before
    its event) and `releases` (its event releases the object); `far` as many entries as there are codes of FAR. Raises
    Malformed.
    """
    live = LiveList(int(before[-1]) if len(before) else 0)
    fars = np.zeros(len(codes), object)
    fars[codes == FAR] = far
    out = []
    for code, entry, count, dies in zip(codes.tolist(), fars, before.tolist(), releases.tolist(), strict=True):
        if code == STORED:
            out.append(0)
            continue
        live.acquire_up_to(count)
        number = live.find(code, entry)
        if number < 0:
            raise Malformed("a release names no acquire of its block")
        live.refer(code, number, dies)
        out.append(count - number)
    return np.array(out, np.uint64)
