# SPDX-License-Identifier: MIT
"""An origins file, written from docs/formats/ORIGINS.md alone."""

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

NOTHING_BORN = 0xFFFFFFFF
HEADER = struct.Struct("<8sIIQQIIIIQI")


def names(functions: Sequence[int], marks: Sequence[int]) -> dict:
    """The JSON for sites of these functions and marks at these positions, named by their numbers."""
    return {
        "frames": [{"function": f"f{number}"} for number in range(max(functions) + 1)],
        "sites": [
            {"stack": site, "function": function, "name": f"site {site}", "frames": [function]}
            for site, function in enumerate(functions)
        ],
        "functions": [f"f{number}" for number in range(max(functions) + 1)],
        "marks": [{"position": at, "name": f"mark {index}", "thread": 0} for index, at in enumerate(marks)],
        "threads": [],
        "lacks": [],
    }


def origins(
    workload: Path, sites: Sequence[int], functions: Sequence[int] = (0,), marks: Sequence[int] = (), text: bytes = b""
) -> bytes:
    """The whole file. sites: of each op; functions: of each site; text: the JSON, if not from `names`."""
    text = text or json.dumps(names(functions, marks)).encode()
    tables = struct.pack(f"<{len(sites)}I", *sites) + bytes(4 * (len(sites) % 2))
    tables += struct.pack(f"<{len(marks)}Q", *marks) + struct.pack(f"<{len(functions)}I", *functions)
    return with_header(workload, tables + text, len(sites), (len(functions), max(functions) + 1, len(marks)), len(text))


def with_header(workload: Path, rest: bytes, ops: int, counts: tuple[int, int, int], json_bytes: int) -> bytes:
    """`rest` behind a header that fits the workload. counts: of sites, functions and marks."""
    checksum = struct.unpack("<I", workload.read_bytes()[252:256])[0]
    header = HEADER.pack(b"HEAPORIG", 1, 64, 64 + len(rest), ops, *counts, 0, json_bytes, checksum)
    return header + struct.pack("<I", zlib.crc32(header)) + rest
