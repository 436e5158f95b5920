# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any

from tests.shapes import Count, Output, maybe, shape

# fmt: off
Workload = shape("Workload",
    "A synthetic pattern, a recipe of a program (\"app\"), or a suite. `missing`: why it can't run here.",
    {"name kind summary path": str, "can_run": maybe(bool), "missing stands_for known": maybe(str | None),
     "packages workloads allocators": maybe(list[str]), "source": maybe(str)})
Workloads = shape("Workloads", Output, "`heaptape workloads --json`.",
    {"workloads": list[Workload]})
Capture = shape("Capture",
    "A workload that was recorded, or `failure`: why not. Bytes, seconds. `check`: the proof of its history; "
    "`verdict`: in words; `other_traces`: of the recipe's other processes.",
    {"name": str, "failure": maybe(str), "program tape verdict": maybe(str), "check": maybe(dict[str, Any]),
     "events threads file_bytes peak_live_bytes dropped other_traces other_events": maybe(Count),
     "rss_anon_peak_bytes": maybe(Count | None), "bytes_per_event": maybe(float | None), "wall_s": maybe(float),
     "versions": maybe(dict[str, Any]), "known": maybe(str | None)})
Captures = shape("Captures", Output, "`heaptape workloads capture --json`.",
    {"workloads": list[Capture]})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {"workloads": (Workloads,), "workloads-capture": (Captures,)}
