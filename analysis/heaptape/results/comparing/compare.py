# SPDX-License-Identifier: MIT
"""Comparison tables: what each allocator cost per workload, and the same as percentages of a baseline.

They are shaped like the tables of the tcache benchmarks: Total, mean cycles per malloc, calloc, realloc and free, RSS;
then percentages with their mean over the workloads.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.common.errors import HeaptapeError, unknown
from heaptape.results.comparing.intervals import (
    LogRatio,
    Method,
    combined,
    is_exact,
    log_ratio,
    mean_of,
    steadied,
    too_noisy,
)
from heaptape.results.schema import OF_WORKLOAD, Results, all_results, figures

GEOMETRIC, ARITHMETIC = "geometric mean", "arithmetic mean"
MAIN_CALLS = ("malloc", "calloc", "realloc", "free")


def choose_baseline(files: Sequence[Results], wanted: str | None) -> str:
    """The allocator that percentages refer to: `wanted`, else what the programs were recorded on, if it is one, else
    glibc, else the first. Raises HeaptapeError if it is unknown.
    """
    labels = allocator_order(files)
    if not labels:
        raise HeaptapeError("the results hold no runs")
    if wanted is None:
        own = list(dict.fromkeys(file.workload.recorded_on for file in files))
        usual = [*own, "glibc"] if len(own) == 1 else ["glibc", *own]
        return next((label for label in usual if label in labels), None) or labels[0]
    if wanted not in labels:
        raise unknown("baseline", wanted, labels, "the results have")
    return wanted


def allocator_order(files: Sequence[Results]) -> list[str]:
    """Labels of all files in the order in which they first appear."""
    return list(dict.fromkeys(label for file in files for label in file.labels))


def absolute(table: pd.DataFrame) -> pd.DataFrame:
    """Mean of each metric over the repetitions.

    From `schema.figures`; one row per (workload, allocator), one column per metric, in units of the metric
    (cycles, bytes, calls, ns). NaN: missing.
    """
    if table.empty:
        return pd.DataFrame(index=pd.MultiIndex.from_arrays([[], []], names=["workload", "allocator"]))
    with np.errstate(over="ignore"):  # the mean of a damaged file's figures may be infinite
        wide = table.pivot_table(
            index=["workload", "allocator"], columns="metric", values="value", aggfunc="mean", sort=False
        )
    return wide.rename_axis(columns=None)


def repetitions(table: pd.DataFrame) -> pd.DataFrame:
    """The number of repetitions of each figure of `absolute`; same shape, 0 where there is none."""
    wide = table.pivot_table(
        index=["workload", "allocator"], columns="metric", values="value", aggfunc="count", sort=False
    )
    return wide.rename_axis(columns=None).fillna(0).astype(int)


def relative(table: pd.DataFrame, baseline: str, method: Method = "t") -> pd.DataFrame:
    """Each figure as a percentage of the baseline's, with the 95 % interval (of Student's t, or bootstrapped).

    From `schema.figures`. Columns: workload, allocator, metric, percent, low, high (percent; NaN if one repetition or
    none), repetitions, supported (True: the interval does not include 100; False: it does; None: not known, with one
    repetition), reason (why the percentage should not be shown as a number: the interval spans a factor of two or more,
    and the difference may be less than that; else empty), exact (the same in every repetition, for both). The last rows
    have the workloads "geometric mean" and "arithmetic mean". A metric that the baseline lacks, or where it is zero,
    has no row.
    """
    rows: list[dict] = []
    ratios: dict[tuple[str, str], list[LogRatio]] = {}
    shown = table[~table["metric"].isin(OF_WORKLOAD)].set_index("round")
    keys = [shown[key].to_numpy() for key in ("workload", "metric", "allocator")]
    series = {key: steadied(values, key[1]) for key, values in shown["value"].groupby(keys, sort=False)}
    for (workload, metric, allocator), values in series.items():
        base = series.get((workload, metric, baseline))
        if base is None or allocator == baseline:
            continue
        ratio = log_ratio(base, values)
        if ratio is not None:
            ratios.setdefault((metric, allocator), []).append(ratio)
            about = {"workload": workload, "allocator": allocator, "metric": metric}
            rows.append(about | percent_row(ratio, method) | {"exact": is_exact(base) and is_exact(values)})
    exact = {(row["metric"], row["allocator"], row["workload"]): row["exact"] for row in rows}
    for (metric, allocator), found in ratios.items():
        here = [known for (m, a, _), known in exact.items() if (m, a) == (metric, allocator)]
        about = {"allocator": allocator, "metric": metric, "exact": all(here)}
        rows.append({"workload": GEOMETRIC} | about | percent_row(mean_of(found), method))
        rows.append({"workload": ARITHMETIC} | about | arithmetic_row(found, method))
    columns = ["workload", "allocator", "metric", "percent", "low", "high", "repetitions", "supported", "reason"]
    columns += ["exact"]
    types = {"percent": float, "low": float, "high": float, "supported": object, "reason": object, "exact": bool}
    return pd.DataFrame(rows, columns=columns).astype(types)


def exactness(table: pd.DataFrame) -> pd.DataFrame:
    """Which figures of `absolute` were the same in every repetition, of at least two; same shape."""
    rows: dict[tuple[str, str], dict[str, bool]] = {}
    grouped = table.groupby(["workload", "allocator", "metric"], sort=False)["value"]
    for (workload, allocator, metric), values in grouped:
        rows.setdefault((workload, allocator), {})[metric] = is_exact(steadied(values, metric))
    index = pd.MultiIndex.from_tuples(list(rows), names=["workload", "allocator"])
    return pd.DataFrame(list(rows.values()), index=index).fillna(False).astype(bool)


def long_table(files: Sequence[Results], baseline: str, method: Method = "t") -> pd.DataFrame:
    """`absolute` and `relative` side by side, one figure per row, for CSV and JSON.

    Columns: workload, allocator, metric, unit, value (mean over repetitions), repetitions, percent, low, high,
    supported, reason, exact (of the percentage), as in `relative`. The mean rows have no value. The baseline's percent
    is 100 without an interval.
    """
    table = figures(files)
    keys = ["workload", "allocator", "metric"]
    with np.errstate(over="ignore"):  # as in `absolute`
        values = (
            table.groupby([*keys, "unit"], sort=False)
            .agg(value=("value", "mean"), repetitions=("value", "count"))
            .reset_index()
        )
    percents = relative(table, baseline, method).drop(columns=["repetitions"])
    merged = values.merge(percents, on=keys, how="outer", sort=False)
    merged.loc[(merged["allocator"] == baseline) & ~merged["metric"].isin(OF_WORKLOAD), "percent"] = 100.0
    merged["reason"] = merged["reason"].fillna("")
    merged["repetitions"] = merged["repetitions"].astype("Int64")
    order = {name: number for number, name in enumerate(dict.fromkeys([*table["workload"], GEOMETRIC, ARITHMETIC]))}
    ranks = {name: number for number, name in enumerate(allocator_order(files))}
    merged["_workload"], merged["_allocator"] = merged["workload"].map(order), merged["allocator"].map(ranks)
    merged = merged.sort_values(["_workload", "_allocator", "metric"], kind="stable")
    return merged.drop(columns=["_workload", "_allocator"]).reset_index(drop=True)


def as_shown(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with `reason` as for CSV and JSON: without percentage and interval where there is a reason, and without
    the interval of a mean that spans as much.
    """
    if "mean_low" in frame.columns:
        wide = [bool(too_noisy(low, high, 0)) for low, high in zip(frame["mean_low"], frame["mean_high"])]
        frame = frame.assign(**{name: frame[name].mask(np.array(wide, bool)) for name in ("mean_low", "mean_high")})
    if "reason" not in frame.columns:
        return frame
    noisy = frame["reason"] != ""
    hidden = [name for name in ("percent", "low", "high") if name in frame.columns]
    hidden += ["value"] * ("column" in frame.columns)  # the matrix of corners
    return frame.assign(**{name: frame[name].mask(noisy) for name in hidden})


def percent_row(ratio: LogRatio, method: Method = "t") -> dict:
    """The keys percent, low, high, repetitions, supported, reason of `relative`."""
    low, high = ratio.interval(method=method)
    return _row((100 * ratio.ratio, 100 * low, 100 * high), ratio)


def arithmetic_row(ratios: list[LogRatio], method: Method = "t") -> dict:
    """`percent_row` for the mean of the percentages.

    A ratio's error is about the ratio times its logarithm's error.
    """
    percents = [100 * r.ratio for r in ratios]
    mean = combined(sum(percents) / len(percents), [(p / len(percents), r) for p, r in zip(percents, ratios)])
    low, high = mean.bounds(method=method)
    return _row((mean.mean, max(low, 0.0), high), mean_of(ratios))


def _row(interval: tuple[float, float, float], ratio: LogRatio) -> dict:
    """`interval`: percent, and the ends of its interval over the repetitions; `ratio`: of which it is."""
    percent, low, high = interval
    reason = too_noisy(low, high, ratio.repetitions, ratio.apart)
    supported = None if math.isnan(low) else bool(low > 100 or high < 100)
    row = {"percent": percent, "low": low, "high": high, "repetitions": ratio.repetitions, "supported": supported}
    return row | {"reason": reason}


def compared(*files: Results | str | Path, baseline: str | None = None) -> pd.DataFrame:
    """What each allocator costs, and the same as a percentage of the baseline's: `heaptape.compare(...)` calls this.

    `files`: results, or paths of results files and reports; several are several workloads. `baseline`: one of
    their allocators; by default as `choose_baseline`. Returns `long_table`: one row per workload, allocator and
    metric. Raises HeaptapeError for an unknown baseline, and what `heaptape.all_results` raises.

    >>> import heaptape
    >>> table = heaptape.compare("small.json", baseline="glibc")
    >>> list(table.columns[:6])
    ['workload', 'allocator', 'metric', 'unit', 'value', 'repetitions']
    >>> one = table[(table["allocator"] == "jemalloc") & (table["metric"] == "total_cycles")].iloc[0]
    >>> bool(one["low"] < one["percent"] < one["high"]), int(one["repetitions"])
    (True, 2)
    """
    read = [each for file in files for each in ([file] if isinstance(file, Results) else all_results(file))]
    return long_table(read, choose_baseline(read, baseline))
