# SPDX-License-Identifier: MIT
"""Changes inputs by their structure: a number, a row, a column, a block, a word, a line, a key. Lengths and checksums
are computed again, so that the change itself gets to the code behind them. Each function is given a source of chance
and a valid input, and returns a changed one.
"""

import contextlib
import gzip
import json
import random
import re
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from convert.test.models.tape_maker import FOOTER, GAP, INFO, MARKS, Block, Column, Tape
from tests.leb import Reader, leb

Mutator = Callable[[random.Random, bytes], bytes]

# Where numbers wrap round, change their sign, or leave a type.
EDGES = [0, 1, 2, 7, 63, 64, 127, 128, 255, 256, 4095, 4096, 65535, 65536]
EDGES += [(1 << bits) + by for bits in (20, 24, 26, 28, 30, 31, 32, 40, 47, 48, 53, 62, 63, 64) for by in (-1, 0, 1)]
HOSTILE_JSON: list[Any] = [None, True, -1, 0, 1 << 31, 1 << 63, (1 << 64) - 1, 1e308, -0.0, 0.5, "", "x" * 5000]
HOSTILE_JSON += ["\x1b[31m\u202e", "\0", "../../etc/passwd", [], {}, [[]], {"a": None}, [0] * 70]
MODULES, THREADS = 7, 9
JSON_BLOCKS = {INFO, GAP, MODULES, MARKS, THREADS, FOOTER}
BYTE_COLUMNS = {1, 7}  # of events: calls and hits, not LEBs


def edge(source: random.Random, bits: int, near: int = 0) -> int:
    """A number of so many bits: an edge, one beside `near`, or any."""
    value = source.choice([source.choice(EDGES), near + source.choice([-1, 1, 8]), source.getrandbits(bits)])
    return value & (1 << bits) - 1


def of_list(source: random.Random, rows: list, changed: Callable[[Any], Any]) -> None:
    """Changes a row by `changed`, or leaves it out, doubles it, or puts it in another place."""
    if not rows:
        return
    at, to = source.randrange(len(rows)), source.randrange(len(rows))
    match source.randrange(6):
        case 0:
            del rows[at]
        case 1:
            rows.insert(to, rows[at])
        case 2:
            rows[at], rows[to] = rows[to], rows[at]
        case _:
            rows[at] = changed(rows[at])


def of_json(source: random.Random, value: Any) -> Any:  # noqa: ANN401 (any JSON)
    """The value with one part of it, or all, replaced, left out, doubled, or put in another place."""
    if isinstance(value, dict) and value and source.random() < 0.9:
        out = dict(value)
        key = source.choice(sorted(out))
        if source.random() < 0.15:
            out.pop(key)
        else:
            out[key] = of_json(source, out[key])
        return out
    if isinstance(value, list) and value and source.random() < 0.9:
        rows = list(value)
        of_list(source, rows, lambda row: of_json(source, row))
        return rows
    if isinstance(value, int) and source.random() < 0.5:
        return edge(source, 64, value) - source.choice([0, 0, 1 << 63])
    return source.choice(HOSTILE_JSON)


def json_text(source: random.Random, text: bytes) -> bytes:
    """The same of JSON text, which may also be cut, or repeat a key."""
    if source.random() < 0.1:
        return text[: source.randrange(len(text) + 1)]
    if source.random() < 0.05:
        return text.replace(b"{", b'{"events":1e999,', 1)
    try:
        value = json.loads(text)
    except ValueError:
        return text
    for _ in range(source.choice([1, 1, 2, 4])):
        value = of_json(source, value)
    return json.dumps(value).encode()


def _numbers(raw: bytes) -> list[int]:
    """The LEBs of a column, up to one that is cut off."""
    reader, rows = Reader(raw), list[int]()
    with contextlib.suppress(IndexError):
        while reader.more:
            rows.append(reader.leb())
    return rows


def _column(source: random.Random, block: Block, column: Column) -> None:
    if block.type in JSON_BLOCKS and column.id == 1:
        column.raw = json_text(source, column.raw)
    elif column.id in BYTE_COLUMNS:
        rows = list(column.raw)
        of_list(source, rows, lambda byte: source.choice([byte ^ 1 << source.randrange(8), source.randrange(256)]))
        column.raw = bytes(rows)
    else:
        rows = _numbers(column.raw)
        of_list(source, rows, lambda number: edge(source, 64, number))
        column.raw = b"".join(map(leb, rows)) + source.choice([b"", b"", b"", b"\x80", b"\xff" * 11])


def _block(source: random.Random, block: Block) -> None:
    names = ["thread", "rows", "steps", "first_stamp", "last_stamp", "sequence", "type"]
    bits = dict.fromkeys(names, 32) | {"first_stamp": 64, "last_stamp": 64, "type": 8}
    if block.columns and source.random() < 0.75:
        column = source.choice(block.columns)
        match source.randrange(12):
            case 0:
                column.shift = source.choice([0, 1, 63, 64, 255])
            case 1:
                column.id = source.randrange(24)
            case 2:
                column.raw_bytes = edge(source, 32, len(column.raw))
            case 3:
                of_list(source, block.columns, lambda one: Column(one.id, b"", one.shift))
            case _:
                _column(source, block, column)
    else:
        name = source.choice(names)
        setattr(block, name, edge(source, bits[name], getattr(block, name)))


def tape(source: random.Random, data: bytes) -> bytes:
    """A trace."""
    with tempfile.NamedTemporaryFile(suffix=".tape") as file:
        path = Path(file.name)
        path.write_bytes(data)
        read = Tape.read(path)
        for _ in range(source.choice([1, 1, 1, 2, 4])):
            if source.random() < 0.1:
                of_list(source, read.blocks, lambda block: Block(block.type, []))
            elif read.blocks:
                _block(source, source.choice(read.blocks))
        count = bool(read.blocks and read.blocks[-1].type == FOOTER and read.blocks[-1].columns)
        read.write(path, count=count and source.random() < 0.7)
        return path.read_bytes()


CODES = [*range(40), *range(64, 80), *range(128, 140), 0xEF, 0xF0, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xFF]
FIELDS = [(0, 8), (8, 20), (8, 24), (28, 36), (32, 32), (8, 56)]  # of a word of a workload: first bit, bits
HEADER = struct.Struct("<8sIIQQQIIQQQQQQQQQQI")  # up to the highest region


def _word(source: random.Random, word: int) -> int:
    first, bits = source.choice(FIELDS)
    now = word >> first & (1 << bits) - 1
    new = source.choice(CODES) if bits == 8 else edge(source, bits, now)
    return word & ~((1 << bits) - 1 << first) | new << first


def work(source: random.Random, data: bytes) -> bytes:
    """A workload: words, extents, the schedule, counts, its JSON, or the header."""
    out = bytearray(data)
    header = list(HEADER.unpack_from(out))
    for _ in range(source.choice([1, 1, 2, 6])):
        extents, count, info, info_bytes = header[12:16]
        match source.randrange(10):
            case 0:
                at = source.randrange(2, len(header))
                header[at] = edge(source, 32 if at in (2, 6, 7, 18) or at == 1 else 64, header[at])
            case 1 if count and extents + 16 * count <= len(out):
                form, at = source.choice([("<I", 0), ("<I", 4), ("<Q", 8)])
                place = extents + 16 * source.randrange(count) + at
                (now,) = struct.unpack_from(form, out, place)
                struct.pack_into(form, out, place, edge(source, 8 * struct.calcsize(form), now))
            case 2 if info + info_bytes <= len(out):
                text = json_text(source, bytes(out[info : info + info_bytes]))
                header[14], header[15] = len(out), len(text)
                out += text + bytes(-len(text) % 8)
                header[3] = len(out)
            case _:
                words = (len(data) - 256) // 8
                at = 256 + 8 * source.randrange(max(1, min(words, header[5])))
                if at + 16 > len(out):
                    continue
                (now,) = struct.unpack_from("<Q", out, at)
                to = source.choice([_word(source, now), _word(source, now), struct.unpack_from("<Q", out, at + 8)[0]])
                struct.pack_into("<Q", out, at, to)
    HEADER.pack_into(out, 0, *header)
    struct.pack_into("<I", out, 252, zlib.crc32(bytes(out[:252])))
    return bytes(out)


def origins(source: random.Random, data: bytes) -> bytes:
    """An origins file: a number of its tables, its JSON, or its header. The workload's checksum in it stays."""
    out = bytearray(data)
    json_bytes = struct.unpack_from("<Q", out, 48)[0]
    match source.randrange(4):
        case 0:
            at = source.choice([8, 12, 16, 24, 32, 36, 40, 44, 48])
            struct.pack_into("<I", out, at, edge(source, 32, struct.unpack_from("<I", out, at)[0]))
        case 1:
            text = json_text(source, bytes(out[-json_bytes:]))
            out[-json_bytes:] = text
            struct.pack_into("<QQ", out, 16, len(out), struct.unpack_from("<Q", out, 24)[0])
            struct.pack_into("<Q", out, 48, len(text))
        case _:
            at = 64 + 4 * source.randrange(max(1, (len(out) - json_bytes - 64) // 4))
            if at + 4 <= len(out):
                struct.pack_into("<I", out, at, edge(source, 32, struct.unpack_from("<I", out, at)[0]))
    struct.pack_into("<I", out, 60, zlib.crc32(bytes(out[:60])))
    return bytes(out)


def items(source: random.Random, data: bytes) -> bytes:
    """A file of numbers without a checksum, such as accesses: LEBs after its header of 16 bytes, or any bytes."""
    rows = list(data[16:])
    for _ in range(source.choice([1, 2, 8])):
        of_list(source, rows, lambda byte: source.choice([byte ^ 0x80, 0, 0x7F, 0xFF, source.randrange(256)]))
    head = bytearray(data[:16])
    if source.random() < 0.2:
        head[source.randrange(8, 16)] = source.choice([0, 1, 255])
    return bytes(head) + bytes(rows)


TOKEN = re.compile(rb"0[xX][0-9a-fA-F]+|[0-9]+|[A-Za-z_]+|[^\sA-Za-z0-9_]")
PACKERS = (bytes, bytes, bytes, gzip.compress, zstandard.compress)
ODD_TOKENS = [b"", b"-", b"-1", b"0x", b"0x1" + b"0" * 16, b"99999999999999999999", b"1e9", b"\0", b"\xff\xfe"]
ODD_TOKENS += [b"(nil)", b"NULL", b"%s%n", b'"', b"\r", b" " * 70, b"x" * 3000, b"\x1b[2J"]


def _token(source: random.Random, line: bytes) -> bytes:
    found = list(TOKEN.finditer(line))
    if not found:
        return line
    one, other = source.choice(found), source.choice(found)
    number = edge(source, 64)
    new = source.choice([other.group(), source.choice(ODD_TOKENS), str(number).encode(), hex(number).encode()])
    return line[: one.start()] + new + line[one.end() :]


def text(source: random.Random, data: bytes) -> bytes:
    """A recording as text: tokens and lines."""
    lines = data.splitlines(keepends=True)
    for _ in range(source.choice([1, 1, 2, 5])):
        of_list(source, lines, lambda line: _token(source, line))
    out = b"".join(lines)
    return out[: source.randrange(len(out) + 1)] if source.random() < 0.1 else out


def binary(source: random.Random, data: bytes) -> bytes:
    """A recording of binary numbers, of 1, 2, 4 or 8 bytes."""
    out = bytearray(data)
    for _ in range(source.choice([1, 1, 2, 5])):
        form = source.choice("BHIQ")
        size = struct.calcsize(form)
        if len(out) >= size:
            at = source.randrange(len(out) - size + 1) // size * size
            struct.pack_into(f"<{form}", out, at, edge(source, 8 * size, struct.unpack_from(f"<{form}", out, at)[0]))
    return bytes(out[: source.randrange(len(out) + 1)]) if source.random() < 0.1 else bytes(out)


def recording(source: random.Random, data: bytes) -> bytes:
    """Another tool's recording, as text or not; packed again, sometimes cut."""
    odd = sum(byte < 9 or byte > 126 for byte in data)
    changed = (binary if odd > len(data) // 20 else text)(source, data)
    packed = source.choice(PACKERS)(changed)
    return packed[: source.randrange(len(packed) + 1)] if source.random() < 0.03 else packed
