# SPDX-License-Identifier: MIT
"""A run's label, numbers and memory over progress; without pandas at import."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def label(allocator: object, variant: object) -> str:
    """The name of an allocator with its variant in tables: `name` or `name:variant`."""
    return str(allocator) if variant in (None, "", "default") else f"{allocator}:{variant}"


def label_of(run: dict) -> str:
    return label(run["allocator"], run.get("variant"))


def number(value: object) -> float | None:
    """The value if it is a finite number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def timeline_frame(rows: Sequence[Sequence[float]] | None) -> "pd.DataFrame":
    """A run's timeline as columns position (ops), rss_anon_bytes, vm_size_bytes, live_bytes; empty if it is missing.

    >>> timeline_frame([[0, 4096, 8192, 100], [50, 12288, 16384, 9000]])["rss_anon_bytes"].max()
    np.float64(12288.0)
    """
    import pandas as pd

    columns = ["position", "rss_anon_bytes", "vm_size_bytes", "live_bytes"]
    return pd.DataFrame([row[:4] for row in rows or ()], columns=columns, dtype=float)
