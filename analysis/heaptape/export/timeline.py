# SPDX-License-Identifier: MIT
"""The time line for Perfetto (ui.perfetto.dev) and chrome://tracing: live bytes, the process's memory, marks, and each
thread's time of activity. Chrome's trace event format, JSON; times in microseconds. Memory is O(points).
"""

import json
from pathlib import Path

import numpy as np

from heaptape.tape.trace import Trace, first_stamps, times_ns

POINTS = 2000  # of the curve of live bytes
COUNTERS = ("rss_anon_bytes", "rss_file_bytes", "vm_size_bytes")


def _change(trace: Trace, points: int) -> tuple[np.ndarray, np.ndarray, dict[int, tuple[int, int]]]:
    """Ends of equal spans of time in ns, bytes requested less bytes released in each, and each thread's first and last
    time. A release's bytes are the request of the last acquire of its address, in file order.
    """
    end_ns = int(times_ns(trace, np.array([trace.last_stamp], np.uint64))[0]) + 1
    change = np.zeros(points)
    active: dict[int, tuple[int, int]] = {}
    size: dict[int, float] = {}
    for batch in trace.events():
        time = times_ns(trace, first_stamps(batch))
        thread = int(batch.column("thread")[0].as_py())
        first, last = active.get(thread, (int(time[0]), 0))
        active[thread] = first, max(last, int(time[-1]))
        got = batch.column("acquired_address").is_valid().to_numpy(zero_copy_only=False)
        request = batch.column("request_bytes").fill_null(0).to_numpy(zero_copy_only=False).astype(float)
        place = np.minimum(time * points // end_ns, points - 1)
        np.add.at(change, place[got], request[got])
        lost = batch.column("releases").to_numpy(zero_copy_only=False)
        freed = np.zeros(len(time))
        acquired = batch.column("acquired_address").to_pylist()
        released = batch.column("released_address").to_pylist()
        for i in np.flatnonzero(got | lost).tolist():
            if lost[i]:
                freed[i] = size.pop(released[i], 0)
            if got[i]:
                size[acquired[i]] = request[i]
        np.add.at(change, place[lost], -freed[lost])
    return (np.arange(points) + 1) * (end_ns / points), change, active


def write_timeline(trace: Trace, path: Path) -> None:
    """Writes the JSON. Raises OSError."""
    ends_ns, change, active = _change(trace, POINTS)
    pid = int(trace.info.get("pid") or 1)
    name = trace.info.get("program") or "recording"
    out: list[dict] = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}]
    for at, live in zip(ends_ns, np.cumsum(change)):
        out.append({"ph": "C", "pid": pid, "ts": at / 1e3, "name": "live bytes", "args": {"bytes": int(max(live, 0))}})
    samples = trace.samples()
    for i, at in enumerate(times_ns(trace, samples["stamp"].to_numpy(np.uint64)) if len(samples) else ()):
        for counter in COUNTERS:
            if counter in samples:
                value = int(samples[counter].iloc[i])
                out.append({"ph": "C", "pid": pid, "ts": at / 1e3, "name": counter, "args": {"bytes": value}})
    marks = trace.marks()
    for i, at in enumerate(times_ns(trace, marks["stamp"].to_numpy(np.uint64)) if len(marks) else ()):
        mark = marks.iloc[i]
        out.append({"ph": "i", "pid": pid, "tid": int(mark["thread"]), "ts": at / 1e3, "s": "p", "name": mark["text"]})
    names = trace.thread_names()
    for thread, (first, last) in sorted(active.items()):
        label = names.get(thread, f"thread {thread}")
        out.append({"ph": "M", "pid": pid, "tid": thread, "name": "thread_name", "args": {"name": label}})
        span = max(last - first, 1) / 1e3
        out.append({"ph": "X", "pid": pid, "tid": thread, "ts": first / 1e3, "dur": span, "name": "allocates"})
    path.write_text(json.dumps({"traceEvents": out, "displayTimeUnit": "ns"}))
