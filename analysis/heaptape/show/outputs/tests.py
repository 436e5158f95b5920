# SPDX-License-Identifier: MIT
"""`pytest --heaptape --heaptape-json FILE`: figures of tests."""

from typing import Literal

from heaptape.show.outputs.output import Count, Output, Part

Limit = Literal["peak_bytes", "growth_bytes", "allocations"]


class Test(Part):
    """A test that was run; skipped tests are left out. Bytes are requested ones. `growth`: what it left;
    `exceeded`: the `limits` that it is above; `worker`: of xdist, else null.
    """

    name: str
    peak_bytes: Count
    growth_bytes: Count
    growth_objects: Count
    allocations: Count
    allocated_bytes: Count
    outcome: Literal["passed", "failed"]
    limits: dict[Limit, Count]
    exceeded: list[Limit]
    worker: str | None


class Unmeasured(Part):
    """A test without figures, and why."""

    name: str
    reason: str


class Tests(Output):
    """`--heaptape-json`, in the order in which tests ended."""

    tests: list[Test]
    unmeasured: list[Unmeasured]
