"""Arithmetic of a prediction: a program's memory on an allocator that it never ran on, as time lines.

A program's RssAnon is what its allocator holds plus what is its own: data, stacks, mappings that it makes without
malloc. The own part is what remains of the recorded run when its replay on the recording's own allocator is taken away,
at the same progress; it is then held fixed, and another allocator's replay is put in the place of the first.

Time lines are arrays of equal length. Positions are ops of the workload, times nanoseconds since the recording began,
sizes bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# How old an op's time may be: it has that of its thread's last stamp, which is as old as a tick (at most 1 ms).
SLACK_NS = 1_000_000


@dataclass(frozen=True)
class Replayed:
    """A memory pass: what the process had above the engine's own, at rising positions."""

    position: np.ndarray
    rss_anon_bytes: np.ndarray
    vm_size_bytes: np.ndarray


@dataclass(frozen=True)
class Own:
    """What is not the allocator's, at the recorded samples: times, positions, and bytes (less than 0 where the program
    touches its blocks later than a replay does). `cpu_ns`: the process's time on a processor until then.
    `rss_anon_difference_bytes`: recorded less replayed, sample by sample, wrong guesses of the place and all: these
    cancel in a mean, and only there.
    """

    time_ns: np.ndarray
    cpu_ns: np.ndarray
    position: np.ndarray
    rss_anon_bytes: np.ndarray
    vm_size_bytes: np.ndarray
    rss_anon_difference_bytes: np.ndarray


@dataclass(frozen=True)
class Predicted:
    """A program's memory on an allocator. `peak_own_bytes`: the own part at the moment of the peak."""

    time_ns: np.ndarray
    rss_anon_bytes: np.ndarray
    rss_anon_peak_bytes: float
    rss_anon_mean_bytes: float
    rss_anon_wall_mean_bytes: float
    vm_size_peak_bytes: float
    peak_own_bytes: float
    peak_time_ns: float


def replayed(run: dict) -> Replayed:
    """From a memory run of a result. The exact peak (`rss_anon_peak_position`) is a row of its own."""
    rows = np.array([row[:3] for row in run["timeline"]], dtype=float).reshape(-1, 3)
    position, rss, vm = rows.T
    at, peak = float(run.get("rss_anon_peak_position", -1)), float(run["rss_anon_peak_bytes"])
    if at >= 0 and len(position) and peak > rss.max():
        place = int(np.searchsorted(position, at, "right"))
        position, rss = np.insert(position, place, at), np.insert(rss, place, peak)
        vm = np.insert(vm, place, vm[max(place - 1, 0)])
    return Replayed(position, rss, vm)


def own_part(
    time_ns: np.ndarray,
    cpu_ns: np.ndarray,
    rss_anon_bytes: np.ndarray,
    vm_size_bytes: np.ndarray,
    clock: tuple[np.ndarray, np.ndarray],
    replay: Replayed,
    recorder_bytes: float = 0,
    recorder_vm_bytes: float = 0,
) -> Own:
    """The own part of a recorded run, from its samples and the replay on its own allocator. `clock`: times and
    positions of the recording's time line. `recorder_bytes`: what recording itself added.

    Which op a sample fell behind is not known exactly: the collector may have been off the processor between reading
    the clock and reading the sample. It fell between the sample before and the one after, that is certain. Where memory
    moves fast a wrong guess would look like memory of the program's own. So at each sample the replay gives a band, the
    least and the most that it has in that span, and the own part is the time line that stays within the recorded less
    that band and moves least.
    """
    before = np.append(time_ns[:1], time_ns[:-1]) - SLACK_NS
    after = np.append(time_ns[1:], time_ns[-1:]) + SLACK_NS
    low, high = _positions(before, clock), _positions(after, clock)
    floor, ceiling = _extremes(replay.position, replay.rss_anon_bytes, low, high)
    vm_floor, vm_ceiling = _extremes(replay.position, replay.vm_size_bytes, low, high)
    rss, vm = rss_anon_bytes - recorder_bytes, vm_size_bytes - recorder_vm_bytes
    return Own(
        time_ns,
        smooth(time_ns, cpu_ns),
        _positions(time_ns, clock),
        laziest(rss - ceiling, rss - floor),
        laziest(vm - vm_ceiling, vm - vm_floor),
        rss - _step(replay.position, replay.rss_anon_bytes, _positions(time_ns, clock)),
    )


def laziest(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The line within [low, high] that moves only where it must. It begins at the top: when a program is first looked
    at, it has hardly asked for anything, and what is there is its own.
    """
    line = np.empty(len(low))
    now = 0.0 if len(low) == 0 else high[0]
    for index in range(len(low)):
        now = min(max(now, low[index]), high[index])
        line[index] = now
    return line


def predict(own: Own, replay: Replayed) -> Predicted:
    """The own part and the allocator's, added point by point: at each recorded sample, and at each of the replay's."""
    at_samples = own.rss_anon_bytes + _step(replay.position, replay.rss_anon_bytes, own.position)
    for_means = own.rss_anon_difference_bytes + _step(replay.position, replay.rss_anon_bytes, own.position)
    own_at_rows = _step(own.position, own.rss_anon_bytes, replay.position)
    at_rows = own_at_rows + replay.rss_anon_bytes
    vm = own.vm_size_bytes + _step(replay.position, replay.vm_size_bytes, own.position)
    vm_rows = _step(own.position, own.vm_size_bytes, replay.position) + replay.vm_size_bytes
    row_times = np.interp(replay.position, own.position, own.time_ns)
    times, line = np.append(own.time_ns, row_times), np.append(at_samples, at_rows)
    owns = np.append(own.rss_anon_bytes, own_at_rows)
    order = np.argsort(times, kind="stable")
    top = int(np.argmax(line))
    return Predicted(
        times[order],
        line[order],
        float(line[top]),
        mean_over_time(own.cpu_ns, for_means),
        mean_over_time(own.time_ns, for_means),
        float(max(vm.max(), vm_rows.max())),
        float(owns[top]),
        float(times[top]),
    )


def smooth(time_ns: np.ndarray, cpu_ns: np.ndarray) -> np.ndarray:
    """Processor time that was read in whole ticks (10 ms): straight lines between the moments at which it changed."""
    if len(cpu_ns) == 0:
        return cpu_ns
    changed = np.append(True, np.diff(cpu_ns) > 0)
    return np.interp(time_ns, time_ns[changed], cpu_ns[changed])


def mean_over_time(time: np.ndarray, values: np.ndarray) -> float:
    """Each value stands until the next time. The values' plain mean where no time passes."""
    spans = np.diff(time)
    total = float(spans.sum())
    return float((values[:-1] * spans).sum() / total) if total > 0 else float(np.mean(values))


def thinned(time: np.ndarray, values: np.ndarray, points: int) -> list[list[float]]:
    """At most so many [share of the time, value] for a figure: the largest value of each equal span of time."""
    if len(time) == 0 or time[-1] <= time[0]:
        return []
    share = (time - time[0]) / (time[-1] - time[0])
    span = np.minimum((share * points).astype(int), points - 1)
    out = []
    for number in np.unique(span):
        out.append([round((number + 0.5) / points, 4), int(values[span == number].max())])
    return out


def _positions(time_ns: np.ndarray, clock: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return np.interp(time_ns, *clock)


def _step(position: np.ndarray, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The value that stood at each place: that of the last position at or before it."""
    return values[np.clip(np.searchsorted(position, at, "right") - 1, 0, len(values) - 1)]


def _extremes(
    position: np.ndarray, values: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Least and most of the values that stood anywhere in each [low, high]."""
    first = np.clip(np.searchsorted(position, low, "right") - 1, 0, len(values) - 1)
    last = np.clip(np.searchsorted(position, high, "right") - 1, 0, len(values) - 1)
    spans: Sequence[tuple[int, int]] = list(zip(first.tolist(), (last + 1).tolist()))
    floor = np.array([values[a:b].min() for a, b in spans])
    return floor, np.array([values[a:b].max() for a, b in spans])
