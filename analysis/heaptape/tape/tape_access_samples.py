# SPDX-License-Identifier: MIT
"""Samples of a trace's data accesses (core/trace/FORMAT.md, section 6b), for tape_format.Trace."""

import numpy as np
import pandas as pd

from heaptape.tape.tape_numbers import Malformed, exactly, leb, zigzag

LEVELS = (
    "unknown", "l1", "line_buffer", "l2", "l3", "memory", "remote", "other", "beyond_l1", "page_fault",
)  # fmt: skip
LOAD, STORE, TLB_MISS = 16, 32, 64


def decode_access_samples(rows: int, columns: dict[int, bytes]) -> pd.DataFrame:
    """One ACCESS_SAMPLES block, in file order: stamp, address, level (one of LEVELS), load, store, tlb_missed,
    latency_cycles (0: not known). `columns`: id -> raw bytes. Raises Malformed.
    """
    stamp, address, latency = (
        exactly(leb(columns.get(number, b""), name), rows, name)
        for number, name in ((1, "stamp"), (2, "address"), (4, "latency"))
    )
    what = exactly(np.frombuffer(columns.get(3, b""), np.uint8), rows, "what")
    if (what >= 2 * TLB_MISS).any() or (what % LOAD >= len(LEVELS)).any():
        raise Malformed("a sample of an unknown kind")
    return pd.DataFrame(
        {
            "stamp": np.cumsum(zigzag(stamp), dtype=np.uint64),
            "address": np.cumsum(zigzag(address), dtype=np.uint64),
            "level": pd.Categorical.from_codes(what % LOAD, list(LEVELS)),
            "load": (what & LOAD) != 0,
            "store": (what & STORE) != 0,
            "tlb_missed": (what & TLB_MISS) != 0,
            "latency_cycles": latency,
        }
    )
