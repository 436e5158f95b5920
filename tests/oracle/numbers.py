# SPDX-License-Identifier: MIT
"""Number codings of a trace's columns (core/trace/FORMAT.md, sections 1 and 4), and what is wrong with a block."""

import numpy as np

U64 = np.uint64
LARGEST = U64(np.iinfo(U64).max)


class Malformed(Exception):  # noqa: N818
    """An error in a block; the caller adds where the block is."""


def leb(column: bytes, name: str) -> np.ndarray:
    """All unsigned LEB128 numbers of a column, as uint64."""
    data = np.frombuffer(column, np.uint8)
    last = np.flatnonzero(data < 0x80)
    if len(last) == len(data):
        return data.astype(U64)
    if len(last) == 0 or last[-1] != len(data) - 1:
        raise Malformed(f"column {name}: its last number is cut off")
    first = np.concatenate(([0], last[:-1] + 1))
    length = last - first + 1
    longest = length == 10
    if (length > 10).any() or (data[last[longest]] > 1).any():
        raise Malformed(f"column {name}: a number of more than 64 bits")
    place = (np.arange(len(data)) - np.repeat(first, length)).astype(U64)
    return np.bitwise_or.reduceat((data & 0x7F).astype(U64) << (place * U64(7)), first)


def zigzag(values: np.ndarray) -> np.ndarray:
    """uint64 zigzag form to the signed number modulo 2^64."""
    return (values >> U64(1)) ^ (U64(0) - (values & U64(1)))


def exactly(values: np.ndarray, count: int, name: str) -> np.ndarray:
    """The values. Raises Malformed unless there are `count` of them."""
    if len(values) != count:
        raise Malformed(f"column {name}: {len(values)} entries instead of {count}")
    return values
