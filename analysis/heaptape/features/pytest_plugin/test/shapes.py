# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any, Literal

from tests.shapes import Count, Output, shape

# fmt: off
Limit = Literal["peak_bytes", "growth_bytes", "allocations"]
Test = shape("Test",
    "A test that was run; skipped tests are left out. Bytes are requested ones. `growth`: what it left; `exceeded`: "
    "the `limits` that it is above; `worker`: of xdist, else null.",
    {"name": str, "peak_bytes growth_bytes growth_objects allocations allocated_bytes": Count,
     "outcome": Literal["passed", "failed"], "limits": dict[Limit, Count], "exceeded": list[Limit],
     "worker": str | None})
Unmeasured = shape("Unmeasured", "A test without figures, and why.",
    {"name reason": str})
Tests = shape("Tests", Output, "`--heaptape-json`, in the order in which tests ended.",
    {"tests": list[Test], "unmeasured": list[Unmeasured]})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "pytest": (Tests,),
}
