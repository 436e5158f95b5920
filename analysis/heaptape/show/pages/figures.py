# SPDX-License-Identifier: MIT
"""The report's figures: inline SVG whose ink follows the page, light or dark, each with a text alternative.

Drawing takes most of the report's time: one Figure per picture, drawn by `svg.py`, memory maps as images in the SVG.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heaptape.common.errors import HeaptapeError
from heaptape.common.tables import Table
from heaptape.passes import sharing
from heaptape.results.comparing.compare import relative
from heaptape.results.schema import Results, call_details, figures
from heaptape.show.figures import axes as plots
from heaptape.show.figures import line_sharing_plots, memory_figures
from heaptape.show.pages.svg import svg

STYLE: dict[Any, Any] = plots.look(plots.INK) | {
    # Not savefig's "transparent": it would also remove the colours of legends.
    "figure.facecolor": "none",
    "axes.titlesize": 9,
    "path.simplify_threshold": 0.4,
}
WIDTH_IN = 8.2
# Calls beyond the busiest few are only in the tables.
LATENCY_CALLS = 6
# A time line has up to 4,096 samples, a figure about 600 points of width.
DRAWN_SAMPLES = 600


@dataclass(frozen=True)
class Picture:
    """A figure: SVG text, a caption, and its content in words."""

    title: str
    svg: str
    caption: str
    words: str


@dataclass(frozen=True)
class Gallery:
    """Pictures that belong together, under one heading, with sentences before them, and tables and a flame graph (SVG)
    after them. `leads`: the gallery comes before the section's tables.
    """

    title: str
    pictures: list[Picture]
    about: str = ""
    leads: bool = False
    sentences: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    flame: str = ""

    @property
    def id(self) -> str:
        """Its name in links, unique within its workload."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.title.lower())


def galleries(file: Results, order: Sequence[str], baseline: str) -> list[Gallery]:
    """All figures of one workload, in the report's order. Raises HeaptapeError for a malformed memory map."""
    found = [
        Gallery(
            "Against the baseline",
            [*against_baseline([file], order, baseline), *_trade(file, order, baseline)],
            leads=True,
        ),
        Gallery("Memory over progress", _progress(file)),
        Gallery(
            "Memory usage by address",
            _maps(file),
            "Progress to the right, addresses upwards; addresses that were never used are left out, at the thin lines. "
            "All graphs have the same scale. Below, on the same axis: live bytes, RSS and VmSize.",
        ),
        Gallery("What resident memory consists of", _decomposition(file, order)),
        Gallery(
            "Resident OS pages by fill",
            _occupancies(file, order),
            "Resident OS pages by how much of each holds live requests.",
        ),
        Gallery(
            "Latency per call",
            _latencies(file, order),
            "Cycles per call, on a logarithmic scale: median, mean, 99th and 99.9th percentile, and the longest seen. "
            "The cost of reading the counter is subtracted; values below 1 are then drawn at 1.",
        ),
        Gallery(
            "Cache lines that threads share",
            _sharing(file),
            "A line of 64 bytes is shared while objects of two threads are live on it: if both write, it moves between "
            "their caches.",
        ),
        Gallery("Request sizes", _sizes(file)),
    ]
    return [gallery for gallery in found if gallery.pictures]


def against_baseline(files: Sequence[Results], order: Sequence[str], baseline: str) -> list[Picture]:
    """Instructions, cycles and memory as percentages of the baseline: for one workload, or the mean of several."""
    percents = _percents(files, baseline)
    metrics = {
        "total_instructions": f"instructions in allocator calls, % of {baseline}",
        "total_cycles": f"cycles in allocator calls, % of {baseline}",
        "peak_rss": f"peak RSS, % of {baseline}",
    }
    shown = {metric: name for metric, name in metrics.items() if metric in set(percents["metric"])}
    rows = [label for label in order if label in set(percents["allocator"])]
    if not shown or not rows:
        return []

    def draw(axes: np.ndarray) -> None:
        for cell, (metric, name) in zip(axes[0], shown.items()):
            plots.against_baseline(cell, percents[percents["metric"] == metric], rows)
            cell.set_xlabel(name)

    caption = (
        "Left is better. Bars: 95 % intervals, cut at the edge; a hollow point is a difference that the repetitions do "
        "not support."
    )
    if len(files) > 1:
        caption += " Large points: the geometric mean over the workloads; small points: each of them."
    words = "; ".join(_percents_in_words(percents, metric, rows) for metric in shown)
    salt = salt_of(*(file.name for file in files), "baseline")
    height = 0.75 + 0.27 * len(rows)
    picture = partial(Picture, "Instructions, cycles and memory", caption=caption, words=words)
    return [_draw(picture, salt, height, draw, columns=len(shown), left_in=_label_width_in(rows), sharey=True)]


def _percents(files: Sequence[Results], baseline: str) -> pd.DataFrame:
    """`compare.relative` of instructions, cycles and peak RSS only: every further metric would take as long."""
    table = figures(files)
    return relative(table[table["metric"].isin(("total_instructions", "total_cycles", "peak_rss"))], baseline)


def _percents_in_words(percents: pd.DataFrame, metric: str, rows: Sequence[str]) -> str:
    """The overall percentage of each allocator: the geometric mean, where there are several workloads."""
    here = percents[percents["metric"] == metric]
    here = here[here["workload"] == "geometric mean"].set_index("allocator")
    what = {"total_instructions": "instructions", "total_cycles": "cycles", "peak_rss": "peak RSS"}[metric]
    shown = here["percent"].map("{:.0f} %".format).where(here["reason"] == "", "too noisy")
    return f"{what}: " + ", ".join(f"{label} {shown[label]}" for label in rows if label in shown.index)


def _trade(file: Results, order: Sequence[str], baseline: str) -> list[Picture]:
    percents = _percents([file], baseline)
    percents = percents[~percents["workload"].str.endswith(" mean")]
    cost = plots.cost_of_calls(percents)
    if not {cost, "peak_rss"} <= set(percents["metric"]):
        return []

    def draw(axes: np.ndarray) -> None:
        plots.time_against_memory(axes[0, 0], percents, order, baseline)

    what = cost.removeprefix("total_")
    caption = (
        f"Left is fewer {what}, down is smaller. Bars: 95 % intervals, cut at the edge. The lines cross at {baseline}."
    )
    words = f"The same percentages, {what} against peak RSS"
    picture = partial(Picture, f"{what.capitalize()} against memory", caption=caption, words=words)
    return [_draw(picture, salt_of(file.name, "trade"), 3.6, draw)]


def _progress(file: Results) -> list[Picture]:
    whole = file.timelines()
    if not whole:
        return []
    timelines = {label: plots.thinned(frame, DRAWN_SAMPLES) for label, frame in whole.items()}
    recorded = file.workload.get("recorded")
    recorded = recorded if isinstance(recorded, list) else []

    def draw(axes: np.ndarray) -> None:
        for row, column in enumerate(("rss_anon_bytes", "vm_size_bytes")):
            plots.memory_over_progress(axes[row, 0], timelines, column, recorded)
        axes[0, 0].set_xlabel("")
        _legend_above(axes[0, 0])

    caption = (
        "The allocator's own RSS and VmSize (less the engine's) against recorded progress. The grey area is "
        "the program's live bytes: anything above it is overhead."
    )
    peaks = (f"{label} {frame['rss_anon_bytes'].max() / plots.MIB:,.1f} MiB" for label, frame in whole.items())
    words = f"RSS peaks: {', '.join(peaks)}"
    picture = partial(Picture, "Memory over progress", caption=caption, words=words)
    lines = (len(timelines) + 2 + 4) // 5
    top_in = 0.1 + 0.19 * lines
    return [_draw(picture, salt_of(file.name, "progress"), 4.9 + top_in, draw, rows=2, top_in=top_in, sharex=True)]


def _sizes(file: Results) -> list[Picture]:
    sizes = file.workload.get("request_sizes")
    if not isinstance(sizes, list) or not sizes:
        return []

    def draw(axes: np.ndarray) -> None:
        plots.request_sizes(axes[0, 0], axes[0, 1], sizes)

    rows = sorted(sizes, key=lambda row: -row[1])[:3]
    words = f"Most requests are of {', '.join(f'{row[0]:,.0f}' for row in rows)} bytes and a little more"
    caption = "The program's requests by size: left their number, right their bytes."
    picture = partial(Picture, "Request sizes", caption=caption, words=words)
    return [_draw(picture, salt_of(file.name, "sizes"), 2.4, draw, columns=2)]


def _maps(file: Results) -> list[Picture]:
    """One memory-usage graph per allocator, all with one scale."""
    maps = file.memory_maps()
    height = max((map_.height_bytes for map_ in maps.values()), default=0)
    pictures = []
    for label, map_ in maps.items():
        figure = memory_figures.figure_memory(file, label, theme=memory_figures.PAGE, height_bytes=height, compact=map_)
        if map_.fullness.size == 0 or figure is None:  # nothing was ever live: no picture rather than an empty one
            continue
        stretches = len(map_.starts)
        caption = (
            f"{map_.height_bytes / plots.MIB:,.1f} MiB of addresses were used, in {stretches} "
            f"stretch{'es' * (stretches != 1)}."
        )
        full = map_.fullness[map_.fullness > 0]
        words = f"On average a used region is {100 * full.mean() if len(full) else 0:.0f} % full"
        pictures.append(Picture(label, svg(figure, salt_of(file.name, "map", label)), caption, words))
    return pictures


def _occupancies(file: Results, order: Sequence[str]) -> list[Picture]:
    """Resident OS pages by how full they are, a panel per allocator."""
    figure = memory_figures.figure_occupancy(file, order, theme=memory_figures.PAGE)
    if figure is None:
        return []
    drawn = svg(figure, salt_of(file.name, "occupancy"))
    words = "Resident OS pages over progress, from empty to full of live requests"
    return [Picture("Resident OS pages by fill", drawn, "One panel per allocator, all with one scale.", words)]


def _decomposition(file: Results, order: Sequence[str]) -> list[Picture]:
    figure = memory_figures.figure_decomposition(file, order, theme=memory_figures.PAGE)
    if figure is None:
        return []
    drawn = svg(figure, salt_of(file.name, "decomposition"))
    panels = sum(axes.get_visible() for axes in figure.axes)
    words = f"RSS of {panels} allocator{'s' * (panels != 1)} over progress, split into what it is used for"
    return [Picture("What RSS consists of", drawn, "One panel per allocator, all with one scale.", words)]


def _latencies(file: Results, order: Sequence[str]) -> list[Picture]:
    details = call_details([file]).dropna(subset=["p50", "p999"])
    pictures = []
    busiest = details.groupby("call")["count"].sum().sort_values(ascending=False).index[:LATENCY_CALLS]
    for call in busiest:
        here = details[details["call"] == call]

        def draw(axes: np.ndarray, here: pd.DataFrame = here) -> None:
            plots.latencies(axes[0, 0], here, order)
            _legend_above(axes[0, 0])

        words = "Medians in cycles: " + ", ".join(f"{row.allocator} {row.p50:,.0f}" for row in here.itertuples())
        labels = list(here["allocator"].unique())
        picture = partial(Picture, str(call), caption="", words=words)
        height, left_in = 0.8 + 0.25 * len(labels), _label_width_in(labels)
        salt = salt_of(file.name, "latency", call)
        pictures.append(_draw(picture, salt, height, draw, left_in=left_in, top_in=0.32))
    return pictures


def _sharing(file: Results) -> list[Picture]:
    """Shared lines over progress, and for each allocator under which threads share lines, which pairs do."""
    runs = sharing.first_runs(file)
    try:
        frames = {label: sharing.progress(counts) for label, counts in runs.items()}
        matrices = {label: sharing.thread_matrix(counts) for label, counts in runs.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise HeaptapeError(f"{file.path}: line_sharing of a run can't be read: {error}") from error
    frames = {label: frame for label, frame in frames.items() if len(frame)}
    if not frames:
        return []

    def draw(axes: np.ndarray) -> None:
        for column, percent in enumerate((False, True)):
            line_sharing_plots.over_progress(axes[0, column], frames, percent)
        _legend_above(axes[0, 0])

    peaks = (f"{label} {frame['shared_lines'].max():,.0f}" for label, frame in frames.items())
    picture = partial(Picture, "Over progress", caption="", words=f"Most lines shared: {', '.join(peaks)}")
    top_in = 0.1 + 0.19 * ((len(frames) + 4) // 5)
    pictures = [_draw(picture, salt_of(file.name, "sharing"), 2.4 + top_in, draw, columns=2, top_in=top_in)]
    for label, matrix in matrices.items():
        if matrix.empty:
            continue

        def draw_matrix(axes: np.ndarray, matrix: pd.DataFrame = matrix) -> None:
            line_sharing_plots.matrix(axes[0, 0], matrix)

        words = f"Pairs of threads that share lines, of {len(matrix)} threads"
        picture = partial(Picture, f"Threads under {label}", caption="", words=words)
        pictures.append(_draw(picture, salt_of(file.name, "sharers", label), 3.4, draw_matrix))
    return pictures


def _legend_above(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, fontsize=8, columnspacing=1.2, handlelength=1.6)


def salt_of(*words: object) -> str:
    """The prefix of a figure's ids, by words that no other figure of the page has. Short, as each tick has it."""
    return "f" + hashlib.sha256("-".join(map(str, words)).encode()).hexdigest()[:10]


def _draw(
    picture: Callable[[str], Picture],
    salt: str,
    height_in: float,
    draw: Callable[[np.ndarray], None],
    rows: int = 1,
    columns: int = 1,
    left_in: float = 0.65,
    right_in: float = 0.1,
    top_in: float = 0.1,
    **options: Any,  # noqa: ANN401
) -> Picture:
    """Draws into rows × columns of Axes. Margins are given: computing them would take half of the total time."""
    figure = Figure(figsize=(WIDTH_IN, height_in))
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    figure.subplots_adjust(
        left=left_in / WIDTH_IN, right=1 - right_in / WIDTH_IN, top=1 - top_in / height_in, bottom=0.48 / height_in,
        hspace=0.1, wspace=0.03 if options.get("sharey") else 0.2,
    )  # fmt: skip
    draw(axes)
    return picture(svg(figure, salt))


def _label_width_in(labels: Sequence[str]) -> float:
    """Room for tick labels of 9 points at the left."""
    return 0.25 + 0.078 * max(map(len, labels), default=0)
