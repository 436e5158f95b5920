# SPDX-License-Identifier: MIT
"""Raw results files of tests.bench.fidelity: reading, checking, writing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from heaptape.common.checked import checked
from heaptape.common.errors import HeaptapeError
from heaptape.common.output import file_bytes, write_bytes

SCHEMA = 1


def read_results(paths: Sequence[Path]) -> list[dict]:
    """Raw results files (.json or .json.zst), sorted by app name. Raises HeaptapeError at any other file."""
    found = [_read(path) for path in paths]
    return sorted(found, key=lambda one: one["app"]["name"])


def write_results(data: dict, path: Path) -> None:
    """Writes one raw results file, atomically; compressed if its name ends with .zst."""
    text = json.dumps(data, separators=(",", ":")).encode()
    if path.suffix == ".zst":
        import zstandard

        text = zstandard.ZstdCompressor(level=19).compress(text)
    write_bytes(str(path), text)


LIMIT_BYTES = 64 << 20


class App(msgspec.Struct):
    name: str


class Raw(msgspec.Struct):
    """What is checked: the rest was written by us."""

    schema: Annotated[int, msgspec.Meta(ge=SCHEMA, le=SCHEMA)]
    kind: Literal["fidelity", "counted", "timed"]
    app: App
    failures: dict[str, str]
    live: list[dict]
    replays: list[dict]


def _read(path: Path) -> dict:
    try:
        text = file_bytes(path)
        if path.suffix == ".zst":
            import zstandard

            text = zstandard.ZstdDecompressor().decompress(text, max_output_size=LIMIT_BYTES)
        data = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise HeaptapeError(f"{path}: {error}") from None
    except Exception as error:  # zstandard has its own exception
        raise HeaptapeError(f"{path}: not a sound zstd frame: {error}") from None
    checked(path, data, Raw)
    return data
