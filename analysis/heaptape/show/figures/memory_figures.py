# SPDX-License-Identifier: MIT
"""Whole figures of one allocator's memory, for the report, for a notebook, or to save as a picture.

    figure = heaptape.memory_figures.figure_memory(results, "jemalloc", theme=heaptape.memory_figures.DARK)
    figure.savefig("memory.png", dpi=100)

Each takes a results file and an allocator's label, and returns None if the file has no data for it. They are
8.2 inches wide: 820 pixels at 100 dpi, and the width of a printed page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from heaptape.passes import fragmentation
from heaptape.results import margins
from heaptape.results.blame import GROUP
from heaptape.results.memory_map import CompactMap
from heaptape.results.schema import Results, number
from heaptape.results.structs import Run, timeline_frame
from heaptape.show.figures import axes as plots
from heaptape.show.figures import memory_plots

WIDTH_IN, LEFT_IN, TOP_IN, BOTTOM_IN, GAP_IN = 8.2, 0.68, 0.3, 0.5, 0.36
# Of a time line: more can't be seen in this width.
DRAWN_SAMPLES = 500
# Groups with their own colour, and columns of the key: names of call stacks are long.
DRAWN_HOLDERS, HOLDER_COLUMNS = 7, 3


@dataclass(frozen=True)
class Theme:
    """Colours of paper and ink. paper "none" is transparent."""

    paper: str
    ink: str


LIGHT = Theme("#ffffff", "#1c1c1f")
DARK = Theme("#16161a", "#e6e6ea")


def figure_memory(
    results: Results, allocator: str, *, theme: Theme = LIGHT, height_bytes: int | None = None,
    compact: CompactMap | None = None,
) -> Figure | None:  # fmt: skip
    """Memory by address over progress, and under it, on the same x axis, live bytes, ideal, RSS and VmSize; if the
    allocator offers a heap walk, its states too.

    `height_bytes`: the span of the address axis, for one scale over several allocators. `compact`: the map, if it is
    already decoded (`Results.memory_maps`). None if the file has no memory map of this allocator. Raises HeaptapeError
    if the map is malformed.
    """
    run = _memory_run(results, allocator, "memory_map")
    if run is None:
        return None
    if compact is None:
        compact = results.memory_maps()[allocator]
    found = fragmentation.decode(run)
    states = found if found is not None and len(found.walk_states) > 0 else None
    with matplotlib.rc_context(plots.look(theme.ink) | {"hatch.linewidth": 0.7}):
        figure, axes = _panels([3.1, 1.15, 0.45, *([1.35] if states else [])], theme, right_in=0.95)
        memory_plots.memory_map(axes[0], compact, height_bytes, theme.ink)
        _map_key(axes[0], compact, theme)
        timeline = plots.thinned(timeline_frame(run.timeline), DRAWN_SAMPLES)
        if len(timeline):
            memory_plots.memory_curves(axes[1], timeline, number(results.workload.get("ideal_rss_bytes")), theme.ink)
            memory_plots.virtual_size_curve(axes[2], timeline, theme.ink)
            _key(axes[1])
            _key(axes[2])
        if states:
            memory_plots.heap_states(axes[3], fragmentation.heap_states(states), theme.ink)
            _key(axes[3])
        _finish(axes, compact.positions)
        return _with_stand_in_note(figure, results, theme)


def figure_occupancy(results: Results, allocators: str | Sequence[str], *, theme: Theme = LIGHT) -> Figure | None:
    """Resident OS pages over progress, by how full of live requests they are: one panel per allocator, two side by
    side, all with one scale. None if the file has no such data of any of them. Raises HeaptapeError if the data are
    malformed.
    """

    def draw(axes: Axes, fills: pd.DataFrame) -> float:
        memory_plots.occupancy(axes, fills)
        return fills[list(fragmentation.FILLS)].sum(axis=1).max()

    return _with_stand_in_note(
        _grid(fragmentation.occupancy(results), allocators, theme, draw, 6, 0.75), results, theme
    )


def figure_decomposition(results: Results, allocators: str | Sequence[str], *, theme: Theme = LIGHT) -> Figure | None:
    """The parts of RSS over progress: panels as in `figure_occupancy`. None if the file has no such data of any of
    them. Raises HeaptapeError if the data are malformed.
    """

    def draw(axes: Axes, parts: pd.DataFrame) -> float:
        memory_plots.decomposition(axes, parts, theme.ink)
        return parts["rss_anon_bytes"].max() / memory_plots.MIB

    return _with_stand_in_note(_grid(fragmentation.decomposition(results), allocators, theme, draw, 5), results, theme)


def figure_holders(
    results: Results, allocators: str | Sequence[str], by: str = "site", *, theme: Theme = LIGHT
) -> Figure | None:
    """RSS over progress by who holds it: for the largest groups of the grouping `by` (site, function, thread, size,
    phase, age) live bytes and those held beside them; panels as in `figure_occupancy`. None if no run has the pass
    blame. Raises HeaptapeError if one is malformed.
    """
    frame = results.blame(by)
    groups = frame[frame["kind"] == GROUP]
    sizes = groups[["live_bytes", "rounding_bytes", "empty_bytes"]].sum(axis=1).groupby(groups["number"]).sum()
    largest = sizes.sort_values(ascending=False, kind="stable").index[:DRAWN_HOLDERS].tolist()

    def draw(axes: Axes, rows: pd.DataFrame) -> float:
        layers = memory_plots.holder_layers(rows, largest)
        memory_plots.holders(axes, layers, theme.ink)
        return axes.get_ylim()[1] / 1.05

    rows = -(-(len(largest) + 4) // HOLDER_COLUMNS)
    return _with_stand_in_note(
        _grid(frame, allocators, theme, draw, HOLDER_COLUMNS, 0.45 + 0.17 * rows), results, theme
    )


def _with_stand_in_note(figure: Figure | None, results: Results, theme: Theme) -> Figure | None:
    """The figure, with a note if its workload stands for another."""
    one = margins.stand_in(results.workload)
    if figure is not None and one is not None:
        note = f"of the distillate itself ({one.made_of}), not an estimate of the whole's"
        figure.text(0.995, 0.01, note, ha="right", va="bottom", fontsize=7, color=theme.ink)
    return figure


def _grid(
    frame: pd.DataFrame,
    allocators: str | Sequence[str],
    theme: Theme,
    draw: Callable[[Axes, pd.DataFrame], float],
    key_columns: int,
    top_in: float = 0.55,
) -> Figure | None:
    """A panel per allocator that the frame has rows of. draw: draws them and returns how high they reach."""
    there = set(frame["allocator"])
    known = [label for label in ([allocators] if isinstance(allocators, str) else allocators) if label in there]
    if not known:
        return None
    columns = min(len(known), 2)
    rows = -(-len(known) // columns)
    height_in = (2.0 if rows > 1 else 2.4) * rows + top_in + 0.2
    with matplotlib.rc_context(plots.look(theme.ink) | {"hatch.linewidth": 0.7}):
        figure = Figure(figsize=(WIDTH_IN, height_in), facecolor=theme.paper)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        figure.subplots_adjust(
            left=LEFT_IN / WIDTH_IN, right=1 - 0.15 / WIDTH_IN, bottom=BOTTOM_IN / height_in,
            top=1 - top_in / height_in, wspace=0.06, hspace=0.26,
        )  # fmt: skip
        tops = []
        for axes, label in zip(grid.flat, known):
            tops.append(draw(axes, frame[frame["allocator"] == label]))
            axes.set_title(label, loc="left", fontsize=9, fontweight="bold")
            axes.label_outer()
        for axes in grid.flat[len(known) :]:
            axes.set_visible(False)
            grid[-2, 1].xaxis.set_tick_params(labelbottom=True)
        grid[0, 0].set_ylim(0, 1.05 * max(*tops, 1 / memory_plots.MIB))
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="upper center", ncols=key_columns, columnspacing=1.2, handlelength=1.4, fontsize=8
        )
    return figure


def _panels(heights_in: Sequence[float], theme: Theme, right_in: float) -> tuple[Figure, list[Axes]]:
    """Panels under one another with one x axis, at fixed places: a computed layout would double the time."""
    height_in = TOP_IN + sum(heights_in) + GAP_IN * (len(heights_in) - 1) + BOTTOM_IN
    figure = Figure(figsize=(WIDTH_IN, height_in), facecolor=theme.paper)
    axes: list[Axes] = []
    top = height_in - TOP_IN
    for height in heights_in:
        box = (LEFT_IN / WIDTH_IN, (top - height) / height_in, 1 - (LEFT_IN + right_in) / WIDTH_IN, height / height_in)
        axes.append(figure.add_axes(box, sharex=axes[0] if axes else None))
        top -= height + GAP_IN
    for above in axes[:-1]:
        above.tick_params(labelbottom=False)
    return figure, axes


def _memory_run(results: Results, allocator: str, key: str) -> Run | None:
    found = (run for run in results.measured if getattr(run, key) is not None and run.label == allocator)
    return next(found, None)


def _key(axes: Axes) -> None:
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=8, borderaxespad=0.1, handlelength=1.5,
        columnspacing=1.2, fontsize=8,
    )  # fmt: skip


def _map_key(axes: Axes, compact: CompactMap, theme: Theme) -> None:
    """Draws the key above the map: the ramp of fullness, the colour of empty regions, and the size of a cell."""
    # Not inset axes, which would cost as much as the graph. Each step reaches to the end, so that no seams show.
    steps = [Rectangle((0.2 * n / 16, 1.025), 0.2 - 0.2 * n / 16, 0.035) for n in range(16)]
    steps.append(Rectangle((0.44, 1.025), 0.03, 0.035))
    colours = [*memory_plots.FULLNESS(np.linspace(0, 1, 16)), memory_plots.EMPTY_COLOUR]
    key = PatchCollection(steps, facecolors=colours, transform=axes.transAxes, clip_on=False)
    axes.add_collection(key, autolim=False)
    at: dict[str, Any] = {
        "xycoords": "axes fraction",
        "va": "center",
        "fontsize": 8,
        "color": theme.ink,
        "annotation_clip": False,
    }
    axes.annotate("a little live to full", (0.21, 1.0425), **at)
    axes.annotate("resident, nothing live", (0.48, 1.0425), **at)
    cell = memory_plots.size_text(compact.region_bytes)
    axes.annotate(f"a cell is {cell}", (1.0, 1.0425), ha="right", **at)


def _finish(axes: Sequence[Axes], positions: np.ndarray) -> None:
    """One x axis: labelled at the bottom only, to the last position."""
    for each in axes[:-1]:
        each.set_xlabel("")
    if len(positions):
        axes[0].set_xlim(0, max(int(positions[-1]), 1))
    for each in axes:
        each.yaxis.set_label_coords(-0.52 / (WIDTH_IN * each.get_position().width), 0.5)
