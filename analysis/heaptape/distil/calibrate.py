# SPDX-License-Identifier: MIT
"""From a distillate's figures to the whole's: weights of windows and corrections, fitted on allocators of which both
are known.
"""

import math
from collections.abc import Sequence

import numpy as np

# Strengths of the ridge that are tried: from totals met nearly exactly to weights that hardly move.
RIDGES = (1e-8, 1e-4, 1e-3, 1e-2, 1e-1, math.inf)
MODELS = ("none", "factor", "shift")  # heaptape.results.distilled.corrected applies them


def weights(base: np.ndarray, counted: np.ndarray, totals: np.ndarray, ridge: float) -> np.ndarray:
    """Weights near `base` (one a window) by which `counted` (one row a window, one column a count) sums up to `totals`:
    those of least sum of (w - base)^2 / base (Deville and Särndal, linear), softened by `ridge`, in the columns' own
    totals. Infinite: one factor for all. None is below 0.
    """
    if math.isinf(ridge):
        return base * math.exp(float(np.mean(np.log(totals / (base @ counted)))))
    relative = counted / totals
    missing = 1 - base @ relative
    spread = base[:, None] * relative
    step = np.linalg.solve(relative.T @ spread + ridge * np.eye(len(totals)), missing)
    return np.maximum(base + spread @ step, 0.0)


def correction(model: str, distilled: Sequence[float], whole: Sequence[float]) -> float:
    """What a distillate's figures are multiplied by ("factor"), or what is added to them ("shift"), so that they come
    near the whole's: of half of them above, of half below; "none": 1.
    """
    have, want = np.array(distilled, np.float64), np.array(whole, np.float64)
    if model == "factor":
        return math.exp(float(np.median(np.log(want / have))))
    return float(np.median(want - have)) if model == "shift" else 1.0
