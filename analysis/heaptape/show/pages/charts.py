# SPDX-License-Identifier: MIT
"""What the report draws: time lines for the browser (`report.js`), as plain numbers, and bars for its tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from heaptape.common.tables import MIB
from heaptape.passes import fragmentation
from heaptape.results.model.counts import PARTS as TIME_PARTS
from heaptape.results.model.time_model import ALL
from heaptape.results.schema import Results, call_details
from heaptape.show import drawing

# Points of each line, before the lines of all allocators get each other's positions.
DRAWN_POINTS = 160
# Calls that make up less than this share of all calls are folded.
RARE_SHARE = 0.01


@dataclass(frozen=True)
class Bar:
    """One bar: whose it is, its total as text, and its parts: (name, colour, percent of the longest bar, text)."""

    label: str
    total: str
    parts: list[tuple[str, str, float, str]]


@dataclass(frozen=True)
class Latency:
    """One call's row of an allocator: cycles as text, and where median and 99.9th percentile are on the common
    logarithmic scale, in percent of its width.
    """

    label: str
    figures: list[str]
    begin: float
    end: float


def colours(labels: Sequence[str]) -> dict[str, dict]:
    """Colour and dash of each allocator, the same in all charts: {label: {"color", "dash"}}."""
    dashes = {"-": [], "--": [6, 4], "-.": [8, 4, 2, 4], ":": [2, 3]}
    styles = {label: drawing.style(number) for number, label in enumerate(labels)}
    return {label: {"color": style["color"], "dash": dashes[style["linestyle"]]} for label, style in styles.items()}


def memory(file: Results, labels: Sequence[str]) -> dict[str, Any]:
    """Memory over progress: {"x": ops, "lines": [[label, MiB of RSS at each x]], "live": MiB}; empty without time
    lines. Between two samples a line holds its value; each line keeps its least and largest.
    """
    frames = {label: frame for label, frame in file.timelines().items() if label in labels and len(frame)}
    if not frames:
        return {}
    thin = {label: drawing.thinned(frame, DRAWN_POINTS) for label, frame in frames.items()}
    x = np.unique(np.concatenate([frame["position"] for frame in thin.values()]))
    longest = max(frames.values(), key=len)
    found = {"x": x.tolist(), "live": _mib(_held(longest, "live_bytes", x))}
    lines = [[label, _mib(_held(frame, "rss_anon_bytes", x))] for label, frame in frames.items()]
    recorded = file.workload.recorded
    if recorded:
        rows = pd.DataFrame([row[:2] for row in recorded], columns=["position", "rss"])
        found["recorded"] = _mib(_held(rows, "rss", x))
    return found | {"lines": lines}


def _held(frame: pd.DataFrame, column: str, x: np.ndarray) -> np.ndarray:
    """The column's value at each x: that of the last position not beyond it."""
    at = np.searchsorted(frame["position"].to_numpy(), x, side="right") - 1
    return frame[column].to_numpy(float)[np.maximum(at, 0)]


def _mib(values: np.ndarray) -> list[float]:
    return np.round(values / MIB, 2).tolist()


def peak_parts(file: Results, labels: Sequence[str]) -> list[Bar]:
    """What each allocator's RSS consists of where it is largest. Raises HeaptapeError if the data are malformed."""
    peak = fragmentation.at_peak(file)
    peak = peak[peak["allocator"].isin(labels)]
    most = peak["rss_anon_bytes"].clip(lower=1).max()
    bars = []
    for _, row in peak.iterrows():
        parts = [
            (name, drawing.PART_COLOURS[key], 100 * max(row[key], 0) / most, f"{row[key] / MIB:,.1f} MiB")
            for key, name in fragmentation.PARTS.items()
        ]
        bars.append(Bar(row["allocator"], f"{row['rss_anon_bytes'] / MIB:,.1f} MiB", parts))
    return bars


def time_parts(predicted: pd.DataFrame, labels: Sequence[str]) -> tuple[str, list[Bar]]:
    """The unit ("%" of the baseline's CPU time, or "ms"), and what the predicted change consists of: parts that take
    longer have a positive share. `predicted`: of one workload, from `time_model.prediction`.
    """
    shown = predicted[predicted["allocator"].isin(labels)]
    if shown.empty:
        return "", []
    unit = "ms" if shown["percent"].isna().any() else "%"
    shown = shown.assign(change=shown["ns"] / 1e6 if unit == "ms" else shown["percent"])
    most = shown[shown["part"] != ALL]["change"].abs().max() or 1.0
    bars = []
    for label in dict.fromkeys(shown["allocator"]):
        mine = shown[shown["allocator"] == label].set_index("part")["change"]
        parts = [
            (part, drawing.OKABE_ITO[number], 100 * mine[part] / most, f"{mine[part]:+.1f}")
            for number, part in enumerate(TIME_PARTS)
            if part in mine.index
        ]
        bars.append(Bar(label, f"{mine[ALL]:+.1f}", parts))
    return unit, bars


def latencies(file: Results, labels: Sequence[str]) -> tuple[dict[str, list[Latency]], dict[str, list[Latency]]]:
    """By call, busiest first, its latency under each allocator; of calls that are made often, and of rare ones."""
    details = call_details([file])
    details = details[details["allocator"].isin(labels)]
    counts = details.groupby("call")["count"].sum().sort_values(ascending=False)
    columns = ["mean", "p50", "p99", "p999", "max"]
    known = np.log(np.maximum(details[["p50", "p999"]].to_numpy(float), 1))
    low, high = (np.nanmin(known), np.nanmax(known)) if np.isfinite(known).any() else (0.0, 1.0)
    often: dict[str, list[Latency]] = {}
    rare: dict[str, list[Latency]] = {}
    for call, count in counts.items():
        rows = details[details["call"] == call].set_index("allocator")
        shown = []
        for label in [label for label in labels if label in rows.index]:
            row = rows.loc[label]
            ends = [100 * (np.log(max(row[key], 1)) - low) / max(high - low, 1e-9) for key in ("p50", "p999")]
            begin, end = (0.0, 0.0) if np.isnan(ends).any() else ends
            figures = ["–" if pd.isna(row[key]) else f"{row[key]:,.0f}" for key in columns]
            shown.append(Latency(label, figures, begin, max(end - begin, 0.0)))
        (often if count >= RARE_SHARE * counts.sum() else rare)[str(call)] = shown
    return often, rare
