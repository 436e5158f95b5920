# SPDX-License-Identifier: MIT
"""Estimates of the whole from a distillate's runs: corrections, fitted on allocators where both are known, and errors.

RSS and misses are corrected, by what makes their errors least. Errors are those on the allocators of the fit, and those
to expect on any other: each family of allocators (an allocator with its variants) in turn is left out of the fit, and
its figure is estimated from the other families.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from heaptape.distil.measured import Runs, Whole
from heaptape.distil.plan import column
from heaptape.results import distilled, structs
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


MODELS = ("none", "factor", "shift")  # heaptape.results.distilled.corrected applies them


def models_of(figure: str, have: np.ndarray) -> tuple[str, ...]:
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


@dataclass(frozen=True, eq=False)
class Fitted:
    """`corrections` and `errors`, by figure. `sampling`, for figures that windows estimate: for each choice half the
    95 % interval of choosing the windows without its family, in percent (select.sampling_interval).
    """

    corrections: dict[str, dict]
    errors: dict[str, Errors]
    sampling: dict[str, np.ndarray]

    @property
    def expected(self) -> dict[str, float]:
        """figure -> half the width of the 95 % interval for an allocator not seen, in percent."""
        return {figure: found.expected for figure, found in self.errors.items()}

    @property
    def largest_sampling(self) -> dict[str, float]:
        """figure -> the largest of `sampling`."""
        return {figure: float(found.max()) for figure, found in self.sampling.items()}


def fit(
    runs: Runs, whole: Whole, manifest: structs.Distilled, families: Sequence[str], left_out: pd.DataFrame | None = None
) -> Fitted:
    """For RSS and misses, the correction with the least error on allocators left out; instructions are the windows'
    times their weights. `families`: the allocator of each choice, in the order of whole.figures. `left_out`:
    select.left_out, where windows were chosen.
    """
    fitted, found, sampling = {}, {}, {}
    for figure in whole.figures:
        want = whole.figures[figure].to_numpy(np.float64)
        of_pass = [runs[label][distilled.pass_of(figure)] for label in whole.figures.index]
        have = np.array([distilled.uncorrected(figure, run, manifest) for run in of_pass])
        unseen: np.ndarray | float = 0.0
        if left_out is not None and distilled.is_by_windows(figure):
            of_windows = left_out.loc[[column(figure, label) for label in whole.figures.index]]
            sampling[figure], unseen = of_windows["sampling"].to_numpy(), of_windows["unseen"].to_numpy()
        models = models_of(figure, have)
        fits = {model: functools.partial(_by_correction, have, want, model) for model in models}
        model, found[figure] = _best(fits, want, families, unseen)
        if len(models) > 1:
            fitted[figure] = {"model": model, "value": correction(model, have.tolist(), want.tolist())}
    return Fitted(fitted, found, sampling)


def table(fitted: Fitted, labels: Sequence[str]) -> pd.DataFrame:
    """One row per allocator and figure: allocator, figure, error_percent (fitted on all), left_out_percent (fitted on
    other families), expected_percent; sampling_percent (Fitted.sampling) for figures that windows estimate, else NaN.
    """
    return pd.DataFrame(
        [
            {
                "allocator": label,
                "figure": figure,
                "error_percent": float(found.fitted[number]),
                "left_out_percent": float(found.left_out[number]),
                "expected_percent": found.expected,
            }
            | ({"sampling_percent": float(fitted.sampling[figure][number])} if figure in fitted.sampling else {})
            for figure, found in fitted.errors.items()
            for number, label in enumerate(labels)
        ]
    )


def _best(
    fits: Mapping[str, Fit], want: np.ndarray, families: Sequence[str], unseen: np.ndarray | float
) -> tuple[str, Errors]:
    """The key of the fit with the least expected error (the first of equals), and its errors."""
    found = {key: errors(one, want, families, unseen) for key, one in fits.items()}
    best = min(found, key=lambda key: found[key].expected)
    return best, found[best]


def _by_correction(have: np.ndarray, want: np.ndarray, model: str, known: Sequence[int]) -> np.ndarray:
    value = correction(model, have[list(known)].tolist(), want[list(known)].tolist())
    return np.array([distilled.corrected(structs.Correction(model, value), float(one)) for one in have])
