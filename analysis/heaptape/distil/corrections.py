# SPDX-License-Identifier: MIT
"""From a distillate's RSS to the whole's: corrections that are fitted on allocators of which both are known."""

import math
from collections.abc import Sequence

import numpy as np

MODELS = ("none", "factor", "shift")  # heaptape.results.distilled.corrected applies them


def correction(model: str, distilled: Sequence[float], whole: Sequence[float]) -> float:
    """What a distillate's figures are multiplied by ("factor"), or what is added to them ("shift"), so that they come
    near the whole's: of half of them above, of half below; "none": 1.
    """
    have, want = np.array(distilled, np.float64), np.array(whole, np.float64)
    if model == "factor":
        return math.exp(float(np.median(np.log(want / have))))
    return float(np.median(want - have)) if model == "shift" else 1.0
