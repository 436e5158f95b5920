# SPDX-License-Identifier: MIT
"""A trace's profile as one row of features, to compare traces that are too many to be inspected one by one."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from heaptape.profile.data import (
    LIFETIMES,
    Profile,
    counted,
    large_share,
    remote_share,
    sizes_for_share,
    swing,
    young_share,
)

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
# Keys of a profile's JSON; other keys are not even decoded.
NEEDED = (
    *("program", "ops", "threads", "allocated_bytes", "duration_ns", "witness", "sizes", "thread_pairs"),
    *("pairs_left_out", "reallocs", "sites"),
)
LONG = ("windows", "lifetimes_bytes", "lifetimes_ns")  # rows of whole numbers, most of the text


class Feature(NamedTuple):
    """`kind`: "count" (whole number), "share" (0 to 1, or a mean). `compared`: "log", "plain", or "" where `choose`
    does not use it.
    """

    kind: str
    compared: str
    meaning: str


FEATURES = {
    "ops": Feature("count", "log", "calls that a replay makes"),
    "threads": Feature("count", "log", "threads"),
    "duration_ns": Feature("count", "", "from the first event to the last; 0 where the trace has no times"),
    "allocated_bytes": Feature("count", "log", "sum of all requests"),
    "peak_live_bytes": Feature("count", "log", "largest sum of requests that lived at a moment"),
    "peak_live_objects": Feature("count", "log", "most objects that lived at a moment"),
    "acquired": Feature("count", "", "objects acquired"),
    "released": Feature("count", "", "objects released"),
    "dropped": Feature("count", "", "events that the recorder counted as lost"),
    "size_variety": Feature("count", "log", "size buckets (a quarter of a power of two) that hold 90 % of requests"),
    **{f"size_{name}_bytes": Feature("count", "log", f"request size, {name} of requests") for name in QUANTILES},
    **{f"age_{name}_bytes": Feature("count", "log", f"bytes allocated in a life, {name} of releases") for name in
    QUANTILES}, "unreleased_share": Feature("share", "plain", "objects never released, of those acquired"),
    "young_share": Feature("share", "plain", "objects released before 64 KiB more were allocated, of those acquired"),
    "remote_share": Feature("share", "plain", "releases by another thread than the acquirer, of all"),
    "large_share": Feature("share", "plain", "bytes in requests of 128 KiB or more, of all bytes requested"),
    "fall_share": Feature("share", "plain", "deepest fall of live bytes after a peak, of that peak"),
    "realloc_share": Feature("share", "plain", "reallocs of live objects, of all ops"),
    "copied_bytes_per_op": Feature("share", "log", "bytes that reallocs which moved have copied"),
}  # fmt: skip


def decoded(text: bytes) -> Profile:
    """The output of `heaptape-convert profile`, as far as it is needed here."""
    raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    long = {key: np.fromstring(bytes(raw[key]).translate(None, b"[]"), np.int64, sep=",") for key in LONG if key in raw}
    return Profile({key: msgspec.json.decode(raw[key]) for key in NEEDED if key in raw} | long)


def of_profile(found: Profile) -> dict[str, float]:
    data = found.data
    witness: Mapping = data.get("witness", {})
    reallocs: Mapping = data.get("reallocs", {})
    ops, acquired, released = data.get("ops", 0), found.acquired, found.released
    _, age, objects, _ = found.array("lifetimes_bytes", len(LIFETIMES)).T
    size, calls, _ = found.requests.T
    return {
        "ops": ops,
        "threads": data.get("threads", 0),
        "duration_ns": int(data.get("duration_ns") or 0),
        "allocated_bytes": data.get("allocated_bytes", 0),
        "peak_live_bytes": witness.get("peak_live_bytes", 0),
        "peak_live_objects": witness.get("peak_live_objects", 0),
        "acquired": acquired,
        "released": released,
        "dropped": witness.get("dropped", 0),
        "size_variety": sizes_for_share(found, 0.9),
        **_quantiles("size", size, calls),
        **_quantiles("age", age, objects),
        "unreleased_share": (acquired - released) / max(acquired, 1),
        "young_share": young_share(found),
        "remote_share": remote_share(found),
        "large_share": large_share(found),
        "fall_share": swing(found)[0],
        "realloc_share": reallocs.get("calls", 0) / max(ops, 1),
        "copied_bytes_per_op": reallocs.get("copied_bytes", 0) / max(ops, 1),
    }


def _quantiles(of: str, values: np.ndarray, counts: np.ndarray) -> dict[str, int]:
    """Lower bounds of the buckets that contain the QUANTILES; 0 where nothing was counted."""
    names = [f"{of}_{name}_bytes" for name in QUANTILES]
    if not counts.any():
        return dict.fromkeys(names, 0)
    found, summed = counted(values, counts)
    places = np.searchsorted(summed.cumsum(), np.ceil(np.array(list(QUANTILES.values())) * counts.sum()))
    return dict(zip(names, found[places].tolist()))
