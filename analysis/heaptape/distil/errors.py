# SPDX-License-Identifier: MIT
"""Errors of a distillate: on the allocators that it was fitted on, and those to expect on any other allocator.

Each family of allocators (an allocator with its variants) in turn is left out of the fit, and its figure is estimated
from the other families: that is the error on an allocator not seen.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from heaptape.results.comparing.intervals import LEVEL

# From the choices (by number) that the fit may use, to the estimates for all choices.
Fit = Callable[[Sequence[int]], np.ndarray]


@dataclass(frozen=True)
class Errors:
    """Errors in percent of the whole's figure, one per choice: of the fit on all choices (`fitted`), and of the fit on
    other families (`left_out`). `expected`: half the width of the 95 % interval for an allocator not seen.
    """

    fitted: np.ndarray
    left_out: np.ndarray
    expected: float


def percent(estimates: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """By how many percent the estimates are above the whole's figures."""
    return 100 * (estimates / whole - 1)


def errors(fit: Fit, whole: np.ndarray, families: Sequence[str], unseen: np.ndarray | float = 0.0) -> Errors:
    """The errors of a fit, on choices with the whole's figures `whole`. There must be at least two families. `unseen`:
    added to each choice's error, in percent, as its figures helped to choose the windows (select.left_out).
    """
    every = range(len(whole))
    left_out = np.empty(len(whole))
    for family in dict.fromkeys(families):
        own = [number for number in every if families[number] == family]
        others = [number for number in every if families[number] != family]
        left_out[own] = percent(fit(others)[own], whole[own])
    left_out += unseen
    return Errors(percent(fit(list(every)), whole), left_out, expected(left_out, families))


def expected(left_out: np.ndarray, families: Sequence[str]) -> float:
    """Half the width of the interval of the error on another family: by Student's t, and at least the worst of these
    errors, as a few allocators differ from all others. Errors within a family are similar: it counts once, with its
    mean square.
    """
    squares = [float(np.mean(left_out[[own == family for own in families]] ** 2)) for family in dict.fromkeys(families)]
    count = len(squares)
    half = stdtrit(count - 1, (1 + LEVEL) / 2) * math.sqrt(np.mean(squares) * (1 + 1 / count))
    return max(float(half), float(np.abs(left_out).max()))
