# SPDX-License-Identifier: MIT
"""A trace's stamps as times."""

from typing import TYPE_CHECKING

import numpy as np

from heaptape.tape.tape_format import Trace

if TYPE_CHECKING:
    import pyarrow as pa


def clock_of(trace: Trace) -> tuple[float, int]:
    """Stamps per second (0: not known) and the stamp of time 0."""
    clock = trace.info["clock"]
    hz = (trace.footer or {}).get("clock_hz") or clock.get("hz") or 0
    return float(hz), int(clock.get("origin_stamp") or 0)


def times_ns(trace: Trace, stamps: np.ndarray) -> np.ndarray:
    """Stamps as int64 ns since the recording's start."""
    hz, origin = clock_of(trace)
    if hz <= 0:
        return np.zeros(len(stamps), np.int64)
    since = stamps.astype(np.uint64) - np.uint64(origin)
    return (since.astype(np.int64) * (1e9 / hz)).astype(np.int64).clip(min=0)


def first_stamps(batch: "pa.RecordBatch") -> np.ndarray:
    """Stamp of each event's first step, uint64."""
    from pyarrow import compute

    taken, given = batch.column("release_stamp"), batch.column("acquire_stamp")
    return compute.coalesce(taken, given).to_numpy(zero_copy_only=False)
