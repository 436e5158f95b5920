# SPDX-License-Identifier: MIT
"""Tables of results for people: as text, Markdown, LaTeX, and as cells for the report."""

from heaptape.common.tables import Cell, Table, render_markdown, render_text, rounded
from heaptape.show.tables.usual import calls_in, comparison, percent_cell

__all__ = [
    "Cell", "Table", "calls_in", "comparison", "percent_cell", "render_markdown", "render_text", "rounded",
]  # fmt: skip
