# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any

from heaptape.features.fleet.status import FleetStatus

from tests.shapes import Output, shape

# fmt: off
Changed = shape("Changed",
    "One figure of a program on an allocator; `change`: better, worse, new or gone; `percent`: null if new or gone, or "
    "0 before.",
    {"change program column figure": str, "version_before version_after": str | None,
     "before after percent": float | None})
AtlasChanges = shape("AtlasChanges", Output,
    "`heaptape fleet atlas --json`. What differs from the atlas before, the greatest first.",
    {"changes": list[Changed]})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {"fleet-atlas": (AtlasChanges,), "fleet-status": (FleetStatus,)}
