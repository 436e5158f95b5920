# SPDX-License-Identifier: MIT
"""Plots of memory by address and of its parts. Each draws into an Axes; memory_figures makes whole figures."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from heaptape.common.tables import MIB
from heaptape.results.memory_map import CompactMap
from heaptape.show.drawing import (
    ALL_OTHERS,
    EMPTY_COLOUR,
    EMPTY_HATCH,
    HOLDER_COLOURS,
    INK,
    LIVE,
    OTHERS_COLOUR,
    gap_labels,
    gap_lines,
    map_image,
    shortened,
)
from heaptape.show.figures.axes import progress_axis


def memory_map(axes: Axes, compact: CompactMap, height_bytes: int | None = None, ink: str = INK) -> None:
    """The memory-usage graph: progress to the right, addresses upwards, colour = how full of live bytes each region is.

    Address space that was never used is left out, with a line and the size of the gap. `height_bytes` sets the y
    axis, so that several graphs can have one scale.
    """
    end = max(int(compact.positions[-1]), 1) if len(compact.positions) else 1
    height = compact.height_bytes / MIB
    if compact.fullness.size:
        image = map_image(compact)
        axes.imshow(image, aspect="auto", origin="lower", extent=(0, end, 0, height), interpolation="none", zorder=2)
    top = max(height_bytes or compact.height_bytes, 1) / MIB
    axes.set_ylim(0, top)
    axes.set_ylabel("addresses, MiB")
    for start in gap_lines(compact):
        axes.axhline(start, color=ink, linewidth=0.5, linestyle=(0, (4, 3)), alpha=0.6, zorder=3)
    for start, text in gap_labels(compact, top):
        axes.annotate(
            text, (1.008, start), xycoords=("axes fraction", "data"), fontsize=7.5, va="center", color=ink,
            annotation_clip=False,
        )  # fmt: skip
    progress_axis(axes, end)


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
        labels += [shortened(label), f"_{label}"]
    colours += [EMPTY_COLOUR, "#d8d8d8", "#858585"]
    hatches += [EMPTY_HATCH, "", ""]
    labels += named[2 * len(groups) :]
    stacked = [layers[name].to_numpy() / MIB for name in named]
    _stack(axes, layers["position"], stacked, colours, hatches, labels, ink)
    top = layers[named].clip(lower=0).sum(axis=1).max() / MIB
    axes.set_ylim(0, 1.05 * max(top, 1 / MIB))
    axes.set_ylabel("MiB of RSS")
    progress_axis(axes, max(layers["position"].max(), 1))


def _lighter(colour: str) -> tuple[float, ...]:
    return tuple(0.45 * channel + 0.55 for channel in to_rgb(colour))


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


def _darker(colour: str) -> tuple[float, ...]:
    return tuple(0.62 * channel for channel in to_rgb(colour))
