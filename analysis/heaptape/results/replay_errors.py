# SPDX-License-Identifier: MIT
"""The last measured errors of replays against live programs, which other answers carry.

`fidelity.json` beside this file is written by `python -m tests.bench.fidelity --table`, from the same runs as
docs/methods/FIDELITY.md. Without numpy, as every comparison needs this.
"""

import json
import math
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from heaptape.common.errors import HeaptapeError

FILE = Path(__file__).with_name("fidelity.json")
# Errors of fewer programs than these predict nothing for another one.
FEWEST_APPS = 5
# An error as large as the figure itself: replays don't predict it.
UNPREDICTED_PERCENT = 100
NAMES = {"peak_rss": "peak RSS", "mean_rss": "mean RSS", "vm_size": "VmSize", "bare_cpu": "bare CPU"}


def error_percent(figure: str, allocator: str) -> float | None:
    """How far a replay's figure may be off, in percent of the live program's: 9 of 10 programs were within it.

    `figure`: a metric of `schema.figures`. `allocator`: a label; a variant has its allocator's error, an
    allocator that was not measured the error of all together. None if the figure was never measured; 0 for the
    baseline, the allocator that programs were recorded on.
    """
    table = known()
    if not table or figure not in table["figures"]:
        return None
    name = allocator.partition(":")[0]
    if allocator == table["baseline"]:
        return 0.0
    errors = table["figures"][figure]
    found = errors["allocators"].get(name, errors["all"])
    return float(found["p90"])


def errors_of(figures: Iterable[str], allocators: Iterable[str]) -> dict[str, float]:
    """figure -> the largest error of any of the allocators, for the figures that were measured."""
    labels = list(allocators)
    found = {}
    for figure in figures:
        values = [error for label in labels if (error := error_percent(figure, label)) is not None]
        if values:
            found[figure] = max(values)
    return found


def is_replay(data: dict) -> bool:
    """Were these results made by replaying? A table published elsewhere does not have our errors."""
    return isinstance(data.get("heaptape"), dict)


def carried(results: Iterable[dict]) -> Callable[[str, str, str], float]:
    """For verdicts: (figure, a, b) -> the larger error of the two; 0 if none is known, or not all results are ours."""
    ours = all(is_replay(data) for data in results)

    def error(figure: str, a: str, b: str) -> float:
        return max(errors_of([figure], [a, b]).values(), default=0.0) if ours else 0.0

    return error


def sentence(figures: Iterable[str], allocators: Iterable[str]) -> str:
    """The sentence beside the figures: for each, the smallest and largest error of the allocators; empty if none is
    known.
    """
    labels, ranges, unpredicted = list(allocators), [], []
    for figure in figures:
        name = NAMES.get(figure, figure)
        errors = [error for label in labels if (error := error_percent(figure, label))]
        if errors and max(errors) >= UNPREDICTED_PERCENT:
            unpredicted.append(f"{name} is not predicted")
        elif errors:
            low, high = _rounded(min(errors)), _rounded(max(errors))
            ranges.append(f"{name} {high} %" if low == high else f"{name} {low} to {high} %")
    if not ranges and not unpredicted:
        return ""
    found = "; ".join([", ".join(ranges)] * bool(ranges) + unpredicted)
    return f"Error of replays against live programs, 90th percentile: {found}. By allocator: docs/methods/FIDELITY.md."


def known() -> dict | None:
    """The table; None if there is none, or it has too few apps."""
    return _load(FILE)


@cache
def _load(path: Path) -> dict | None:
    try:
        table = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HeaptapeError(f"{path}: {error}") from None
    if not _is_sound(table):
        raise HeaptapeError(f"{path}: not a table of errors")
    return table if len(table["apps"]) >= FEWEST_APPS else None


def _is_sound(table: object) -> bool:
    if not isinstance(table, dict) or table.get("schema") != 1 or not isinstance(table.get("baseline"), str):
        return False
    if not isinstance(table.get("apps"), list) or not isinstance(table.get("figures"), dict):
        return False
    for errors in table["figures"].values():
        if not isinstance(errors, dict) or not isinstance(errors.get("allocators"), dict):
            return False
        for one in (errors.get("all"), *errors["allocators"].values()):
            value = one.get("p90") if isinstance(one, dict) else None
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
                return False
    return True


def _rounded(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}"
