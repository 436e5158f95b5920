# SPDX-License-Identifier: MIT
"""Estimates of the whole from a distillate's runs, fitted on allocators where both are known; with the errors."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heaptape.distil import corrections
from heaptape.distil.errors import Errors, errors
from heaptape.distil.measured import Runs, Whole
from heaptape.distil.plan import column
from heaptape.results import distilled

Fit = Callable[[Sequence[int]], np.ndarray]


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
    runs: Runs, whole: Whole, manifest: Mapping, families: Sequence[str], left_out: pd.DataFrame | None = None
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
        models = corrections.models(figure, have)
        fits = {model: functools.partial(_by_correction, have, want, model) for model in models}
        model, found[figure] = _best(fits, want, families, unseen)
        if len(models) > 1:
            fitted[figure] = {"model": model, "value": corrections.correction(model, have.tolist(), want.tolist())}
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
    value = corrections.correction(model, have[list(known)].tolist(), want[list(known)].tolist())
    return np.array([distilled.corrected({"model": model, "value": value}, float(one)) for one in have])
