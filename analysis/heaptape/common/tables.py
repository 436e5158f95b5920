# SPDX-License-Identifier: MIT
"""Tables for people: as text for a terminal, and as Markdown. Without pandas, whose import takes half a second of CPU
time and which `heaptape observe` and `heaptape machine` do not need.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from heaptape.common import console

MISSING = "–"
MIB = 1 << 20
FILE_WIDTH = 110


@dataclass(frozen=True)
class Cell:
    """One cell: as shown, and the number to sort by (None: text or missing). `muted`: a difference that isn't
    supported. `exact`: the same in every repetition; shown in bold. `reason`: why there is no number.
    """

    text: str
    value: float | None = None
    muted: bool = False
    exact: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Table:
    """A titled table. The first `text_columns` columns are text, the next ones figures. Without columns: only notes."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    text_columns: int = 1


def rounded(value: float) -> str:
    """The value with about three digits, but all digits of its integer part."""
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 or value == 0 else 4
    return f"{value:,.{decimals}f}"


def render_text(tables: Sequence[Table], width: int | None = None) -> str:
    """Text for a terminal (rich finds its width and colours), or FILE_WIDTH wide if stdout is not a terminal."""
    from rich.table import Table as RichTable
    from rich.text import Text

    screen = console.rich_console(sys.stdout, width or (None if sys.stdout.isatty() else FILE_WIDTH))
    with screen.capture() as capture:
        for table in tables:
            screen.print(Text(table.title, style="bold"))
            drawn = RichTable(box=None, pad_edge=False)
            for number, column in enumerate(table.columns):
                justify: Literal["left", "right"] = "left" if number < table.text_columns else "right"
                drawn.add_column(Text(column), justify=justify, overflow="fold")
            for row in table.rows:
                drawn.add_row(*[Text(cell.text, style=_style(cell)) for cell in row])
            if table.columns:
                screen.print(drawn)
            for note in table.notes:
                screen.print(Text(note, style="dim" if table.columns else ""))
            screen.print()
    return capture.get()


def _style(cell: Cell) -> str:
    return "dim" if cell.muted else "bold" if cell.exact else ""


def render(tables: Sequence[Table], form: str) -> str:
    """As Markdown ("md"), or for a terminal."""
    return render_markdown(tables) if form == "md" else render_text(tables)


def render_markdown(tables: Sequence[Table]) -> str:
    """Pipe tables under headings of the fourth level."""
    lines = []
    for table in tables:
        lines += [f"#### {table.title}", ""]
        if not table.columns:
            lines += [*(f"- {_escape(note)}" for note in table.notes), ""]
            continue
        lines.append("| " + " | ".join(_escape(c) for c in table.columns) + " |")
        lines.append("|" + "---|" * table.text_columns + "---:|" * (len(table.columns) - table.text_columns))
        lines += ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in table.rows]
        lines += ["", *table.notes, ""] if table.notes else [""]
    return "\n".join(lines)


def _markdown_cell(cell: Cell) -> str:
    return f"**{_escape(cell.text)}**" if cell.exact else _escape(cell.text)


def _escape(text: str) -> str:
    # A leading ~ would start strike-through together with another one in the row.
    return text.replace("|", "\\|").replace("~", "\\~")


def size(value: float) -> str:
    """Bytes in KiB, MiB or GiB to one decimal; below a KiB in bytes."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(value) >= 1 << power:
            return f"{value / (1 << power):,.1f} {name}"
    return f"{value:,.0f} bytes"
