# SPDX-License-Identifier: MIT
"""How far predicted counts are from the live program's, and how often the better of two allocators was named.

All changes are against the C library's own allocator: for instructions in percent of the program's instructions on it,
for every other count in percent of the same count there. A live change is the median over layouts (counted.py); its
range is the effect of the layouts alone. Two allocators whose live difference is not larger than its own spread over
the layouts (largest less smallest) are not ranked: that pair is undecided. The same rule holds for all counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from tests.bench.fidelity.certificate import BASELINE, sizes_of_errors

MEMORY_CALLS = ("mmap", "munmap", "mremap", "madvise", "brk")


@dataclass(frozen=True)
class Metric:
    """A count. `threshold`: live changes and differences below it, in percent, are not judged for sign; if `relative`,
    not for size either. `relative`: the error is in percent of the live change, else of the program's instructions.
    Targets in percent: share of signs that are right, median and 90th percentile of errors.
    """

    title: str
    threshold: float = 2
    relative: bool = True
    signs: float | None = 95
    median: float | None = 5
    ninth: float | None = 30


METRICS = {
    "instructions": Metric("instructions", 0.5, False, 97, 0.2, None),
    "allocator_instructions": Metric("instructions, allocator's part", 0.5, False, None, None, None),
    "page_faults": Metric("page faults"),
    "memory_syscalls": Metric("memory system calls of the allocator", signs=None, median=None, ninth=None),
    "cache_32768": Metric("misses of 32 KiB", median=10, ninth=None),
    "cache_262144": Metric("misses of 256 KiB"),
    "cache_1048576": Metric("misses of 1 MiB"),
    "cache_33554432": Metric("misses of 32 MiB"),
    "tlb_64": Metric("TLB misses of 64 entries", median=None, ninth=None),
    "tlb_1536": Metric("TLB misses of 1,536 entries"),
}


def changes(results: Sequence[dict]) -> pd.DataFrame:
    """One row per app, allocator and metric that has a prediction. Columns: app, set, threads, alone (one thread, and
    the same calls each time), allocator, metric, live, low, high (over layouts), predicted (all in percent), error (NaN
    where the live change is too small to be judged, or does not exceed its spread).
    """
    rows = []
    for about, metric, live, predicted in _tables(results):
        for label in predicted:
            if label != BASELINE and label in live:
                rows.append(about | {"allocator": label} | _change(metric, live[label], predicted[label]))
    columns = ["app", "set", "threads", "alone", "allocator", "metric", "live", "low", "high", "predicted", "error"]
    return pd.DataFrame(rows, columns=columns)


def _change(name: str, live: np.ndarray, predicted: float) -> dict:
    middle, metric = float(np.median(live)), METRICS[name]
    error = predicted - middle
    if metric.relative:
        judged = abs(middle) >= metric.threshold and _exceeds_spread(live)
        error = 100 * error / abs(middle) if judged else np.nan
    return {
        "metric": name, "live": middle, "low": float(live.min()), "high": float(live.max()),
        "predicted": predicted, "error": error,
    }  # fmt: skip


def _exceeds_spread(values: np.ndarray) -> bool:
    """The median over layouts is larger than the effect of the layouts alone, so it has one sign in all of them."""
    return bool(abs(np.median(values)) > np.ptp(values))


def pairs(results: Sequence[dict]) -> pd.DataFrame:
    """Each two allocators of each app, the baseline too, by metric: app, set, threads, alone, metric, a, b, live and
    predicted (a less b, in the unit of `changes`), beyond (the live difference reaches the metric's threshold),
    decided (it exceeds its own spread over layouts), right (the prediction has that sign).
    """
    rows = []
    for about, name, live, predicted in _tables(results):
        for a, b in combinations([label for label in predicted if label in live], 2):
            difference = live[a] - live[b]
            middle, said = float(np.median(difference)), predicted[a] - predicted[b]
            decided = _exceeds_spread(difference)
            rows.append(
                about
                | {"metric": name, "a": a, "b": b, "live": middle, "predicted": said}
                | {"beyond": abs(middle) >= METRICS[name].threshold, "decided": decided, "right": said * middle > 0}
            )
    columns = ["app", "set", "threads", "alone", "metric", "a", "b", "live", "predicted", "beyond", "decided", "right"]
    return pd.DataFrame(rows, columns=columns)


def summary(results: Sequence[dict]) -> pd.DataFrame:
    """Per metric and group (GROUPS): apps; changes (judged for size), median and p90 of the errors' sizes in percent,
    worst and worst_at; pairs (beyond the threshold), decided, right_percent (of those decided).
    """
    all_changes, all_pairs = changes(results), pairs(results)
    rows = []
    for metric in METRICS:
        for group in GROUPS:
            part = of_group(all_changes[all_changes["metric"] == metric], group)
            ranked = of_group(all_pairs[all_pairs["metric"] == metric], group)
            if len(ranked):
                rows.append({"metric": metric, "group": group, "apps": ranked["app"].nunique()} | _judged(part, ranked))
    return pd.DataFrame(rows)


GROUPS = ("all", "tuned", "held-out", "one thread", "servers, threads")


def of_group(table: pd.DataFrame, group: str) -> pd.DataFrame:
    if group == "all":
        return table
    if group in ("tuned", "held-out"):
        return table[table["set"] == group]
    return table[table["alone"] == (group == "one thread")]


def _judged(part: pd.DataFrame, ranked: pd.DataFrame) -> dict:
    sized = part.dropna(subset=["error"])
    beyond = ranked[ranked["beyond"]]
    decided = beyond[beyond["decided"]]
    return {
        "changes": len(sized),
        **sizes_of_errors(sized),
        "pairs": len(beyond),
        "decided": len(decided),
        "right_percent": 100 * float(decided["right"].mean()) if len(decided) else np.nan,
    }


def _tables(results: Sequence[dict]) -> Iterator[tuple[dict, str, dict[str, np.ndarray], dict[str, float]]]:
    """For each app and metric that is predicted: `about_of` the app, the metric, label -> live change by layout, label
    -> predicted change; both changes in percent of the live baseline.
    """
    for data in results:
        about = about_of(data["app"])
        for metric in METRICS:
            live, predicted = _live_by_layout(data, metric), _predicted(data, metric)
            if BASELINE not in live or BASELINE not in predicted:
                continue
            base = live[BASELINE]
            unit = _live_by_layout(data, "instructions")[BASELINE] if "instructions" in metric else base
            if not (unit > 0).all():
                continue
            scale = float(np.median(unit)) / 100
            yield (
                about,
                metric,
                {label: (values - base) / scale for label, values in live.items() if len(values) == len(base)},
                {label: (value - predicted[BASELINE]) / scale for label, value in predicted.items()},
            )


def about_of(app: Mapping) -> dict:
    """The columns app, set, threads and alone of all tables."""
    about = {"app": app["name"], "set": app.get("set", ""), "threads": app.get("threads", 0)}
    return about | {"alone": about["threads"] == 1 and app.get("deterministic", True)}


def _live_by_layout(data: dict, metric: str) -> dict[str, np.ndarray]:
    """label -> the metric's count in each layout, in the order of their paddings."""
    found: dict[str, list[tuple[int, float]]] = {}
    for run in data["live"]:
        value = _of_counts(run["counts"], metric)
        if value is not None:
            found.setdefault(run["allocator"], []).append((run["padding_bytes"], value))
    return {label: np.array([value for _, value in sorted(values)]) for label, values in found.items()}


def _of_counts(counts: Mapping, metric: str) -> float | None:
    """The metric in a simulation's result, or in a misses pass's, whose keys are the same."""
    kind, _, capacity = metric.partition("_")
    if kind in ("cache", "tlb"):
        key = "bytes" if kind == "cache" else "entries"
        levels = [level for level in counts.get(f"{kind}s", ()) if level[key] == int(capacity)]
        return float(levels[0]["misses"]) if levels else None
    if metric == "allocator_instructions":
        value = counts["allocator"]["instructions"]
        return None if value is None else float(value)
    if metric == "memory_syscalls":
        kinds = (counts.get("allocator") or {}).get("syscalls_by_kind")
        return float(sum(kinds.get(kind, 0) for kind in MEMORY_CALLS)) if kinds else None
    value = counts.get(metric)
    return None if value is None else float(value)


def _predicted(data: dict, metric: str) -> dict[str, float]:
    """label -> the metric's count in its replays: from the misses pass, which simulates, else from the memory pass."""
    by_pass: dict[str, dict[str, Mapping]] = {}
    for run in data["replays"]:
        by_pass.setdefault(run["pass"], {})[run["allocator"]] = run
    if metric in ("instructions", "allocator_instructions"):
        start = "startup_process_instructions" if metric == "instructions" else "startup_instructions"
        runs = by_pass.get("instructions", {})
        return {label: run["instructions_total"] + (run.get(start) or 0) for label, run in runs.items()}
    found = {}
    for label, run in by_pass.get("memory", {}).items():
        value = _of_memory_pass(run, metric)
        if value is not None:
            found[label] = value
    simulated = {label: _of_misses_pass(run["misses"], metric) for label, run in by_pass.get("misses", {}).items()}
    if BASELINE in simulated and simulated[BASELINE] is not None:
        return {label: value for label, value in simulated.items() if value is not None}
    return found


def _of_misses_pass(counts: Mapping, metric: str) -> float | None:
    """The count with the loading of the engine: its difference between two allocators is the program's too. The pass
    counts loading in the program's part; only raw results of older engines have it separately.
    """
    value, loading = _of_counts(counts, metric), _of_counts(counts.get("loading") or {}, metric)
    return value if value is None or loading is None else value + loading


def _of_memory_pass(run: Mapping, metric: str) -> float | None:
    if metric == "page_faults" and "page_faults" in run:
        return float(run["page_faults"] + (run.get("startup_page_faults") or 0))
    return None
