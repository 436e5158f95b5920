"""From a distillate's figures to the whole's: weights of windows and corrections, fitted on allocators of which both
are known.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

# Strengths of the ridge that are tried: from totals met nearly exactly to weights that hardly move.
RIDGES = (1e-8, 1e-4, 1e-2, 1.0, math.inf)


def weights(base: np.ndarray, counted: np.ndarray, totals: np.ndarray, ridge: float) -> np.ndarray:
    """Weights near `base` (one a window) by which `counted` (one row a window, one column a count) sums up to `totals`:
    those of least sum of (w - base)^2 / base (Deville and Särndal, linear), softened by `ridge`, in the columns' own
    totals; infinite: one factor for all. None is below 0.
    """
    if math.isinf(ridge):
        estimates = base @ counted
        return base * math.exp(float(np.mean(np.log(totals / estimates))))
    relative = counted / totals
    missing = 1 - base @ relative
    spread = base[:, None] * relative
    step = np.linalg.solve(relative.T @ spread + ridge * np.eye(len(totals)), missing)
    return np.maximum(base + spread @ step, 0.0)


def correction(model: str, distilled: Sequence[float], whole: Sequence[float]) -> float:
    """What the distillate's figure is multiplied by ("factor") or what is added to it ("shift"), so that it comes near
    the whole's on these allocators; "none": 1.
    """
    have, want = np.array(distilled, np.float64), np.array(whole, np.float64)
    if model == "factor":
        return math.exp(float(np.mean(np.log(want / have))))
    if model == "shift":
        return float(np.median(want - have))
    return 1.0


def corrected(model: str, value: float, figure: float) -> float:
    """A figure with the correction of that value."""
    return figure + value if model == "shift" else figure * value


MODELS: Mapping[str, str] = {"none": "as it is", "factor": "times a factor", "shift": "plus a number of bytes"}
