# SPDX-License-Identifier: MIT
"""Plots of many workloads at a time. Each draws into an Axes that it is given."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, SymLogNorm

from heaptape.show.drawing import INK, OKABE_ITO

LESS, MORE = OKABE_ITO[0], OKABE_ITO[1]
# From a saving to a loss: blue and vermilion suit colour blindness.
CHANGES = LinearSegmentedColormap.from_list("changes", [LESS, "#f2f2f2", MORE])
MOST_WITH_TEXT = 40  # rows of a map whose cells still have numbers
LINEAR_PERCENT = 2.0
LEAST_RANGE_PERCENT = 5.0


def heat_map(axes: Axes, ratios: pd.DataFrame, workloads: list[str], labels: list[str]) -> None:
    """Change of one figure against the baseline in percent: a row per workload, a column per label; blue: less. Numbers
    have half of their interval if there is one, and brackets if it includes 0; a dash: not measured.

    `ratios`: rows of fleet.blocks.COLUMNS, of one figure; `workloads`: sha256, in the order of the rows.
    """
    by_cell = ratios.set_index(["workload", "label"])
    change = np.full((len(workloads), len(labels)), np.nan)
    for (workload, label), row in by_cell.iterrows():
        change[workloads.index(workload), labels.index(label)] = 100 * (row["ratio"] - 1)
    most = max(np.nanmax(np.abs(change)), LEAST_RANGE_PERCENT)
    norm = SymLogNorm(LINEAR_PERCENT, vmin=-most, vmax=most)
    axes.pcolormesh(np.ma.masked_invalid(change), cmap=CHANGES, norm=norm, linewidth=0)
    names = by_cell.reset_index().drop_duplicates("workload").set_index("workload")["name"]
    axes.set_xticks(np.arange(len(labels)) + 0.5, labels, rotation=30, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    step = max(1, -(-len(workloads) // MOST_WITH_TEXT))
    shown = range(0, len(workloads), step)
    axes.set_yticks([place + 0.5 for place in shown], [str(names[workloads[place]]) for place in shown])
    axes.set_ylim(len(workloads), 0)
    axes.tick_params(length=0)
    if step > 1:
        return
    for row, workload in enumerate(workloads):
        for column, label in enumerate(labels):
            key = (workload, label)
            text = _change_text(by_cell.loc[key]) if key in by_cell.index else "–"
            strong = abs(norm(change[row, column]) - 0.5) > 0.33 if key in by_cell.index else False
            colour = "#ffffff" if strong else "#1b1c20" if key in by_cell.index else INK
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7.5, color=colour)


def _change_text(row: pd.Series) -> str:
    text = f"{100 * (row['ratio'] - 1):+.1f}"
    if row["exact"]:
        return text
    if np.isnan(row["low"]):
        return f"{text} ?"
    text = f"{text} ± {50 * (row['high'] - row['low']):.1f}"
    return f"({text})" if row["low"] <= 1 <= row["high"] else text
