# SPDX-License-Identifier: MIT
"""Conditions on a figure, as text: `rss-peak>1.1*old`, `syscalls>=5000`, `rss-mean > 64 MiB`, `broken>0`.

    FIGURE OP NUMBER[%]*NAME[+AMOUNT] | FIGURE OP NAME[+AMOUNT] | FIGURE OP AMOUNT

FIGURE is one of run.exact.FIGURES, OP one of > >= < <=, NAME what the figure is compared with: `old` for gate and
minimise, `today` for advise. AMOUNT is a number; for bytes, KiB, MiB or GiB may follow. `110%*old` is `1.1*old`.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from heaptape.common.errors import UsageError, unknown
from heaptape.common.phrases import size
from heaptape.run.exact import FIGURES, PEAK, UPPER

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_CONDITION = re.compile(r"\s*([\w-]+)\s*(>=|<=|>|<)\s*(.*?)\s*", re.ASCII)
_MULTIPLE = re.compile(rf"(?:{_NUMBER}\s*(%)?\s*\*)?\s*([A-Za-z]+)(?:\s*\+\s*(.+))?", re.ASCII)
_AMOUNT = re.compile(rf"{_NUMBER}\s*([A-Za-z]+)?", re.ASCII)


@dataclass(frozen=True)
class Condition:
    """A comparison of `figure` with `factor` times the figure of `reference`, plus `amount` in the figure's unit.
    `reference` None: with `amount` alone.
    """

    text: str
    figure: str
    comparison: str
    factor: float
    reference: str | None
    amount: float = 0.0

    def bound(self, reference: float | None = None) -> float:
        """The value to compare the figure with. `reference`: the figure of the condition's NAME, if it has one."""
        if self.reference is None:
            return self.amount
        if reference is None:
            raise ValueError(f"'{self.text}' needs the figure of {self.reference}")
        return self.factor * reference + self.amount

    def holds(self, value: float, reference: float | None = None) -> bool:
        """`reference` as of `bound`."""
        return COMPARISONS[self.comparison](value, self.bound(reference))


def parse(text: str, names: Sequence[str] = ("old",)) -> Condition:
    """The condition that the text states. `names`: allowed values of NAME.

    Raises UsageError with one line that lists what is allowed.
    """
    match = _CONDITION.fullmatch(text)
    if not match:
        raise UsageError(f"'{text}' is not a condition: FIGURE OP BOUND, as in 'rss-peak>1.1*{names[0]}'")
    figure, comparison, bound = match.groups()
    if figure not in FIGURES:
        raise unknown("figure", figure, FIGURES)
    alone = parse_amount(figure, bound)
    if alone is not None:
        return Condition(text, figure, comparison, 0.0, None, alone)
    multiple = _MULTIPLE.fullmatch(bound)
    factor = float(multiple[1] or 1) / (100 if multiple[2] else 1) if multiple else math.inf
    amount = parse_amount(figure, multiple[4]) if multiple and multiple[4] else 0.0
    if not multiple or multiple[3] not in names or amount is None or not math.isfinite(factor):
        raise UsageError(f"'{text}': '{bound}' is not a bound of {figure}: {', '.join(_forms(figure, names))}")
    return Condition(text, figure, comparison, factor, multiple[3], amount)


def parse_amount(figure: str, text: str) -> float | None:
    """The text as an amount in the figure's unit; None: it is not one."""
    match = _AMOUNT.fullmatch(text)
    if not match or (match[2] and FIGURES[figure].unit != "bytes"):
        return None
    unit = UNITS.get(match[2]) if match[2] else 1
    value = float(match[1])
    return value * unit if unit and math.isfinite(value) else None


def _forms(figure: str, names: Sequence[str]) -> list[str]:
    amount = ["AMOUNT"] if FIGURES[figure].unit != "bytes" else ["AMOUNT", f"AMOUNT {'|'.join(UNITS)}"]
    return [form for name in names for form in (f"NUMBER*{name}", f"NUMBER*{name}+AMOUNT")] + amount


DEFAULT = "rss=1%,instructions=2%,syscalls=10%"
# A name for several figures.
GROUPS = {"rss": (PEAK, UPPER, "rss-mean"), PEAK: (PEAK, UPPER)}
# A promise is kept or broken: there is no tolerance between.
TOLERATED = tuple(figure for figure in FIGURES if figure != "broken")

_PERCENT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*%\s*(?:\+\s*(.+))?", re.ASCII)


def parse_tolerances(text: str) -> dict[str, Condition]:
    """figure -> the condition that holds beyond its tolerance. Raises UsageError."""
    found: dict[str, Condition] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = (part.strip() for part in item.partition("="))
        figures = GROUPS.get(name, (name,))
        if any(figure not in TOLERATED for figure in figures):
            raise unknown("figure", name, list(dict.fromkeys((*GROUPS, *TOLERATED))))
        for figure in figures:
            found[figure] = _beyond(figure, amount if equals else "")
    if not found:
        raise UsageError("--tolerate: no figure")
    return found


def tolerated(beyond: Condition) -> str:
    """ "1 % + 64.0 KiB": how much worse than `old` a figure may be before the condition holds."""
    share = f"{100 * (beyond.factor - 1):.6g} %" if beyond.factor != 1 or not beyond.amount else ""
    amount = size(beyond.amount) if FIGURES[beyond.figure].unit == "bytes" else f"{beyond.amount:,g}"
    return " + ".join([share] * bool(share) + [amount] * bool(beyond.amount))


def _beyond(figure: str, text: str) -> Condition:
    percent = _PERCENT.fullmatch(text)
    amount = percent[2] if percent else text
    if (amount is None or parse_amount(figure, amount) is not None) and (percent or amount):
        share = f"{(100 + Decimal(percent[1])).normalize():f}%*" if percent else ""
        return parse(f"{figure}>{share}old" + (f"+{amount}" if amount else ""))
    example = "1%, 64 KiB or 1%+64 KiB" if FIGURES[figure].unit == "bytes" else "1%, 5 or 1%+5"
    raise UsageError(f"--tolerate: '{text}' is not a tolerance of {figure}: {example}")
