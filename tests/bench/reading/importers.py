# SPDX-License-Identifier: MIT
"""Rate of the importer of heaptape's own text, which `convert` also writes: of a synthetic trace, in CPU time, as an
import is one thread.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.bench.reading.rates import spend, synthetic_trace
from tests.support import CONVERT, succeed

EVENTS = 2_000_000
FORMATS = ("text",)


@dataclass
class Rate:
    """Rate of one format's importer."""

    name: str
    events_per_second: float
    input_bytes_per_event: float

    @property
    def target(self) -> float:
        """Events per second at least."""
        return 5e6


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
