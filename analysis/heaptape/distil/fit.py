# SPDX-License-Identifier: MIT
"""What a distillate's runs say of the whole, fitted on allocators of which both are known; with the errors."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heaptape.distil import corrections
from heaptape.distil.errors import Errors, errors
from heaptape.distil.measured import Runs, Whole
from heaptape.results import distilled

Fit = Callable[[Sequence[int]], np.ndarray]


@dataclass(frozen=True, eq=False)
class Fitted:
    """`corrections` (of RSS) and `errors`, by figure."""

    corrections: dict[str, dict]
    errors: dict[str, Errors]

    @property
    def expected(self) -> dict[str, float]:
        """figure -> half the width of the 95 % interval for an allocator not seen, in percent."""
        return {figure: found.expected for figure, found in self.errors.items()}


def fit(
    runs: Runs, whole: Whole, manifest: Mapping, families: Sequence[str], unseen: pd.Series | None = None
) -> Fitted:
    """Of RSS the correction that is best on allocators left out; instructions are the windows' times their weights.
    `families`: the allocator of each choice, in the order of whole.figures. `unseen`: select.unseen, where windows were
    chosen.
    """
    added = 0.0 if unseen is None else unseen[whole.figures.index].to_numpy()
    fitted, found = {}, {}
    for figure in whole.figures:
        want = whole.figures[figure].to_numpy(np.float64)
        of_pass = [runs[label][distilled.PASSES[figure]] for label in whole.figures.index]
        have = np.array([distilled.uncorrected(figure, run, manifest) for run in of_pass])
        if figure == distilled.INSTRUCTIONS:
            found[figure] = errors(functools.partial(_as_it_is, have), want, families, added)
            continue
        model, found[figure] = _best(
            {model: functools.partial(_by_correction, have, want, model) for model in corrections.MODELS},
            want,
            families,
        )
        fitted[figure] = {"model": model, "value": corrections.correction(model, have.tolist(), want.tolist())}
    return Fitted(fitted, found)


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


def _best(fits: Mapping[str, Fit], want: np.ndarray, families: Sequence[str]) -> tuple[str, Errors]:
    """The key of the fit of least expected error, and its errors; of equal ones the first."""
    found = {key: errors(one, want, families) for key, one in fits.items()}
    best = min(found, key=lambda key: found[key].expected)
    return best, found[best]


def _as_it_is(have: np.ndarray, known: Sequence[int]) -> np.ndarray:
    """Whatever is known of others."""
    return have


def _by_correction(have: np.ndarray, want: np.ndarray, model: str, known: Sequence[int]) -> np.ndarray:
    value = corrections.correction(model, have[list(known)].tolist(), want[list(known)].tolist())
    return np.array([distilled.corrected({"model": model, "value": value}, float(one)) for one in have])
