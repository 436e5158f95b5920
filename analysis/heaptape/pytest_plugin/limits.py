# SPDX-License-Identifier: MIT
"""The marker `heap`: what a test may acquire."""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from heaptape.common.quantities import size
from heaptape.pytest_plugin.spans import Span

UNITS = {"": 1, "b": 1, "bytes": 1, "byte": 1}
UNITS |= {f"{letter}ib": 1 << power for letter, power in (("k", 10), ("m", 20), ("g", 30))}
UNITS |= {f"{letter}b": 1000**power for letter, power in (("k", 1), ("m", 2), ("g", 3))}
QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


@dataclass(frozen=True)
class Limits:
    """Limits of one test; None: no limit. `warm_up`: None where the option decides."""

    peak_bytes: int | None = None
    growth_bytes: int | None = None
    allocations: int | None = None
    warm_up: int | None = None

    def any(self) -> bool:
        return self.given() != {}

    def given(self) -> dict[str, int]:
        limits = {"peak_bytes": self.peak_bytes, "growth_bytes": self.growth_bytes, "allocations": self.allocations}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def exceeded(self, span: Span) -> dict[str, str]:
        """name -> a sentence, for each limit that the test exceeds."""
        found = {}
        for name, limit in self.given().items():
            measured = getattr(span, name)
            if measured > limit:
                found[name] = f"{name.removesuffix('_bytes')} {_words(name, measured)}, limit {_words(name, limit)}"
        return found


def limits_of(item: pytest.Item) -> Limits:
    """The item's limits by its markers, the closest first. Raises UsageError where a marker is malformed."""
    given: dict[str, Any] = {}
    for marker in item.iter_markers("heap"):
        if marker.args or not set(marker.kwargs) <= {"peak", "growth", "allocations", "warm_up"}:
            raise pytest.UsageError(f"{item.nodeid}: heap() takes peak, growth, allocations and warm_up by name alone")
        for name, value in marker.kwargs.items():
            given.setdefault(name, _number(item, name, value))
    return Limits(given.get("peak"), given.get("growth"), given.get("allocations"), given.get("warm_up"))


def _number(item: pytest.Item, name: str, value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    found = QUANTITY.fullmatch(value) if isinstance(value, str) and name in ("peak", "growth") else None
    if not found or found[2].lower() not in UNITS:
        expected = 'bytes, as a whole number or as "20 MiB"' if name in ("peak", "growth") else "a whole number"
        raise pytest.UsageError(f"{item.nodeid}: heap({name}={value!r}): expected {expected}")
    return int(float(found[1]) * UNITS[found[2].lower()])


def _words(name: str, value: int) -> str:
    """A value as text; with the exact number of bytes, as a limit may be exceeded by one byte."""
    if name == "allocations":
        return f"{value:,}"
    return size(value) if value < 1 << 10 else f"{size(value)} ({value:,} bytes)"
