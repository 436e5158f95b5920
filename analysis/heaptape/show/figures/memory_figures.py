# SPDX-License-Identifier: MIT
"""Whole figures of who holds memory, for `heaptape blame --graph`, for a notebook, or to save as a picture.

    figure = heaptape.memory_figures.figure_holders(results, "jemalloc")
    figure.savefig("memory.png", dpi=100)

None if the file has no data for it. They are 8.2 inches wide: 820 pixels at 100 dpi, and the width of a printed page.
"""

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from heaptape.common.tables import MIB
from heaptape.passes import blame_data
from heaptape.results.schema import Results
from heaptape.show import drawing
from heaptape.show.figures import axes as plots
from heaptape.show.figures import memory_plots

WIDTH_IN, LEFT_IN, BOTTOM_IN = 8.2, 0.68, 0.5
# Groups with their own colour, and columns of the key: names of call stacks are long.
DRAWN_HOLDERS, HOLDER_COLUMNS = 7, 3
PAPER, INK = "#ffffff", "#1c1c1f"


def figure_holders(results: Results, allocators: str | Sequence[str], by: str = "site") -> Figure | None:
    """RSS over progress by who holds it: for the largest groups of the grouping `by` (site, function, thread, size,
    phase, age) live bytes and those held beside them; one panel per allocator, two side by side, all with one scale.
    None if no run has them. Raises HeaptapeError if one is malformed.
    """
    frame = blame_data.holding(results, by)
    there = set(frame["allocator"])
    known = [label for label in ([allocators] if isinstance(allocators, str) else allocators) if label in there]
    if not known:
        return None
    largest = blame_data.largest(frame, DRAWN_HOLDERS)
    columns = min(len(known), 2)
    rows = -(-len(known) // columns)
    top_in = 0.45 + 0.17 * -(-(len(largest) + 4) // HOLDER_COLUMNS)
    height_in = (2.0 if rows > 1 else 2.4) * rows + top_in + 0.2
    with matplotlib.rc_context(plots.look(INK) | {"hatch.linewidth": 0.7}):
        figure = Figure(figsize=(WIDTH_IN, height_in), facecolor=PAPER)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        figure.subplots_adjust(
            left=LEFT_IN / WIDTH_IN, right=1 - 0.15 / WIDTH_IN, bottom=BOTTOM_IN / height_in,
            top=1 - top_in / height_in, wspace=0.06, hspace=0.26,
        )  # fmt: skip
        tops = []
        for axes, label in zip(grid.flat, known):
            layers = drawing.holder_layers(frame[frame["allocator"] == label], largest)
            memory_plots.holders(axes, layers, INK)
            tops.append(axes.get_ylim()[1])
            axes.set_title(label, loc="left", fontsize=9, fontweight="bold")
            axes.label_outer()
        for axes in grid.flat[len(known) :]:
            axes.set_visible(False)
            grid[-2, 1].xaxis.set_tick_params(labelbottom=True)
        grid[0, 0].set_ylim(0, max(*tops, 1.05 / MIB))
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="upper center", ncols=HOLDER_COLUMNS, columnspacing=1.2, handlelength=1.4, fontsize=8
        )
    return figure
