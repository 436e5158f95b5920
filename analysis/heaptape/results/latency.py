# SPDX-License-Identifier: MIT
"""Percentiles of single calls, by call type and size class, from the histograms that a time pass keeps."""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from heaptape.results.schema import Results, label_of, number, unique_name

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
# With fewer calls than these, the percentile would be the maximum.
FEWEST_CALLS = {"p90": 10, "p99": 100, "p999": 1000}
FIGURES = ("count", "mean", *SHARES, "max")
SUB_BITS = 5  # the histogram's buckets: 32 to the octave (replay/passes/time/histogram.h)


def latency(files: Sequence[Results]) -> pd.DataFrame:
    """Cycles of single calls: one row per (workload, allocator, call, size class).

    Columns: workload, allocator, call, up_to_bytes (the size class: the largest request, which is above that of the
    class before; infinite: larger requests than in any other class; NaN: all sizes together), count, mean, p50, p90,
    p99, p999, max (cycles, less the counter's cost), repetitions. Medians over the repetitions, except max: the largest
    seen. NaN: missing, or too few calls (FEWEST_CALLS). Percentiles are the run's own if it has them, else from its
    histogram, to the width of a bucket (3 %).
    """
    rows: list[dict] = []
    names: dict[tuple, str] = {}
    for file in files:
        name = unique_name(file, names)
        for run in file.runs:
            if run.get("pass", "time") == "time" and isinstance(run.get("calls"), dict):
                about = {"workload": name, "allocator": label_of(run)}
                rows += [about | row for row in _run_rows(run)]
    keys = ["workload", "allocator", "call", "up_to_bytes"]
    frame = pd.DataFrame(rows, columns=[*keys, *FIGURES]).astype(dict.fromkeys(("up_to_bytes", *FIGURES), float))
    for figure, fewest in FEWEST_CALLS.items():
        frame.loc[frame["count"] < fewest, figure] = math.nan
    how = {figure: (figure, "max" if figure == "max" else "median") for figure in FIGURES}
    grouped = frame.groupby(keys, sort=False, dropna=False).agg(**how, repetitions=("count", "size"))
    return grouped.reset_index()


def percentile(histogram: Iterable, share: float, overhead: float = 0.0) -> float:
    """The value that a share (0 to 1) of all values does not exceed: the middle of its bucket; NaN if there is none.

    `histogram`: [lower bound less the counter's overhead, count] in order of bound, as in results. `overhead`: what was
    subtracted, as the width of a bucket follows from its raw bound.
    """
    rows = [row for row in histogram if isinstance(row, list) and len(row) >= 2]
    lower = np.array([number(row[0]) or 0.0 for row in rows])
    counts = np.array([number(row[1]) or 0.0 for row in rows])
    if counts.sum() <= 0:
        return math.nan
    rank = min(math.floor(share * counts.sum()), counts.sum() - 1)
    bound = float(lower[int(np.searchsorted(np.cumsum(counts), rank, side="right"))])
    raw = int(bound + round(overhead))
    width = 1 if raw < 2 << SUB_BITS else 1 << (raw.bit_length() - 1 - SUB_BITS)
    return bound + (width - 1) // 2


def _run_rows(run: dict) -> Iterator[dict]:
    overhead = number(run.get("counter_overhead_cycles")) or 0.0
    for call, detail in run["calls"].items():
        if not isinstance(detail, dict):
            continue
        yield {"call": call, "up_to_bytes": math.nan} | _figures(detail, overhead)
        for size in detail.get("sizes") or []:
            if isinstance(size, dict):
                bound = number(size.get("up_to_bytes"))
                up_to = math.inf if bound is None else bound
                yield {"call": call, "up_to_bytes": up_to} | _figures(size, overhead)


def _figures(detail: dict, overhead: float) -> dict[str, float | None]:
    found = {figure: number(detail.get(figure)) for figure in FIGURES}
    histogram = detail.get("histogram")
    for figure, share in SHARES.items():
        if found[figure] is None and isinstance(histogram, list):
            found[figure] = percentile(histogram, share, overhead)
    return found
