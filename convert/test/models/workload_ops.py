# SPDX-License-Identifier: MIT
"""Reads a workload's ops in their total order: what the tests need of WORKLOAD.md, independent of heaptape's own
code.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

NO_SLOT = 0xFFFFFFFF
REGION, SIZE_HIGH, PARAM, WAIT, MARK, START, END = 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF


@dataclass
class WorkloadOp:
    thread: int
    call: int
    slot: int
    size: int
    param: int | None
    waits: list[tuple[int, int]]
    apart: int = 0


def streams_of(path: Path) -> tuple[list[list[int]], bytes]:
    """Words of each stream, the schedule and the time line last, and the header."""
    data = path.read_bytes()
    header = data[:256]
    threads = struct.unpack_from("<I", header, 40)[0]
    offset, count = struct.unpack_from("<QQ", header, 88)
    streams: list[list[int]] = [[] for _ in range(threads + 2)]
    for i in range(count):
        stream, words, at = struct.unpack_from("<IIQ", data, offset + 16 * i)
        streams[stream] += struct.unpack_from(f"<{words}Q", data, at)
    return streams, header


def next_op(words: list[int], at: int, thread: int) -> tuple[WorkloadOp, int]:
    high, param, waits, apart = 0, None, [], 0
    while True:
        word = words[at]
        at += 1
        code = word & 0xFF
        if code == SIZE_HIGH:
            high = word >> 8
        elif code == PARAM:
            param = word >> 8
        elif code == REGION:
            apart = word >> 8
        elif code == WAIT:
            waits.append((word >> 8 & 0xFFFFF, word >> 28))
        elif code < REGION:
            size = high << 24 | (word >> 8 & 0xFFFFFF)
            return WorkloadOp(thread, code, word >> 32, size, param, waits, apart), at


def ops_of(path: Path) -> list[WorkloadOp]:
    streams, _ = streams_of(path)
    schedule = streams[-2]
    at = [0] * len(streams)
    ops = []
    for word in schedule:
        thread = word & 0xFFFFFFFF
        for _ in range(word >> 32):
            op, at[thread] = next_op(streams[thread], at[thread], thread)
            ops.append(op)
    return ops
