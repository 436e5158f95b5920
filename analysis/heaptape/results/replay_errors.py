# SPDX-License-Identifier: MIT
"""The last measured errors of replays against live programs, which other answers carry.

`fidelity.json` beside this file is written by `python -m tests.bench.fidelity --table`, from the same runs as
docs/methods/FIDELITY.md. Without numpy, as every comparison needs this.
"""

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from heaptape.common.errors import HeaptapeError

FILE = Path(__file__).with_name("fidelity.json")
# Errors of fewer programs than these predict nothing for another one.
FEWEST_APPS = 5
# An error as large as the figure itself: replays don't predict it.
UNPREDICTED_PERCENT = 100
NAMES = {"peak_rss": "peak memory", "mean_rss": "mean memory", "vm_size": "VmSize", "bare_cpu": "bare CPU"}


class Error(msgspec.Struct):
    """In percent of the live program's figure; of 9 in 10 programs."""

    p90: Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class FigureErrors(msgspec.Struct):
    all: Error
    allocators: dict[str, Error]


class Table(msgspec.Struct):
    schema: Literal[1]
    baseline: str
    apps: list[str]
    figures: dict[str, FigureErrors]


def error_percent(figure: str, allocator: str) -> float | None:
    """How far a replay's figure may be off, in percent of the live program's: 9 of 10 programs were within it.

    `figure`: a metric of `schema.figures`. `allocator`: a label; a variant has its allocator's error, an
    allocator that was not measured the error of all together. None if the figure was never measured; 0 for the
    baseline, the allocator that programs were recorded on.
    """
    table = known()
    if not table or figure not in table.figures:
        return None
    if allocator == table.baseline:
        return 0.0
    errors = table.figures[figure]
    return errors.allocators.get(allocator.partition(":")[0], errors.all).p90


def error_of_all(figure: str) -> float:
    """The error of all allocators together, in percent; also of one that programs were recorded on. 0: not measured."""
    table = known()
    return table.figures[figure].all.p90 if table and figure in table.figures else 0.0


def errors_of(figures: Iterable[str], allocators: Iterable[str]) -> dict[str, float]:
    """figure -> the largest error of any of the allocators, for the figures that were measured."""
    labels = list(allocators)
    found = {}
    for figure in figures:
        values = [error for label in labels if (error := error_percent(figure, label)) is not None]
        if values:
            found[figure] = max(values)
    return found


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


def known() -> Table | None:
    """The table; None if there is none, or it has too few apps."""
    return _load(FILE)


@cache
def _load(path: Path) -> Table | None:
    try:
        table = msgspec.json.decode(path.read_bytes(), type=Table)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError, msgspec.MsgspecError) as error:
        raise HeaptapeError(f"{path}: not a table of errors: {error}") from None
    return table if len(table.apps) >= FEWEST_APPS else None


def _rounded(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}"
