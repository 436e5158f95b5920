"""Raw results files of verify-fidelity: reading, checking, writing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from heaptape.common.checked import checked
from heaptape.common.errors import HeaptapeError

SCHEMA = 1


def read_results(paths: Sequence[Path]) -> list[dict]:
    """Raw results files (.json or .json.zst) by app name. Raises HeaptapeError at one that is none."""
    found = [_read(path) for path in paths]
    return sorted(found, key=lambda one: one["app"]["name"])


def write_results(data: dict, path: Path) -> None:
    """Writes one raw results file; compressed if its name ends with .zst."""
    text = json.dumps(data, separators=(",", ":")).encode()
    if path.suffix == ".zst":
        import zstandard

        text = zstandard.ZstdCompressor(level=19).compress(text)
    path.write_bytes(text)


LIMIT_BYTES = 64 << 20
Amount = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]


class App(msgspec.Struct):
    """The program of a raw results file."""

    name: str


class LiveRun(msgspec.Struct):
    """A live run, with the figure that its kind is for."""

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
    """What a raw results file of either kind has at least."""

    schema: Annotated[int, msgspec.Meta(ge=SCHEMA, le=SCHEMA)]
    app: App
    failures: dict[str, str]


class Raw(AnyRaw):
    """What one of kind "fidelity" has at least."""

    kind: Literal["fidelity"]
    live: list[LiveRun]
    replays: list[dict]
    predicted: dict[str, Predicted]


class Level(msgspec.Struct):
    """A cache or TLB of a simulation."""

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
    """Counts of a simulated run."""

    allocator: SideCounts
    program: SideCounts


class CountedRun(msgspec.Struct):
    """A live run under the simulation."""

    allocator: str
    padding_bytes: int
    counts: WholeCounts


class CountedReplay(msgspec.Struct):
    """A replay whose figures predict counts."""

    allocator: str
    pass_: str = msgspec.field(name="pass")
    instructions_total: Amount | None = None
    startup_instructions: Amount | None = None
    startup_process_instructions: Amount | None = None
    page_faults: Amount | None = None
    misses: dict | None = None


class CountedRaw(AnyRaw):
    """What one of kind "counted" has at least."""

    kind: Literal["counted"]
    live: list[CountedRun]
    replays: list[CountedReplay]


def _read(path: Path) -> dict:
    try:
        text = path.read_bytes()
        if path.suffix == ".zst":
            import zstandard

            text = zstandard.ZstdDecompressor().decompress(text, max_output_size=LIMIT_BYTES)
        data = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise HeaptapeError(f"{path}: {error}") from None
    except Exception as error:  # zstandard has an exception of its own
        raise HeaptapeError(f"{path}: not a sound zstd frame: {error}") from None
    checked(path, data, CountedRaw if isinstance(data, dict) and data.get("kind") == "counted" else Raw)
    return data
