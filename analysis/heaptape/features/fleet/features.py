# SPDX-License-Identifier: MIT
"""What a recording asks of an allocator, as a row of figures (docs/use/FLEET.md)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from heaptape.features.profile.data import (
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
NEEDED = ("ops", "threads", "allocated_bytes", "duration_ns", "witness", "sizes", "thread_pairs", "pairs_left_out")
LONG = ("windows", "lifetimes_bytes", "lifetimes_ns")  # rows of whole numbers, most of the text


class Feature(NamedTuple):
    """`compared`: how programs are compared by it: "log", "plain", or "" not at all."""

    compared: str
    meaning: str


FEATURES = {
    "ops": Feature("log", "calls that a replay makes"),
    "threads": Feature("log", "threads"),
    "duration_ns": Feature("", "from the first event to the last; 0 where the trace has no times"),
    "allocated_bytes": Feature("log", "sum of all requests"),
    "peak_live_bytes": Feature("log", "largest sum of requests that lived at a moment"),
    "peak_live_objects": Feature("log", "most objects that lived at a moment"),
    "acquired": Feature("", "objects acquired"),
    "released": Feature("", "objects released"),
    "dropped": Feature("", "events that the recorder counted as lost"),
    "size_variety": Feature("log", "size buckets (a quarter of a power of two) that hold 90 % of requests"),
    **{f"size_{name}_bytes": Feature("log", f"request size, {name} of requests") for name in QUANTILES},
    **{f"age_{name}_bytes": Feature("log", f"bytes allocated in a life, {name} of releases") for name in QUANTILES},
    "unreleased_share": Feature("plain", "objects never released, of those acquired"),
    "young_share": Feature("plain", "objects released before 64 KiB more were allocated, of those acquired"),
    "remote_share": Feature("plain", "releases by another thread than the acquirer, of all"),
    "large_share": Feature("plain", "bytes in requests of 128 KiB or more, of all bytes requested"),
    "fall_share": Feature("plain", "deepest fall of live bytes after a peak, of that peak"),
    "realloc_share": Feature("plain", "reallocs of live objects, of all ops"),
    "copied_bytes_per_op": Feature("log", "bytes that reallocs which moved have copied"),
}


def of_profile(text: bytes) -> dict[str, int | float]:
    """FEATURES, by the output of `heaptape-convert profile`."""
    raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    long = {key: np.fromstring(bytes(raw[key]).translate(None, b"[]"), np.int64, sep=",") for key in LONG if key in raw}
    found = Profile({key: msgspec.json.decode(raw[key]) for key in (*NEEDED, "reallocs") if key in raw} | long)
    data, acquired, released = found.data, found.acquired, found.released
    witness: Mapping = data.get("witness", {})
    reallocs: Mapping = data.get("reallocs", {})
    ops = data.get("ops", 0)
    _, age, objects, _ = found.array("lifetimes_bytes", len(LIFETIMES)).T
    size, calls, _ = found.requests.T
    figures = {
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
    return {
        name: float(value) if isinstance(value, (float, np.floating)) else int(value) for name, value in figures.items()
    }


def _quantiles(of: str, values: np.ndarray, counts: np.ndarray) -> dict[str, int]:
    """Lower bounds of the buckets that contain the QUANTILES; 0 where nothing was counted."""
    names = [f"{of}_{name}_bytes" for name in QUANTILES]
    if not counts.any():
        return dict.fromkeys(names, 0)
    found, summed = counted(values, counts)
    places = np.searchsorted(summed.cumsum(), np.ceil(np.array(list(QUANTILES.values())) * counts.sum()))
    return dict(zip(names, found[places].tolist()))


def standardised(profiles: Sequence[Mapping[str, float]]) -> np.ndarray:
    """A row for each profile: its compared FEATURES, sizes and counts as logarithms, each with mean 0 and deviation 1,
    without features that are the same in all.
    """
    columns = []
    for name, feature in FEATURES.items():
        values = np.array([profile[name] for profile in profiles], float)
        if feature.compared and values.max() > values.min():
            columns.append(np.log2(1 + values) if feature.compared == "log" else values)
    if not columns:
        return np.zeros((len(profiles), 1))
    stacked = np.column_stack(columns)
    return (stacked - stacked.mean(axis=0)) / stacked.std(axis=0)
