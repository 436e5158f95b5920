# SPDX-License-Identifier: MIT
"""The terms of the shapes of outputs (output_shapes.py): kinds of values, and how an object is made."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Count = Annotated[int, msgspec.Meta(ge=0)]


def maybe(kind: Any) -> Any:  # noqa: ANN401
    """The kind of a key that may be missing."""
    return kind | UnsetType


def shape(name: str, *about: Any) -> Any:  # noqa: ANN401
    """An object of an output: its base (none: it is a part), what it is, and the kind of each of its keys."""
    *base, doc, kinds = about
    fields = [(key, kind, UNSET) if UnsetType in getattr(kind, "__args__", ()) else (key, kind)
              for keys, kind in kinds.items() for key in keys.split()]  # fmt: skip
    strict = base != [msgspec.Struct]
    return msgspec.defstruct(
        name, fields, bases=tuple(base), namespace={"__doc__": doc}, forbid_unknown_fields=strict, kw_only=True
    )


Output = shape("Output", "A whole output.", {"schema": Literal[1]})
SAID = {"about": str, "sentences caveats next": list[str]}  # of every answer: sentences, and commands to type next
Figures = dict[str, float | None]
Row = list[int]
# fmt: off
Controls = shape("Controls",
    "Control calls. `of`: the allocator that defines them; `text`: what the program does; `calls`: each kind.",
    {"of text": str, "calls": list[dict[str, Any]]})
Witness = shape("Witness", "The proof of the history (docs/methods/CHECK.md). Counts, bytes.",
    {"ok truncated lacks_start lacks_calls": bool,
     "events ops unseen_frees double_frees unseen_touches overlapping_acquires inversions_repaired "
     "max_inversion_depth failed_calls live_at_end live_bytes_at_end peak_live_bytes peak_live_os_page_bytes "
     "peak_live_objects threads dropped": Count, "overlapping_ranges untold_bytes_at_end": maybe(Count),
     "controls": maybe(Controls)})
# fmt: on
