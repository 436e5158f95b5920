# SPDX-License-Identifier: MIT
"""What came of a task, and of all of them."""

from dataclasses import dataclass, field

import msgspec


class Outcome(msgspec.Struct):
    """Of a task: `done`: cells that are in the store. `failed`: cell -> why, each already told to the store. `retry`:
    why the rest is worth another attempt; empty: it is not, or nothing is left. `machine_at_fault`: on another machine.
    """

    worker: str
    done: list[str] = []
    failed: dict[str, str] = {}
    retry: str = ""
    machine_at_fault: bool = False
    seconds: float = 0.0


@dataclass
class Ended:
    """What came of a plan. `failed`: cell or task -> why, in words for people; `seconds`: of workers."""

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
