# SPDX-License-Identifier: MIT
"""Figures of the spans that the recorded program marked in a recording (convert/spans/README.md)."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home


@dataclass(frozen=True)
class Site:
    """Objects acquired at one place. `place`: the number that the program gave it, or None. `frames`: of the C call
    stack, innermost first, as text; empty where none was recorded. Bytes are requested bytes."""

    size_bytes: int
    objects: int
    place: int | None
    frames: tuple[str, ...]


@dataclass(frozen=True)
class Span:
    """A span's figures. Bytes are requested bytes; growth is what lives at its end. `peak_sites`, `growth_sites`: the
    largest first, where `read` was called with `sites`."""

    name: str
    ended: bool
    allocations: int
    allocated_bytes: int
    peak_bytes: int
    peak_objects: int
    growth_bytes: int
    growth_objects: int
    peak_sites: tuple[Site, ...] = field(default=())
    growth_sites: tuple[Site, ...] = field(default=())


def read(tape: Path, from_byte: int = 0, sites: int = 0) -> tuple[list[Span], int]:
    """The spans of a trace, which may still be being written, and how many calls are missing from the whole trace.
    `from_byte`: begin of a block before which no event matters. Raises HeaptapeError with the reader's one line."""
    options = ("--from-byte", str(from_byte), "--sites", str(sites))
    command = [str(default_home().program("convert")), "spans", str(tape), *options]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise HeaptapeError(done.stderr.strip().removeprefix("heaptape: ") or f"{tape}: can't be read")
    output = json.loads(done.stdout)
    return [_span(found) for found in output["spans"]], output["dropped"]


def _span(found: dict[str, Any]) -> Span:
    lists = {key: tuple(_site(site) for site in found.get(key, ())) for key in ("peak_sites", "growth_sites")}
    return Span(**{**found, **lists})


def _site(found: dict[str, Any]) -> Site:
    frames = tuple(_frame(frame) for frame in found["frames"])
    return Site(found["bytes"], found["objects"], found["place"], frames)


def _frame(frame: dict[str, Any]) -> str:
    where = f" at {frame['file']}:{frame['line']}" if frame.get("file") else ""
    return f"{frame.get('function', '?')}{where} in {frame.get('module', '?')}"
