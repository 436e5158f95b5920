# SPDX-License-Identifier: MIT
"""The cell: one replay, specified by content alone. What has the same specification has the same key, on every machine.

A plan or a store may be somebody else's: what is read from one is checked here, so that no name of a file follows from
anything but a hash.
"""

import hashlib
import json
from typing import Annotated

import msgspec

from heaptape.measure.replay import SIDE_BY_SIDE
from heaptape.measure.rounds import PASSES

Sha = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
ShaOrNone = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
# Not LD_PRELOAD and its kin: which libraries run is said by their hashes.
Variable = Annotated[str, msgspec.Meta(pattern=r"\A(?!LD_)[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]
Value = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f]{0,4096}\Z")]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f/]{1,255}\Z")]
Pass = Annotated[str, msgspec.Meta(pattern=rf"\A({'|'.join(PASSES)})\Z")]
Order = Annotated[str, msgspec.Meta(pattern=r"\A(recorded|causal|window|random=[0-9]{1,20})\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Sizes = Annotated[str, msgspec.Meta(pattern=r"\A[0-9:,]{0,255}\Z")]

NO_ALLOCATOR_PRELOADED = "glibc"  # its library is the C library that the engine runs on


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"pass_": "pass"}):
    """`library`: sha256 of the allocator's library, of glibc that of the C library. `environment`: the allocator's
    settings, sorted. `repetition`: 0 of passes that only count. `engine`: of the programs that replay, sha256.

    `beside`: libraries that are loaded on every allocator of the comparison (measure/loaded.py). `companion`: sha256 of
    the file beside the workload that the pass needs. `caches`, `tlbs`: those that the pass misses simulates. `company`:
    of a timed cell the hash of all that its block compares: it was measured in turns with those and no others.
    """

    workload: Sha
    allocator: Name
    library: Sha
    environment: tuple[tuple[Variable, Value], ...] = ()
    pass_: Pass
    order: Order
    repetition: Count = 0
    engine: Sha
    version: Annotated[str, msgspec.Meta(max_length=64)]
    beside: tuple[Sha, ...] = ()
    companion: ShaOrNone = ""
    caches: Sizes = ""
    tlbs: Sizes = ""
    company: ShaOrNone = ""

    @property
    def key(self) -> str:
        """sha256 of the specification as canonical JSON."""
        return digest(msgspec.to_builtins(self))

    @property
    def label(self) -> str:
        settings = " ".join(f"{name}={value}" for name, value in self.environment)
        return f"{self.allocator}:{settings}" if settings else self.allocator


def is_exact(pass_: str) -> bool:
    """Does it only count, so that it comes out the same each time, whatever runs beside it?"""
    return pass_ in SIDE_BY_SIDE


def digest(value: object) -> str:
    """sha256 of canonical JSON: sorted keys, no white space, ASCII."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
