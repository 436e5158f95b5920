# SPDX-License-Identifier: MIT
"""Whole figures of who holds memory, for `heaptape blame --graph`, for a notebook, or to save as a picture.

    figure = heaptape.memory_figures.figure_holders(results, "jemalloc", theme=heaptape.memory_figures.DARK)
    figure.savefig("memory.png", dpi=100)

None if the file has no data for it. They are 8.2 inches wide: 820 pixels at 100 dpi, and the width of a printed page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heaptape.passes import blame_data
from heaptape.results import margins
from heaptape.results.schema import Results
from heaptape.show.figures import axes as plots
from heaptape.show.figures import memory_plots

WIDTH_IN, LEFT_IN, TOP_IN, BOTTOM_IN, GAP_IN = 8.2, 0.68, 0.3, 0.5, 0.36
# Of a time line: more can't be seen in this width.
# Groups with their own colour, and columns of the key: names of call stacks are long.
DRAWN_HOLDERS, HOLDER_COLUMNS = 7, 3


@dataclass(frozen=True)
class Theme:
    """Colours of paper and ink. paper "none" is transparent."""

    paper: str
    ink: str


LIGHT = Theme("#ffffff", "#1c1c1f")
DARK = Theme("#16161a", "#e6e6ea")


def figure_holders(
    results: Results, allocators: str | Sequence[str], by: str = "site", *, theme: Theme = LIGHT
) -> Figure | None:
    """RSS over progress by who holds it: for the largest groups of the grouping `by` (site, function, thread, size,
    phase, age) live bytes and those held beside them; one panel per allocator, two side by
    side, all with one scale. None if no run has them. Raises HeaptapeError if one is malformed.
    """
    frame = blame_data.holding(results, by)
    largest = blame_data.largest(frame, DRAWN_HOLDERS)

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
