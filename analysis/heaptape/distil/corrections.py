# SPDX-License-Identifier: MIT
"""Corrections from a distillate's RSS and misses to the whole's, fitted where both are known."""

import math
from collections.abc import Sequence

import numpy as np

from heaptape.results import distilled

MODELS = ("none", "factor", "shift")  # heaptape.results.distilled.corrected applies them


def models(figure: str, have: np.ndarray) -> tuple[str, ...]:
    """The models that may fit a figure, by the distillate's values `have`. For misses, none that may go below 0."""
    if figure in (distilled.RSS_PEAK, distilled.RSS_MEAN):
        return MODELS
    return MODELS[:2] if figure.startswith("misses") and have.min() > 0 else MODELS[:1]


def correction(model: str, distilled: Sequence[float], whole: Sequence[float]) -> float:
    """The factor ("factor") or the summand ("shift") that brings a distillate's figures near the whole's: half of the
    results are above, half below. "none": 1.
    """
    have, want = np.array(distilled, np.float64), np.array(whole, np.float64)
    if model == "factor":
        return math.exp(float(np.median(np.log(want / have))))
    return float(np.median(want - have)) if model == "shift" else 1.0
