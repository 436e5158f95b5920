# SPDX-License-Identifier: MIT
"""Goals of a search: figures to be minimised, others within limits, over one or several workloads."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from heaptape.common.errors import UsageError
from heaptape.run import exact

CPU = "cpu"  # the program's CPU time as the model of time predicts it, in ns
FIGURES = (*exact.FIGURES, CPU)
PASSES_OF_CPU = ("misses", "memory")
SHORT = {"rss": "rss-peak"}
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

# workload -> figure -> value
Figures = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Limit:
    """`figure` is to be at most `most`, or with `of_default` at most that many times the default's; on each workload.
    `text`: as it was given.
    """

    text: str
    figure: str
    most: Fraction
    of_default: bool

    def excess(self, found: Figures, default: Figures) -> float:
        """By which share the limit is exceeded, on the workload where that is most; 0 or less: it is kept. The sign is
        exact.
        """
        return max(self._excess(one[self.figure], default[workload][self.figure]) for workload, one in found.items())

    def _excess(self, value: float, default: float) -> float:
        bound = self.most * Fraction(default) if self.of_default else self.most
        beyond = Fraction(value) - bound
        return float(beyond / bound) if bound > 0 else float(beyond)


@dataclass(frozen=True)
class Goals:
    """`weights`: workload -> its share; they add up to 1."""

    objectives: tuple[str, ...]
    limits: tuple[Limit, ...]
    weights: Mapping[str, float]

    @property
    def figures(self) -> tuple[str, ...]:
        """All figures that are needed of a point."""
        return tuple(dict.fromkeys([*self.objectives, *(limit.figure for limit in self.limits)]))

    @property
    def passes(self) -> tuple[str, ...]:
        """The passes that the figures need, each run once per point."""
        wanted = [PASSES_OF_CPU if name == CPU else (exact.FIGURES[name].pass_,) for name in self.figures]
        return tuple(dict.fromkeys(pass_ for passes in wanted for pass_ in passes))

    @property
    def runs_of_a_point(self) -> int:
        return len(self.passes) * len(self.weights)

    def ratios(self, found: Figures, default: Figures) -> dict[str, float]:
        """figure -> the weighted geometric mean over workloads of its ratio to the default's."""
        return {
            name: math.exp(sum(self.weights[w] * _log_ratio(found[w][name], default[w][name]) for w in self.weights))
            for name in self.figures
        }

    def excess(self, found: Figures, default: Figures) -> list[float]:
        return [limit.excess(found, default) for limit in self.limits]


def balance_of(ratios: Sequence[float]) -> float:
    """One number for several objectives: the geometric mean of their ratios."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _log_ratio(value: float, default: float) -> float:
    # Where the default has 0, 1 counts as twice as much.
    return math.log(value / default) if value > 0 and default > 0 else math.log((value + 1) / (default + 1))


def objectives(text: str) -> tuple[str, ...]:
    """The objectives in a comma-separated list. Raises UsageError."""
    names = tuple(dict.fromkeys(SHORT.get(name, name) for name in text.split(",") if name))
    for name in names:
        _known("--objective", name)
    if not names:
        raise UsageError(f"tune --objective: none: there are {', '.join(FIGURES)}")
    return names


def limits(texts: Sequence[str]) -> tuple[Limit, ...]:
    """Limits `FIGURE<=NUMBER*default` or `FIGURE<=NUMBER[k|m|g]`, several joined by commas. Raises UsageError."""
    return tuple(_limit(text.strip()) for given in texts for text in given.split(","))


def _limit(text: str) -> Limit:
    match = re.fullmatch(r"([a-z-]+)\s*<=\s*(\d+(?:\.\d+)?)\s*(?:\*\s*(default)|([kmg])(?:i?b)?)?", text, re.IGNORECASE)
    if not match:
        raise UsageError(f"tune --limit: '{text}' is neither FIGURE<=NUMBER*default nor FIGURE<=NUMBER[k|m|g]")
    figure = SHORT.get(match[1], match[1])
    _known("--limit", figure)
    return Limit(text, figure, Fraction(match[2]) * UNITS[(match[4] or "").lower()], bool(match[3]))


def weights(names: Sequence[str], text: str) -> dict[str, float]:
    """Name of a workload -> its share. `text`: a number for each, joined by commas; empty: equal shares. Raises
    UsageError.
    """
    try:
        given = [float(word) for word in text.split(",")] if text else [1.0] * len(names)
    except ValueError:
        raise UsageError(f"tune --weights: '{text}' is not a list of numbers") from None
    if len(given) != len(names):
        raise UsageError(f"tune --weights: {len(given)} for {len(names)} workloads")
    if not all(0 < weight < math.inf for weight in given):
        raise UsageError("tune --weights: each has to be more than 0")
    return {name: weight / sum(given) for name, weight in zip(names, given)}


def _known(option: str, name: str) -> None:
    if name not in FIGURES:
        raise UsageError(f"tune {option}: unknown figure '{name}': there are {', '.join(FIGURES)}")
