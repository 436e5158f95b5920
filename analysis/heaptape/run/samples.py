# SPDX-License-Identifier: MIT
"""When a recorded program was sampled, and a replay's memory at the same points of the program.

Time lines are arrays of equal length. Positions are ops of the workload, times nanoseconds, sizes bytes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.results.structs import SLEEPS_TO_TIMES, UNDER_QUOTA, Run, timeline_of
from heaptape.tape.trace import call_ns_of, open_trace, times_ns
from heaptape.tape.workload_format import read_workload


@dataclass(frozen=True)
class Samples:
    """When a recorded run was sampled: in wall time, in the program's processor time (`without_recording`), and in ops
    done by then.
    """

    time_ns: np.ndarray
    cpu_ns: np.ndarray
    position: np.ndarray
    ops: int = 0

    @property
    def share(self) -> np.ndarray:
        """Progress of the program, 0 to 1. Runs that make different numbers of calls are compared by it."""
        return (self.position + 1) / (self.ops + 2)


def samples_at(
    time_ns: np.ndarray, cpu_ns: np.ndarray, line_ns: np.ndarray, line_position: np.ndarray, ops: int
) -> Samples:
    """Samples from their times and processor times (in ticks). `line_ns`, `line_position`: how many ops of the
    recording were done when. Between two ops the position rises with time. The time before the first op is position -1
    to 0, the time after the last op is `ops` to `ops` + 1, so that a comparison by position includes both.
    """
    if len(time_ns) and len(line_ns):
        if time_ns[0] < line_ns[0]:
            line_ns, line_position = np.insert(line_ns, 0, time_ns[0]), np.insert(line_position, 0, -1.0)
        if time_ns[-1] > line_ns[-1]:
            line_ns, line_position = np.append(line_ns, time_ns[-1]), np.append(line_position, ops + 1.0)
    return Samples(time_ns, smooth(time_ns, cpu_ns), np.interp(time_ns, line_ns, line_position), ops)


def rss_at(run: Run, position: np.ndarray) -> np.ndarray:
    """RssAnon of a memory run at each position: from the last row at or before it."""
    rows, rss = np.array([row[:2] for row in timeline_of(run)], dtype=float).reshape(-1, 2).T
    return rss[np.clip(np.searchsorted(rows, position, "right") - 1, 0, len(rss) - 1)]


def read_samples(tape: Path, workload: Path) -> tuple[Samples, np.ndarray]:
    """When the recorded program was sampled, and its RssAnon in bytes then."""
    compiled = read_workload(workload)
    line = compiled.timeline()
    with open_trace(tape) as trace:
        rows = trace.samples()
        times = compiled.program_time_ns(times_ns(trace, rows["stamp"].to_numpy(np.uint64)).astype(float))
        call_ns = call_ns_of(trace)
    cpu = (rows["user_ns"] + rows["system_ns"]).to_numpy(float)
    line_ns, position = line["time_ns"].to_numpy(float), line["position"].to_numpy(float)
    samples = samples_at(times, cpu, line_ns, position, compiled.ops)
    reading = rows["reading_ns"].to_numpy(float) if "reading_ns" in rows else np.zeros(len(rows))
    own = without_recording(samples.cpu_ns, call_ns * samples.position, reading)
    return replace(samples, cpu_ns=own), rows["rss_anon_bytes"].to_numpy(float)


def without_recording(cpu_ns: np.ndarray, calls_ns: np.ndarray, reading_ns: np.ndarray) -> np.ndarray:
    """The program's processor time at each sample, without what its recording took by then: `calls_ns` is stated, so it
    is no more than half of the time between two samples; `reading_ns` was measured.
    """
    own = np.maximum(np.diff(cpu_ns) - np.diff(reading_ns), 0)
    return np.cumsum(np.append(0.0, np.maximum(own - np.diff(calls_ns), own / 2)))


def spread_times(position: np.ndarray, line: pd.DataFrame) -> np.ndarray:
    """Times of samples that have only positions, in a workload's time line. Those at one position were taken, at equal
    intervals, after the position before.
    """
    if not line["time_ns"].iloc[-1]:
        return position
    places, first, count = np.unique(position, return_index=True, return_counts=True)
    ends = np.interp(places, line["position"].to_numpy(float), line["time_ns"].to_numpy(float))
    begins = np.concatenate(([line["time_ns"].iloc[0]], ends[:-1]))
    part = (np.arange(len(position)) - np.repeat(first, count) + 1) / np.repeat(count, count)
    return np.repeat(begins, count) + np.repeat(ends - begins, count) * part


IDLE_SPAN_NS, IDLE_OPS = 50e6, 50


def idle_share(time_ns: np.ndarray, position: np.ndarray, cpu_ns: float | None = None) -> float:
    """The share of a recording's time in which the program idled by its calls, 0 to 1: it made fewer than IDLE_OPS
    in IDLE_SPAN_NS, and did not compute either. `cpu_ns`: the processor time that it used meanwhile; None: not known,
    and calls alone tell. NaN where there are no times.
    """
    if len(time_ns) < 2 or time_ns[-1] <= time_ns[0]:
        return math.nan
    whole = float(time_ns[-1] - time_ns[0])
    spans = max(int(whole / IDLE_SPAN_NS), 1)
    edges = np.linspace(time_ns[0], time_ns[-1], min(spans, 1 << 20) + 1)
    made = np.diff(np.interp(edges, time_ns, position)) * IDLE_SPAN_NS / (edges[1] - edges[0])
    quiet = float((made < IDLE_OPS).mean()) if spans > 1 else 0.0
    return quiet if cpu_ns is None else min(quiet, max(1 - cpu_ns / whole, 0.0))


@lru_cache(maxsize=8)
def idle_of(workload: Path) -> float:
    """The share of its recording's time in which the program idled: what its threads slept (`asleep`); in recordings
    without it, `idle_share`.
    """
    compiled = read_workload(workload)
    if (asleep := compiled.info.get("asleep")) is not None:
        return asleep
    line = compiled.timeline()
    return idle_share(line["time_ns"].to_numpy(float), line["position"].to_numpy(float), compiled.info.get("cpu_ns"))


MOSTLY, WHOLLY = 0.5, 0.9
LEAST_ASLEEP = 0.1  # of program time: below that, sleeps are waits for files and the like


@np.errstate(all="ignore")  # a stranger's clock may be any numbers; a mean of it that is none is left out
def mean_by_other_clocks(parts: Mapping, clock: np.ndarray, throttled: bool) -> dict[str, float]:
    """The mean of a memory run if what was taken out of program time had stayed in. `SLEEPS_TO_TIMES`: sleeps end at
    set times (of a timer, of requests), so that a burst which took longer has shortened the sleep behind it.
    `UNDER_QUOTA`: waits for a processor are those of a quota, where it `throttled` the program. Each only where it may
    be so. `parts`: RssAnon of equal parts of program time (docs/formats/RESULTS.md); `clock`: `Workload.program_clock`.
    """
    passed, taken, asleep = np.diff(clock, axis=0).T
    program_ns = clock[:, 0] - clock[:, 1]
    more = {UNDER_QUOTA: taken} if throttled else {}
    if asleep.sum() >= LEAST_ASLEEP * (program_ns[-1] - program_ns[0]):
        more[SLEEPS_TO_TIMES] = _given_to_sleep(taken, asleep, asleep / passed)
    rss = np.array(parts["rss_anon_bytes"], float)
    edges = parts["from_ns"] + parts["ns"] * np.linspace(0, 1, len(rss) + 1)
    found = {}
    for name, added in more.items():
        lengths = np.diff(edges + np.interp(edges, program_ns, np.append(0.0, np.cumsum(added))))
        found[name] = float((rss * lengths).sum() / lengths.sum())
    return {name: mean for name, mean in found.items() if math.isfinite(mean)}


def _given_to_sleep(taken: np.ndarray, asleep: np.ndarray, share: np.ndarray) -> np.ndarray:
    """What was taken of each span is given to the next sleep, in spans one after another. `share`: of each span that is
    `asleep`; the first and the last of a sleep have memory of bursts, too, and count where all sleeps are that short.
    """
    sleeps = share > (WHOLLY if (share > WHOLLY).any() else MOSTLY)
    number = np.cumsum(np.diff(sleeps.astype(int), prepend=0) > 0)  # of the last sleep that had begun by then
    due = np.bincount(number + ~sleeps, taken, number[-1] + 2)
    length = np.bincount(number, asleep * sleeps, number[-1] + 2)
    return asleep * sleeps * np.divide(due, length, out=np.zeros_like(due), where=length > 0)[number]


def smooth(time_ns: np.ndarray, cpu_ns: np.ndarray) -> np.ndarray:
    """Processor time that was read in whole ticks (10 ms): straight lines between the moments at which it changed."""
    if len(cpu_ns) == 0:
        return cpu_ns
    changed = np.append(True, np.diff(cpu_ns) > 0)
    return np.interp(time_ns, time_ns[changed], cpu_ns[changed])
