# SPDX-License-Identifier: MIT
"""The outcome of a task, and of all tasks."""

from dataclasses import dataclass, field

import msgspec


class Outcome(msgspec.Struct):
    """Outcome of a task. `done`: cells in the store. `failed`: cell -> why, already written to the store. `retry`: why
    the other cells are worth another attempt; empty: they are not, or there are none. `machine_at_fault`: the attempt
    should be on another machine.
    """

    worker: str
    done: list[str] = []
    failed: dict[str, str] = {}
    retry: str = ""
    machine_at_fault: bool = False
    seconds: float = 0.0


@dataclass
class Ended:
    """Outcome of a plan. `failed`: cell or task -> why, in words; `seconds`: of workers."""

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
