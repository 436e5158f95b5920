# SPDX-License-Identifier: MIT
"""From a distillate's RSS and misses to the whole's: corrections, fitted where both are known."""

import math
from collections.abc import Sequence

import numpy as np

from heaptape.results import distilled

MODELS = ("none", "factor", "shift")  # heaptape.results.distilled.corrected applies them


def models(figure: str, have: np.ndarray) -> tuple[str, ...]:
    """Those that may fit a figure, by what the distillate has of it. Of misses none that makes them less than 0."""
    if figure in (distilled.RSS_PEAK, distilled.RSS_MEAN):
        return MODELS
    return MODELS[:2] if figure.startswith("misses") and have.min() > 0 else MODELS[:1]


def correction(model: str, distilled: Sequence[float], whole: Sequence[float]) -> float:
    """What a distillate's figures are multiplied by ("factor"), or what is added to them ("shift"), so that they come
    near the whole's: of half of them above, of half below; "none": 1.
    """
    have, want = np.array(distilled, np.float64), np.array(whole, np.float64)
    if model == "factor":
        return math.exp(float(np.median(np.log(want / have))))
    return float(np.median(want - have)) if model == "shift" else 1.0
