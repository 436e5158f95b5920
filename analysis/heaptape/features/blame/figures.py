# SPDX-License-Identifier: MIT
"""Whole figures of who holds memory, for `heaptape blame --graph`, for a notebook, or to save as a picture.

    figure = heaptape.blame.figure_holders(results, "jemalloc")
    figure.savefig("memory.png", dpi=100)

None if the file has no data for it. They are 8.2 inches wide: 820 pixels at 100 dpi, and the width of a printed page.
"""

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from heaptape.common.tables import MIB
from heaptape.features.blame import data as blame_data
from heaptape.features.blame.layers import ALL_OTHERS, HOLDER_COLOURS, LIVE, OTHERS_COLOUR, holder_layers, key_names
from heaptape.results.schema import Results
from heaptape.show.drawing import EMPTY_COLOUR, EMPTY_HATCH
from heaptape.show.figures import axes as plots
from heaptape.show.figures.axes import progress_axis

WIDTH_IN = 8.2
DRAWN_HOLDERS = 7  # groups with their own colour
NAME_LETTERS = 36  # of a call stack's name in the key
PAPER, INK = "#ffffff", "#1c1c1f"


def figure_holders(results: Results, allocators: str | Sequence[str], by: str = "site") -> Figure | None:
    """`draw_holders` on a figure of its own; None where that draws nothing."""
    with matplotlib.rc_context(plots.look(INK)):
        figure = Figure(figsize=(WIDTH_IN, 1), facecolor=PAPER, layout="constrained")
        return figure if draw_holders(figure, results, allocators, by) else None


def draw_holders(figure: Figure, results: Results, allocators: str | Sequence[str], by: str) -> bool:
    """RSS over progress by who holds it: for the largest groups of the grouping `by` (site, function, thread, size,
    phase, age) live bytes and those held beside them; one panel per allocator, two side by side, all with one scale.
    Sets the figure's height. False if no run has them. Raises HeaptapeError if one is malformed.
    """
    frame = blame_data.holding(results, by)
    there = set(frame["allocator"])
    known = [label for label in ([allocators] if isinstance(allocators, str) else allocators) if label in there]
    if not known:
        return False
    largest = key_names(results, frame, blame_data.largest(frame, DRAWN_HOLDERS), NAME_LETTERS)
    columns = min(len(known), 2)
    rows = -(-len(known) // columns)
    figure.set_figheight((2.0 if rows > 1 else 2.4) * rows + 0.55)
    matplotlib.rcParams["hatch.linewidth"] = 0.7
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    tops = []
    for axes, label in zip(grid.flat, known):
        layers = holder_layers(frame[frame["allocator"] == label], largest)
        holders(axes, layers, matplotlib.rcParams["text.color"])
        tops.append(axes.get_ylim()[1])
        axes.set_title(label, loc="left")
        axes.label_outer()
    for axes in grid.flat[len(known) :]:
        axes.set_visible(False)
        grid[-2, 1].xaxis.set_tick_params(labelbottom=True)
    grid[0, 0].set_ylim(0, max(*tops, 1.05 / MIB))
    handles, names = grid[0, 0].get_legend_handles_labels()
    beside = Patch(facecolor=_lighter(OTHERS_COLOUR), edgecolor=_darker(OTHERS_COLOUR), hatch=EMPTY_HATCH, linewidth=0)
    where = names.index(ALL_OTHERS) + 1
    handles.insert(where, beside)
    names.insert(where, "lighter: beside their live bytes")
    plots.key_below(figure, handles, names)
    return True


def holders(axes: Axes, layers: pd.DataFrame, ink: str) -> None:
    """RSS as a stack of its holders, over progress: for each group its live bytes, plain, and the bytes held beside
    them, hatched; on top, memory without live objects. layers: `holder_layers` of one allocator's rows.
    """
    colours: list[str | tuple[float, ...]] = []
    hatches: list[str] = []
    labels: list[str] = []
    named = [name for name in layers.columns if name != "position"]
    groups = [name for name in named if name.endswith(LIVE)]
    for number, name in enumerate(groups):
        label = name.removesuffix(LIVE)
        colour = OTHERS_COLOUR if label == ALL_OTHERS else HOLDER_COLOURS[number % len(HOLDER_COLOURS)]
        colours += [colour, _lighter(colour)]
        hatches += ["", EMPTY_HATCH]
        # a legend leaves out what begins with _
        labels += [f"\N{ZERO WIDTH SPACE}{label}" if label.startswith("_") else label, f"_{label}"]
    colours += [EMPTY_COLOUR, "#d8d8d8", "#858585"]
    hatches += [EMPTY_HATCH, "", ""]
    labels += named[2 * len(groups) :]
    stacked = [layers[name].to_numpy() / MIB for name in named]
    _stack(axes, layers["position"], stacked, colours, hatches, labels, ink)
    top = layers[named].clip(lower=0).sum(axis=1).max() / MIB
    axes.set_ylim(0, 1.05 * max(top, 1 / MIB))
    axes.set_ylabel("RSS, MiB")
    progress_axis(axes, max(layers["position"].max(), 1))


def _lighter(colour: str) -> tuple[float, float, float]:
    red, green, blue = to_rgb(colour)
    return 0.45 * red + 0.55, 0.45 * green + 0.55, 0.45 * blue + 0.55


def _stack(
    axes: Axes, positions: pd.Series, layers: Sequence[np.ndarray], colours: Sequence, hatches: Sequence[str],
    labels: Sequence[str], edge: str | None,
) -> None:  # fmt: skip
    """Areas on top of one another; negative values (from errors of the kernel's figures) are drawn as 0. Values
    hold until the next position. `edge`: colour of thin lines between the areas; None: no lines. In vector formats the
    areas are one picture, as a dozen outlines of steps would be a hundred times larger.
    """
    axes.set_rasterization_zorder(0.6)
    below = np.zeros(len(positions))
    for layer, colour, hatch, label in zip(layers, colours, hatches, labels):
        above = below + np.maximum(layer, 0)
        line = _darker(colour) if hatch else colour if edge is None else edge
        axes.fill_between(
            positions, below, above, step="post", facecolor=colour, hatch=hatch or None, label=label,
            edgecolor=line, linewidth=0.0 if hatch else 0.3, zorder=0.5,
        )  # fmt: skip
        below = above


def _darker(colour: str) -> tuple[float, float, float]:
    red, green, blue = to_rgb(colour)
    return 0.62 * red, 0.62 * green, 0.62 * blue
