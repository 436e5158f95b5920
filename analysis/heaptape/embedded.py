"""Results inside a report: how they are packed into the page, and how they come out of it again.

A results file is mostly repetitions that say the same: the memory passes of an allocator are often identical to the
byte. gzip forgets after 32 KiB, so values that occur more than once are stored once and referred to, and the browser
can still unpack everything by itself (`report.js` does what `unpack` does here). Texts are put together again, not
values: a browser's numbers would not be those of the file.
"""

import base64
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator

from heaptape.errors import FormatError

# Shorter than this, gzip does as well by itself.
SHARED_CHARACTERS = 512
REFERENCE = "$shared"
GZIP_LEVEL = 7
MAX_RAW_BYTES = 2 << 30
TYPE = "application/x-heaptape-results"
_SCRIPT = re.compile(rb'<script type="' + TYPE.encode() + rb'"[^>]*>(.*?)</script>', re.DOTALL)
# Within a string its quotes would be escaped.
_REFERRED = re.compile(r'\{"\$shared":(\d+)\}')


def without_maps(data: dict) -> dict:
    """The results without the cells of their memory maps, the largest part by far; each such run says so itself, under
    "left_out".
    """
    runs = []
    for run in data["runs"]:
        if "memory_map" in run:
            run = {key: value for key, value in run.items() if key != "memory_map"} | {"left_out": ["memory_map"]}
        runs.append(run)
    return data | {"runs": runs}


def pack(data: dict, name: str) -> str:
    """A JSON object (safe within a script element) with the results: `name` of a file, `encoding`, and `data`: gzip in
    base64 of lines of JSON. The last line is the results; {"$shared":n} in it stands for line n, counted from 0.
    """
    text = "\n".join(_shared_lines(data)).encode()
    packed = base64.b64encode(gzip.compress(text, GZIP_LEVEL, mtime=0)).decode()
    return json.dumps({"name": name, "encoding": "gzip+base64", "data": packed}).replace("<", "\\u003c")


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
            if held["encoding"] != "gzip+base64":
                raise ValueError(f"encoding {held['encoding']!r} is not known")
            yield _together(_inflate(base64.b64decode(held["data"], validate=True)).decode())
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
    """The values of runs that stand there more than once, then the results with references to them."""
    whole = _text(data)
    if REFERENCE in whole:
        return [whole]
    written: dict[tuple[int, str], str] = {}
    for place, run in enumerate(data["runs"]):
        for key, value in run.items():
            if isinstance(value, (dict, list)) and len(text := _text(value)) >= SHARED_CHARACTERS:
                written[place, key] = text
    often = [text for text, count in Counter(written.values()).items() if count > 1]
    number = {text: n for n, text in enumerate(often)}

    def referred(place: int, key: str, value: object) -> object:
        found = number.get(written.get((place, key), ""))
        return value if found is None else {REFERENCE: found}

    runs = [{key: referred(place, key, run[key]) for key in run} for place, run in enumerate(data["runs"])]
    return [*often, _text(data | {"runs": runs})]


def _together(text: str) -> dict:
    *shared, whole = text.split("\n")
    if sum(len(shared[int(n)]) for n in _REFERRED.findall(whole)) > MAX_RAW_BYTES:
        raise ValueError("too large")
    return json.loads(_REFERRED.sub(lambda match: shared[int(match[1])], whole))
