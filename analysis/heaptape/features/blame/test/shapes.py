# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any

from tests.shapes import SAID, Count, Output, maybe, shape

# fmt: off
Holder = shape("Holder",
    "Who holds the memory of a recording on an allocator, at a position. Rows: docs/use/BLAME.md; bytes.",
    {"source allocator kind sentence": str, "position": Count, "lacks": list[str],
     "groups states over_time proposals": list[dict[str, Any]]} | SAID)
Blame = shape("Blame", Output, "`heaptape blame --json`. `tried`: the experiments of --try.",
    {"holders": list[Holder], "tried": maybe(list[dict[str, Any]])})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "blame": (Blame,),
}
