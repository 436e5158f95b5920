# SPDX-License-Identifier: MIT
"""Results inside a report: how they are packed into the page, and how they come out of it again.

A results file is mostly repetitions that say the same: the memory passes of an allocator are often identical to the
byte. gzip forgets after 32 KiB, so values that occur more than once are stored once and referred to; rows of whole
numbers (time lines, histograms) are stored as the differences of each column, which takes half the room. The browser
can still unpack everything by itself (`report.js` does what `unpack` does here). Texts are put together again, not
values: a browser's numbers would not be those of the file.

Plain gzip of the JSON was tried instead: of one workload of `tests/bench/reading/big_report.py` it takes 2.2 MB, and
this 0.9 (without memory maps; 8.4 and 5.7 with them), so the page of all nine would have 24.6 MB instead of 12.6.
Browsers inflate nothing else by themselves: zstd or brotli would need a decoder in every page.
"""

import base64
import gzip
import itertools
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from heaptape.common.errors import FormatError

# Shorter than this, gzip does as well by itself.
SHARED_CHARACTERS = 512
PLAIN, SHORTENED = "gzip+base64", "gzip+base64, shared lines, deltas"
SHARED, DELTAS = "$shared", "$deltas"
# Below, a header costs more than differences save; and differences of two numbers below this are exact in a browser.
FEWEST_ROWS, LARGEST = 8, 1 << 52
GZIP_LEVEL = 7
MAX_RAW_BYTES = 2 << 30
TYPE = "application/x-heaptape-results"
_SCRIPT = re.compile(rb'<script type="' + TYPE.encode() + rb'"[^>]*>(.*?)</script>', re.DOTALL)
# Within a string their quotes would be escaped.
_SHARED = re.compile(r'\{"\$shared":(\d+)\}')
_DELTAS = re.compile(r'\{"\$deltas":(\[[\[\]0-9,-]*\])\}')


def without_maps(data: dict) -> dict:
    """The results without the cells of their memory maps, the largest part by far, and without "fragmentation" of all
    but the first run of each allocator that has one (no figure shows the others). Each such run says so itself, under
    "left_out".
    """
    runs, shown = [], set()
    for run in data["runs"]:
        dropped = ["memory_map"] if "memory_map" in run else []
        if run.get("fragmentation") is not None:
            who = (run.get("allocator"), run.get("variant"))
            dropped += ["fragmentation"] if who in shown else []
            shown.add(who)
        if dropped:
            run = {key: value for key, value in run.items() if key not in dropped} | {"left_out": dropped}
        runs.append(run)
    return data | {"runs": runs}


def pack(data: dict, name: str) -> str:
    """A JSON object (safe within a script element) with the results: `name` of a file, `encoding`, and `data`: gzip in
    base64 of JSON, or (SHORTENED) of lines of JSON.

    The last line is the results; {"$shared":n} stands for line n, counted from 0, in the last line and in the columns
    of lines that it refers to. {"$deltas":[column, …]} stands for rows, each column as the differences of its numbers,
    the first from 0.
    """
    plain = _text(data)
    own = SHARED in plain or DELTAS in plain  # names of theirs that look like ours: then nothing is shared
    text = plain if own else "\n".join(_shared_lines(data))
    packed = base64.b64encode(gzip.compress(text.encode(), GZIP_LEVEL, mtime=0)).decode()
    about = {"name": name, "encoding": PLAIN if own else SHORTENED, "data": packed}
    return json.dumps(about).replace("<", "\\u003c")


def map_bytes(data: dict) -> int:
    """How many bytes of a page the memory maps of these results take, each different one once."""
    maps = (run.get("memory_map") for run in data["runs"])
    return sum(len(text) for text in {json.dumps(found) for found in maps if found is not None})


def is_page(text: bytes) -> bool:
    """Does this look like HTML, rather than JSON?"""
    return text[:256].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def unpack(path: str, page: bytes) -> Iterator[dict]:
    """The results in a page, in their order. Raises FormatError if there are none, or one is damaged."""
    found = False
    for script in _SCRIPT.finditer(page):
        found = True
        try:
            held = json.loads(script[1])
            if held["encoding"] not in (PLAIN, SHORTENED):
                raise ValueError(f"encoding {held['encoding']!r} is not known")
            text = _inflate(base64.b64decode(held["data"], validate=True)).decode()
            yield json.loads(text) if held["encoding"] == PLAIN else _together(text)
        except (KeyError, TypeError, ValueError, RecursionError, IndexError, zlib.error) as error:
            raise FormatError(path, script.start(), f"its raw results can't be read: {error}") from error
    if not found:
        raise FormatError(path, None, "not a report of heaptape: no raw results in it")


def _inflate(packed: bytes) -> bytes:
    decoder = zlib.decompressobj(31)
    raw = decoder.decompress(packed, MAX_RAW_BYTES)
    if not decoder.eof:
        raise ValueError("cut off, or too large")
    return raw


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _shared_lines(data: dict) -> list[str]:
    """The columns of rows, then the values of runs, that stand there more than once; then the results with references
    to them. Time lines of a workload have positions and live bytes in common, whatever the allocator.
    """
    runs = _as_deltas(data["runs"])
    columns = [column for run in runs for value in run.values() if _has_deltas(value) for column in value[DELTAS]]
    lines = _often(map(_text, columns))
    column_number = {text: n for n, text in enumerate(lines)}

    def by_columns(value: Any) -> Any:  # noqa: ANN401
        if not _has_deltas(value):
            return value
        numbers = [column_number.get(_text(column)) for column in value[DELTAS]]
        return {DELTAS: [column if n is None else {SHARED: n} for column, n in zip(value[DELTAS], numbers)]}

    runs = [{key: by_columns(value) for key, value in run.items()} for run in runs]
    written = {
        (place, key): _text(value)
        for place, run in enumerate(runs)
        for key, value in run.items()
        if isinstance(value, (dict, list))
    }
    often = _often(written.values())
    number = {text: n for n, text in enumerate(often, len(lines))}
    for (place, key), text in written.items():
        if text in number:
            runs[place][key] = {SHARED: number[text]}
    rest = {key: _as_deltas(value) for key, value in data.items() if key != "runs"}
    return [*lines, *often, _text({key: runs if key == "runs" else rest[key] for key in data})]


def _often(texts: Iterable[str]) -> list[str]:
    """Those that occur more than once and are long enough to be worth a reference."""
    return [text for text, count in Counter(texts).items() if count > 1 and len(text) >= SHARED_CHARACTERS]


def _has_deltas(value: object) -> bool:
    return isinstance(value, dict) and DELTAS in value


def _as_deltas(value: Any) -> Any:  # noqa: ANN401
    """The value, with rows of whole numbers in it as differences."""
    if isinstance(value, dict):
        return {key: _as_deltas(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    if _is_rows(value):
        return {DELTAS: [[now - before for before, now in zip((0, *column), column)] for column in zip(*value)]}
    return [_as_deltas(inner) for inner in value]


def _is_rows(value: list) -> bool:
    """Rows of equal length, of whole numbers that a browser can tell apart."""
    if len(value) < FEWEST_ROWS or not isinstance(value[0], list) or not 1 <= len(value[0]) <= 16:
        return False
    width = len(value[0])
    return all(
        isinstance(row, list) and len(row) == width and all(type(n) is int and -LARGEST < n < LARGEST for n in row)
        for row in value
    )


def _together(text: str) -> dict:
    *shared, whole = text.split("\n")
    for _ in ("values", "columns in them"):
        if sum(len(shared[int(n)]) for n in _SHARED.findall(whole)) > MAX_RAW_BYTES:
            raise ValueError("too large")
        whole = _SHARED.sub(lambda match: shared[int(match[1])], whole)
    return json.loads(_DELTAS.sub(_rows, whole))


def _rows(match: re.Match[str]) -> str:
    columns = [itertools.accumulate(column) for column in json.loads(match[1])]
    return _text([list(row) for row in zip(*columns, strict=True)])
