# SPDX-License-Identifier: MIT
"""Quantities for people."""


def size(value: float) -> str:
    """Bytes in KiB, MiB or GiB to one decimal; below a KiB in bytes."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(value) >= 1 << power:
            return f"{value / (1 << power):,.1f} {name}"
    return f"{value:,.0f} bytes"
