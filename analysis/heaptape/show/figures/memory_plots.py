# SPDX-License-Identifier: MIT
"""Plots of memory by address and of its parts. Each draws into an Axes; memory_figures makes whole figures.

One palette is for light and dark paper, colour-blind readers, and print in grey: neighbours differ in lightness, and
resident but empty memory is orange everywhere (lighter than any region that is half full, darker than white paper) and
hatched where it is an area. `analysis/test/show/test_memory_plots.py` measures these distances, simulated for
protanopia, deuteranopia and tritanopia and in grey.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from heaptape.passes.blame_data import NOBODY, UNHELD
from heaptape.passes.fragmentation import PARTS
from heaptape.results.memory_map import CompactMap, gap_bytes
from heaptape.show.figures.axes import INK, MIB, progress_axis

# Fullness of a region, or of an OS page: from nearly empty to full.
FULLNESS = LinearSegmentedColormap.from_list("fullness", ["#9dbde0", "#5a8fd0", "#0d4596"])
EMPTY_COLOUR = "#ffb52e"
EMPTY_HATCH = "////"
PART_COLOURS = dict(zip(PARTS, ["#0f4c9c", "#8cc4e8", "#a8458a", EMPTY_COLOUR, "#858585"]))
# Colours of groups that hold memory, the largest first, and of all other groups together.
HOLDER_COLOURS = ("#0f4c9c", "#1b7f5c", "#a8458a", "#5aa9dd", "#b3541e", "#7d67b8", "#6f8f2f")
OTHERS_COLOUR = "#4a4a4d"
ALL_OTHERS, ALL_OTHERS_NUMBER = "all others", -9
LIVE, HELD = " (live)", " (held beside)"
IMAGE_ROWS, IMAGE_COLUMNS = 320, 400
GAP_LABELS = 9


def map_image(compact: CompactMap, rows: int = IMAGE_ROWS, columns: int = IMAGE_COLUMNS) -> np.ndarray:
    """RGBA (0 to 1) of a compact map, lowest address first: a column per equal step of progress, at most `rows` rows.

    Cells that are neither live nor resident are transparent. A row that stands for several regions is their mean, so
    that regions of which every second one is empty are half orange instead of being lost in sampling.
    """
    cells = FULLNESS(np.nan_to_num(np.maximum(compact.fullness, 0)))
    cells[compact.fullness < 0] = (*to_rgb(EMPTY_COLOUR), 1)
    cells[np.isnan(compact.fullness)] = 0
    if len(cells) > rows:
        begins = np.linspace(0, len(cells), rows, endpoint=False).astype(int)
        counts = np.diff(np.append(begins, len(cells)))[:, None, None]
        cells[..., :3] *= cells[..., 3:]
        cells = np.add.reduceat(cells, begins, axis=0) / counts
        cells[..., :3] /= np.where(cells[..., 3:] > 0, cells[..., 3:], 1)
    return np.clip(cells[:, _shown_positions(compact.positions, columns)], 0, 1)


def _shown_positions(positions: np.ndarray, columns: int) -> np.ndarray:
    """For each image column the index of the last position that is not beyond its middle. Positions need not be evenly
    spaced.
    """
    if len(positions) == 0:
        return np.empty(0, int)
    middles = (np.arange(columns) + 0.5) * positions[-1] / columns
    return np.maximum(np.searchsorted(positions, middles, side="right") - 1, 0)


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
    _label_gaps(axes, compact, ink, top)
    progress_axis(axes, end)


def _label_gaps(axes: Axes, compact: CompactMap, ink: str, top: float) -> None:
    """Draws a line at each gap left out and, on the right, its size; if there is no room for all sizes, those of the
    largest gaps.
    """
    gaps = gap_bytes(compact)
    starts = compact.starts[1:] * compact.region_bytes / MIB
    if len(starts) <= 60:
        for start in starts:
            axes.axhline(start, color=ink, linewidth=0.5, linestyle=(0, (4, 3)), alpha=0.6, zorder=3)
    placed: list[float] = []
    for index in np.argsort(-gaps.astype(float), kind="stable"):
        if len(placed) < GAP_LABELS and all(abs(starts[index] - other) > top / 22 for other in placed):
            placed.append(float(starts[index]))
            axes.annotate(
                f"{size_text(int(gaps[index]))} gap",
                (1.008, starts[index]),
                xycoords=("axes fraction", "data"),
                fontsize=7.5,
                va="center",
                color=ink,
                annotation_clip=False,
            )


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


def shortened(name: str, letters: int = 34) -> str:
    """A group's name, short enough for a key. A name that begins with _ is changed, as a key would leave it out."""
    name = f"\N{ZERO WIDTH SPACE}{name}" if name.startswith("_") else name
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _lighter(colour: str) -> tuple[float, ...]:
    return tuple(0.45 * channel + 0.55 for channel in to_rgb(colour))


def holder_layers(rows: pd.DataFrame, largest: Sequence[int]) -> pd.DataFrame:
    """From one allocator's and one grouping's rows of `Results.blame`: column position, then for each group in
    `largest` (numbers), and for all other groups together, live bytes and bytes held beside them, then memory without a
    holder.
    """
    held = rows.assign(held=rows["rounding_bytes"] + rows["empty_bytes"])
    who = held["number"].where(held["number"].isin(largest) | (held["kind"] == UNHELD), ALL_OTHERS_NUMBER)
    sums = held.groupby(["position", who])[["live_bytes", "held"]].sum().unstack(fill_value=0)
    names = dict(zip(rows["number"], rows["group"])) | {ALL_OTHERS_NUMBER: ALL_OTHERS}
    out: dict[str, np.ndarray] = {"position": sums.index.to_numpy()}
    nothing = np.zeros(len(sums))
    for number in (*largest, ALL_OTHERS_NUMBER):
        name = _unlike(names.get(number, f"#{number}"), number, out)
        for figure, ending in (("live_bytes", LIVE), ("held", HELD)):
            out[name + ending] = sums[figure, number].to_numpy() if (figure, number) in sums.columns else nothing
    for number, (_, name) in NOBODY.items():
        out[name] = sums["held", number].to_numpy() if ("held", number) in sums.columns else nothing
    return pd.DataFrame(out)


def _unlike(name: str, number: int, taken: Mapping[str, np.ndarray]) -> str:
    """The name, with the group's number if it is taken: two sites may have one name."""
    return f"#{number} {name}" if name + LIVE in taken else name


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


def size_text(size_bytes: int) -> str:
    """A size for humans, in binary units."""
    for power, name in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 1 << power:
            value = size_bytes / (1 << power)
            return f"{value:.0f} {name}" if value >= 10 or value == int(value) else f"{value:.1f} {name}"
    return f"{size_bytes} bytes"
