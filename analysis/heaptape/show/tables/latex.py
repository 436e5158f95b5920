# SPDX-License-Identifier: MIT
"""Tables as LaTeX, for papers: booktabs rules, one `table` per table, ready to \\input.

Needs `\\usepackage{booktabs}`, `\\usepackage{graphicx}` (wider tables are scaled to the line) and, as names may
not be ASCII, an engine that reads UTF-8 (any since 2018).
"""

from collections.abc import Iterable, Sequence

from heaptape.common.escape import latex as escape
from heaptape.common.tables import Cell, Table, render_csv, render_markdown, render_text

PREAMBLE = r"% Needs \usepackage{booktabs} and \usepackage{graphicx}."
# Scales a table down to the line if it is wider.
SHRUNK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def render(tables: Sequence[Table], form: str) -> str:
    """The tables as "text" for a terminal, Markdown ("md"), "csv" or "latex"."""
    return {"text": render_text, "md": render_markdown, "csv": render_csv, "latex": render_latex}[form](tables)


def render_latex(tables: Sequence[Table]) -> str:
    """All tables, each as a `table` environment; tables of notes only become lists."""
    return "\n".join([PREAMBLE, *(_prose(t) if not t.columns else _environment(t) for t in tables)])


def _environment(table: Table) -> str:
    figures = len(table.columns) - table.text_columns
    lines = [r"\begin{table}[htbp]", r"\centering", rf"\caption{{{escape(table.title)}}}"]
    lines += [SHRUNK, rf"\begin{{tabular}}{{{'l' * table.text_columns}{'r' * figures}}}", r"\toprule"]
    lines += [_row(map(escape, table.columns)), r"\midrule", *[_row(map(_cell, row)) for row in table.rows]]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    lines += [rf"\par\smallskip{{\footnotesize {escape(note)}\par}}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}", ""])


def _prose(table: Table) -> str:
    items = [rf"\item {escape(note.removeprefix('- '))}" for note in table.notes]
    return "\n".join([rf"\paragraph{{{escape(table.title)}}}", r"\begin{itemize}", *items, r"\end{itemize}", ""])


def _cell(cell: Cell) -> str:
    return rf"\textbf{{{escape(cell.text)}}}" if cell.exact else escape(cell.text)


def _row(cells: Iterable[str]) -> str:
    # Empty braces: a row that begins with [ would be taken for an argument of the \\ before it.
    return " & ".join(("{}" if cell.startswith("[") else "") + cell for cell in cells) + r" \\"
