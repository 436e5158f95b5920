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

from tests.bench.fidelity.certificate import BASELINE

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
Amount = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]


class App(msgspec.Struct):
    name: str


class LiveRun(msgspec.Struct):
    """A live run, with the figure that its kind requires."""

    allocator: str
    kind: Literal["memory", "time", "recorded"]
    cpu_ns: Amount | None = None
    rss_anon_peak_bytes: Amount | None = None

    def __post_init__(self) -> None:
        figure = "cpu_ns" if self.kind == "time" else "rss_anon_peak_bytes"
        if getattr(self, figure) is None:
            raise ValueError(f"{figure} is missing")


class Predicted(msgspec.Struct):
    """The figures that every prediction has."""

    rss_anon_peak_bytes: Amount
    own_at_peak_bytes: Amount


class AnyRaw(msgspec.Struct):
    """The fields required in a raw results file of any kind."""

    schema: Annotated[int, msgspec.Meta(ge=SCHEMA, le=SCHEMA)]
    app: App
    failures: dict[str, str]


class Raw(AnyRaw):
    """The fields required in a file of kind "fidelity"."""

    kind: Literal["fidelity"]
    live: list[LiveRun]
    replays: list[dict]
    predicted: dict[str, Predicted]


class Level(msgspec.Struct):
    ways: int
    misses: Amount
    bytes: int | None = None
    entries: int | None = None


class SideCounts(msgspec.Struct):
    """Counts of a simulated run, of the allocator or of the program."""

    instructions: Amount
    page_faults: Amount
    syscalls: Amount
    caches: list[Level]
    tlbs: list[Level]


class WholeCounts(SideCounts, kw_only=True):
    allocator: SideCounts
    program: SideCounts


class CountedRun(msgspec.Struct):
    allocator: str
    padding_bytes: int
    counts: WholeCounts


class CountedReplay(msgspec.Struct):
    allocator: str
    pass_: str = msgspec.field(name="pass")
    instructions_total: Amount | None = None
    startup_instructions: Amount | None = None
    startup_process_instructions: Amount | None = None
    page_faults: Amount | None = None
    misses: dict | None = None


class CountedRaw(AnyRaw):
    """The fields required in a file of kind "counted"."""

    kind: Literal["counted"]
    live: list[CountedRun]
    replays: list[CountedReplay]


class TimedRound(msgspec.Struct):
    """One live run on each allocator that was undecided: label -> CPU time."""

    cpu_ns: dict[str, Annotated[float, msgspec.Meta(gt=0, le=1e30)]]
    noise: dict[str, Amount] | None = None

    def __post_init__(self) -> None:
        if BASELINE not in self.cpu_ns:
            raise ValueError(f"a round without {BASELINE}")


class TimedSitting(msgspec.Struct):
    """Rounds that were run together."""

    created_unix_s: Amount
    load_before: Annotated[list[Amount], msgspec.Meta(min_length=1)]
    elapsed_s: Amount
    commit: str | None = None


class Change(msgspec.Struct):
    """A predicted change in percent, with its interval."""

    percent: Amount
    low: Amount
    high: Amount


class TimedRaw(AnyRaw):
    """The fields required in a file of kind "timed"."""

    kind: Literal["timed"]
    replays: list[dict]
    predicted: dict[str, Change]
    live: list[TimedRound]
    looks: list[Annotated[int, msgspec.Meta(ge=1)]]
    sittings: list[TimedSitting]

    def __post_init__(self) -> None:
        if self.looks != sorted(set(self.looks)) or (self.looks and self.looks[-1] > len(self.live)):
            raise ValueError("looks: not rising numbers of the rounds")


KINDS: dict[str, type[AnyRaw]] = {"fidelity": Raw, "counted": CountedRaw, "timed": TimedRaw}


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
    kind = data.get("kind") if isinstance(data, dict) else None
    checked(path, data, KINDS.get(kind, Raw) if isinstance(kind, str) else Raw)
    return data
