# SPDX-License-Identifier: MIT
"""Errors of a distillate: on the allocators that it was fitted on, and what to expect on one that it has not seen.

One family of allocators (an allocator with its variants) after the other is left out of the fit, and its figure is
estimated by the rest: that is the error on an allocator not seen.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from heaptape.comparing.intervals import LEVEL

# Of the choices (by number) that the fit may use: the estimates of all choices.
Fit = Callable[[Sequence[int]], np.ndarray]


@dataclass(frozen=True)
class Errors:
    """In percent of the whole's figure, one a choice: of the fit on all, and of the fit on other families. `expected`:
    half the width of the 95 % interval for an allocator not seen.
    """

    fitted: np.ndarray
    left_out: np.ndarray
    expected: float


def percent(estimates: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """By how much estimates are above."""
    return 100 * (estimates / whole - 1)


def errors(fit: Fit, whole: np.ndarray, families: Sequence[str], unseen: np.ndarray | float = 0.0) -> Errors:
    """Of a way to fit, on choices with these figures of the whole. There must be two families at least. `unseen`: what
    is to be added to each choice's, in percent, as its figures were known before the fit (select.left_out).
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
    """Half the width of the interval in which the error on another family lies: by Student's t, and no less than the
    worst of these, as a few allocators are unlike all others. Errors of one family are alike: it counts once, with its
    mean square.
    """
    squares = [float(np.mean(left_out[[own == family for own in families]] ** 2)) for family in dict.fromkeys(families)]
    count = len(squares)
    half = stdtrit(count - 1, (1 + LEVEL) / 2) * math.sqrt(np.mean(squares) * (1 + 1 / count))
    return max(float(half), float(np.abs(left_out).max()))
