# SPDX-License-Identifier: MIT
"""JSON about traces, workloads and recordings in progress."""

from typing import Any, Literal

from heaptape.show.outputs.output import MISSING, Count, Missing, Output, Part

Row = list[int]


class Witness(Part):
    """The proof of the history (docs/methods/CHECK.md). Counts, bytes."""

    ok: bool
    events: Count
    ops: Count
    unseen_frees: Count
    double_frees: Count
    unseen_touches: Count
    overlapping_acquires: Count
    inversions_repaired: Count
    max_inversion_depth: Count
    failed_calls: Count
    live_at_end: Count
    live_bytes_at_end: Count
    peak_live_bytes: Count
    peak_live_os_page_bytes: Count
    peak_live_objects: Count
    threads: Count
    dropped: Count
    truncated: bool
    lacks_start: bool
    lacks_calls: bool
    overlapping_ranges: Count | Missing = MISSING


class Check(Witness, kw_only=True):
    """`heaptape check --json` of a trace: the proof of its history (docs/methods/CHECK.md). Counts, bytes."""

    schema: Literal[1]


class WorkloadCheck(Output):
    """`heaptape check --json` of a workload (.work)."""

    ok: bool
    events: Count
    ops: Count
    words: Count
    waits: Count
    starts: Count
    threads: Count
    slots: Count
    live_at_end: Count
    peak_live_bytes: Count
    peak_live_objects: Count


class Recorded(Part):
    """Samples of the recorded process; the last values are the kernel's own counts. Bytes, ns."""

    samples: Count
    rss_anon_peak_bytes: Count | Missing = MISSING
    vm_size_peak_bytes: Count | Missing = MISSING
    vm_hwm_bytes: Count | Missing = MISSING
    minor_faults: Count | Missing = MISSING
    major_faults: Count | Missing = MISSING
    user_ns: Count | Missing = MISSING
    system_ns: Count | Missing = MISSING


class Mark(Part):
    """A mark that the program set, after `events` events of its thread."""

    thread: Count
    events: Count
    text: str
    time_ns: Count | Missing = MISSING


class _About(Output, kw_only=True):
    """The common keys of a trace and a workload."""

    events: Count
    threads: Count
    file_bytes: Count
    bytes_per_event: float | Missing = MISSING
    peak_live_bytes: Count
    peak_live_os_page_bytes: Count
    peak_live_objects: Count
    live_at_end: Count
    recorded: Recorded
    distilled: dict[str, Any] | Missing = MISSING
    info: dict[str, Any]


class Info(_About, kw_only=True):
    """`heaptape info --json` of a trace. `info`, `footer`: the trace's own (core/trace/FORMAT.md); `calls`: by name."""

    kind: Literal["trace"]
    calls: dict[str, Count]
    dropped: Count
    truncated: bool
    truncated_at: Count | Missing = MISSING
    duration_ns: Count | Missing = MISSING
    ok: bool
    witness: Witness
    marks: list[Mark]
    columns: list[Literal["latency", "usable", "stacks"]] | Missing = MISSING
    stack_nodes: Count | Missing = MISSING
    accesses: dict[str, Count] | Missing = MISSING
    thread_names: dict[str, str] | Missing = MISSING
    footer: dict[str, Any] | Missing = MISSING


class WorkloadInfo(_About, kw_only=True):
    """`heaptape info --json` of a workload (.work). `info`: its own (core/workload/WORKLOAD.md)."""

    kind: Literal["workload"]
    ops: Count
    words: Count
    calls: dict[str, Count] | Missing = MISSING
    slots: Count
    dropped: Count | Missing = MISSING
    truncated: bool | Missing = MISSING
    peak_position: Count


class Reallocs(Part):
    """Reallocs of live objects. Rows of `chains`: reallocs of an object, objects, first bytes, last bytes."""

    calls: Count
    in_place: Count
    grew: Count
    shrank: Count
    copied_bytes: Count
    chains: list[Row]


class Profile(Output, kw_only=True):
    """`heaptape profile --format json`. The columns of its rows: docs/formats/PROFILE_JSON.md."""

    program: str | None
    ops: Count
    threads: Count
    allocated_bytes: Count
    duration_ns: Count | Missing = MISSING
    witness: Witness
    windows: list[Row]
    sizes: dict[str, list[Row]]
    lifetimes_bytes: list[Row]
    lifetimes_ns: list[Row]
    thread_pairs: list[Row]
    pairs_left_out: Count
    reallocs: Reallocs
    touched: list[Row]
    sites: list[Row] | Missing = MISSING
    line_sharing: dict[str, Any] | Missing = MISSING


class RecordedProcess(Part):
    """A process that is being recorded."""

    pid: Count
    trace: str
    state: Literal["recording", "between bursts", "stopped", "not started", "given up"]
    events: Count
    threads: Count
    dropped: Count
    file_bytes: Count


class Control(Output, kw_only=True):
    """`heaptape ctl --json`: the state of the recording after the command."""

    ok: bool
    recorder: Count
    state: Literal["recording", "stopped", "not started", "ended"]
    recorded: Count
    processes: list[RecordedProcess]
    burst_asked_for: bool | Missing = MISSING


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
