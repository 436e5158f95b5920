# SPDX-License-Identifier: MIT
"""What a distillate's runs say of the whole, fitted on allocators of which both are known; with the errors."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heaptape.distil import calibrate
from heaptape.distil.errors import Errors, errors
from heaptape.distil.measured import Runs, Whole
from heaptape.results import distilled

Fit = Callable[[Sequence[int]], np.ndarray]


@dataclass(frozen=True, eq=False)
class Fitted:
    """`weights`: of the windows, None where time was not asked for; `corrections` and `errors` by figure."""

    weights: np.ndarray | None
    corrections: dict[str, dict]
    errors: dict[str, Errors]

    @property
    def expected(self) -> dict[str, float]:
        """figure -> half the width of the 95 % interval for an allocator not seen, in percent."""
        return {figure: found.expected for figure, found in self.errors.items()}


def fit(runs: Runs, whole: Whole, manifest: Mapping, families: Sequence[str]) -> Fitted:
    """Of each figure the way to fit that is best on allocators left out. `families`: the allocator of each choice, in
    the order of whole.figures.
    """
    weights, corrections, found = None, {}, {}
    for figure in whole.figures:
        want = whole.figures[figure].to_numpy(np.float64)
        of_pass = [runs[label][distilled.PASSES[figure]] for label in whole.figures.index]
        if figure == distilled.INSTRUCTIONS:
            ridge, found[figure] = _best(
                {ridge: functools.partial(_by_weights, of_pass, want, manifest, ridge) for ridge in calibrate.RIDGES},
                want,
                families,
            )
            weights = calibrate.weights(distilled.weights(manifest), _counted(of_pass, manifest), want, ridge)
            continue
        have = np.array([distilled.uncorrected(figure, run, manifest) for run in of_pass])
        model, found[figure] = _best(
            {model: functools.partial(_by_correction, have, want, model) for model in calibrate.MODELS}, want, families
        )
        corrections[figure] = {"model": model, "value": calibrate.correction(model, have.tolist(), want.tolist())}
    return Fitted(weights, corrections, found)


def table(fitted: Fitted, labels: Sequence[str]) -> pd.DataFrame:
    """One row an allocator and figure: allocator, figure, error_percent (as fitted on all), left_out_percent (as fitted
    on the others), expected_percent.
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
            for figure, found in fitted.errors.items()
            for number, label in enumerate(labels)
        ]
    )


def _best(fits: Mapping, want: np.ndarray, families: Sequence[str]) -> tuple:
    """The key of the fit of least expected error, and its errors; of equal ones the first."""
    found = {key: errors(one, want, families) for key, one in fits.items()}
    best = min(found, key=lambda key: found[key].expected)
    return best, found[best]


def _counted(runs: Sequence[Mapping], manifest: Mapping) -> np.ndarray:
    """Instructions, one row a window, one column a run."""
    return np.array([distilled.counted(run, manifest) for run in runs]).T


def _by_weights(
    runs: Sequence[Mapping], want: np.ndarray, manifest: Mapping, ridge: float, known: Sequence[int]
) -> np.ndarray:
    counted = _counted(runs, manifest)
    found = calibrate.weights(distilled.weights(manifest), counted[:, list(known)], want[list(known)], ridge)
    return found @ counted


def _by_correction(have: np.ndarray, want: np.ndarray, model: str, known: Sequence[int]) -> np.ndarray:
    value = calibrate.correction(model, have[list(known)].tolist(), want[list(known)].tolist())
    return np.array([distilled.corrected({"model": model, "value": value}, float(one)) for one in have])
