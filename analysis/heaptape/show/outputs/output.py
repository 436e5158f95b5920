# SPDX-License-Identifier: MIT
"""What all shapes have in common.

An unknown key is an error, so that a key can't be added without being published. `schema` grows when a key
is removed or changes its meaning, but not for a new key. Keys that may be missing have UNSET as their default; null is
a different value: not known.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

Count = Annotated[int, msgspec.Meta(ge=0)]
Missing = UnsetType
MISSING = UNSET


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """An object inside an output."""


class Output(Part):
    """A whole output."""

    schema: Literal[1]
