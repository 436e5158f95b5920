# SPDX-License-Identifier: MIT
"""Results inside a report: JSON, gzipped, in base64, one script element per workload. A browser unpacks them without a
library (`report.js`), and `unpack` reads a page in place of a results file.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterator

from heaptape.common.console import printable
from heaptape.common.errors import FormatError

ENCODING = "gzip+base64"
MAX_RAW_BYTES = 2 << 30
TYPE = "application/x-heaptape-results"
_SCRIPT = re.compile(rb'<script type="' + TYPE.encode() + rb'"[^>]*>(.*?)</script>', re.DOTALL)

# An escape of JSON: of a character, one beyond U+FFFF by a pair; or of a quote, a backslash or a line's end.
_ESCAPE = re.compile(r"\\(?:(ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|u[0-9a-f]{4}|[bfrt])|.)")


def in_script(value: object) -> str:
    """JSON that is safe within a script element, of a page or of SVG. A script shows its texts: what would control or
    turn them is in them as `escape.lines` writes it.
    """
    text = _ESCAPE.sub(_shown, json.dumps(value, separators=(",", ":")))
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _shown(escape: re.Match[str]) -> str:
    """The escape as it stands in a script."""
    character = json.loads(f'"{escape[0]}"')
    return escape[0] if character.isprintable() or not escape[1] else json.dumps(printable(character))[1:-1]


def pack(data: dict, name: str) -> str:
    """A JSON object (safe within a script element) with the results: `name` of a file, `encoding`, and `data`."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(json.dumps(data, separators=(",", ":")).encode()) + packer.flush()
    return in_script({"name": name, "encoding": ENCODING, "data": base64.b64encode(packed).decode()})


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
            if held["encoding"] != ENCODING:
                raise ValueError(f"encoding {held['encoding']!r} is not known")
            yield json.loads(inflated(held["data"], MAX_RAW_BYTES))
        except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
            raise FormatError(path, script.start(), f"its raw results can't be read: {error}") from error
    if not found:
        raise FormatError(path, None, "not a report of heaptape: no raw results in it")


def inflated(text: str, most_bytes: int) -> bytes:
    """The bytes of base64 text, of zlib or gzip. Raises ValueError, or zlib.error, if it is cut off, or more than
    `most_bytes`.
    """
    decoder = zlib.decompressobj(47)
    raw = decoder.decompress(base64.b64decode(text, validate=True), most_bytes)
    if not decoder.eof:
        raise ValueError("cut off, or too large")
    return raw
