# SPDX-License-Identifier: MIT
"""Results inside a report: packed into the page, and unpacked from it.

A results file is mostly numbers and repetitions with equal text, so numbers are taken apart (`number_columns.py`)
before gzip. The browser can unpack everything without a library (`report.js` does what `unpack` does here). The JSON
text is rebuilt, not its values: a browser's numbers would differ from the file's. Pages of earlier versions shared
lines instead, and are still read.

One workload of `tests/bench/reading/big_report.py` (5.4 MB without memory maps) takes 2.2 MB in base64 with plain gzip,
took 0.89 with shared lines, and takes 0.54 with this. Browsers have no other decoder built in: zstd or brotli would
need one in every page.
"""

import base64
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterator

from heaptape.common.errors import FormatError
from heaptape.tape.number_columns import put_together, take_apart

# The encoding written today, and those in pages of earlier versions.
COLUMNS, SHORTENED, PLAIN = "gzip+base85, columns", "gzip+base64, shared lines, deltas", "gzip+base64"
# Short blocks (the last number), as each column has its own frequencies.
GZIP = (9, zlib.DEFLATED, 31, 6)
MAX_RAW_BYTES = 2 << 30
TYPE = "application/x-heaptape-results"
_SCRIPT = re.compile(rb'<script type="' + TYPE.encode() + rb'"[^>]*>(.*?)</script>', re.DOTALL)
# They can't match within a JSON string, where their quotes would be escaped.
_SHARED = re.compile(r'\{"\$shared":(\d+)\}')
_DELTAS = re.compile(r'\{"\$deltas":(\[[\[\]0-9,-]*\])\}')


def without_maps(data: dict) -> dict:
    """The results without their memory maps, the largest part by far, and without "fragmentation" except for the first
    run of each allocator that has it (no figure shows that of later runs). Each such run lists what it lacks under
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
    """A JSON object (safe within a script element) with the results: `name` of a file, `encoding`, and `data`: the
    bytes of `number_columns.take_apart`, gzipped, in base85 with a comma for "<".
    """
    packed = base64.b85encode(_gzip(take_apart(data))).decode().replace("<", ",")
    return json.dumps({"name": name, "encoding": COLUMNS, "data": packed}).replace("<", "\\u003c")


def _gzip(raw: bytes) -> bytes:
    packer = zlib.compressobj(*GZIP)
    return packer.compress(raw) + packer.flush()


def map_bytes(data: dict) -> int:
    """Bytes of a page that the memory maps of these results take; equal maps are counted once."""
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
            if held["encoding"] not in _READERS:
                raise ValueError(f"encoding {held['encoding']!r} is not known")
            packed = _BYTES[held["encoding"]](held["data"])
            yield json.loads(_READERS[held["encoding"]](_inflate(packed)))
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


def _lines_together(raw: bytes) -> str:
    """The results from lines of JSON, the last of which holds them. {"$shared":n} stands for line n, counted from 0, in
    the last line and in the columns of lines that it refers to. {"$deltas":[column, …]} stands for rows, each column as
    the differences of its numbers, the first from 0.
    """
    *shared, whole = raw.decode().split("\n")
    for _ in ("values", "columns in them"):
        if sum(len(shared[int(n)]) for n in _SHARED.findall(whole)) > MAX_RAW_BYTES:
            raise ValueError("too large")
        whole = _SHARED.sub(lambda match: shared[int(match[1])], whole)
    return _DELTAS.sub(_rows, whole)


def _rows(match: re.Match[str]) -> str:
    columns = [itertools.accumulate(column) for column in json.loads(match[1])]
    return json.dumps([list(row) for row in zip(*columns, strict=True)])


def _of_base85(text: str) -> bytes:
    return base64.b85decode(text.replace(",", "<"))


def _of_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_BYTES = {COLUMNS: _of_base85, SHORTENED: _of_base64, PLAIN: _of_base64}
_READERS: dict[str, Callable[[bytes], str]] = {
    COLUMNS: lambda raw: put_together(raw, MAX_RAW_BYTES),
    SHORTENED: _lines_together,
    PLAIN: bytes.decode,
}
