# SPDX-License-Identifier: MIT
"""matplotlib figures inside a page: as inline SVG whose ink follows the page, light or dark, or as a small PNG."""

import base64
import io
import re
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

from heaptape.results.schema import Results
from heaptape.show.figures import axes as plots
from heaptape.show.figures import memory_plots

matplotlib.use("Agg")

STYLE: dict[Any, Any] = plots.look(plots.INK) | {"figure.facecolor": "none", "axes.titlesize": 9}
WIDTH_IN = 8.2
MAP_IN, MAP_DPI, MAP_COLOURS = (5.6, 2.9), 140, 64
# matplotlib numbers the groups of every figure from 1; what is referred to has an id that ends with a hash.
_GROUP_ID = re.compile(r' id="[A-Za-z.]\w*_\d{1,4}"')
_NAME_SPACE = re.compile(r' xmlns(:\w+)?="[^"]*"')


@dataclass(frozen=True)
class Picture:
    """A figure: SVG text, a caption, and its content in words."""

    title: str
    svg: str
    caption: str
    words: str


def inline_svg(figure: Figure, salt: str) -> str:
    """SVG without declarations, metadata or external references. `salt`: unique in the page; ids depend on it."""
    out = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    text = _NAME_SPACE.sub("", _GROUP_ID.sub("", text[text.index("<svg") :]))
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL).replace(plots.INK, "currentColor")


def memory_maps(file: Results) -> dict[str, str]:
    """By allocator, its memory by address over progress as a data URI of a PNG; all have one scale. Allocators under
    which nothing was ever live are left out. Raises HeaptapeError for a malformed map.
    """
    maps = {label: found for label, found in file.memory_maps().items() if found.fullness.size}
    height = max((found.height_bytes for found in maps.values()), default=0)
    drawn = {}
    with matplotlib.rc_context(STYLE):
        for label, found in maps.items():
            figure = Figure(figsize=MAP_IN)
            axes = figure.add_axes((0.1, 0.16, 0.77, 0.81))
            memory_plots.memory_map(axes, found, height)
            drawn[label] = _png(figure)
    return drawn


def _png(figure: Figure) -> str:
    """A PNG with a palette, which takes a quarter of the bytes."""
    plain, small = io.BytesIO(), io.BytesIO()
    figure.savefig(plain, format="png", dpi=MAP_DPI, transparent=True)
    Image.open(plain).quantize(MAP_COLOURS, Image.Quantize.FASTOCTREE).save(small, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}"
