# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any, Literal

from tests.shapes import SAID, Count, Output, maybe, shape

# fmt: off
Choice = shape("Choice", "An allocator that was compared.",
    {"name version sha256": str})
Held = shape("Held",
    "A figure of each run on both allocators, and whether the new allocator is beyond the tolerance.",
    {"unit": str, "old new": list[float], "change_percent": float | None, "span_percent": float,
     "beyond tolerated": str | None, "verdict": Literal["within", "noise", "worse", "shown"]})
Judged = shape("Judged", 'A workload of the corpus. `broken`: which promise of malloc, or "".',
    {"name source": str, "workload": dict[str, Any], "failed": bool, "errors": list[str],
     "broken": dict[Literal["old", "new"], str], "figures": dict[str, Held]})
Extent = shape("Extent", "A figure on both allocators, for a history with this many events and threads.",
    {"new": float, "old": float | None, "events threads": Count})
MinimisedTape = shape("MinimisedTape", "A minimised tape and its figures (docs/use/GATE.md).",
    {"workload folder": maybe(str), "source condition figure unit old new ended replay": str,
     "minimised whole start_up": Extent, "beyond_start_up": bool, "candidates": Count})
Minimised = shape("Minimised", MinimisedTape,
    "`minimised.json` of `heaptape gate` and `minimise` (docs/use/GATE.md).",
    {"schema": Literal[1]})
Gate = shape("Gate", Output, "`heaptape gate -o` (docs/use/GATE.md).",
    {"heaptape": dict[str, Any], "old new": Choice, "tolerated": dict[str, str], "most_runs": Count, "passed": bool,
     "workloads": list[Judged], "minimised": list[MinimisedTape], "not_minimised": list[dict[str, Any]]} | SAID)
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "gate": (Gate,),
    "minimise": (Minimised,),
}
