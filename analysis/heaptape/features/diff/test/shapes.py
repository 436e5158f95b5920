# SPDX-License-Identifier: MIT
"""The shape of this feature's JSON (tests/output_shapes.py)."""

from typing import Any, Literal

from tests.shapes import SAID, Output, shape

# fmt: off
Site = shape("Site",
    "A figure of a call site in both versions; means over the recordings; bytes. `remote_objects`: freed by another "
    "thread; `mean_age_bytes`: at release, in bytes allocated meanwhile. `beyond_noise`: their ranges do not overlap. "
    "`share_percent`: the change in percent of the old whole, which is the site `all`; of a mean, what the site's "
    "objects move it by.",
    {"site": str, "figure": Literal["objects", "bytes", "peak_bytes", "remote_objects", "mean_age_bytes"],
     "old new change share_percent": float, "percent noise": float | None, "beyond_noise": bool})
Diff = shape("Diff", Output, "`heaptape diff --json`.", {"rows": list[Site]} | SAID)
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "diff": (Diff,),
}
