# SPDX-License-Identifier: MIT
"""Curves of a sweep, with their intervals."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from heaptape.common.output import write_bytes
from heaptape.show.figures.axes import MIB, style

WIDE_SPAN = 64  # if the largest value is this many times the smallest, the axis is logarithmic
MOST_TICKS = 10


def sweep_curve(axes: Axes, frame: pd.DataFrame, figure: str, workload: str | None = None) -> None:
    """One curve per allocator of `sweeps.sweep`: x = the tunable's value, y = the figure, with its 95 % interval.

    `figure`: one of the frame's; `workload`: which, if it has several. The run that does not set the tunable is a
    horizontal line. Total cycles are in millions, RSS in MiB, other figures in cycles. Raises ValueError if there is
    nothing to draw.
    """
    here = frame[(frame["figure"] == figure) & (frame["workload"] == workload if workload is not None else True)]
    if here.empty or here["workload"].nunique() > 1:
        raise ValueError(f"{figure}: {'several workloads' if len(here) else 'no such figure'}")
    divisor, unit = _unit(figure)
    colours = {allocator: number for number, allocator in enumerate(frame["allocator"].unique())}
    for allocator, curve in here.groupby("allocator", sort=False):
        look = style(colours[allocator])
        points = curve[curve["value"].notna()].sort_values("value")
        mean = points["mean"] / divisor
        low, high = points["mean_low"] / divisor, points["mean_high"] / divisor
        errors = np.nan_to_num(np.array([mean - low, high - mean]))
        axes.errorbar(
            points["value"], mean, yerr=errors, label=str(allocator), marker="o", markersize=3, capsize=2, **look
        )
        for level in curve.loc[curve["value"].isna(), "mean"]:
            axes.axhline(level / divisor, color=look["color"], linewidth=0.8, alpha=0.6, label=f"{allocator}, default")
    _value_axis(axes, np.sort(here["value"].dropna().unique()))
    axes.set_xlabel(str(here["tunable"].iloc[0]))
    axes.set_ylabel(f"{_named(figure)}, {unit}")


def write(frame: pd.DataFrame, path: str, figures: Sequence[str] = ("total_cycles", "peak_rss")) -> None:
    """Draws the `figures` of every workload of a sweep into a file (.svg, .pdf, .png): a row per workload."""
    import io

    import matplotlib
    from matplotlib.figure import Figure

    workloads = list(dict.fromkeys(frame["workload"]))
    present = [figure for figure in figures if figure in set(frame["figure"])] or list(frame["figure"].unique()[:1])
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "heaptape"}):
        drawn = Figure(figsize=(4.6 * len(present), 3.2 * len(workloads)), layout="constrained")
        grid = drawn.subplots(len(workloads), len(present), squeeze=False)
        for row, workload in zip(grid, workloads):
            for axes, figure in zip(row, present):
                sweep_curve(axes, frame, figure, workload)
                axes.set_title(workload, fontsize=9)
        grid[0][0].legend(fontsize=8, frameon=False)
        out = io.BytesIO()
        kind = Path(path).suffix[1:]
        drawn.savefig(out, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_bytes(path, out.getvalue())


def _value_axis(axes: Axes, values: np.ndarray) -> None:
    least = max(values[values > 0].min(initial=np.inf), 1)
    if len(values) > 2 and values[-1] > WIDE_SPAN * least:
        axes.set_xscale("symlog", linthresh=least, base=2)
        axes.set_xlim(-0.3 * least if values[0] <= 0 else 0.8 * values[0], 1.25 * values[-1])
    axes.set_xticks(values if len(values) <= MOST_TICKS else values[:: -(-len(values) // MOST_TICKS)])
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(values) > MOST_TICKS // 2:
        axes.tick_params("x", labelrotation=45, labelsize="small")


def _unit(figure: str) -> tuple[float, str]:
    if figure == "total_cycles":
        return 1e6, "M"
    return (MIB, "MiB") if figure.endswith("_rss") else (1.0, "cycles")


def _named(figure: str) -> str:
    names = {"total_cycles": "cycles in allocator calls", "peak_rss": "peak RSS", "mean_rss": "mean RSS"}
    return names.get(figure, figure.removeprefix("calls/"))
