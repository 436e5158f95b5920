# SPDX-License-Identifier: MIT
"""How far predictions are from live programs: errors by figure, and pairs of allocators, of raw results (raw.py).

An error is predicted less live. The row of the allocator that was recorded on is no prediction of memory: it shows the
residual of the calibration, and no summary contains it.

Counts are changes against the C library's own allocator: instructions in percent of the program's instructions on it,
every other count in percent of the same count there. A live change is the median over layouts (counted.py); its range
is the effect of the layouts alone. A difference that is not larger than that (largest less smallest) is undecided.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from heaptape.results.comparing.race import DIFFERENT, EFFECT_PERCENT, SAME

from tests.bench.fidelity import live_rounds
from tests.bench.fidelity.live_rounds import BASELINE
from tests.bench.fidelity.looks import decision

HALVES = ("all", "held-out")
# Memory that differs by less between two runs of the same program on the same allocator: stack and environment.
SMALL_BYTES = 64 << 10
# Figures of memory: key in the raw results, key of the program's own part, kind of the live runs that have it. Each but
# the last has an allocator's part, too: the figure less the own part.
MEMORY = {
    "peak": ("rss_anon_peak_bytes", "own_at_peak_bytes", "memory"),
    "mean": ("rss_anon_mean_bytes", "own_mean_bytes", "memory"),
    "aligned_mean": ("rss_anon_aligned_mean_bytes", "own_aligned_mean_bytes", "recorded"),
    "vm_size": ("vm_size_peak_bytes", None, "memory"),
}
# Figures of a comparison of replays (results_file.py) -> the error that they carry: a replay has the allocator's part
# only. For CPU time: the points by which the change, in percent of the baseline's replay, was off.
CARRIED = {"peak_rss": "peak_part", "mean_rss": "aligned_mean_part", "vm_size": "vm_size", "bare_cpu": "cpu_points"}
FEWEST_PAIRS = 20  # of program and allocator: with fewer, no error is carried
MEMORY_CALLS = ("mmap", "munmap", "mremap", "madvise", "brk")
NOT_RUN = "not run live"


@dataclass(frozen=True)
class Metric:
    """A count. `threshold`: live changes and differences below it, in percent, are not judged for sign; if `relative`,
    not for size either. `relative`: the error is in percent of the live change, else of the program's instructions.
    """

    title: str
    target: str = "5 %, 30 %, right 95 %"  # median and 90th percentile of errors; share of signs that are right
    threshold: float = 2
    relative: bool = True


METRICS = {
    "instructions": Metric("instructions", "0.2 %, right 97 %", 0.5, False),
    "allocator_instructions": Metric("instructions, allocator's part", "", 0.5, False),
    "page_faults": Metric("page faults"),
    "memory_syscalls": Metric("memory system calls of the allocator", ""),
    "cache_32768": Metric("misses of 32 KiB", "10 %, right 95 %"),
    "cache_262144": Metric("misses of 256 KiB"),
    "cache_1048576": Metric("misses of 1 MiB"),
    "cache_33554432": Metric("misses of 32 MiB"),
    "tlb_64": Metric("TLB misses of 64 entries", "right 95 %"),
    "tlb_1536": Metric("TLB misses of 1,536 entries"),
}


def halves(table: pd.DataFrame) -> list[pd.DataFrame]:
    """Rows of all programs, and of held-out ones (HALVES)."""
    return [table, table[table["set"] == "held-out"]]


def sizes(part: pd.DataFrame) -> dict:
    """apps and count; median, p90 and worst of the absolute errors (NaN without rows), worst_at: which app on which
    allocator. Rows whose error is NaN are left out.
    """
    known = part.dropna(subset=["error"])
    size = known["error"].astype(float).abs()
    worst_at = "" if known.empty else "{app} on {allocator}".format(**known.loc[size.idxmax()])
    found = {"apps": part["app"].nunique(), "count": len(known), "median": float(size.median())}
    return found | {"p90": float(size.quantile(0.9)), "worst": float(size.max()), "worst_at": worst_at}


def _about(data: Mapping) -> dict:
    return {"app": data["app"]["name"], "set": data["app"].get("set", "")}


# Memory.


def memory_errors(results: Sequence[dict]) -> pd.DataFrame:
    """One row per app, allocator and figure (MEMORY, its parts, "cpu_points"). Columns: app, set, allocator, figure,
    live, predicted, error (percent; NaN where it can't be determined), noise (of the live repetitions, in percent).
    Memory is in bytes; cpu_points is the change of CPU time by calls alone, error and noise in points.
    """
    rows: list[dict] = []
    for data in results:
        for label, predicted in data["predicted"].items():
            figures = [*_memory_rows(data, label, predicted), *_cpu_row(data, label)]
            rows += [_about(data) | {"allocator": label} | figure for figure in figures]
    return pd.DataFrame(rows, columns=["app", "set", "allocator", "figure", "live", "predicted", "error", "noise"])


def live_values(data: dict, label: str, kind: str, key: str) -> np.ndarray:
    """A figure of the live runs on an allocator, by repetition: of the runs of that kind, of all if there are none."""
    kinds = {run["kind"] for run in data["live"]}
    runs = [run for run in data["live"] if run["allocator"] == label and (run["kind"] == kind or kind not in kinds)]
    return np.array([run[key] for run in runs if key in run], dtype=float)


def _memory_rows(data: dict, label: str, predicted: dict) -> Iterator[dict]:
    for figure, (key, own_key, kind) in MEMORY.items():
        values = live_values(data, label, kind, key)
        if not len(values) or key not in predicted:
            continue
        spread = float(np.ptp(values)) if len(values) > 1 else np.nan
        for name, own in ((figure, 0), (f"{figure}_part", predicted.get(own_key))):
            if own is None:
                continue
            live, said = float(np.median(values)) - own, predicted[key] - own
            percent = 100 / live if live > 0 else np.nan
            about = {"figure": name, "live": live, "predicted": said}
            yield about | {"error": (said - live) * percent, "noise": spread * percent}


def _cpu_row(data: dict, label: str) -> Iterator[dict]:
    """In percent of the bare replay on the baseline."""
    base, values = (live_values(data, one, "time", "cpu_ns") for one in (BASELINE, label))
    base_replay, replay = (
        [run["cpu_ns"] for run in data["replays"] if (run["allocator"], run["pass"]) == (one, "bare")]
        for one in (BASELINE, label)
    )
    if label == BASELINE or not (len(base) and len(values) and base_replay and replay):
        return
    percent = 100 / float(np.median(base_replay))
    live = float(np.median(values) - np.median(base)) * percent
    said = float(np.median(replay)) * percent - 100
    repeated = min(len(values), len(base)) > 1
    noise = float(np.ptp(values) + np.ptp(base)) * percent if repeated else np.nan
    yield {"figure": "cpu_points", "live": live, "predicted": said, "error": said - live, "noise": noise}


def memory_pairs(results: Sequence[dict], figure: str) -> pd.DataFrame:
    """Each two allocators of each app, by a figure of MEMORY: app, set, live and predicted difference in bytes, beyond
    (the repetitions' ranges do not overlap), right (the prediction has the live sign). The baseline is one of the
    allocators: only the program's own part was calibrated on it.
    """
    rows = []
    key, _, kind = MEMORY[figure]
    for data in results:
        live = {label: live_values(data, label, kind, key) for label in data["predicted"]}
        predicted = {label: one[key] for label, one in data["predicted"].items() if key in one and len(live[label])}
        for a, b in combinations(predicted, 2):
            difference, said = float(np.median(live[a]) - np.median(live[b])), predicted[a] - predicted[b]
            repeated = min(len(live[a]), len(live[b])) > 1
            apart = repeated and (live[a].min() > live[b].max() or live[b].min() > live[a].max())
            beyond = bool(apart and abs(difference) > SMALL_BYTES)
            found = {"live": difference, "predicted": said, "beyond": beyond, "right": said * difference > 0}
            rows.append(_about(data) | found)
    return pd.DataFrame(rows, columns=["app", "set", "live", "predicted", "beyond", "right"])


def carried_errors(results: Sequence[dict]) -> dict:
    """The table that comparisons carry (replay_errors.py): for each figure the 90th percentile of the absolute errors
    in percent, over all allocators and for each allocator. Changes of CPU time count if they exceed the noise.
    """
    table = memory_errors(results)
    table = table[(table["allocator"] != BASELINE) & table["error"].notna()]
    table = table[(table["figure"] != "cpu_points") | (table["live"].abs() > table["noise"])]
    figures = {}
    for name, figure in CARRIED.items():
        part = table[table["figure"] == figure]
        if len(part) >= FEWEST_PAIRS:
            each = {str(label): _ninth(rows["error"]) for label, rows in part.groupby("allocator", sort=True)}
            figures[name] = {"all": _ninth(part["error"]), "allocators": each}
    return {"schema": 1, "baseline": BASELINE, "apps": [data["app"]["name"] for data in results], "figures": figures}


def _ninth(values: pd.Series) -> dict:
    return {"p90": round(float(values.abs().quantile(0.9)), 3), "pairs": int(len(values))}


# Counts.


def counted_errors(results: Sequence[dict]) -> pd.DataFrame:
    """One row per app, allocator and metric that has a prediction. Columns: app, set, allocator, metric, live, low,
    high (over layouts), predicted (all in percent), error (NaN where the live change is too small to be judged, or does
    not exceed its spread).
    """
    rows = []
    for about, name, live, predicted in _changes(results):
        metric = METRICS[name]
        for label in predicted.keys() & live.keys() - {BASELINE}:
            middle, values = float(np.median(live[label])), live[label]
            error = predicted[label] - middle
            if metric.relative:
                judged = abs(middle) >= metric.threshold and _exceeds_spread(values)
                error = 100 * error / abs(middle) if judged else np.nan
            figures = {"live": middle, "low": values.min(), "high": values.max(), "predicted": predicted[label]}
            rows.append(about | {"allocator": label, "metric": name} | figures | {"error": error})
    columns = ["app", "set", "allocator", "metric", "live", "low", "high", "predicted", "error"]
    return pd.DataFrame(rows, columns=columns)


def counted_pairs(results: Sequence[dict]) -> pd.DataFrame:
    """Each two allocators of each app, the baseline too, by metric, whose live difference reaches its threshold: app,
    set, metric, decided (it exceeds its own spread over layouts), right (the prediction has that sign).
    """
    rows = []
    for about, name, live, predicted in _changes(results):
        for a, b in combinations([label for label in predicted if label in live], 2):
            difference = live[a] - live[b]
            middle, said = float(np.median(difference)), predicted[a] - predicted[b]
            if abs(middle) >= METRICS[name].threshold:
                judged = {"decided": _exceeds_spread(difference), "right": said * middle > 0}
                rows.append(about | {"metric": name} | judged)
    return pd.DataFrame(rows, columns=["app", "set", "metric", "decided", "right"])


def _exceeds_spread(values: np.ndarray) -> bool:
    """The median over layouts is larger than the effect of the layouts alone, so it has one sign in all of them."""
    return bool(abs(np.median(values)) > np.ptp(values))


def _changes(results: Sequence[dict]) -> Iterator[tuple[dict, str, dict[str, np.ndarray], dict[str, float]]]:
    """For each app and metric that is predicted: app and set, the metric, label -> live change by layout, label ->
    predicted change; both changes in percent of the live baseline.
    """
    for data in results:
        for metric in METRICS:
            live, predicted = _live_by_layout(data, metric), _predicted(data, metric)
            if BASELINE not in live or BASELINE not in predicted:
                continue
            base = live[BASELINE]
            unit = _live_by_layout(data, "instructions")[BASELINE] if "instructions" in metric else base
            if not (unit > 0).all():
                continue
            scale = float(np.median(unit)) / 100
            changes = {label: (values - base) / scale for label, values in live.items() if len(values) == len(base)}
            said = {label: (value - predicted[BASELINE]) / scale for label, value in predicted.items()}
            yield _about(data), metric, changes, said


def _live_by_layout(data: dict, metric: str) -> dict[str, np.ndarray]:
    """label -> the metric's count in each layout, in the order of their paddings."""
    found: dict[str, list[float]] = {}
    for run in sorted(data["live"], key=lambda run: run["padding_bytes"]):
        value = _of_counts(run["counts"], metric)
        if value is not None:
            found.setdefault(run["allocator"], []).append(value)
    return {label: np.array(values) for label, values in found.items()}


def _of_counts(counts: Mapping, metric: str) -> float | None:
    """The metric in a simulation's result, or in a misses pass's, whose keys are the same."""
    kind, _, capacity = metric.partition("_")
    if kind in ("cache", "tlb"):
        key = "bytes" if kind == "cache" else "entries"
        return next((float(one["misses"]) for one in counts.get(f"{kind}s", ()) if one[key] == int(capacity)), None)
    if metric == "memory_syscalls":
        kinds = (counts.get("allocator") or {}).get("syscalls_by_kind")
        return float(sum(kinds.get(kind, 0) for kind in MEMORY_CALLS)) if kinds else None
    value = counts["allocator"]["instructions"] if metric == "allocator_instructions" else counts.get(metric)
    return None if value is None else float(value)


def _predicted(data: dict, metric: str) -> dict[str, float]:
    """label -> the metric's count in its replays: from the misses pass, which simulates, else from the memory pass."""

    def runs(of: str) -> dict[str, dict]:
        return {run["allocator"]: run for run in data["replays"] if run["pass"] == of}

    if metric in ("instructions", "allocator_instructions"):
        start = "startup_process_instructions" if metric == "instructions" else "startup_instructions"
        counted = runs("instructions").items()
        return {label: run["instructions_total"] + (run.get(start) or 0) for label, run in counted}
    counts = {label: _of_counts(run["misses"], metric) for label, run in runs("misses").items()}
    simulated = {label: value for label, value in counts.items() if value is not None}
    if BASELINE in simulated or metric != "page_faults":
        return simulated
    faults = {label: run for label, run in runs("memory").items() if metric in run}
    return {label: float(run[metric] + (run.get("startup_page_faults") or 0)) for label, run in faults.items()}


# CPU time.


def timed_pairs(results: Sequence[dict]) -> pd.DataFrame:
    """One row per app and allocator that is predicted. Columns: app, set, allocator; percent, low, high (predicted
    change of CPU time, in percent of the baseline's); live, live_low, live_high, rounds, verdict (looks.py, or
    NOT_RUN); outright (the predicted interval leaves out 0), right (the sign) and error (of the size, in percent of the
    live change) of DIFFERENT pairs, else False and NaN; holds (pairs of either verdict whose live change is in the
    predicted interval); contradicted (SAME live, predicted EFFECT_PERCENT or more outright).
    """
    rows = []
    for data in results:
        lived = live_rounds.found(data)
        for label, predicted in data["predicted"].items():
            one = lived.get(label, decision(()))
            percent, low, high = (predicted[key] for key in ("percent", "low", "high"))
            different, same = one.verdict == DIFFERENT, one.verdict == SAME
            row = {"allocator": label, **predicted, "live": one.percent, "live_low": one.low, "live_high": one.high}
            row |= {"rounds": one.rounds, "verdict": one.verdict if one.rounds else NOT_RUN, "outright": low * high > 0}
            row |= {"right": different and percent * one.percent > 0}
            row |= {"error": 100 * (percent - one.percent) / abs(one.percent) if different else np.nan}
            row |= {"holds": (different or same) and low <= one.percent <= high}
            row |= {"contradicted": same and (low >= EFFECT_PERCENT or high <= -EFFECT_PERCENT)}
            rows.append(_about(data) | row)
    return pd.DataFrame(rows)
