# SPDX-License-Identifier: MIT
"""Plots of cache lines that threads share. Each draws into an Axes that it is given (axes.py has the styles)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from heaptape.show.drawing import INK, style
from heaptape.show.figures.axes import MAP_COLOURS, line_width, progress_axis


def over_progress(axes: Axes, frames: Mapping[str, pd.DataFrame], percent: bool = False) -> None:
    """A line per allocator: shared lines over progress; percent: of the lines with live objects. `frames`: allocator's
    label -> sharing.progress.
    """
    for number, (label, frame) in enumerate(frames.items()):
        values = frame["shared_lines"]
        if percent:
            values = 100 * values / frame["live_lines"].where(frame["live_lines"] > 0)
        axes.plot(frame["position"], values, label=label, linewidth=line_width(number, len(frames)), **style(number))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("shared lines, % of those in use" if percent else "cache lines shared")
    progress_axis(axes)


def matrix(axes: Axes, pairs: pd.DataFrame, unit: str = "pairs of objects on one line, mean") -> None:
    """Which threads share with which: a square per pair of threads, darker is more. `pairs`: as of
    sharing.thread_matrix, or any matrix by thread numbers. Pairs that share nothing are blank.
    """
    values = pairs.to_numpy(float)
    shown = np.ma.masked_where(values <= 0, values)
    drawn = axes.pcolormesh(shown, cmap=f"{MAP_COLOURS}_r", vmin=0, linewidth=0)
    for axis, labels in ((axes.xaxis, pairs.columns), (axes.yaxis, pairs.index)):
        step = max(1, -(-len(labels) // 12))
        axis.set_ticks([number + 0.5 for number in range(0, len(labels), step)], [str(t) for t in labels[::step]])
    axes.set_xlabel("thread")
    axes.set_ylabel("thread")
    axes.set_aspect("equal")
    axes.invert_yaxis()
    if values.size and values.max() > 0:
        bar = axes.figure.colorbar(drawn, ax=axes, shrink=0.8)
        bar.set_label(unit, color=INK)
        bar.outline.set_visible(False)
