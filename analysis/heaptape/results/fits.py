# SPDX-License-Identifier: MIT
"""Will it fit? The smallest memory limit (of a cgroup: a container's, a unit's) under which a program runs.

The limit counts the program's anonymous memory, the page tables that map it (8 bytes for each OS page), and what the
kernel holds for a process. Found by runs under real limits (docs/measurements/limits.md). Not in it: files that the
limited processes are the first to read (they are dropped before a process is killed), and shared memory.
"""

import re
from collections.abc import Mapping, Sequence

from heaptape.common.errors import UsageError
from heaptape.common.phrases import size
from heaptape.results.judged import disproof_of
from heaptape.results.recorded_on import recorded_column
from heaptape.results.schema import Results

PAGE_TABLE_SHARE = 1 / 512
KERNEL_BYTES = 128 << 10
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
    upper = {run.label: run.spread_peak_bytes for run in file.measured if run.spread_peak_bytes}
    return {label: smallest_limit(max(peak, upper.get(label, 0)) + own) for label, peak in peaks.items()}


def spread_notes(file: Results, name: str = "") -> list[str]:
    """That peaks are ranges, and why."""
    ranges = ", ".join(
        f"{run.label} {size(run.rss_anon_peak_bytes or 0)} to {size(run.spread_peak_bytes)}"
        for run in file.measured
        if run.spread_peak_bytes and run.spread_peak_bytes > MUCH_MORE * (run.rss_anon_peak_bytes or 0)
    )
    why = "it is not known which parts of large objects were touched, which huge pages depend on"
    return [f'Peaks are ranges{name}, as {why} (record again); "fits in" takes the upper end: {ranges}.'] * bool(ranges)


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
