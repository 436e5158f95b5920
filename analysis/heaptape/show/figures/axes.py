# SPDX-License-Identifier: MIT
"""Plots of results. Each draws into an Axes that it is given, so that it works in a notebook and in the report.

Lines have the colours and dashes of show/drawing.py, maps those of cividis, which suits colour blindness.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import (
    EngFormatter,
    FixedFormatter,
    Formatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from heaptape.common import escape
from heaptape.common.tables import MIB, cut
from heaptape.show.drawing import INK, OKABE_ITO, style

MAP_COLOURS = "cividis"
WIDEST_PT, THINNEST_PT = 2.6, 1.1  # lines: the first, the last
BESIDE_IN = 0.13  # a name that near to its point needs no pointer


def look(ink: str) -> dict:
    """rcParams of figures whose axes and text have that colour, without a frame or a background. No text is a
    formula.
    """
    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
    plain = {"axes.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    letters = {"font.family": "sans-serif", "font.size": 9, "axes.titlesize": "medium", "legend.fontsize": 8,
               "text.parse_math": False}  # fmt: skip
    return letters | dict.fromkeys(inked, ink) | plain


def saved(figure: Figure, out: IO, **settings: Any) -> None:  # noqa: ANN401
    """`figure.savefig`, in which names are only texts: without control characters, which no SVG may have."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if isinstance(given := axis.get_major_formatter(), FixedFormatter | FuncFormatter):
            axis.set_major_formatter(FuncFormatter(functools.partial(_label, given)))
    _escape_texts(figure)
    figure.savefig(out, **settings)


def _escape_texts(figure: Figure) -> None:
    for text in figure.findobj(Text):
        text.set_text(escape.lines(text.get_text()))


def _label(given: Formatter, value: float, place: int | None) -> str:
    return escape.lines(given(value, place))


def line_width(number: int, count: int) -> float:
    """Points, of the number-th of `count` lines: each is thinner than those before it, which stay visible beneath it
    where both have the same values.
    """
    widest = WIDEST_PT * rcParams["font.size"] / 9
    return widest - (widest - THINNEST_PT) * number / (count - 1) if count > 1 else 1.4


def key_below(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], most: int = 6) -> Legend:
    """A legend below the axes, in as many columns up to `most` as the figure is wide enough for, and room for it."""
    size_pt = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    room = max(int(figure.get_figwidth() * 72 / (0.6 * size_pt)) - 8, 4)
    names = [cut(escape.lines(label), room) for label in labels]
    for columns in range(min(most, len(names)), 0, -1):
        legend = figure.legend(handles, names, ncols=columns, loc="lower center")
        if columns == 1 or legend.get_window_extent().width < 0.98 * figure.bbox.width:
            break
        legend.remove()
    height_in = figure.get_figheight() + -(-len(names) // columns) * 1.5 * size_pt / 72 + 0.1
    figure.set_figheight(height_in)
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    room = (legend.get_window_extent().height / figure.dpi + 2 * layout.get()["h_pad"]) / height_in
    layout.set(rect=(0, room, 1, 1 - room))  # as loc="outside lower center", which Matplotlib 3.6 lacks
    return legend


def memory_over_progress(
    axes: Axes, timelines: Mapping[str, pd.DataFrame], column: str, recorded: Sequence = ()
) -> None:
    """One line per allocator of `column` ("rss_anon_bytes" or "vm_size_bytes") over progress, with live bytes beneath.

    `recorded`: rows [position, rss_anon_bytes, vm_size_bytes] of the recorded process itself.
    """
    for number, (label, frame) in enumerate(timelines.items()):
        width = line_width(number, len(timelines))
        axes.plot(frame["position"], frame[column] / MIB, label=label, linewidth=width, **style(number))
    longest = max(timelines.values(), key=len, default=None)
    if longest is not None:
        axes.fill_between(
            longest["position"], longest["live_bytes"] / MIB, color=INK, alpha=0.25, linewidth=0, label="live bytes"
        )
    if len(recorded) and column == "rss_anon_bytes":
        rows = np.array([row[:2] for row in recorded], float)
        axes.plot(rows[:, 0], rows[:, 1] / MIB, color=INK, linestyle=":", linewidth=1.2, label="whole recorded process")
    axes.set_ylim(bottom=0)
    axes.set_ylabel({"rss_anon_bytes": "RSS, MiB", "vm_size_bytes": "VmSize, MiB"}[column])
    progress_axis(axes)


def request_sizes(counts: Axes, sizes: Axes, buckets: Sequence) -> None:
    """The number of requests by size, and the bytes requested by size. `buckets`: rows [smallest request, count,
    bytes].
    """
    rows = np.array([row[:3] for row in buckets], float).reshape(-1, 3)
    left = np.maximum(rows[:, 0], 0.5)
    # Buckets without requests are not listed, so a bucket ends where the next would begin by the usual ratio of
    # bounds.
    ratio = float(np.median(left[1:] / left[:-1])) if len(left) > 1 else 2.0
    right = np.minimum(np.append(left[1:], np.inf), left * max(ratio, 1.01))
    for axes, values, name in ((counts, rows[:, 1], "requests"), (sizes, rows[:, 2], "bytes requested")):
        share = 100 * values / max(values.sum(), 1)
        axes.bar(left, share, width=right - left, align="edge", color=OKABE_ITO[0], linewidth=0)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=6))
        axes.set_xlabel("size of a request")
        axes.set_ylabel(f"% of {name}")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_label(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())


def latencies(axes: Axes, details: pd.DataFrame, order: Sequence[str]) -> None:
    """Median to p99.9 of one call type, one row per allocator. `details`: rows of schema.call_details of one
    call.
    """
    markers = {"p50": "|", "mean": "o", "p99": "D", "p999": "s", "max": "x"}
    labels = [label for label in order if label in set(details["allocator"])]
    # A percentile can be 0 after the counter's cost is subtracted; a logarithmic axis can't show that.
    rows = details.set_index("allocator").loc[labels, list(markers)].clip(lower=1)
    colours = [style(list(order).index(label))["color"] for label in labels]
    places = np.arange(len(labels))
    ends = rows[["p50", "mean", "p99", "p999"]].ffill(axis=1)["p999"]  # of few calls there are no such percentiles
    axes.hlines(places, rows["p50"], ends, colors=colours, linewidth=1.5, alpha=0.6)
    for key, marker in markers.items():
        size = 80 if key == "p50" else 26
        name = {"p999": "p99.9"}.get(key, key)
        axes.scatter(
            rows[key], places, size, colours, marker=marker, linewidth=1.2 if marker in "|x" else 0, label=name
        )
    axes.set_xscale("log")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel("cycles")
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="x", alpha=0.3)


def against_baseline(axes: Axes, percents: pd.DataFrame, labels: Sequence[str]) -> None:
    """One metric in percent of the baseline, one row per allocator, with its 95 % interval; hollow: not supported.

    `percents`: rows of compare.relative or compare.long_table of one metric. With several workloads, the
    large point is their geometric mean, and each workload a small one. If there is a `reason` against the number,
    "too noisy" is shown in its place.
    """
    single = percents[~percents["workload"].str.endswith(" mean")]
    several = single["workload"].nunique() > 1
    main = percents[percents["workload"] == "geometric mean"] if several else single
    main = main.drop_duplicates("allocator").set_index("allocator")
    sure = [frame[frame["reason"] == ""] if "reason" in frame.columns else frame for frame in (main, single)]
    for number, label in enumerate(labels):
        if several:
            here = sure[1].loc[sure[1]["allocator"] == label, "percent"]
            axes.plot(here, [number] * len(here), ".", color=INK, alpha=0.55, markersize=4)
        if label in main.index and main.loc[label].get("reason"):
            axes.text(100, number, " too noisy", color=INK, alpha=0.7, va="center", fontsize="small")
        elif label in main.index:
            row = main.loc[label]
            colour = OKABE_ITO[0 if row["percent"] <= 100 else 1]
            fill = colour if row["supported"] is True or row["supported"] == 1 else "none"
            axes.errorbar(
                [row["percent"]], [number], xerr=_error(row), fmt="o", color=colour, markerfacecolor=fill,
                markersize=6, capsize=2.5, linewidth=1.4,
            )  # fmt: skip
    shown = [100.0, *sure[0]["percent"], *(sure[1]["percent"] if several else [])]
    room = max(0.12 * (max(shown) - min(shown)), 4)
    axes.set_xlim(min(shown) - room, max(shown) + room)
    axes.axvline(100, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.25)
    letters = len(f"{max(shown) + room:.0f}") + 2  # of a label, and between two
    fit = 72 * axes.bbox.width / axes.figure.dpi / (0.62 * rcParams["font.size"] * letters)
    axes.xaxis.set_major_locator(MaxNLocator(min(max(int(fit), 2), 6)))


def cost_of_calls(percents: pd.DataFrame) -> str:
    """The best metric for the cost of calls: instructions if they were counted, else cycles."""
    return "total_instructions" if "total_instructions" in set(percents["metric"]) else "total_cycles"


def time_against_memory(axes: Axes, percents: pd.DataFrame, order: Sequence[str], baseline: str) -> None:
    """Each allocator at (`cost_of_calls`, peak RSS), both in percent of the baseline, with intervals.

    `percents`: rows of compare.relative of one workload. An allocator with a `reason` against its number is left out.
    """
    if "reason" in percents.columns:
        percents = percents[percents["reason"] == ""]
    cost = cost_of_calls(percents)
    time, memory = (percents[percents["metric"] == m].set_index("allocator") for m in (cost, "peak_rss"))
    points, bars = [], []
    for number, label in enumerate(order):
        at = (100.0, 100.0)
        colour = style(number)["color"]
        if label == baseline:
            axes.plot([100], [100], "o", color=colour)
        elif label in time.index and label in memory.index:
            x, y = time.loc[label], memory.loc[label]
            at = (x["percent"], y["percent"])
            axes.errorbar([at[0]], [at[1]], xerr=_error(x), yerr=_error(y), fmt="o", color=colour, capsize=2)
            bars += [] if pd.isna(x["low"]) else [(x["low"], at[1], x["high"], at[1])]
            bars += [] if pd.isna(y["low"]) else [(at[0], y["low"], at[0], y["high"])]
        else:
            continue
        points.append((label, *at))
    # The points set the scale: a very wide interval would press them all together. Its bar runs off the edge.
    for setter, values in ((axes.set_xlim, [x for _, x, _ in points]), (axes.set_ylim, [y for *_, y in points])):
        room = max(0.3 * (max(values) - min(values)), 2) if values else 2
        setter(max(min(values, default=100) - room, 0), max(values, default=100) + room)
    axes.axhline(100, color=INK, linewidth=0.6)
    axes.axvline(100, color=INK, linewidth=0.6)
    axes.set_xlabel(f"{cost.removeprefix('total_')} in calls, % of {baseline}")
    axes.set_ylabel(f"peak memory, % of {baseline}")
    axes.xaxis.set_major_locator(MaxNLocator(7))
    if isinstance(axes.figure, Figure):
        _escape_texts(axes.figure)
        axes.figure.draw_without_rendering()  # the layout, and with it the size of the axes
    _label_points(axes, points, bars)


def corners(
    axes: Axes, matrix: pd.DataFrame, labels: Mapping[str, str], shown: Callable[[str], tuple[str, str, float]]
) -> None:
    """Each figure of four allocators in percent of the first: a group of bars per figure. `matrix`: of
    corner_tables.corner_matrix, of one workload; `labels`: corner -> allocator; `shown`: a figure's name and unit.
    """
    wide = matrix.pivot_table(index="figure", columns="column", values="value", sort=False)
    wide = wide.reindex(columns=list(labels)).dropna()
    places = np.arange(len(wide))
    for number, (corner, label) in enumerate(labels.items()):
        percents = 100 * wide[corner] / wide[next(iter(labels))]
        axes.bar(places + 0.2 * (number - 1.5), percents, 0.19, color=OKABE_ITO[number], label=label)
    inches = axes.bbox.width / axes.figure.dpi / len(wide)
    names = [_corner_name(*shown(figure)[:2], crowded=inches < 0.75) for figure in wide.index]
    upright = inches < 0.4
    axes.set_xticks(places, [" ".join(name.replace("_\n", "_").split()) if upright else name for name in names])
    axes.tick_params(axis="x", labelrotation=90 * upright)
    axes.axhline(100, color=INK, linewidth=0.8)
    axes.set_ylabel(f"% of {next(iter(labels.values()))}")


def _corner_name(title: str, unit: str, crowded: bool) -> str:
    if unit == "mean cycles":
        title = title.replace("_", "_\n").replace(" ", "\n")
        return f"cycles\nper\n{title}" if crowded else f"cycles per\n{title}"
    name = title.removeprefix("Total ").replace("Peak", "peak")
    return name.replace("instructions", "instr.").replace(" ", "\n") if crowded else name


def _label_points(axes: Axes, points: Sequence[tuple[str, float, float]], bars: Sequence[Sequence[float]]) -> None:
    """Writes names beside points, each where there is neither a name, a point, a line of the baseline nor one of `bars`
    (left, low, right, high) yet, and nearer to its point than to others: beside it, some lines above or below, else
    anywhere; left out where there is no room. With a pointer where it is not beside.
    """
    letter_pt = 0.9 * rcParams["font.size"]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    inches = axes.bbox.width / axes.figure.dpi, axes.bbox.height / axes.figure.dpi
    width, height = 0.6 * letter_pt / 72 / inches[0], 1.25 * letter_pt / 72 / inches[1]  # of a letter, of a line
    places = {label: ((x - left) / (right - left), (y - low) / (high - low)) for label, x, y in points}
    half = 0.05 / inches[0], 0.05 / inches[1]
    taken = [(x - half[0], y - half[1], x + half[0], y + half[1]) for x, y in places.values()]
    across, up = (100 - left) / (right - left), (100 - low) / (high - low)
    taken += [(across, 0, across, 1), (0, up, 1, up)]
    corner, span = np.array([left, low] * 2), np.array([right - left, high - low] * 2)
    taken += [tuple((np.array(bar) - corner) / span) for bar in bars]

    def apart(box: Sequence[float], point: Sequence[float]) -> float:
        gaps = [max(box[side] - point[side], point[side] - box[side + 2], 0) * inches[side] for side in (0, 1)]
        return math.hypot(*gaps)

    def is_free(box: Sequence[float]) -> bool:
        covers = any(box[0] <= t[2] and box[2] >= t[0] and box[1] < t[3] and box[3] > t[1] for t in taken)
        return not covers and box[0] >= 0 and box[2] <= 1.02 and box[1] >= 0 and box[3] <= 1

    for label, x, y in sorted(points, key=lambda point: (-point[2], point[1])):
        at, wide = places[label], width * len(label)
        lines = (at[1] + line * height for line in (-0.5, 0.1, -1.1, 1.1, -2.1, 2.1, -3.1, 3.1))
        near = itertools.product(lines, (at[0] + 2 * half[0], at[0] - 2 * half[0] - wide))
        anywhere = itertools.product(np.arange(0, 1, height / 2), np.arange(0, 1, width))
        free, far = (
            [box for low, left in corners if is_free(box := (left, low, left + wide, low + height))]
            for corners in (near, anywhere)
        )
        free = free or sorted(far, key=lambda box: apart(box, at))[:1]  # noqa: B023
        anothers = {box: min(places, key=lambda name: apart(box, places[name])) != label for box in free}  # noqa: B023
        if not free:
            continue  # it would cover something
        box = min(free, key=anothers.__getitem__)
        taken.append(box)
        pointer = {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(
            label, (x, y), xytext=(box[0], box[1] + 0.2 * height), textcoords="axes fraction", fontsize=letter_pt,
            arrowprops=pointer if anothers[box] or apart(box, at) > BESIDE_IN else None,
        )  # fmt: skip


def _error(row: pd.Series) -> list[list[float]] | None:
    if pd.isna(row["low"]):
        return None
    return [[max(row["percent"] - row["low"], 0)], [max(row["high"] - row["percent"], 0)]]


def progress_axis(axes: Axes, end: float | None = None) -> None:
    """Progress in ops along x, from 0."""
    axes.margins(x=0)  # first: setting a limit fixes the other one
    axes.set_xlim(left=0, right=end)
    axes.set_xlabel("progress, ops")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def size_label(value: float) -> str:
    """A size in bytes as the label of an axis, in binary units."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"
