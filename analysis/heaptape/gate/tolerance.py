# SPDX-License-Identifier: MIT
"""How much worse the new allocator may be: `rss=1%,instructions=2%,syscalls=10%`, `rss-peak=1%+64KiB`, `syscalls=5`."""

import re
from decimal import Decimal

from heaptape.common.errors import UsageError
from heaptape.gate.condition import Condition, parse, parse_amount
from heaptape.run.exact import FIGURES

DEFAULT = "rss=1%,instructions=2%,syscalls=10%"
# A name for several figures.
GROUPS = {"rss": ("rss-peak", "rss-mean")}
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
            raise UsageError(f"--tolerate: unknown figure '{name}': there are {', '.join((*GROUPS, *TOLERATED))}")
        for figure in figures:
            found[figure] = _beyond(figure, amount if equals else "")
    if not found:
        raise UsageError("--tolerate: no figure")
    return found


def _beyond(figure: str, text: str) -> Condition:
    percent = _PERCENT.fullmatch(text)
    amount = percent[2] if percent else text
    if (amount is None or parse_amount(figure, amount) is not None) and (percent or amount):
        share = f"{(100 + Decimal(percent[1])).normalize():f}%*" if percent else ""
        return parse(f"{figure}>{share}old" + (f"+{amount}" if amount else ""))
    example = "1%, 64 KiB or 1%+64 KiB" if FIGURES[figure].unit == "bytes" else "1%, 5 or 1%+5"
    raise UsageError(f"--tolerate: '{text}' is not a tolerance of {figure}: {example}")
