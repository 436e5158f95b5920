# SPDX-License-Identifier: MIT
"""What pages and figures draw alike: colours, and data made ready to draw. Without matplotlib, whose import takes as
long as half of a report.

One palette is for light and dark paper, colour-blind readers, and print in grey: neighbours differ in lightness, and
resident but empty memory is orange everywhere (lighter than any region that is half full, darker than white paper) and
hatched where it is an area. `analysis/test/show/test_memory_plots.py` measures these distances, simulated for
protanopia, deuteranopia and tritanopia and in grey. Lines have the colours of Okabe and Ito, which suit colour
blindness, too, and dashes distinguish them in print.
"""

import numpy as np
import pandas as pd

from heaptape.common.tables import MIB
from heaptape.passes.fragmentation import PARTS
from heaptape.results.memory_map import CompactMap, gap_bytes

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1")
DASHES = ("-", "--", "-.", ":")
# Axes and text: the report replaces this colour by the page's text colour, light or dark.
INK = "#7a7a7b"
# Fullness of a region: from nearly empty, over half full, to full.
FULLNESS_COLOURS = ("#9dbde0", "#5a8fd0", "#0d4596")
EMPTY_COLOUR = "#ffb52e"
EMPTY_HATCH = "////"
PART_COLOURS = dict(zip(PARTS, ["#0f4c9c", "#8cc4e8", "#a8458a", EMPTY_COLOUR, "#858585"]))
IMAGE_ROWS, IMAGE_COLUMNS = 320, 400
SHADES = 256
GAP_LINES, GAP_LABELS = 60, 9


def rgb(colour: str) -> np.ndarray:
    """Red, green and blue (0 to 1) of "#rrggbb".

    >>> rgb("#ff0080").round(2).tolist()
    [1.0, 0.0, 0.5]
    """
    return np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255


def fullness_colours() -> np.ndarray:
    """RGBA of SHADES steps of fullness, of what is resident but empty, and of what is neither: transparent."""
    marks = np.array([rgb(colour) for colour in FULLNESS_COLOURS])
    shares = np.linspace(0, 1, SHADES)
    ramp = np.column_stack([np.interp(shares, np.linspace(0, 1, len(marks)), channel) for channel in marks.T])
    colours = np.ones((SHADES + 2, 4), np.float32)
    colours[:, :3] = np.vstack([ramp, rgb(EMPTY_COLOUR), np.zeros(3)])
    colours[-1, 3] = 0
    return colours


def map_image(compact: CompactMap, rows: int = IMAGE_ROWS, columns: int = IMAGE_COLUMNS) -> np.ndarray:
    """RGBA (0 to 1) of a compact map, lowest address first: a column per equal step of progress, at most `rows` rows.

    Cells that are neither live nor resident are transparent. A row that stands for several regions is their mean, so
    that regions of which every second one is empty are half orange instead of being lost in sampling.
    """
    shades = np.minimum(np.nan_to_num(compact.fullness) * SHADES, SHADES - 1).astype(np.int16)
    shades[compact.fullness < 0] = SHADES
    shades[np.isnan(compact.fullness)] = SHADES + 1
    cells = fullness_colours()[shades]
    if len(cells) > rows:
        begins = np.linspace(0, len(cells), rows, endpoint=False).astype(int)
        counts = np.diff(np.append(begins, len(cells)))[:, None, None]
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


def gap_lines(compact: CompactMap) -> list[float]:
    """At which height, in MiB, a gap was left out; none if there are so many that their lines would hide the map."""
    starts = compact.starts[1:] * compact.region_bytes / MIB
    return starts.tolist() if len(starts) <= GAP_LINES else []


def gap_labels(compact: CompactMap, top: float, lines: float = 22) -> list[tuple[float, str]]:
    """Where, in MiB, the size of a gap is written, and the text; if there is no room for all up to `top`, of the
    largest gaps. `lines`: of text, that the height has room for.
    """
    gaps, starts = gap_bytes(compact), compact.starts[1:] * compact.region_bytes / MIB
    placed: list[tuple[float, str]] = []
    for index in np.argsort(-gaps.astype(float), kind="stable"):
        if len(placed) < GAP_LABELS and all(abs(starts[index] - other) > top / lines for other, _ in placed):
            placed.append((float(starts[index]), f"{size_text(int(gaps[index]))} gap"))
    return placed


def style(number: int) -> dict:
    """Colour and dash of the number-th allocator."""
    return {"color": OKABE_ITO[number % len(OKABE_ITO)], "linestyle": DASHES[number // len(OKABE_ITO) % len(DASHES)]}


def thinned(timeline: pd.DataFrame, most: int) -> pd.DataFrame:
    """A time line of at most `most` rows that looks the same when drawn: from each stretch of progress its
    first row, and those with the least and the largest value of each column.

    >>> rows = pd.DataFrame({"position": range(1000), "rss_anon_bytes": [0] * 999 + [7]})
    >>> len(thinned(rows, 80)) <= 80, thinned(rows, 80)["rss_anon_bytes"].max()
    (True, np.int64(7))
    """
    if len(timeline) <= most:
        return timeline
    stretch = np.arange(len(timeline)) * max(most // 8, 1) // len(timeline)
    begins = np.flatnonzero(np.diff(stretch, prepend=-1))
    kept = [begins, np.array([len(timeline) - 1])]
    for column in timeline.columns[1:]:
        values = timeline[column].to_numpy()
        for extreme in (np.minimum, np.maximum):
            having = np.flatnonzero(values == extreme.reduceat(values, begins)[stretch])
            kept.append(having[np.flatnonzero(np.diff(stretch[having], prepend=-1))])  # the first of each stretch
    return timeline.iloc[np.unique(np.concatenate(kept))]


def size_text(size_bytes: int) -> str:
    """A size for humans, in binary units."""
    for power, name in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 1 << power:
            value = size_bytes / (1 << power)
            return f"{value:.0f} {name}" if value >= 10 or value == int(value) else f"{value:.1f} {name}"
    return f"{size_bytes} bytes"
