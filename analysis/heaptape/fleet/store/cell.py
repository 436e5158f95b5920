# SPDX-License-Identifier: MIT
"""The cell: one replay, specified by content alone. Equal specifications have the same key on every machine.

Plans and stores are not trusted: their content is checked here, so that file names follow only from hashes.
"""

import hashlib
import json
from typing import Annotated

import msgspec

from heaptape.run.replay import SIDE_BY_SIDE
from heaptape.run.rounds import PASSES

Sha = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
ShaOrNone = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
# Not LD_PRELOAD and the like: the hashes of libraries determine which ones run.
Variable = Annotated[str, msgspec.Meta(pattern=r"\A(?!LD_)[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]
Value = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f]{0,4096}\Z")]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f/]{1,255}\Z")]
Pass = Annotated[str, msgspec.Meta(pattern=rf"\A({'|'.join(PASSES)})\Z")]
Order = Annotated[str, msgspec.Meta(pattern=r"\A(recorded|causal|window|random=[0-9]{1,20})\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Sizes = Annotated[str, msgspec.Meta(pattern=r"\A[0-9:,]{0,255}\Z")]

NO_ALLOCATOR_PRELOADED = "glibc"  # its library is the C library that the engine runs on


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"pass_": "pass"}):
    """`library`: sha256 of the allocator's library, for glibc of the C library. `environment`: the allocator's
    settings, sorted. `repetition`: 0 for passes that only count. `engine`: sha256 of the programs that replay.

    `beside`: libraries that are loaded with every allocator of the comparison (measure/loaded.py). `companion`: sha256
    of the file beside the workload that the pass needs. `caches`, `tlbs`: those that the pass misses simulates.
    `company`: for a timed cell the hash of all choices and passes in its block, with which it was measured alternately.
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
    """Does the pass only count, so that its result is the same each time, whatever runs beside it?"""
    return pass_ in SIDE_BY_SIDE


def digest(value: object) -> str:
    """sha256 of canonical JSON: sorted keys, no white space, ASCII."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
