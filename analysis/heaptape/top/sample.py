# SPDX-License-Identifier: MIT
"""Two readings of a recording as one sample: rates between them, estimates with their errors, memory.

Counts are exact: all calls that had returned before the second reading. Live memory is estimated from a sample of
addresses, the acquires of sites from a sample of acquires; errors are half of a 95 % interval (1.96 standard
deviations), and 0 where the sample is complete.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heaptape.top.recording import Counts, Memory

Z = 1.96


@dataclass(frozen=True)
class Reading:
    """All processes at one moment, and one of them in detail (None: none is recorded now)."""

    all: Counts
    one: Counts | None
    memory: Memory
    recorder_cpu_s: float | None

    @property
    def time_s(self) -> float:
        """Time of the recorder's clock when it counted the shown process."""
        return (self.one or self.all)["time_ns"] / 1e9

    @property
    def process(self) -> Counts | None:
        return self.one["processes"][0] if self.one and self.one["processes"] else None


def sample(before: Reading, after: Reading, names: Mapping[int, str], threads: Mapping[int, str]) -> dict[str, Any]:
    """The output of `heaptape top --json`. `names`: of nodes of the tree of stacks; `threads`: of tids."""
    seconds = after.time_s - before.time_s
    cpu = None
    if before.recorder_cpu_s is not None and after.recorder_cpu_s is not None and seconds > 0:
        cpu = 100 * (after.recorder_cpu_s - before.recorder_cpu_s) / seconds
    earlier = {process["pid"]: process for process in before.all["processes"]}
    all_seconds = (after.all["time_ns"] - before.all["time_ns"]) / 1e9
    return {
        "recorder": after.all["recorder"],
        "interval_s": seconds,
        "recorded": after.all["recorded"],
        "running": after.all["running"],
        "ended": after.all["ended"],
        "recorder_cpu_percent": cpu,
        "processes": [
            {key: process[key] for key in ("pid", "name", "trace", "events", "live_bytes")}
            | {"events_per_s": _rate(earlier.get(process["pid"]), process, "events", all_seconds)}
            for process in after.all["processes"]
        ],
        "process": after.process and _process(before, after, names, threads),
    }


def _rate(before: Counts | None, after: Counts, key: str, seconds: float) -> float | None:
    """Per second; None where there is no earlier reading, or the number now belongs to another process."""
    if before is None or seconds <= 0 or after[key] < before[key]:
        return None
    return (after[key] - before[key]) / seconds


def _process(
    before: Reading, after: Reading, names: Mapping[int, str], threads: Mapping[int, str]
) -> dict[str, Any] | None:
    new, old = after.process, before.process
    if new is None:
        return None
    if old is not None and (old["pid"] != new["pid"] or old["events"] > new["events"]):
        old = None
    seconds = after.time_s - before.time_s
    rss = after.memory.rss_anon
    kept = {
        key: new[key]
        for key in ("pid", "name", "trace", "forked", "given_up", "events", "request_bytes", "threads_recorded")
        + ("dropped", "skipped", "lost", "file_bytes", "live_bytes", "live_objects", "live_share", "stacks")
    }
    return kept | {
        "paused": new["paused"],
        "events_per_s": _rate(old, new, "events", seconds),
        "request_bytes_per_s": _rate(old, new, "request_bytes", seconds),
        "calls": _calls(old, new, seconds),
        "live_bytes_error": Z * math.sqrt(new["live_bytes_variance"]),
        "live_objects_error": Z * math.sqrt(new["live_objects_variance"]),
        "rss_anon_bytes": rss,
        "rss_file_bytes": after.memory.rss_file,
        "beside_live_bytes": None if rss is None else rss - new["live_bytes"],
        "threads": _threads(old, new, seconds, threads),
        "sites": _sites(old, new, seconds, names) if new["stacks"] else None,
    }


def _calls(old: Counts | None, new: Counts, seconds: float) -> list[dict[str, Any]]:
    calls = [
        {
            "name": name,
            "calls": count,
            "calls_per_s": _rate(old and {name: old["calls"].get(name, 0)}, new["calls"], name, seconds),
        }
        for name, count in new["calls"].items()
    ]
    return sorted(calls, key=lambda call: -(call["calls_per_s"] or 0))


def _threads(old: Counts | None, new: Counts, seconds: float, names: Mapping[int, str]) -> list[dict[str, Any]]:
    earlier = {thread["thread"]: thread for thread in (old or {}).get("threads", [])}
    nothing = {"events": 0, "request_bytes": 0}  # a new thread had made no calls before
    threads = []
    for thread in new["threads"]:
        before = earlier.get(thread["thread"], nothing) if old else None
        threads.append(
            thread
            | {
                "name": names.get(thread["tid"], ""),
                "events_per_s": _rate(before, thread, "events", seconds),
                "request_bytes_per_s": _rate(before, thread, "request_bytes", seconds),
            }
        )
    return sorted(threads, key=lambda thread: (-(thread["events_per_s"] or 0), thread["thread"]))


def _sites(old: Counts | None, new: Counts, seconds: float, names: Mapping[int, str]) -> list[dict[str, Any]]:
    earlier = {site["node"]: site for site in (old or {}).get("sites", [])}
    sites = []
    for site in new["sites"]:
        before = earlier.get(site["node"])
        sites.append(
            {
                "name": names.get(site["node"]) or "?",
                "frames": site["frames"],
                "live_bytes": site["live_bytes"],
                "live_bytes_error": Z * math.sqrt(site["live_bytes_variance"]),
                "live_objects": site["live_objects"],
                "live_objects_error": Z * math.sqrt(site["live_objects_variance"]),
                "calls": site["calls"],
                "calls_error": Z * math.sqrt(site["calls_variance"]),
                "bytes": site["bytes"],
                "bytes_error": Z * math.sqrt(site["bytes_variance"]),
            }
            | _site_rate(before, site, "calls", seconds)
            | _site_rate(before, site, "bytes", seconds)
        )
    return sorted(sites, key=lambda site: -site["live_bytes"])


def _site_rate(before: Counts | None, after: Counts, key: str, seconds: float) -> dict[str, Any]:
    """Rate and error of a site. Sums only grow and later draws are independent, so the variance of a difference is the
    difference of the variances.
    """
    rate = _rate(before, after, key, seconds)
    error = None
    if rate is not None and before is not None:
        error = Z * math.sqrt(max(0.0, after[f"{key}_variance"] - before[f"{key}_variance"])) / seconds
    return {f"{key}_per_s": rate, f"{key}_per_s_error": error}
