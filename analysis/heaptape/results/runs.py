# SPDX-License-Identifier: MIT
"""What a run of results says of itself, without pandas."""

import math


def label(allocator: object, variant: object) -> str:
    """How an allocator with its variant is called in tables: `name` or `name:variant`."""
    return str(allocator) if variant in (None, "", "default") else f"{allocator}:{variant}"


def label_of(run: dict) -> str:
    return label(run["allocator"], run.get("variant"))


def number(value: object) -> float | None:
    """A finite number, or None for whatever else stands there."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None
