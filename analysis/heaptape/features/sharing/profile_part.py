# SPDX-License-Identifier: MIT
"""The cache lines that threads share in the recorded layout, in `heaptape profile`: its tables, sentences, pictures."""

from typing import TYPE_CHECKING

import msgspec

from heaptape.common.tables import Table
from heaptape.features.profile.data import Profile
from heaptape.features.profile.text import percent
from heaptape.features.sharing import pass_table
from heaptape.results.structs import LineSharing

if TYPE_CHECKING:
    import numpy as np

    from heaptape.features.profile.page import Part
    from heaptape.features.profile.pictures import Picture

WORTH_SAYING = 0.01  # of the lines in use


def _counts(found: Profile) -> LineSharing | None:
    counts = found.data.get("line_sharing")
    return msgspec.convert(counts, LineSharing) if isinstance(counts, dict) else None


def tables(found: Profile) -> list[Table]:
    counts = _counts(found)
    return [pass_table.profile_table(counts)] if counts else []


def sentences(found: Profile) -> list[str]:
    counts = _counts(found)
    share = pass_table.shared_percent(counts) / 100 if counts else 0.0
    if share <= WORTH_SAYING:
        return []
    return [
        f"Cache lines: {percent(share)} of those in use hold objects of several threads (mean over time): where "
        "both write, the line moves between their caches."
    ]


def part(found: Profile, shown: list[Table]) -> "Part":
    """`shown`: all tables of the page."""
    from heaptape.features.profile.page import Part

    return Part(
        "sharing",
        "Shared cache lines",
        "Lines of 64 bytes that hold live objects of several threads, at the recorded addresses: the layout of the "
        "recording's allocator.",
        _pictures(found),
        [table for table in shown if table.title.startswith("Cache lines")],
    )


def _pictures(found: Profile) -> "list[Picture]":
    from heaptape.features.profile.page import drawn
    from heaptape.features.sharing import plots

    counts = _counts(found)
    if not counts or not counts.pairs or not counts.shared_lines:
        return []

    def draw(axes: "np.ndarray") -> None:
        plots.over_progress(axes[0, 0], {"shared": pass_table.progress(counts)})
        plots.matrix(axes[0, 1], pass_table.thread_matrix(counts))

    words = f"{counts.shared_lines.peak:,.0f} lines are shared at the peak"
    caption = "Left: lines shared over progress; right: which threads' objects share lines."
    return [drawn("Shared cache lines", "sharing", 3.2, draw, caption, words, columns=2)]
