# SPDX-License-Identifier: MIT
"""Small foreign recordings: text samples in data/, beside the output of `dump` for them; binary samples made here.

Each is written from the format's public description, or cut from the tool's output, and every kind of record occurs.
Refresh the dumps with `make golden`, then read the difference.
"""

import struct
import tempfile
from pathlib import Path

from tests.support import CONVERT, succeed

DATA = Path(__file__).resolve().parent / "data"

DJ_TYPES = {
    "malloc": 1,
    "calloc": 2,
    "free": 3,
    "realloc": 4,
    "memalign": 5,
    "valloc": 6,
    "pvalloc": 7,
    "posix_memalign": 8,
    "magic": 255,
}


def dj_record(
    thread: int, call: str, ptr1: int = 0, ptr2: int = 0, size: int = 0, size2: int = 0, path: int = 0
) -> bytes:
    """One record of dj/malloc's trace, 64 bytes."""
    return struct.pack("=iIQQQQQQQ", thread, DJ_TYPES[call] | path << 8, ptr1, ptr2, size, size2, 0, 0, 0)


def dj_sample() -> bytes:
    """Every type, an inversion between threads, unused records at the end."""
    return b"".join(
        [
            dj_record(0, "magic"),
            dj_record(70, "malloc", ptr2=0x1010, size=24, path=5),
            dj_record(71, "calloc", ptr2=0x1040, size=300),
            dj_record(71, "realloc", ptr1=0x1040, ptr2=0x1200, size=500),
            dj_record(71, "malloc", ptr2=0x1010, size=8),
            dj_record(70, "free", ptr1=0x1010),
            dj_record(70, "free"),
            dj_record(70, "memalign", ptr2=0x1400, size=100, size2=64),
            dj_record(70, "valloc", ptr2=0x2000, size=10),
            dj_record(70, "pvalloc", ptr2=0x3000, size=11),
            dj_record(70, "posix_memalign", ptr2=0x4000, size=12, size2=128),
            dj_record(70, "posix_memalign", ptr1=22, ptr2=0x4000, size=12, size2=3),
            dj_record(70, "malloc", size=1 << 62),
            bytes(128),
        ]
    )


def number(value: int) -> bytes:
    """7 bits per byte, most significant first."""
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F | 0x80)
    return bytes(reversed(parts))


def op(code: int, *numbers: int) -> bytes:
    """A code of a .wl stream and its numbers."""
    return bytes([code]) + b"".join(number(value) for value in numbers)


def wl(pointers: int, syncs: int, streams: list[bytes]) -> bytes:
    """A .wl workload. The header's length depends on the offsets in it, which are found by iteration."""
    offsets = [0] * len(streams)
    while True:
        header = op(8, pointers) + op(9, syncs) + op(10, len(streams)) + b"".join(op(11, at) for at in offsets) + op(1)
        starts, at = [], len(header)
        for stream in streams:
            starts.append(at)
            at += len(stream)
        if starts == offsets:
            return header + b"".join(streams)
        offsets = starts


def wl_sample() -> bytes:
    """Thread 1 waits for an object that thread 0 makes, then frees it."""
    first = op(2, 1, 24) + op(3, 2, 300) + op(4, 3, 2, 500) + op(6, 1) + op(0) + op(12, 4, 64, 100) + op(5, 0) + op(1)
    second = op(7, 1) + op(5, 1) + op(13, 5, 10) + op(14, 6, 11) + op(2, 0, 1 << 62) + op(4, 0, 3, 0) + op(1)
    return wl(6, 1, [first, second])


def bytehound(slots: int, operations: list[tuple[int, int, int, int]], promised: int | None = None) -> bytes:
    """An export-replay file of (kind, slot, time in us, size)."""
    count = len(operations) if promised is None else promised
    return struct.pack("=QQ", slots, count) + b"".join(struct.pack("=QQQQ", *one) for one in operations)


def bytehound_sample() -> bytes:
    """Each kind of operation, a slot used again."""
    return bytehound(2, [(1, 0, 5000, 24), (1, 1, 5000, 300), (3, 0, 5010, 500), (2, 1, 5020, 0), (1, 1, 5020, 7)])


def varint(value: int) -> bytes:
    """7 bits per byte, least significant first."""
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def mallocbench_line(kind: int, fields: dict[int, int]) -> bytes:
    """A line of malloc-bench's protobuf: kind is 1 malloc, 2 free, 3 realloc, 4 calloc; fields by number."""
    call = b"".join(varint(number << 3) + varint(value) for number, value in fields.items())
    line = varint(kind << 3 | 2) + varint(len(call)) + call
    return b"\x0a" + varint(len(line)) + line


def mallocbench_sample() -> bytes:
    """Each kind of line with and without what is optional, an id used again, the field after the lines."""
    lines = [
        (1, {1: 0, 2: 24}),
        (1, {1: 1, 2: 300, 3: 64}),
        (4, {1: 2, 2: 7, 3: 5}),
        (3, {1: 3, 2: 1, 3: 70000}),
        (3, {1: 1, 3: 9}),
        (2, {1: 0, 2: 24, 3: 16}),
        (2, {}),
        (1, {2: 0}),
        (1, {1: 0, 2: 1 << 20}),
    ]
    return b"".join(mallocbench_line(kind, fields) for kind, fields in lines) + b"\x10\x04"


BINARY = {"dj": dj_sample, "wl": wl_sample, "bytehound": bytehound_sample, "mallocbench": mallocbench_sample}
TEXT = {
    "heaptrack-v1.raw": "heaptrack",
    "heaptrack-v3.raw": "heaptrack",
    "heaptrack-interpreted.txt": "heaptrack",
    "lab.script": "script",
    "wee_alloc.trace": "wee_alloc",
    "logalloc.txt": "logalloc",
    "logalloc-munged.txt": "logalloc",
    "mtrace.txt": "mtrace",
    "lab.rep": "rep",
    "valgrind.txt": "valgrind",
    "ltrace.txt": "ltrace",
    "kdump.txt": "kdump",
    "kdump-threads.txt": "kdump",
    "memray.txt": "memray",
    "lttng.txt": "lttng",
}
FORMAT_OF = TEXT | {f"sample.{name}": name for name in BINARY}


def sample(name: str, folder: Path) -> Path:
    """The sample of that name (a key of FORMAT_OF), in folder if it has to be made."""
    if name in TEXT:
        return DATA / name
    path = folder / name
    path.write_bytes(BINARY[FORMAT_OF[name]]())
    return path


def expected(name: str) -> Path:
    """The file with the expected output of `dump`."""
    return DATA / f"{name}.dump"


def refresh() -> None:
    """Rewrites the expected dumps."""
    for name in FORMAT_OF:
        with tempfile.TemporaryDirectory() as folder:
            expected(name).write_text(succeed(CONVERT, "dump", sample(name, Path(folder))).stdout)


if __name__ == "__main__":
    refresh()
