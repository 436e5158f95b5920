# SPDX-License-Identifier: MIT
"""`heaptape fleet`: how far a store is."""

from heaptape.outputs.output import Count, Output, Part


class Failed(Part, rename={"pass_": "pass"}):
    """A cell that is not there and was tried. `final`: its allocator is at fault, so it is not tried again."""

    cell: str
    workload: str
    label: str
    pass_: str
    reason: str
    machine: str
    attempts: Count
    final: bool


class Running(Part):
    """What a worker says of itself. `unix_s`: when it last did. `cells`: under way, in words."""

    worker: str
    machine: str
    since_unix_s: float
    unix_s: float
    done: Count
    failed: Count
    busy_s: float
    cells: list[str]


class FleetStatus(Output):
    """`heaptape fleet status --json`. `left`: neither done nor failed for good. `silent`: workers that said nothing for
    long. `left_s`: of one worker; `ready_in_s`: with those that run now; null: nothing to tell it by.
    """

    store: str
    plans: Count
    cells: Count
    done: Count
    left: Count
    failed: list[Failed]
    running: list[Running]
    silent: list[Running]
    left_s: float | None
    ready_in_s: float | None
    damaged: Count
