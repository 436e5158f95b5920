# SPDX-License-Identifier: MIT
"""Will it fit? The smallest memory limit (of a cgroup: a container's, a unit's) under which a program runs.

The limit counts the program's anonymous memory, the page tables that map it (8 bytes for each OS page), and what the
kernel holds for a process. Found by runs under real limits (docs/measurements/limits.md). Not in it: files that the
limited processes are the first to read (they are dropped before a process is killed), and shared memory.
"""

import re
from collections.abc import Mapping, Sequence

from heaptape.common.errors import UsageError
from heaptape.common.phrases import seconds, size
from heaptape.results.judged import disproof_of
from heaptape.results.recorded_on import recorded_column
from heaptape.results.schema import Results
from heaptape.results.structs import SLEEPS_TO_TIMES, UNDER_QUOTA, Workload

PAGE_TABLE_SHARE = 1 / 512
KERNEL_BYTES = 128 << 10
MOST_RANGES = 3
MUCH_MORE = 1.02  # a peak with touched pages spread is told from this on
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LIMIT = re.compile(r"memory\s*=\s*(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


def smallest_limit(peak_bytes: float) -> float:
    """The smallest limit for a program with this peak of anonymous memory, in bytes."""
    return peak_bytes * (1 + PAGE_TABLE_SHARE) + KERNEL_BYTES


def smallest_limits(file: Results, peaks: Mapping[str, float]) -> dict[str, float]:
    """Label -> `smallest_limit` of the whole program. `peaks`: label -> the allocator's replayed peak. Empty where the
    program's own memory is not known: the recording has no samples, or its allocator was not replayed, or it disproves
    that replay. The program's own memory is the recorded peak less that of a replay on the recorded allocator. Where a
    peak is a range (`spread_peak_bytes`), its upper end counts.
    """
    rows = file.workload.recorded
    recorded = recorded_column(file.workload, file.parsed.allocators)
    base = file.workload.recorded_on or (recorded.label if recorded else None)
    if not rows or base is None or base not in peaks or disproof_of(file):
        return {}
    own = max(row[1] for row in rows) - peaks[base]
    upper = upper_ends(file)
    return {label: smallest_limit(max(peak, upper.get(label, 0.0)) + own) for label, peak in peaks.items()}


def upper_ends(file: Results) -> dict[str, float]:
    """Label -> the upper end of its peak, where that is a range."""
    return {run.label: run.spread_peak_bytes for run in file.measured if run.spread_peak_bytes}


def spread_notes(file: Results, name: str = "") -> list[str]:
    """`range_note`, `least_note` and `notes_on_means` of results, as a list."""
    lows = {run.label: run.rss_anon_peak_bytes or 0.0 for run in file.measured if run.spread_peak_bytes}
    peaks = {label: (lows[label], high) for label, high in upper_ends(file).items()}
    found = [range_note(peaks, name), least_note(least_peaks(file), name)]
    return [*(note for note in found if note), *notes_on_means(file, name)]


def notes_on_means(file: Results, name: str = "") -> list[str]:
    """`mean_notes` of results."""
    means = {run.label: (run.rss_anon_mean_bytes or 0.0, run.other_means or {}) for run in file.measured}
    return mean_notes(means, file.workload, name)


def least_peaks(file: Results) -> dict[str, tuple[float, float]]:
    """`may_be_less` of results."""
    recorded = recorded_column(file.workload, file.parsed.allocators)
    base = file.workload.recorded_on or (recorded.label if recorded else None)
    peaks = {run.label: (run.least_peak_bytes or 0.0, run.rss_anon_peak_bytes or 0.0) for run in file.measured}
    return may_be_less(peaks, base if file.workload.recorded else None)


def may_be_less(peaks: Mapping[str, tuple[float, float]], recorded_on: str | None) -> dict[str, tuple[float, float]]:
    """Label -> the least peak (`least_peak_bytes`) and the usual one, where that is a range. `peaks`: the same; least
    0: it is none. A recording on an allocator on which it would have shown that objects of 4 to 8 KiB are hardly
    touched, and did not, says that they are.
    """
    ranges = {label: (low, high) for label, (low, high) in peaks.items() if low and high > MUCH_MORE * low}
    return {} if recorded_on in ranges else ranges


def least_note(peaks: Mapping[str, tuple[float, float]], name: str = "") -> str:
    """That peaks may be lower, and why; empty: none may. `peaks`: of `may_be_less`."""
    why = "it is not known how much was touched of objects of 4 to 8 KiB"
    return range_note(peaks, name, "the second is used", why)


def range_note(
    peaks: Mapping[str, tuple[float, float]],
    name: str = "",
    rule: str = '"fits in" takes the upper end',
    why: str = "it is not known what was touched of large objects (where, under huge pages; how much, in used memory)",
) -> str:
    """That peaks are ranges, and why; empty: none is. `peaks`: what -> both ends. `rule`: which end counts."""
    ranges = [f"{what} {size(low)} to {size(high)}" for what, (low, high) in peaks.items() if high > MUCH_MORE * low]
    return f"Peaks are ranges{name}, as {why}; {rule}: {_listed(ranges)}." if ranges else ""


def _listed(ranges: Sequence[str]) -> str:
    more = [f"{len(ranges) - MOST_RANGES} more"] * (len(ranges) > MOST_RANGES)
    return ", ".join([*ranges[:MOST_RANGES], *more])


def mean_notes(means: Mapping[str, tuple[float, Mapping[str, float]]], about: Workload, name: str = "") -> list[str]:
    """That means would differ by other clocks, and how. `means`: what -> its mean, and `other_means` of its run."""
    quota = (
        f"a quota of {about.quota_processors or 0:.3g} processors held it back for {seconds(about.throttled_ns or 0)}"
    )
    why = {
        UNDER_QUOTA: f"{quota} while it was recorded; the first is without waits for a processor",
        SLEEPS_TO_TIMES: (
            "bursts took longer beside recording and other load, and a sleep to a set time (of a timer, of a request) "
            "is shorter for that; the mean shown takes sleeps as recorded"
        ),
    }
    notes = []
    for key, text in why.items():
        found = {what: sorted((mean, others[key])) for what, (mean, others) in means.items() if key in others}
        ends = [f"{what} {size(low)} to {size(high)}" for what, (low, high) in found.items()]
        notes += [f"Means are ranges{name}, as {text}: {_listed(ends)}."] * bool(ends)
    return notes


def memory_limit(text: str) -> int | None:
    """The bytes of `memory=64M`, with units as Docker has them (powers of 1024); None: another condition.

    >>> memory_limit("memory=64M"), memory_limit("memory=1.5GiB"), memory_limit("rss-peak<=64 MiB")
    (67108864, 1610612736, None)
    """
    if not re.match(r"memory\s*=", text.strip(), re.IGNORECASE):
        return None
    found = _LIMIT.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--limit '{text}': not a memory limit: memory=NUMBER, with K, M or G")
    return round(float(found[1]) * UNITS[found[2].upper()])


def killed_at(rows: Sequence[Sequence[float]], limit_bytes: float) -> int | None:
    """After how many calls the limit is first exceeded. `rows`: calls made and anonymous bytes of the whole program.
    None: never.
    """
    return next((int(calls) for calls, rss, *_ in rows if smallest_limit(rss) > limit_bytes), None)
