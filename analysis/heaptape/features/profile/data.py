# SPDX-License-Identifier: MIT
"""The profile of a trace: what its program asks of an allocator, as DataFrames.

The counting is done in C, in one pass over the events (`heaptape-convert profile`; docs/formats/PROFILE_JSON.md lists
the JSON keys).
"""

import json
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home, default_home

YOUNG_BYTES = 64 << 10
LARGE_BYTES = 128 << 10  # from this size on glibc uses mmap by default
SIZES = ["size_bytes", "calls", "bytes"]
LIFETIMES = ["size_bytes", "age", "objects", "bytes"]
WINDOWS = ["position", "time_ns", "ops", "acquires", "releases", "acquired_bytes", "live_bytes", "live_objects"]
PAIRS = ["acquirer", "releaser", "objects", "bytes"]
CHAINS = ["reallocs", "objects", "first_bytes", "last_bytes"]
SITES = [
    "node", "objects", "bytes", "live_objects", "live_bytes", "peak_live_bytes", "lifetime_bytes", "remote_objects",
    "bytes_at_peak", "objects_at_peak",
]  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """The profile of one trace. `data` is the JSON object unchanged; the properties are its rows as DataFrames."""

    data: dict

    @property
    def lifetimes_are_made_up(self) -> bool:
        """The recording does not say which of several like objects was released."""
        return "lifetimes" in self.data.get("lacks", [])

    @property
    def name(self) -> str:
        """The recorded program's name, if the trace has it."""
        return self.data.get("program") or "unnamed program"

    @property
    def peak_live_bytes(self) -> int:
        """As `heaptape info` says it; `windows` have only samples."""
        return int(self.data.get("witness", {}).get("peak_live_bytes", 0))

    @property
    def sizes(self) -> pd.DataFrame:
        """Requests: call, size_bytes (lower bound of its bucket; four buckets per power of two), calls, bytes."""
        parts = [_frame(rows, SIZES).assign(call=call) for call, rows in self.data.get("sizes", {}).items()]
        whole = pd.concat(parts, ignore_index=True) if parts else _frame([], SIZES).assign(call=pd.Series(dtype=str))
        return whole[["call", *SIZES]]

    @property
    def lifetimes_bytes(self) -> pd.DataFrame:
        """Objects that were released: size_bytes, age (bytes that the program allocated meanwhile; lower bound of a
        power of two), objects, bytes.
        """
        return _frame(self.data.get("lifetimes_bytes", []), LIFETIMES)

    @property
    def lifetimes_ns(self) -> pd.DataFrame:
        """As `lifetimes_bytes`, with age in ns (in stamps where the trace's clock has no rate)."""
        return _frame(self.data.get("lifetimes_ns", []), LIFETIMES)

    @property
    def windows(self) -> pd.DataFrame:
        """512 parts of the progress: position (op), time_ns, ops, acquires, releases, acquired_bytes; live_bytes and
        live_objects before the part's first op.
        """
        return _frame(self.data.get("windows", []), WINDOWS)

    @property
    def pairs(self) -> pd.DataFrame:
        """Who frees whose objects: acquirer, releaser (thread numbers), objects, bytes; most objects first."""
        return _frame(self.data.get("thread_pairs", []), PAIRS)

    @property
    def chains(self) -> pd.DataFrame:
        """Dead objects that were reallocated: reallocs (in a life; 64 is 64 or more), objects, first_bytes and
        last_bytes (their sums).
        """
        return _frame(self.data.get("reallocs", {}).get("chains", []), CHAINS)

    @property
    def sites(self) -> pd.DataFrame:
        """Objects by the stack that acquired them: node (of the trace's tree of stacks; 0: not known), objects,
        bytes, live_objects and live_bytes (at the end), peak_live_bytes (its own highest), lifetime_bytes (sum of
        ages at release), remote_objects, bytes_at_peak and objects_at_peak (live when the program's live bytes were
        highest). Empty where the trace has no stacks.
        """
        return _frame(self.data.get("sites", []), SITES)

    # Sums use arrays: for thousands of profiles, making DataFrames would take longer than the counting.

    def array(self, key: str, width: int) -> np.ndarray:
        """Rows of whole numbers as an array of `width` columns."""
        return np.asarray(self.data.get(key, []), np.int64).reshape(-1, width)

    @property
    def released(self) -> int:
        return int(self.array("lifetimes_bytes", len(LIFETIMES))[:, 2].sum())

    @property
    def acquired(self) -> int:
        return int(self.requests[:, 1].sum()) - int(self.data.get("reallocs", {}).get("calls", 0))

    @cached_property
    def requests(self) -> np.ndarray:
        """Rows of SIZES, for all calls."""
        rows = [row for of_call in self.data.get("sizes", {}).values() for row in of_call]
        return np.array(rows, np.int64).reshape(-1, len(SIZES))


def profile(path: str | Path, home: Home | None = None) -> Profile:
    """Profiles a trace, or any file that `heaptape convert` can read: `heaptape.profile(...)`. Raises HeaptapeError, or
    OSError if heaptape-convert can't be run.

    >>> import heaptape
    >>> found = heaptape.profile("small.tape")
    >>> int(found.sizes["calls"].sum())
    4000
    >>> found.acquired >= found.released
    True
    """
    program = (home or default_home()).program("convert")
    done = subprocess.run([program, "profile", str(path)], stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise HeaptapeError("")  # the program has reported it already
    return Profile(json.loads(done.stdout))


def _frame(rows: list, columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns, dtype="int64")


def remote_share(found: Profile) -> float:
    """Share (0 to 1) of released objects that were released by another thread than their acquirer."""
    acquirer, releaser, objects, _ = found.array("thread_pairs", len(PAIRS)).T
    return float(objects[acquirer != releaser].sum() + found.data.get("pairs_left_out", 0)) / max(found.released, 1)


def sizes_for_share(found: Profile, share: float) -> int:
    """How many size buckets contain `share` of all requests: the variety of sizes."""
    sizes, calls, _ = found.requests.T
    counts = np.sort(counted(sizes, calls)[1])[::-1]
    return int((counts.cumsum() < share * counts.sum()).sum()) + 1 if len(counts) else 0


def counted(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different values, rising, and the sum of the counts of each."""
    order = values.argsort(kind="stable")
    begins = np.flatnonzero(np.diff(values[order], prepend=-1))
    return values[order][begins], np.add.reduceat(counts[order], begins) if len(begins) else counts


def young_share(found: Profile, age_bytes: int = YOUNG_BYTES) -> float:
    """Share (0 to 1) of the acquired objects that were released before the program allocated `age_bytes` more bytes."""
    _, age, objects, _ = found.array("lifetimes_bytes", len(LIFETIMES)).T
    return float(objects[age < age_bytes].sum()) / max(found.acquired, 1)


def large_share(found: Profile, size_bytes: int = LARGE_BYTES) -> float:
    """Share (0 to 1) of the requested bytes in requests of `size_bytes` or more."""
    size, _, bytes_ = found.requests.T
    return float(bytes_[size >= size_bytes].sum()) / max(bytes_.sum(), 1)


def swing(found: Profile) -> tuple[float, int]:
    """The deepest fall of live bytes after a peak, as a share (0 to 1) of that peak, and the peak in bytes. Memory that
    an allocator can't give back then is fragmentation.
    """
    live = found.array("windows", len(WINDOWS))[:, WINDOWS.index("live_bytes")]
    if not live.any():
        return 0.0, 0
    peaks = np.maximum.accumulate(live)
    at = (peaks - live).argmax()
    return float(peaks[at] - live[at]) / max(int(peaks[at]), 1), int(peaks[at])
