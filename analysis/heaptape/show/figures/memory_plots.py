# SPDX-License-Identifier: MIT
"""Plots of memory by address and of its parts. Each draws into an Axes."""

from matplotlib.axes import Axes

from heaptape.common.tables import MIB
from heaptape.results.memory_map import CompactMap
from heaptape.show.drawing import (
    INK,
    gap_labels,
    gap_lines,
    map_image,
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
