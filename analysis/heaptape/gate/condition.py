"""Conditions on a figure, as people write them: `rss-peak>1.1*old`, `syscalls>=5000`, `rss-mean > 64 MiB`, `broken>0`.

    FIGURE OP NUMBER[%]*NAME | FIGURE OP NAME | FIGURE OP NUMBER [KiB|MiB|GiB]

FIGURE is one of measure.exact.FIGURES, OP one of > >= < <=, NAME what the caller holds the figure against: `old` of
gate and minimise, `good` of bisect. `110%*old` is `1.1*old`.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heaptape.common.errors import UsageError
from heaptape.measure.exact import FIGURES

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

_CONDITION = re.compile(r"\s*([\w-]+)\s*(>=|<=|>|<)\s*(.*?)\s*", re.ASCII)
_BOUND = re.compile(r"(?:(\d+(?:\.\d*)?|\.\d+)\s*(%)?\s*(\*)?)?\s*([A-Za-z]+)?", re.ASCII)


@dataclass(frozen=True)
class Condition:
    """What must hold of `figure`. `reference`: the name that `factor` is multiplied with; None: `factor` is the bound
    itself, in the figure's unit.
    """

    text: str
    figure: str
    comparison: str
    factor: float
    reference: str | None

    def bound(self, reference: float | None = None) -> float:
        """What the figure is compared with. `reference`: the figure of the one that the condition names, if any."""
        if self.reference is None:
            return self.factor
        if reference is None:
            raise ValueError(f"'{self.text}' needs the figure of {self.reference}")
        return self.factor * reference

    def holds(self, value: float, reference: float | None = None) -> bool:
        """`reference` as of `bound`."""
        return COMPARISONS[self.comparison](value, self.bound(reference))


def parse(text: str, names: Sequence[str] = ("old",)) -> Condition:
    """The condition that the text states. `names`: those that it may hold the figure against.

    Raises UsageError, one line that says what is known.
    """
    match = _CONDITION.fullmatch(text)
    if not match:
        raise UsageError(f"'{text}' is no condition: FIGURE OP BOUND, as in 'rss-peak>1.1*{names[0]}'")
    figure, comparison, bound = match.groups()
    if figure not in FIGURES:
        raise UsageError(f"'{text}': unknown figure '{figure}': there are {', '.join(FIGURES)}")
    factor, reference = _bound(text, figure, bound, names)
    return Condition(text, figure, comparison, factor, reference)


def _bound(text: str, figure: str, bound: str, names: Sequence[str]) -> tuple[float, str | None]:
    """Factor and reference."""
    match = _BOUND.fullmatch(bound)
    number, percent, times, word = match.groups() if match else (None,) * 4
    value = float(number) / (100 if percent else 1) if number else 1.0
    if word in names and bool(number) == bool(times) and math.isfinite(value):
        return value, word
    unit = UNITS.get(word) if word else 1
    fits = number and not percent and not times and (not word or FIGURES[figure].unit == "bytes")
    if fits and unit and math.isfinite(value):
        return value * unit, None
    forms = [f"NUMBER*{name}" for name in names] + ["NUMBER"]
    if FIGURES[figure].unit == "bytes":
        forms.append(f"NUMBER {'|'.join(UNITS)}")
    raise UsageError(f"'{text}': '{bound}' is no bound of {figure}: {', '.join(forms)}")
