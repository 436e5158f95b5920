# SPDX-License-Identifier: MIT
"""A run's label and numbers, without pandas."""

import math


def label(allocator: object, variant: object) -> str:
    """The name of an allocator with its variant in tables: `name` or `name:variant`."""
    return str(allocator) if variant in (None, "", "default") else f"{allocator}:{variant}"


def label_of(run: dict) -> str:
    return label(run["allocator"], run.get("variant"))


def number(value: object) -> float | None:
    """The value if it is a finite number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None
