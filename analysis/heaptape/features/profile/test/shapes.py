# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any

from tests.shapes import SAID, Count, Output, Row, Witness, maybe, shape

# fmt: off
Reallocs = shape("Reallocs",
    "Reallocs of live objects. Rows of `chains`: reallocs of an object, objects, first bytes, last bytes.",
    {"calls in_place grew shrank copied_bytes": Count, "chains": list[Row]})
Profile = shape("Profile", Output,
    "`heaptape profile --format json`. The columns of its rows: docs/formats/PROFILE_JSON.md.",
    {"program": str | None, "lacks": list[str], "ops threads allocated_bytes pairs_left_out": Count,
     "duration_ns": maybe(Count), "witness": Witness,
     "windows lifetimes_bytes lifetimes_ns thread_pairs touched": list[Row],
     "sizes": dict[str, list[Row]], "reallocs": Reallocs, "sites": maybe(list[Row]),
     "line_sharing": maybe(dict[str, Any])} | SAID)
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {"profile": (Profile,)}
