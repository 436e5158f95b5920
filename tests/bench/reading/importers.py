# SPDX-License-Identifier: MIT
"""Rates of the importers: recordings of each format, made by out/bench/bench_import, are imported one by one.

The rate is of CPU time: an import is one thread. LTTng's is that of reading babeltrace2's text, without babeltrace2.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support import OUT

EVENTS = 2_000_000
BINARY = ("dj", "wl", "bytehound")


@dataclass
class Rate:
    """Rate of one format's importer."""

    name: str
    events_per_second: float
    input_bytes_per_event: float
    peak_rss_bytes: int

    @property
    def target(self) -> float:
        """Events per second at least."""
        return 15e6 if self.name in BINARY else 5e6


def rates(folder: Path) -> list[Rate]:
    """The rate of each importer, best of three runs; the recordings, of up to 256 MB, go into folder."""
    done = subprocess.run(
        [OUT / "bench" / "bench_import", str(EVENTS)], cwd=folder, capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in done.stdout.splitlines())
    return [Rate(name, float(rate), float(size), int(rss)) for name, rate, size, rss in rows]
