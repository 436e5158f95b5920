# SPDX-License-Identifier: MIT
"""Estimates the whole's figures from a distillate's runs and its manifest.

The manifest is INFO's `distilled` (core/trace/FORMAT.md). `runs`: pass -> run, as in results; passes that take windows
have counted between `edges`.
"""

import math

import numpy as np

from heaptape.results.structs import SIMULATED_OF_ALL, Correction, Distilled, Run, timeline_frame

INSTRUCTIONS, RSS_PEAK, RSS_MEAN = "instructions", "rss-peak", "rss-mean"
PASSES = {INSTRUCTIONS: "instructions", RSS_PEAK: "memory", RSS_MEAN: "memory"}
FIGURES_OF_KIND = {"time": (INSTRUCTIONS,), "memory": (RSS_PEAK, RSS_MEAN), "both": (INSTRUCTIONS, RSS_PEAK, RSS_MEAN)}
OF_KIND = "instructions/"  # prefix: mean of a kind of call
VERSION = 2
POINTS = 20_000  # of the whole, at which RSS is taken


def edges(manifest: Distilled) -> list[int]:
    """Positions in the distillate between which to count, in order, from 0 to its end; none without windows."""
    positions = {int(position) for segment in manifest.segments or [] for position in segment[1:3]}
    return sorted(positions | {0, int((manifest.map or [])[-1][0])}) if positions else []


def is_by_windows(figure: str) -> bool:
    """Is the figure estimated from windows and their weights?"""
    return figure == INSTRUCTIONS or figure.startswith((OF_KIND, SIMULATED_OF_ALL))


def pass_of(figure: str) -> str:
    return PASSES.get(figure, figure.partition("/")[0])


def until(figure: str, run: Run) -> tuple[list[int], np.ndarray]:
    """For a figure by windows: the run's positions, and the count up to each. Misses are counted from the process's
    start on, instructions from the first position on.
    """
    simulated = run.misses and run.misses.windows
    if figure.startswith(SIMULATED_OF_ALL) and simulated:
        return simulated.positions, np.array(simulated.until(figure), np.float64)
    if run.windows is None:
        raise ValueError("not counted between positions")
    positions, by_kind = run.windows.positions, run.windows.instructions
    kinds = by_kind if figure == INSTRUCTIONS else {figure.removeprefix(OF_KIND)} & set(by_kind)  # none: no such calls
    per_window = sum((np.array(by_kind[kind], np.float64) for kind in kinds), np.zeros(len(positions) - 1))
    return positions, np.concatenate([[0.0], np.cumsum(per_window)])


def counted(figure: str, run: Run, manifest: Distilled) -> np.ndarray:
    """The count in each kept window. `run`: of the figure's pass."""
    at: dict[float, float] = dict(zip(*until(figure, run), strict=True))
    return np.array([at[segment[2]] - at[segment[1]] for segment in manifest.segments or []])


def outside(figure: str, run: Run) -> float:
    """The run's count before its first position and after its last one: in the start and end of the process."""
    if run.misses is None:
        return 0.0
    counts = until(figure, run)[1]
    return float(run.misses.of_levels()[figure] - (counts[-1] - counts[0]))


def weights(manifest: Distilled) -> np.ndarray:
    return np.array([segment[5] for segment in manifest.segments or []], np.float64)


def memory_mean(run: Run, manifest: Distilled) -> float:
    """Mean RSS of the distillate over the positions of the whole, in bytes, not corrected."""
    timeline = timeline_frame(run.timeline)
    of_map = np.array(manifest.map, np.float64)
    places = (np.arange(POINTS) + 0.5) / POINTS * of_map[-1, 1]
    positions = np.interp(places, of_map[:, 1], of_map[:, 0])
    at = np.searchsorted(timeline["position"].to_numpy(), positions, "right") - 1
    return float(timeline["rss_anon_bytes"].to_numpy()[np.maximum(at, 0)].mean())


def uncorrected(figure: str, run: Run, manifest: Distilled) -> float:
    """The whole's figure, estimated from the run of its pass, before the manifest's correction."""
    if is_by_windows(figure):
        total = float(outside(figure, run) + weights(manifest) @ counted(figure, run, manifest))
        return total / _calls(manifest, figure) if figure.startswith(OF_KIND) else total
    return memory_mean(run, manifest) if figure == RSS_MEAN else float(run.rss_anon_peak_bytes or math.nan)


def _calls(manifest: Distilled, figure: str) -> float:
    calls = manifest.whole and manifest.whole.calls
    return (calls or {})[figure.removeprefix(OF_KIND)] or math.nan


def corrected(correction: Correction, figure: float) -> float:
    """Applies the correction by its model: "none", "factor" (times it) or "shift" (plus it)."""
    return figure + correction.value if correction.model == "shift" else figure * correction.value


def _estimated(figure: str, run: Run, manifest: Distilled) -> float:
    correction = (manifest.corrections or {}).get(figure, Correction("none", 1))
    return corrected(correction, uncorrected(figure, run, manifest))


def estimate(figure: str, run: Run, manifest: Distilled) -> float | None:
    """The whole's figure, estimated from a run of any pass; None if the run or the manifest lacks a key or a position
    for it.
    """
    if manifest.version != VERSION or figure not in (manifest.expected or {}) or run.pass_ != pass_of(figure):
        return None
    try:
        estimated = _estimated(figure, run, manifest)
        return estimated if math.isfinite(estimated) else None
    except (KeyError, IndexError, TypeError, ValueError):
        return None
