# SPDX-License-Identifier: MIT
"""Two samples drawn and compared as BSD's ministat(1) does: an ASCII sketch of the distributions, then Student's t.

Pooled, unpaired, on the plain values, as BSD users expect; so not what `intervals` does (paired, on logarithms). If the
two disagree, trust the pairs: a round's runs share their noise.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy

from heaptape.results.comparing.intervals import too_noisy
from heaptape.results.schema import Results, figures

WIDTH = 74
SYMBOLS = "x+*%#@O"
LEVEL = 0.95
METRICS = ("total_cycles", "bare_cpu", "peak_rss")


def distributions(files: Sequence[Results], baseline: str) -> str:
    """A sketch per workload and metric of METRICS: the baseline's repetitions, then the other allocators'.

    More allocators than SYMBOLS has are drawn in several sketches, each with the baseline.
    """
    found = []
    for (workload, metric, unit), group in figures(files).groupby(["workload", "metric", "unit"], sort=False):
        samples = {name: values["value"].to_list() for name, values in group.groupby("allocator", sort=False)}
        if metric not in METRICS or baseline not in samples:
            continue
        others = [name for name in samples if name != baseline]
        for begin in range(0, max(len(others), 1), len(SYMBOLS) - 1):
            shown = [baseline, *others[begin : begin + len(SYMBOLS) - 1]]
            found.append(f"{workload}: {metric} ({unit})\n" + ministat({name: samples[name] for name in shown}))
    return "\n".join(found)


def ministat(samples: dict[str, Sequence[float]], width: int = WIDTH) -> str:
    """The sketch and table of named samples, and the difference of each from the first.

    Values are in one unit; each sample has at least one value, and there are at most as many samples as
    SYMBOLS. Raises ValueError otherwise.
    """
    if not samples or len(samples) > len(SYMBOLS) or not all(len(values) for values in samples.values()):
        raise ValueError(f"ministat needs 1 to {len(SYMBOLS)} samples of one value or more")
    named = dict(zip(SYMBOLS, samples.items()))
    lines = [f"{symbol} {name}" for symbol, (name, _) in named.items()]
    lines += _sketch({symbol: np.asarray(values, float) for symbol, (_, values) in named.items()}, width)
    lines.append(f"    {'N':>3} {'Min':>13} {'Max':>13} {'Median':>13} {'Avg':>13} {'Stddev':>13}")
    first = np.asarray(next(iter(samples.values())), float)
    for symbol, (_, values) in named.items():
        sample = np.asarray(values, float)
        lines.append(_row(symbol, sample))
        if symbol != SYMBOLS[0]:
            lines += _difference(first, sample)
    return "\n".join(lines) + "\n"


def _sketch(samples: dict[str, np.ndarray], width: int) -> list[str]:
    everything = np.concatenate(list(samples.values()))
    low, high = float(everything.min()), float(everything.max())
    scale = (width - 1) / (high - low) if high > low else 0.0

    def column(value: float) -> int:
        return min(max(round((value - low) * scale), 0), width - 1)

    stacks: list[list[str]] = [[] for _ in range(width)]
    for symbol, sample in samples.items():
        for value in np.sort(sample):
            stacks[column(value)].append(symbol)
    height = max(len(stack) for stack in stacks)
    rows = ["".join(s[level] if level < len(s) else " " for s in stacks) for level in reversed(range(height))]
    bars = [_bar(sample, column, width) for sample in samples.values()]
    edge = f"+{'-' * width}+"
    return [edge, *[f"|{row}|" for row in [*rows, *bars]], edge]


def _bar(sample: np.ndarray, column: Callable[[float], int], width: int) -> str:
    """Average A and median M, and bars one standard deviation to both sides."""
    average, spread = float(sample.mean()), float(sample.std(ddof=1)) if len(sample) > 1 else 0.0
    left, right = column(average - spread), column(average + spread)
    cells = [" "] * width
    if right > left:
        cells[left : right + 1] = ["|", *["_"] * (right - left - 1), "|"]
    cells[column(float(np.median(sample)))] = "M"
    cells[column(average)] = "A"
    return "".join(cells)


def _row(symbol: str, sample: np.ndarray) -> str:
    spread = sample.std(ddof=1) if len(sample) > 1 else math.nan
    figures = (sample.min(), sample.max(), np.median(sample), sample.mean(), spread)
    return f"{symbol}   {len(sample):>3} " + " ".join(f"{figure:>13.8g}" for figure in figures)


def _difference(first: np.ndarray, other: np.ndarray) -> list[str]:
    freedom = len(first) + len(other) - 2
    if min(len(first), len(other)) < 2:
        return ["No comparison: one value is not a sample"]
    pooled = math.sqrt((first.var(ddof=1) * (len(first) - 1) + other.var(ddof=1) * (len(other) - 1)) / freedom)
    half = scipy.special.stdtrit(freedom, (1 + LEVEL) / 2) * pooled * math.sqrt(1 / len(first) + 1 / len(other))
    difference = float(other.mean() - first.mean())
    if abs(difference) <= half:
        return [f"No difference proven at {100 * LEVEL:.1f}% confidence"]
    lines = [f"Difference at {100 * LEVEL:.1f}% confidence"]
    base, middle = float(first.mean()), float(other.mean())
    if base > 0 and (reason := too_noisy((middle - half) / base, (middle + half) / base, len(other))):
        return [*lines, f"\t{reason}"]
    lines.append(f"\t{difference:.6g} +/- {half:.6g}")
    if base != 0:
        lines.append(f"\t{100 * difference / base:.6g}% +/- {100 * half / abs(base):.6g}%")
    return [*lines, f"\t(Student's t, pooled s = {pooled:.6g})"]
