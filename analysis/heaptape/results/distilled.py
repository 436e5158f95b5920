# SPDX-License-Identifier: MIT
"""Estimates the whole's figures from a distillate's runs and its manifest.

The manifest is INFO's `distilled` (core/trace/FORMAT.md). `runs`: pass -> run, as in results; the passes instructions
and misses have counted between `edges`.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from heaptape.results import misses
from heaptape.results.structs import timeline_frame

INSTRUCTIONS, RSS_PEAK, RSS_MEAN = "instructions", "rss-peak", "rss-mean"
PASSES = {INSTRUCTIONS: "instructions", RSS_PEAK: "memory", RSS_MEAN: "memory"}
FIGURES_OF_KIND = {"time": (INSTRUCTIONS,), "memory": (RSS_PEAK, RSS_MEAN), "both": (INSTRUCTIONS, RSS_PEAK, RSS_MEAN)}
OF_KIND = "instructions/"  # prefix: mean of a kind of call
VERSION = 2
POINTS = 20_000  # of the whole, at which RSS is taken


def edges(manifest: Mapping) -> list[int]:
    """Positions in the distillate between which to count, in order, from 0 to its end; none without windows."""
    positions = {int(position) for segment in manifest["segments"] for position in segment[1:3]}
    return sorted(positions | {0, int(manifest["map"][-1][0])}) if positions else []


def is_by_windows(figure: str) -> bool:
    """Is the figure estimated from windows and their weights?"""
    return figure == INSTRUCTIONS or figure.startswith((OF_KIND, "misses"))


def pass_of(figure: str) -> str:
    return PASSES.get(figure, "misses" if figure.startswith("misses") else "instructions")


def until(figure: str, run: Mapping) -> tuple[list[int], np.ndarray]:
    """For a figure by windows: the run's positions, and the count up to each. Misses are counted from the process's
    start on, instructions from the first position on.
    """
    if figure.startswith("misses"):
        windows = run["misses"]["windows"]
        return windows["positions"], misses.until(figure, windows)
    positions, by_kind = run["windows"]["positions"], run["windows"]["instructions"]
    kinds = by_kind if figure == INSTRUCTIONS else {figure.removeprefix(OF_KIND)} & set(by_kind)  # none: no such calls
    per_window = sum((np.array(by_kind[kind], np.float64) for kind in kinds), np.zeros(len(positions) - 1))
    return positions, np.concatenate([[0.0], np.cumsum(per_window)])


def counted(figure: str, run: Mapping, manifest: Mapping) -> np.ndarray:
    """The count in each kept window. `run`: of the figure's pass."""
    at = dict(zip(*until(figure, run), strict=True))
    return np.array([at[segment[2]] - at[segment[1]] for segment in manifest["segments"]])


def outside(figure: str, run: Mapping) -> float:
    """The run's count before its first position and after its last one: in the start and end of the process."""
    if not figure.startswith("misses"):
        return 0.0
    counts = until(figure, run)[1]
    return float(misses.of_levels(run["misses"])[figure] - (counts[-1] - counts[0]))


def weights(manifest: Mapping) -> np.ndarray:
    return np.array([segment[5] for segment in manifest["segments"]], np.float64)


def memory_mean(run: Mapping, manifest: Mapping) -> float:
    """Mean RSS of the distillate over the positions of the whole, in bytes, not corrected."""
    timeline = timeline_frame(run["timeline"])
    of_map = np.array(manifest["map"], np.float64)
    places = (np.arange(POINTS) + 0.5) / POINTS * of_map[-1, 1]
    positions = np.interp(places, of_map[:, 1], of_map[:, 0])
    at = np.searchsorted(timeline["position"].to_numpy(), positions, "right") - 1
    return float(timeline["rss_anon_bytes"].to_numpy()[np.maximum(at, 0)].mean())


def uncorrected(figure: str, run: Mapping, manifest: Mapping) -> float:
    """The whole's figure, estimated from the run of its pass, before the manifest's correction."""
    if is_by_windows(figure):
        total = float(outside(figure, run) + weights(manifest) @ counted(figure, run, manifest))
        return total / manifest["whole"]["calls"][figure.removeprefix(OF_KIND)] if figure.startswith(OF_KIND) else total
    return memory_mean(run, manifest) if figure == RSS_MEAN else float(run["rss_anon_peak_bytes"])


def corrected(correction: Mapping, figure: float) -> float:
    """Applies the correction {"model", "value"}: "none", "factor" (times it) or "shift" (plus it)."""
    value = float(correction["value"])
    return figure + value if correction["model"] == "shift" else figure * value


def estimates(runs: Mapping[str, Mapping], manifest: Mapping) -> pd.DataFrame:
    """A row for each figure that the manifest has and whose pass is among the runs: figure, value (of the whole: bytes,
    or a count), percent (of that: half of the estimate's 95 % interval, for an allocator not seen).
    """
    rows: list[tuple[str, float, float]] = []
    for figure, percent in manifest["expected"].items():
        run = runs.get(pass_of(figure))
        if run is not None:
            rows.append((figure, _estimated(figure, run, manifest), percent))
    return pd.DataFrame(rows, columns=["figure", "value", "percent"])


def _estimated(figure: str, run: Mapping, manifest: Mapping) -> float:
    correction = (manifest.get("corrections") or {}).get(figure, {"model": "none", "value": 1})
    return corrected(correction, uncorrected(figure, run, manifest))


def estimate(figure: str, run: Mapping, manifest: Mapping) -> float | None:
    """The whole's figure, estimated from a run of any pass; None if the run or the manifest lacks a key or a position
    for it.
    """
    needs = {"instructions": "windows", RSS_PEAK: "rss_anon_peak_bytes", RSS_MEAN: "timeline"}
    if manifest.get("version") != VERSION or run.get(needs.get(figure.split("/")[0], "misses")) is None:
        return None
    try:
        known = figure in manifest["expected"] and run.get("pass") == pass_of(figure)
        estimated = _estimated(figure, run, manifest) if known else math.nan
        return estimated if math.isfinite(estimated) else None
    except (KeyError, IndexError, TypeError, ValueError):
        return None
