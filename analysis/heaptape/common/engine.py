# SPDX-License-Identifier: MIT
"""The passes of a replay, as the engine describes them: `heaptape-replay --describe`, kept in a file when it was built.

What a pass is, and in which order passes are made, is said in replay/passes/ and nowhere else.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import CHECKOUT, SHARED

REPEATED, TWICE, ONCE = "as often as asked", "twice", "once"


@dataclass(frozen=True)
class Pass:
    """`order`: the default. `recorded_only`: there is no other. `repeats`: one of the constants above. `default`: made
    where no passes are named. `exact`: it counts and reads no clock, so other work on the machine does not change it.
    `counts_startup`, `samples_memory`: libraries that are loaded change its figures. `as_malloc`: it can be made with
    that. `accesses`: it needs the recording's data accesses. `disturb`, `origins`, `warm`: it takes these settings.
    """

    name: str
    summary: str
    order: str
    recorded_only: bool
    repeats: str
    default: bool
    exact: bool
    counts_startup: bool
    samples_memory: bool
    own_counters: bool
    as_malloc: bool
    disturb: bool
    accesses: bool
    origins: bool
    warm: bool


def _described() -> dict:
    places = [SHARED, Path(os.environ.get("HEAPTAPE_OUT", CHECKOUT / "out")) / "lib", CHECKOUT / "out" / "lib"]
    for folder in places:
        try:
            described = json.loads((folder / "replay.json").read_bytes())
        except OSError:
            continue
        if isinstance(described, dict):
            return described
    raise HeaptapeError(f"replay.json is missing from {places[0]} and {places[-1]}: run 'make'")


_DESCRIBED = _described()
# By name, in the order in which they are made.
BY_NAME = {one["name"]: Pass(**one) for one in _DESCRIBED["passes"]}
PASSES = tuple(BY_NAME)
DEFAULT_PASSES = tuple(name for name, one in BY_NAME.items() if one.default)
# Names of variables that set an allocator up, with a * for any text.
ALLOCATOR_VARIABLES = tuple(_DESCRIBED["allocator_variables"])
# Links whose name sets one up.
ALLOCATOR_LINKS = tuple(map(Path, _DESCRIBED["allocator_links"]))
TIMED = tuple(name for name, one in BY_NAME.items() if not one.exact)  # read a clock
TOUCH_POLICIES = tuple(_DESCRIBED["touch_policies"])
TOUCHED_MIN_BYTES = int(_DESCRIBED["touched_min_bytes"])  # of smaller objects recordings lack what was touched
TOUCHED_PARTS_MIN_BYTES = int(_DESCRIBED["touched_parts_min_bytes"])  # smaller objects have no touched parts
OF_ACCESSES = tuple(name for name, one in BY_NAME.items() if one.accesses)  # need the recording's data accesses
WARM = tuple(name for name, one in BY_NAME.items() if one.warm)  # can be made after warm rounds
OF_ORIGINS = tuple(name for name, one in BY_NAME.items() if one.origins)  # say who acquired what
PRICED = tuple(name for name, one in BY_NAME.items() if one.counts_startup)  # CPU time is predicted from their counts


def need_origins(passes: Iterable[str]) -> bool:
    """Does one of them use the file of origins beside the workload?"""
    return bool(set(passes) & set(OF_ORIGINS))
