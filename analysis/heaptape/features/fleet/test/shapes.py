# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any

from heaptape.features.fleet.store import FleetStatus

from tests.shapes import Count, Output, shape

# fmt: off
Ingested = shape("Ingested", Output,
    "`heaptape fleet ingest --json`. Numbers of traces: `ingested` now, `there` before; `failed`: trace -> why.",
    {"ingested there": Count, "failed": dict[str, str]})
ChosenTrace = shape("ChosenTrace",
    "A chosen trace. `recordings`: how many it stands for; `weight`: factor of its figures.",
    {"trace name source program": str, "ops recordings": Count, "weight": float})
ChoiceError = shape("ChoiceError",
    "Weighted sum over the chosen (`estimate`) against the sum over all (`whole`). `change_percent`: the whole "
    "against the baseline; `change_error_percent`: how far its estimate is off, in percent of the baseline. Null if "
    "the baseline has no such figure.",
    {"figure label": str, "whole estimate": float, "error_percent change_percent change_error_percent": float | None})
Changed = shape("Changed",
    "One figure of a program on an allocator; `change`: better, worse, new or gone; `percent`: null if new or gone, or "
    "0 before.",
    {"change program column figure": str, "version_before version_after": str | None,
     "before after percent": float | None})
AtlasChanges = shape("AtlasChanges", Output,
    "`heaptape fleet atlas --json`. What differs from the atlas before, the greatest first.",
    {"changes": list[Changed]})
Chosen = shape("Chosen", Output,
    "`heaptape fleet choose --json`. `explained`: share (0 to 1) of the fleet's variety that the chosen traces "
    "have. `errors`: empty if not all recordings have exact cells.",
    {"chosen": list[ChosenTrace], "explained": float, "errors": list[ChoiceError]})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "fleet-atlas": (AtlasChanges,),
    "fleet-choose": (Chosen,),
    "fleet-ingest": (Ingested,),
    "fleet-status": (FleetStatus,),
}
