# SPDX-License-Identifier: MIT
"""Tables of results for people: as text, Markdown, LaTeX, and as cells for the report."""

from heaptape.tables.usual import Cell, Table, calls_in, comparison, percent_cell, render_markdown, render_text, rounded

__all__ = [
    "Cell", "Table", "calls_in", "comparison", "percent_cell", "render_markdown", "render_text", "rounded",
]  # fmt: skip
