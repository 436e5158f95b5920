# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any

from tests.shapes import SAID, Count, Figures, Output, maybe, shape

# fmt: off
Tuned = shape("Tuned", Output, "`heaptape tune -o` (docs/use/TUNING.md).",
    {"heaptape machine search": dict[str, Any], "created_unix_s": Count, "variants_left_out": list[str],
     "points tunables": list[dict[str, Any]], "winner": dict[str, Any] | None, "error_percent": Figures,
     "live": maybe(dict[str, Any] | None), "mean_over_calls": bool} | SAID)
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "tune": (Tuned,),
}
