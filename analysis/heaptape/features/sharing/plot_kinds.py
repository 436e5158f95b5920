# SPDX-License-Identifier: MIT
"""A kind of `heaptape plot`: cache lines that threads share, over progress."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from heaptape.results.schema import Results

KIND = "sharing"
PASS = "sharing"
SUMMARY = "cache lines that threads share, over progress (replay --passes sharing)"


def draw(figure: "Figure", file: "Results", names: Sequence[str]) -> None:
    from heaptape.features.sharing import pass_table, plots
    from heaptape.show.figures.axes import key_below

    counted = {name: run.line_sharing for name, run in file.first_runs("line_sharing").items()}
    frames = {name: pass_table.progress(found) for name in names if (found := counted.get(name))}
    if not frames:
        raise HeaptapeError("no run counted shared cache lines: heaptape replay --passes sharing")
    if not any(found["shared_lines"].any() for found in frames.values()):
        raise HeaptapeError("nothing to draw: no cache line has objects of two threads under any allocator")
    axes = figure.subplots()
    plots.over_progress(axes, frames)
    key_below(figure, *axes.get_legend_handles_labels())
