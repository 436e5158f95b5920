# SPDX-License-Identifier: MIT
"""How far predictions are from live runs: errors of each figure, and their summary in the certificate.

An error is predicted less live, in percent of live. The row of the allocator that was recorded on is not a prediction:
it shows the residual of the calibration, and no summary contains it.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from tests.bench.fidelity.live_rounds import BASELINE

# Memory that differs by less between two runs of the same program on the same allocator: stack and environment.
SMALL_BYTES = 64 << 10
FIGURES = {
    "peak": "peak RssAnon",
    "peak_part": "its allocator-caused part",
    "mean": "RssAnon, mean over each run's own time",
    "mean_part": "its allocator-caused part",
    "aligned_mean": "RssAnon, mean over the recording's time",
    "aligned_mean_part": "its allocator-caused part",
    "vm_size": "peak VmSize",
    "cpu_change": "change of CPU time, by calls alone",
}
# Figures of a comparison of replays (results_file.py) -> the error that they carry: a replay has the allocator's part
# only. For CPU time: the points by which the change, in percent of the baseline's replay, was off.
CARRIED = {"peak_rss": "peak_part", "mean_rss": "aligned_mean_part", "vm_size": "vm_size", "bare_cpu": "cpu_points"}
# Figures of memory: key in the raw results, key of the program's own part, kind of the live runs that have it.
MEMORY = {
    "peak": ("rss_anon_peak_bytes", "own_at_peak_bytes", "memory"),
    "mean": ("rss_anon_mean_bytes", "own_mean_bytes", "memory"),
    "aligned_mean": ("rss_anon_aligned_mean_bytes", "own_aligned_mean_bytes", "recorded"),
    "vm_size": ("vm_size_peak_bytes", None, "memory"),
}

FEWEST_PAIRS = 20  # of program and allocator: with fewer, no error is carried


def errors(results: Sequence[dict]) -> pd.DataFrame:
    """One row per app, allocator and figure. Columns: app, set, threads, allocator, figure, live, predicted, error
    (percent; NaN where it can't be determined), noise (of the live repetitions, percent of live).

    Live and predicted are in bytes, also for the baseline. For cpu_change they are in percent of the program's live CPU
    time on the baseline, and the error is in percent of the live change.
    """
    rows: list[dict] = []
    for data in results:
        app = data["app"]
        about = {"app": app["name"], "set": app.get("set", ""), "threads": app.get("threads", 0)}
        for label, predicted in data["predicted"].items():
            rows += [about | {"allocator": label} | row for row in _memory_rows(data, label, predicted)]
        rows += [about | row for row in _cpu_rows(data)]
    columns = ["app", "set", "threads", "allocator", "figure", "live", "predicted", "error", "noise"]
    return pd.DataFrame(rows, columns=columns)


def live_values(data: dict, label: str, kind: str, key: str) -> np.ndarray:
    """A figure of the live runs on an allocator, by repetition: of the runs of that kind, of all if there are none."""
    kinds = {run["kind"] for run in data["live"]}
    runs = [run for run in data["live"] if run["allocator"] == label and (run["kind"] == kind or kind not in kinds)]
    return np.array([run[key] for run in runs if key in run], dtype=float)


def cpu_of_replays(data: dict, label: str) -> np.ndarray:
    """CPU time of the bare replays in ns, by repetition."""
    runs = [run for run in data["replays"] if run["allocator"] == label and run["pass"] == "bare"]
    return np.array([run["cpu_ns"] for run in runs if "cpu_ns" in run], dtype=float)


def _memory_rows(data: dict, label: str, predicted: dict) -> list[dict]:
    rows = []
    for figure, (key, own_key, kind) in MEMORY.items():
        values = live_values(data, label, kind, key)
        if not len(values) or key not in predicted:
            continue
        live = float(np.median(values))
        spread = float(np.ptp(values)) if len(values) > 1 else np.nan
        rows.append(_row(figure, live, predicted[key], spread))
        if own_key and own_key in predicted:
            own = predicted[own_key]
            rows.append(_row(f"{figure}_part", live - own, predicted[key] - own, spread))
    return rows


def _row(figure: str, live: float, predicted: float, spread: float) -> dict:
    error = 100 * (predicted - live) / live if live > 0 else np.nan
    noise = 100 * spread / live if live > 0 else np.nan
    return {"figure": figure, "live": live, "predicted": predicted, "error": error, "noise": noise}


def _cpu_rows(data: dict) -> list[dict]:
    base, base_replay = live_values(data, BASELINE, "time", "cpu_ns"), cpu_of_replays(data, BASELINE)
    rows = []
    for label in data["predicted"]:
        values, replays = live_values(data, label, "time", "cpu_ns"), cpu_of_replays(data, label)
        if label == BASELINE or not (len(base) and len(values) and len(base_replay) and len(replays)):
            continue
        whole = float(np.median(base))
        live = 100 * (float(np.median(values)) - whole) / whole
        predicted = 100 * (float(np.median(replays)) - float(np.median(base_replay))) / whole
        repeated = min(len(values), len(base)) > 1
        noise = 100 * (np.ptp(values) + np.ptp(base)) / whole if repeated else np.nan
        error = 100 * (predicted - live) / abs(live) if live else np.nan
        about = {"allocator": label, "figure": "cpu_change", "live": live, "predicted": predicted}
        rows.append(about | {"error": error, "noise": float(noise)})
        scale = whole / float(np.median(base_replay))
        points = {"figure": "cpu_points", "live": live * scale, "predicted": predicted * scale}
        rows.append(about | points | {"error": (predicted - live) * scale, "noise": float(noise) * scale})
    return rows


def pairs(results: Sequence[dict], figure: str) -> pd.DataFrame:
    """Each two allocators of each app, by `figure` ("cpu" or one of MEMORY): app, set, a, b, live and predicted (a less
    b, as a percentage of b's live value), beyond_noise (the repetitions' ranges do not overlap), right (the prediction
    has the live sign). The baseline is one of the allocators: only the program's own part was calibrated on it.
    """
    rows = []
    for data in results:
        live, predicted = _by_label(data, figure)
        for a, b in combinations(predicted, 2):
            difference = float(np.median(live[a]) - np.median(live[b]))
            floor = 0.0 if figure == "cpu" else SMALL_BYTES
            repeated = min(len(live[a]), len(live[b])) > 1
            apart = repeated and (live[a].min() > live[b].max() or live[b].min() > live[a].max())
            said = predicted[a] - predicted[b]
            unit = float(np.median(live[b])) / 100
            rows.append(
                {"app": data["app"]["name"], "set": data["app"].get("set", ""), "a": a, "b": b}
                | {"live": difference / unit, "predicted": said / unit}
                | {"beyond_noise": bool(apart and abs(difference) > floor), "right": said * difference > 0}
            )
    columns = ["app", "set", "a", "b", "live", "predicted", "beyond_noise", "right"]
    return pd.DataFrame(rows, columns=columns)


def _by_label(data: dict, figure: str) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    live, predicted = {}, {}
    key, _, kind = MEMORY.get(figure, ("", None, ""))
    for label, one in data["predicted"].items():
        if figure == "cpu":
            values, replays = live_values(data, label, "time", "cpu_ns"), cpu_of_replays(data, label)
            if len(values) and len(replays):
                live[label], predicted[label] = values, float(np.median(replays))
        else:
            values = live_values(data, label, kind, key)
            if len(values) and key in one:
                live[label], predicted[label] = values, one[key]
    return live, predicted


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """From `errors`: per figure the median, 90th percentile and worst of the errors' sizes in percent, the number of
    app and allocator pairs, and which was worst. The baseline is left out.
    """
    rows = []
    for figure in FIGURES:
        part = table[(table["figure"] == figure) & (table["allocator"] != BASELINE)].dropna(subset=["error"])
        if figure == "cpu_change":
            part = clear_changes(part)
        if not part.empty:
            rows.append({"figure": figure, "count": len(part)} | sizes_of_errors(part))
    return pd.DataFrame(rows, columns=["figure", "median", "p90", "worst", "count", "worst_at"])


def sizes_of_errors(part: pd.DataFrame) -> dict:
    """median, p90 and worst of the absolute errors (NaN without rows), and worst_at: which app on which allocator.
    `part`: rows whose error is known.
    """
    size = part["error"].astype(float).abs()
    worst_at = "" if part.empty else "{app} on {allocator}".format(**part.loc[size.idxmax()])
    quantiles = {"median": float(size.median()), "p90": float(size.quantile(0.9))}
    return quantiles | {"worst": float(size.max()), "worst_at": worst_at}


def clear_changes(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose live change exceeds the noise of its repetitions: only for these a prediction can be judged."""
    return table[table["live"].abs() > table["noise"]]


def carried_errors(results: Sequence[dict]) -> dict:
    """The table that comparisons carry (fidelity.py): for each figure the 90th percentile of the absolute errors in
    percent, over all allocators and for each allocator.
    """
    table = errors(results)
    others = table[table["allocator"] != BASELINE]
    figures = {}
    for name, figure in CARRIED.items():
        part = others[others["figure"] == figure].dropna(subset=["error"])
        part = clear_changes(part) if figure == "cpu_points" else part
        if len(part) < FEWEST_PAIRS:
            continue
        each = {str(label): _ninth(rows["error"]) for label, rows in part.groupby("allocator", sort=True)}
        figures[name] = {"all": _ninth(part["error"]), "allocators": each}
    apps = [data["app"]["name"] for data in results]
    return {"schema": 1, "baseline": BASELINE, "apps": apps, "figures": figures}


def _ninth(values: pd.Series) -> dict:
    return {"p90": round(float(values.abs().quantile(0.9)), 3), "pairs": int(len(values))}
