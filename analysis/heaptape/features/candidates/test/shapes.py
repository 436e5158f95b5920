# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any, Literal

from tests.shapes import Output, shape

# fmt: off
Allocator = shape("Allocator",
    "An allocator of the registry. `path`, `version`: null if it is not found; `how_to_get`: how to install it.",
    {"name summary how_to_get": str, "found": bool, "path version": str | None, "variants": list[str]})
Installed = dict[str, Any]
Allocators = shape("Allocators", Output, "`heaptape allocators --json`.",
    {"allocators": list[Allocator], "installed": list[Installed]})
Candidate = shape("Candidate", "An allocator that can be installed.",
    {"name source licence": str, "versions": list[str], "missing": str | None})
Candidates = shape("Candidates", Output, "`heaptape allocators list --json`.",
    {"installed": list[Installed], "candidates": list[Candidate]})
Variant = shape("Variant", "Settings of an allocator under a name.",
    {"name summary advise needs": str, "environment": dict[str, str]})
InUse = shape("InUse", Output,
    "`heaptape allocators --of PID --json`, and of `-- CMD`. `allocator`: null if the registry does not have it; "
    '`path`: the file that defines malloc; `how`: "library", "linked" (into the executable) or "static" (no '
    "LD_PRELOAD); `settings`: variables of its environment that the allocator reads.",
    {"program": str, "allocator version path": str | None, "how": Literal["library", "linked", "static"],
     "settings": dict[str, str]})
Variants = shape("Variants", Output, "`heaptape allocators --variants NAME --json`. `tunables`: names.",
    {"allocator": str, "variants": list[Variant], "tunables other_variants": list[str]})
Tunable = shape("Tunable",
    'A setting: its values or the range of its numbers; `default` "": depends on machine or program.',
    {"name type meaning scale default": str, "range search": list[int | float] | None, "values": list[str],
     "tuned": bool, "before": str, "since": dict[str, dict[str, Any]], "pair": tuple[str, float] | None})
Tunables = shape("Tunables", Output, "`heaptape allocators --tunables NAME --json`.",
    {"allocator": str, "tunables": list[Tunable]})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "allocators": (Allocators,),
    "allocators-list": (Candidates,),
    "allocators-of": (InUse,),
    "allocators-tunables": (Tunables,),
    "allocators-variants": (Variants,),
}
