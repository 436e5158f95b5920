# SPDX-License-Identifier: MIT
"""matplotlib figures inside a page: as inline SVG whose ink follows the page, light or dark."""

import io
import re
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from heaptape.show.drawing import INK
from heaptape.show.figures import axes as plots

matplotlib.use("Agg")

STYLE: dict[Any, Any] = plots.look(INK) | {"figure.facecolor": "none", "axes.titlesize": 9}
WIDTH_IN = 8.2
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
        plots.saved(figure, out, format="svg", metadata=nothing)
    text = out.getvalue()
    text = _NAME_SPACE.sub("", _GROUP_ID.sub("", text[text.index("<svg") :]))
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL).replace(INK, "currentColor")
