# SPDX-License-Identifier: MIT
"""The shapes of this feature's JSON (tests/output_shapes.py)."""

from typing import Any

from tests.shapes import Count, Output, maybe, shape

# fmt: off
WatchedCall = shape("WatchedCall", "Calls of one name. A rate is null without an earlier sample.",
    {"name": str, "calls": Count, "calls_per_s": float | None})
WatchedThread = shape("WatchedThread", "A live thread that has made calls; `tid`: the kernel's number.",
    {"thread tid events request_bytes": Count, "name": str, "events_per_s request_bytes_per_s": float | None})
WatchedSite = shape("WatchedSite",
    "A stack that acquires; all figures are estimates. `frames`: instructions, the innermost first. `calls`, "
    "`bytes`: acquires and their requests, since the recording began.",
    {"name": str, "frames": list[Count],
     "live_bytes live_bytes_error live_objects live_objects_error calls calls_error bytes bytes_error": float,
     "calls_per_s calls_per_s_error bytes_per_s bytes_per_s_error": float | None})
WatchedProcess = shape("WatchedProcess",
    "The process shown. Exact: events, calls, request_bytes; estimates: live_bytes, live_objects, from the share "
    "live_share of addresses. `beside_live_bytes`: RSS less live bytes. Events `skipped`: in pauses; `lost`: not "
    "written.",
    {"pid events request_bytes threads_recorded dropped skipped lost file_bytes": Count, "name trace": str,
     "forked paused stacks": bool, "given_up": str | None,
     "events_per_s request_bytes_per_s beside_live_bytes": float | None, "calls": list[WatchedCall],
     "live_bytes live_bytes_error live_objects live_objects_error live_share": float,
     "rss_anon_bytes rss_file_bytes": Count | None, "threads": list[WatchedThread], "sites": list[WatchedSite] | None})
RunningProcess = shape("RunningProcess", "One of the recording's processes.",
    {"pid events": Count, "name trace": str, "live_bytes": float, "events_per_s": float | None})
Top = shape("Top", Output,
    "`heaptape top --json`. `running`: processes recorded now; `process`: null where there is none.",
    {"recorder recorded running": Count, "interval_s": float, "ended": bool, "recorder_cpu_percent": float | None,
     "processes": list[RunningProcess], "process": WatchedProcess | None})
TopOfFile = shape("TopOfFile", Output, "`heaptape top F.tape --json` for a file that is not being written.",
    {"trace": str, "ended truncated": bool, "events threads dropped file_bytes peak_live_bytes": Count,
     "calls": dict[str, Count], "live_at_end": maybe(Count)})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "top": (Top, TopOfFile),
}
