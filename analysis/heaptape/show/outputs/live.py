# SPDX-License-Identifier: MIT
"""`heaptape top`: samples of a running recording (docs/use/TOP.md). Errors are half of a 95 % interval."""

from heaptape.show.outputs.output import MISSING, Count, Missing, Output, Part


class WatchedCall(Part):
    """Calls of one name. A rate is null without an earlier sample."""

    name: str
    calls: Count
    calls_per_s: float | None


class WatchedThread(Part):
    """A live thread that has made calls; `tid`: the kernel's number."""

    thread: Count
    tid: Count
    name: str
    events: Count
    request_bytes: Count
    events_per_s: float | None
    request_bytes_per_s: float | None


class WatchedSite(Part):
    """A stack that acquires; all figures are estimates. `frames`: instructions, the innermost first. `calls`, `bytes`:
    acquires and their requests, since the recording began.
    """

    name: str
    frames: list[Count]
    live_bytes: float
    live_bytes_error: float
    live_objects: float
    live_objects_error: float
    calls: float
    calls_error: float
    bytes: float
    bytes_error: float
    calls_per_s: float | None
    calls_per_s_error: float | None
    bytes_per_s: float | None
    bytes_per_s_error: float | None


class WatchedProcess(Part):
    """The process shown. Exact: events, calls, request_bytes; estimates: live_bytes, live_objects, from the share
    live_share of addresses. `beside_live_bytes`: RSS less live bytes. Events `skipped`: in pauses; `lost`: not written.
    """

    pid: Count
    name: str
    trace: str
    forked: bool
    given_up: str | None
    paused: bool
    stacks: bool
    events: Count
    events_per_s: float | None
    request_bytes: Count
    request_bytes_per_s: float | None
    calls: list[WatchedCall]
    threads_recorded: Count
    dropped: Count
    skipped: Count
    lost: Count
    file_bytes: Count
    live_bytes: float
    live_bytes_error: float
    live_objects: float
    live_objects_error: float
    live_share: float
    rss_anon_bytes: Count | None
    rss_file_bytes: Count | None
    beside_live_bytes: float | None
    threads: list[WatchedThread]
    sites: list[WatchedSite] | None


class RunningProcess(Part):
    """One of the recording's processes."""

    pid: Count
    name: str
    trace: str
    events: Count
    live_bytes: float
    events_per_s: float | None


class Top(Output, kw_only=True):
    """`heaptape top --json`. `running`: processes recorded now; `process`: null where there is none."""

    recorder: Count
    interval_s: float
    recorded: Count
    running: Count
    ended: bool
    recorder_cpu_percent: float | None
    processes: list[RunningProcess]
    process: WatchedProcess | None


class TopOfFile(Output, kw_only=True):
    """`heaptape top F.tape --json` for a file that is not being written."""

    trace: str
    ended: bool
    events: Count
    calls: dict[str, Count]
    threads: Count
    dropped: Count
    truncated: bool
    file_bytes: Count
    peak_live_bytes: Count
    live_at_end: Count | Missing = MISSING
