# SPDX-License-Identifier: MIT
"""Plots of memory by address and of its parts. Each draws into an Axes."""

import pandas as pd
from matplotlib import rcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from heaptape.common.phrases import size
from heaptape.common.tables import MIB
from heaptape.passes.fragmentation import PARTS
from heaptape.results.memory_map import CompactMap
from heaptape.show.drawing import (
    EMPTY_COLOUR,
    FULLNESS_COLOURS,
    INK,
    PART_COLOURS,
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
    lines = max(axes.bbox.height / axes.figure.dpi * 72 / (1.1 * rcParams["font.size"]), 1)  # of text that have room
    for start, text in gap_labels(compact, top, lines):
        axes.annotate(
            text, (1.008, start), xycoords=("axes fraction", "data"), fontsize="small", va="center", color=ink,
            annotation_clip=False,
        )  # fmt: skip
    progress_axis(axes, end)


def map_key(ink: str = INK) -> list[Artist]:
    """What the colours of `memory_map` mean, for a legend."""
    names = ("nearly empty", "half full of live bytes", "full")
    parts: list[Artist] = [Patch(color=colour, label=name) for colour, name in zip(FULLNESS_COLOURS, names)]
    parts.append(Patch(color=EMPTY_COLOUR, label="resident, nothing live"))
    return [*parts, Line2D([], [], color=ink, linewidth=0.8, linestyle="--", label="gap: never used")]


def parts_at_peak(axes: Axes, peak: pd.DataFrame) -> None:
    """What RSS consists of at its peak: a bar per allocator. `peak`: rows of `fragmentation.at_peak` of a workload."""
    left = pd.Series(0.0, index=peak.index)
    for part, name in PARTS.items():
        width = peak[part].clip(lower=0) / MIB
        axes.barh(range(len(peak)), width, left=left, color=PART_COLOURS[part], label=name, height=0.7)
        left += width
    for at, (end, rss) in enumerate(zip(left, peak["rss_anon_bytes"])):
        axes.text(end, at, f" {size(rss)}", va="center", fontsize="small")
    axes.set_yticks(range(len(peak)), list(peak["allocator"]))
    axes.set_xlim(0, 1.22 * max(left.max(), 1 / MIB))
    axes.set_xlabel("RSS at its largest sample, MiB")
    axes.invert_yaxis()
