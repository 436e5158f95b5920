# SPDX-License-Identifier: MIT
"""A kind of `heaptape plot`: who holds memory over progress."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from heaptape.results.schema import Results

KIND = "holders"
PASS = "blame"
SUMMARY = "who holds resident memory over progress, by call site, else by size (replay --passes blame)"


def draw(figure: "Figure", file: "Results", names: Sequence[str]) -> None:
    from heaptape.features.blame.data import of_allocators
    from heaptape.features.blame.figures import draw_holders

    stacks = any(site.frames for found in of_allocators(file).values() for site in found.sites.values())
    if not draw_holders(figure, file, names, "site" if stacks else "size"):
        raise HeaptapeError("no run says who holds memory: heaptape replay --passes blame")
