# SPDX-License-Identifier: MIT
"""JSON with its numbers stored apart, which gzip then makes half as large: the numbers under one key are one column of
bytes; the rest is a text, which is repetitive.

The bytes are a line of JSON, the head; text of `text_bytes` (in the head) bytes; and columns of whole numbers, as
`columns` (in the head) lists them. The text is lines: first `shared` strings, then `texts` lines of other numbers
(fractions, very large ones) as written, separated by blanks. The last line is the JSON, with marks in the place of
values stored elsewhere:

    \\x01C;         the next number of column C
    \\x02T;         the next number of the T-th line of numbers
    \\x03S;         string S
    \\x04C,V,…;     rows; the next number of column C is their number; each V is a vector, a column of the rows
    \\x05C,V;       a list of numbers, in the same way

A vector is cN, the next numbers of column N, or vN: the N-th vector again. JSON has no such characters outside of
strings, and escapes them within strings.

A column is [how, count, planes, distinct, planes of distinct]. How: 0 the numbers themselves, 1 their differences, the
first from 0, 2 their differences from the column before; then folded: 0 -1 1 -2 2 as 0 1 2 3 4. If `distinct` is not 0,
the distinct values come first, ascending, as differences, and then the index of each number among them. Planes: the
lowest byte of each number, then the second byte of each, and so on.
"""

import itertools
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

# Folded differences of numbers below LARGEST are exact in a browser, and take at most MOST_PLANES bytes.
LARGEST, MOST_PLANES = 1 << 51, 7
# A list of fewer numbers has a mark for each of them; shorter strings stay in the JSON.
FEWEST_ROWS, SHARED_CHARACTERS, MOST_COLUMNS = 8, 512, 16
AS_IT_IS, BEFORE, BESIDE = range(3)
_MARK = re.compile(r"([\x01-\x05])([^;]*);")


def take_apart(data: dict) -> bytes:
    """Packs a JSON object as head, text and columns."""
    return _Writer().whole(data)


def put_together(raw: bytes, most_characters: int) -> str:
    """The JSON text, as `json.dumps` without blanks writes it. Raises ValueError or IndexError if `raw` is malformed or
    the text is longer than `most_characters`.
    """
    return _Reader(raw, most_characters).whole()


class _Writer:
    def __init__(self) -> None:
        self.columns: dict[tuple[str, int], tuple[int, list[int]]] = {}
        self.texts: dict[str, tuple[int, list[str]]] = {}
        self.strings: dict[str, int] = {}
        self.vectors: dict[tuple[int, ...], int] = {}
        self.out: list[str] = []

    def whole(self, data: dict) -> bytes:
        self.value(data, "")
        lines = [*self.strings, *(" ".join(texts) for _, texts in self.texts.values()), "".join(self.out)]
        text = "\n".join(lines).encode()
        columns, stored, beside = [], [], np.empty(0, np.int64)
        for _, held in self.columns.values():
            numbers = np.array(held, np.int64)
            column, planes = min(_ways(numbers, beside), key=lambda way: len(zlib.compress(way[1], 1)))
            columns.append(column)
            stored.append(planes)
            beside = numbers
        head = {"text_bytes": len(text), "shared": len(self.strings), "texts": len(self.texts), "columns": columns}
        return b"".join([_text(head).encode(), b"\n", text, *stored])

    def value(self, value: Any, key: str) -> None:  # noqa: ANN401
        kind = type(value)
        if kind is dict:
            self.object(value)
        elif kind is int and -LARGEST < value < LARGEST:
            self.out.append(f"\x01{self.put((key, -1), (value,))};")
        elif kind in (int, float):
            self.other(_text(value), key)
        elif isinstance(value, list):
            self.list(value, key)
        else:
            self.string(_text(value))

    def object(self, value: dict) -> None:
        before = "{"
        for name, inner in value.items():
            self.out.append(f"{before}{_text(name)}:")
            self.value(inner, name)
            before = ","
        self.out.append("}" if value else "{}")

    def list(self, value: list, key: str) -> None:
        columns = _columns(value)
        if columns is None:
            for number, inner in enumerate(value):
                self.out.append("," if number else "[")
                self.value(inner, key)
            self.out.append("]" if value else "[]")
            return
        flat = type(value[0]) is int
        length = self.put((key, -2), (len(value),))
        items = ",".join(self.vector((key, place), column) for place, column in enumerate(columns))
        self.out.append(f"{chr(5) if flat else chr(4)}{length},{items};")

    def vector(self, where: tuple[str, int], numbers: tuple[int, ...]) -> str:
        if numbers in self.vectors:
            return f"v{self.vectors[numbers]}"
        self.vectors[numbers] = len(self.vectors)
        return f"c{self.put(where, numbers)}"

    def put(self, where: tuple[str, int], numbers: Sequence[int]) -> int:
        column, held = self.columns.setdefault(where, (len(self.columns), []))
        held.extend(numbers)
        return column

    def other(self, text: str, key: str) -> None:
        line, held = self.texts.setdefault(key, (len(self.texts), []))
        held.append(text)
        self.out.append(f"\x02{line};")

    def string(self, text: str) -> None:
        if len(text) >= SHARED_CHARACTERS:
            text = f"\x03{self.strings.setdefault(text, len(self.strings))};"
        self.out.append(text)


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _columns(value: list) -> list[tuple[int, ...]] | None:
    """The columns of a list of whole numbers, or of equally long rows of whole numbers; None for any other list."""
    if len(value) < FEWEST_ROWS:
        return None
    kinds = set(map(type, value))
    if kinds == {list} and len(set(map(len, value))) == 1 and 1 <= len(value[0]) <= MOST_COLUMNS:
        columns = list(zip(*value))
    else:
        columns = [tuple(value)]
    return columns if all(map(_are_whole, columns)) else None


def _are_whole(numbers: tuple) -> bool:
    return set(map(type, numbers)) == {int} and min(numbers) > -LARGEST and max(numbers) < LARGEST


def _ways(numbers: np.ndarray, beside: np.ndarray) -> Iterator[tuple[list[int], bytes]]:
    """The ways to store a column: for each, its entry in the head, and its planes."""
    rests = {AS_IT_IS: numbers, BEFORE: np.diff(numbers, prepend=0)}
    if len(beside) == len(numbers):
        rests[BESIDE] = numbers - beside
    for how, rest in rests.items():
        folded = (rest << 1) ^ (rest >> 63)
        planes, count = _planes(folded)
        yield [how, len(numbers), count, 0, 0], planes
        distinct, places = np.unique(folded, return_inverse=True)
        if len(distinct) <= len(numbers) // 2:
            (table, table_count), (planes, count) = _planes(np.diff(distinct, prepend=0)), _planes(places)
            yield [how, len(numbers), count, len(distinct), table_count], table + planes


def _planes(numbers: np.ndarray) -> tuple[bytes, int]:
    used = max(1, (int(numbers.max()).bit_length() + 7) // 8)
    return numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :used].T.tobytes(), used


class _Reader:
    def __init__(self, raw: bytes, most_characters: int) -> None:
        line, _, rest = raw.partition(b"\n")
        head = json.loads(line)
        text_bytes, shared, texts = (_count(head[key]) for key in ("text_bytes", "shared", "texts"))
        lines = rest[:text_bytes].decode("ascii").split("\n")
        if len(lines) != shared + texts + 1:
            raise ValueError("lines are missing")
        self.strings, self.skeleton = lines[:shared], lines[-1]
        self.texts = [iter(line.split(" ")) for line in lines[shared:-1]]
        self.columns = [iter(column.tolist()) for column in _unpacked(head["columns"], rest, text_bytes)]
        self.vectors: list[list[int]] = []
        self.room = most_characters

    def whole(self) -> str:
        return _MARK.sub(self.marked, self.skeleton)

    def marked(self, mark: re.Match[str]) -> str:
        first, *items = mark[2].split(",")
        place = int(first)
        if mark[1] == "\x01":
            text = str(self.take(place, 1)[0])
        elif mark[1] == "\x02":
            text = next(self.texts[place], None) or ""
        elif mark[1] == "\x03":
            text = self.strings[place]
        else:
            text = self.rows(self.take(place, 1)[0], items, mark[1] == "\x05")
        self.room -= len(text)
        if self.room < 0:
            raise ValueError("too large")
        return text

    def rows(self, count: int, items: Sequence[str], flat: bool) -> str:
        if not 1 <= len(items) <= MOST_COLUMNS:
            raise ValueError(f"rows of {len(items)} columns")
        vectors = []
        for item in items:
            if item.startswith("c"):
                self.vectors.append(self.take(int(item[1:]), count))
            vectors.append(self.vectors[-1 if item.startswith("c") else int(item[1:])])
        return _text(vectors[0] if flat else list(zip(*vectors, strict=True)))

    def take(self, column: int, count: int) -> list[int]:
        numbers = list(itertools.islice(self.columns[column], _count(count)))
        if len(numbers) < count:
            raise ValueError(f"column {column} is too short")
        return numbers


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _unpacked(columns: Sequence, raw: bytes, at: int) -> Iterator[np.ndarray]:
    numbers = np.empty(0, np.int64)
    for how, count, planes, distinct, table_planes in columns:
        table = np.cumsum(_of_planes(raw, at, distinct, table_planes))
        at += distinct * table_planes
        folded = _of_planes(raw, at, count, planes)
        at += count * planes
        if distinct:
            folded = table[folded]
        rest = (folded >> 1) ^ -(folded & 1)
        numbers = rest + numbers if how == BESIDE else np.cumsum(rest) if how == BEFORE else rest
        yield numbers


def _of_planes(raw: bytes, at: int, count: int, planes: int) -> np.ndarray:
    if _count(planes) > MOST_PLANES:
        raise ValueError(f"numbers of {planes} bytes")
    numbers = np.zeros(_count(count) if planes else 0, np.int64)
    for plane in range(planes):
        numbers |= np.frombuffer(raw, np.uint8, count, at + plane * count).astype(np.int64) << 8 * plane
    return numbers
