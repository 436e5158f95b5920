# SPDX-License-Identifier: MIT
"""Percentiles of single calls, by call type and size class, from the histograms of a time pass."""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from heaptape.results.structs import Cycles, Run

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
# With fewer calls than these, the percentile would be the maximum.
FEWEST_CALLS = {"p90": 10, "p99": 100, "p999": 1000}
FIGURES = ("count", "mean", *SHARES, "max")
OVER_REPETITIONS = {"mean": "mean", "max": "max"}  # of the others the median; the mean is that of table `cycles`
SUB_BITS = 5  # the histogram's buckets: 32 to the octave (replay/passes/time/timing.h)


def latency(runs: Iterable[tuple[str, Run]], classes: bool = True) -> pd.DataFrame:
    """Cycles of single calls: one row per (workload, allocator, call, size class). `runs`: each with its workload;
    `classes`: with the rows of size classes, not only of all sizes together.

    Columns: workload, allocator, call, up_to_bytes (the size class: the largest request, which is above that of the
    class before; infinite: larger requests than in any other class; NaN: all sizes together), count, mean, p50, p90,
    p99, p999, max (cycles, less the counter's cost), repetitions. Medians over the repetitions; of mean the mean; of
    max the largest seen. NaN: missing, or too few calls (FEWEST_CALLS). Percentiles are the run's own if it has them,
    else from its histogram, to the width of a bucket (3 %).
    """
    rows: list[dict] = []
    for name, run in runs:
        if run.pass_ in (None, "", "time"):
            rows += [{"workload": name, "allocator": run.label} | row for row in _run_rows(run, classes)]
    keys = ["workload", "allocator", "call", "up_to_bytes"]
    frame = pd.DataFrame(rows, columns=[*keys, *FIGURES]).astype(dict.fromkeys(("up_to_bytes", *FIGURES), float))
    for figure, fewest in FEWEST_CALLS.items():
        frame.loc[frame["count"] < fewest, figure] = math.nan
    how = {figure: (figure, OVER_REPETITIONS.get(figure, "median")) for figure in FIGURES}
    grouped = frame.groupby(keys, sort=False, dropna=False).agg(**how, repetitions=("count", "size"))
    return grouped.reset_index()


def percentile(histogram: Sequence[Sequence[float]], share: float, overhead: float = 0.0) -> float:
    """The value that a share (0 to 1) of all values does not exceed: the middle of its bucket; NaN if there is none.

    `histogram`: [lower bound less the counter's overhead, count] in order of bound, as in results. `overhead`: what was
    subtracted, as the width of a bucket follows from its raw bound.
    """
    lower = np.array([row[0] for row in histogram], float)
    counts = np.array([row[1] for row in histogram], float)
    if counts.sum() <= 0:
        return math.nan
    rank = min(math.floor(share * counts.sum()), counts.sum() - 1)
    bound = float(lower[int(np.searchsorted(np.cumsum(counts), rank, side="right"))])
    raw = int(bound + round(overhead))
    width = 1 if raw < 2 << SUB_BITS else 1 << (raw.bit_length() - 1 - SUB_BITS)
    return bound + (width - 1) // 2


def _run_rows(run: Run, classes: bool) -> Iterator[dict]:
    overhead = run.counter_overhead_cycles or 0.0
    for call, detail in (run.calls or {}).items():
        yield {"call": call, "up_to_bytes": math.nan} | _figures(detail, overhead)
        for size in (detail.sizes or []) if classes else []:
            up_to = math.inf if size.up_to_bytes is None else size.up_to_bytes
            yield {"call": call, "up_to_bytes": up_to} | _figures(size, overhead)


def _figures(detail: Cycles, overhead: float) -> dict[str, float | None]:
    own: dict[str, float | None] = {figure: getattr(detail, figure, None) for figure in FIGURES}
    if detail.histogram is not None:
        for figure, share in SHARES.items():
            if own[figure] is None:
                own[figure] = percentile(detail.histogram, share, overhead)
    return own
