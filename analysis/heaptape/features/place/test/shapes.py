# SPDX-License-Identifier: MIT
"""The shape of this feature's JSON (tests/output_shapes.py)."""

from typing import Any

from tests.shapes import SAID, Count, Output, maybe, shape

# fmt: off
Figures = shape("PlacementFigures",
    "Figures of a replay, or the median of live runs. `upper_peak_rss_bytes`: the upper end of a peak that is a range.",
    {"peak_rss_bytes mean_rss_bytes": float, "upper_peak_rss_bytes instructions": maybe(float)})
Placement = shape("Placement", "A placement that was replayed. `sites`: stack nodes of each region.",
    {"label": str, "sites": list[list[int]], "figures": Figures})
Site = shape("PlacedSite", "A call site of the plan (docs/use/PLACE.md).",
    {"region": Count, "function": str, "frames": list[str]})
Live = shape("PlacedLive",
    "Live runs without and with the plan; `predicted`: what it saves. `cpu`: the ratio of processor time, low, high.",
    {"before after predicted": Figures, "cpu": dict[str, float] | None})
Place = shape("Place", Output,
    "`heaptape place --json`. `pick`: the label of the best placement, null: none is worth a change. `held_out`: the "
    "second recording as_recorded and placed. `left_out`: call sites of the pick that the plan can't tell from others.",
    {"ops left_out": Count, "allocator": str, "as_recorded": Figures, "placements": list[Placement],
     "pick": str | None, "held_out": dict[str, Figures] | None, "sites": list[Site], "live": Live | None} | SAID)
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "place": (Place,),
}
