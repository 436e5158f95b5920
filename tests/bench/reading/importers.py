# SPDX-License-Identifier: MIT
"""Rates of the importers of the formats that heaptape also writes: a synthetic trace is written in each, and imported.

The rate is of CPU time: an import is one thread.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.bench.reading.rates import spend, synthetic_trace
from tests.support import CONVERT, succeed

EVENTS = 2_000_000
FORMATS = ("android", "mtrace", "rep", "text", "wl")


@dataclass
class Rate:
    """Rate of one format's importer."""

    name: str
    events_per_second: float
    input_bytes_per_event: float

    @property
    def target(self) -> float:
        """Events per second at least."""
        return 15e6 if self.name == "wl" else 5e6


def rates(folder: Path) -> list[Rate]:
    """The rate of each importer, best of three runs; the files, of up to 256 MB, go into folder."""
    tape = synthetic_trace(folder, EVENTS)
    return [_rate(tape, folder, name) for name in FORMATS]


def _rate(tape: Path, folder: Path, name: str) -> Rate:
    written, imported = folder / f"written.{name}", folder / "imported.tape"
    succeed(CONVERT, "convert", tape, written, "--to", name)
    seconds = min(spend(CONVERT, "convert", written, imported, "--from", name).cpu_seconds for _ in range(3))
    size = written.stat().st_size / EVENTS
    written.unlink()
    return Rate(name, EVENTS / seconds, size)
