# SPDX-License-Identifier: MIT
"""Tables for people: as text for a terminal, and as Markdown. Without pandas, whose import takes half a second of CPU
time and which `heaptape observe` and `heaptape machine` do not need.
"""

import csv
import io
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from heaptape.common import console, escape

if TYPE_CHECKING:
    from rich.text import Text

MISSING = "–"
MIB = 1 << 20
WIDTH = 80  # of what is not a terminal
GAP = 2  # columns between two cells
FEWEST_FIGURES = 2  # columns: `kept` texts give way to these
CUT_TO = 24  # columns: texts are not cut further to save a column of figures


@dataclass(frozen=True)
class Cell:
    """One cell: as shown, and the number to sort by (None: text or missing). `muted`: a difference that isn't
    supported. `exact`: the same in every repetition; shown in bold. `reason`: why there is no number. `short`: the text
    where the table is too wide. `good`: coloured as better or worse than the baseline; the text says it, too.
    """

    text: str
    value: float | None = None
    muted: bool = False
    exact: bool = False
    reason: str = ""
    short: str = ""
    good: bool | None = None


@dataclass(frozen=True)
class Table:
    """A titled table. The first `text_columns` columns are text, the next ones figures; columns of numbers `kept` are
    text as well, such as marks at the end. Names of columns may have several lines. Without columns: only notes.
    """

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    text_columns: int = 1
    kept: frozenset[int] = frozenset()


def rounded(value: float) -> str:
    """The value with about three digits, but all digits of its integer part."""
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 or value == 0 else 4
    return f"{value:,.{decimals}f}"


def significant(value: float, digits: int = 2, sign: str = "") -> str:
    """The value with so many significant digits, never as a power of ten: "100", where format code g gives "1e+02"."""
    return f"{Decimal(f'{value:.{digits}g}'):{sign},f}"


def screen_width() -> int:
    """Columns of the terminal, or COLUMNS; else WIDTH, as in a pipe."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def render_text(tables: Sequence[Table], width: int | None = None) -> str:
    """Text for a terminal, at most `width` columns wide (default: `screen_width`).

    No cell is ever broken or wrapped. Where a table is too wide, first cells take their `short` texts, the rightmost
    column first; then texts are cut in the middle; then figures' columns are left out from the right, and a line
    names them. `kept` columns are left out only where they would leave fewer than FEWEST_FIGURES of the others.
    Titles and notes are wrapped between words.
    """
    width = width or screen_width()
    screen = console.rich_console(sys.stdout, width)
    with screen.capture() as capture:
        for table in tables:
            for line in _drawn(table, width):
                screen.print(line, overflow="ignore", no_wrap=True, crop=False)
            screen.print()
    return capture.get()


def _drawn(table: Table, width: int) -> "Iterator[Text]":
    from rich.text import Text

    for line in wrapped(table.title, width) if table.title else []:
        yield Text(line, style="bold")
    if table.columns:
        shown, left_out = _fitted(table, width)
        if any(table.columns):
            names = [row for row in _header(table) if any(row[one.number].text for one in shown)]
            yield from (_line(row, shown) for row in names)
        yield from (_line(row, shown) for row in table.rows)
        if left_out:
            more = f"Left out at this width: {', '.join(left_out)}"
            yield from (Text(line, style="dim") for line in wrapped(more, width))
    for note in table.notes:
        for line in wrapped(note, width):
            yield Text(line, style="dim" if table.columns else "")


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken between words only. A figure stays with its unit; a line that begins
    with a space is a command.
    """
    if not text:
        return [text]
    text = console.printable(text)
    if text.startswith(" "):
        return command_lines(text, width, " " * (len(text) - len(text.lstrip()) + 4))
    bound = re.sub(r"(?<=[0-9]) (?=(%|[KMGTk]i?B?|bytes|ms|s|ns|MHz)([\s.,;:)]|$))", "\xa0", text)
    bound = bound.replace("≈ ", "≈\xa0")
    lines = textwrap.wrap(bound, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def paragraphs(lines: Sequence[str]) -> str:
    """Lines for a terminal, 80 columns wide in a pipe."""
    wrap = textwrap.TextWrapper(
        screen_width(), subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    ).wrap
    return "".join(f"{one}\n" for line in lines for one in wrap(line) or [""])


def listing(entries: Mapping[str, Sequence[str]]) -> str:
    """Names, and beside each the texts on it, one below the other."""
    entries = {console.printable(name): texts for name, texts in entries.items()}
    width = max(map(cell_width, entries), default=0)
    room = max(screen_width() - width - GAP, CUT_TO)
    lines = []
    for name, texts in entries.items():
        beside = [line for text in texts for line in wrapped(text, room)]
        lines += [f"{name if at == 0 else '':<{width}}{' ' * GAP}{line}" for at, line in enumerate(beside)]
    return "".join(f"{line}\n" for line in lines)


def command_lines(text: str, width: int, indent: str) -> list[str]:
    """A command as lines that can be pasted into a shell: broken between words only, each line but the last ends with
    a backslash, and those after the first begin with `indent`. A word is never broken, even if it is too wide.
    """
    words = re.findall(r"""\s*(?:[^\s'"\\]|\\.|'[^']*'|"[^"]*"|['"\\])+""", text)
    lines = words[:1]
    for at, word in enumerate(words[1:], 2):
        room = width - (0 if at == len(words) else len(" \\"))
        if cell_width(lines[-1] + word) <= room:
            lines[-1] += word
        else:
            lines.append(indent + word.lstrip())
    return [*(f"{line} \\" for line in lines[:-1]), *lines[-1:]]


@dataclass
class _Column:
    number: int
    width: int
    left: bool
    short: bool = False


def _header(table: Table) -> list[list[Cell]]:
    """The names of the columns, as rows: names of several lines stand on the lowest ones."""
    names = [column.split("\n") for column in table.columns]
    depth = max(map(len, names))
    lined = [[""] * (depth - len(one)) + one for one in names]
    return [[Cell(one[line]) for one in lined] for line in range(depth)]


def _fitted(table: Table, width: int) -> tuple[list[_Column], list[str]]:
    """The columns that fit, and the names of the others."""
    shown, left_out = _fitted_of(table, range(len(table.columns)), width)
    if left_out and table.kept and sum(not one.left for one in shown) < FEWEST_FIGURES:
        return _fitted_of(table, [at for at in range(len(table.columns)) if at not in table.kept], width)
    return shown, left_out


def _fitted_of(table: Table, numbers: Sequence[int], width: int) -> tuple[list[_Column], list[str]]:
    columns = [_Column(at, 0, at < table.text_columns or at in table.kept) for at in numbers]
    for one in columns:
        one.width = _natural(table, one)
    for one in reversed(columns):
        if _total(columns) > width:
            one.short = True
            one.width = _natural(table, one)
    names = []
    _cut_texts(columns[: table.text_columns], columns, width)
    for one in reversed([c for c in columns if not c.left]):
        if _total(columns) > width:
            columns.remove(one)
            names.append(table.columns[one.number].replace("\n", " ").strip())
    _cut_texts(columns[::-1], columns, width)
    _regrow(table, columns, width)
    return columns, [name for name in reversed(names) if name]


def _cut_texts(texts: Sequence[_Column], columns: Sequence[_Column], width: int) -> None:
    """Narrows texts, the widest first, to no less than CUT_TO."""
    for one in sorted(texts, key=lambda c: -c.width):
        if (over := _total(columns) - width) > 0:
            one.width = max(min(one.width, CUT_TO), one.width - over)


def _regrow(table: Table, columns: Sequence[_Column], width: int) -> None:
    """Texts that were cut take the room that columns left."""
    for one in columns:
        one.width = min(_natural(table, one), one.width + max(0, width - _total(columns)))


def _natural(table: Table, column: _Column) -> int:
    cells = [row[column.number] for row in (*_header(table), *table.rows)]
    return max((cell_width(_text(cell, column)) for cell in cells), default=0)


def _total(columns: Sequence[_Column]) -> int:
    return sum(one.width for one in columns) + GAP * (len(columns) - 1)


def _text(cell: Cell, column: _Column) -> str:
    return console.printable(cell.short if column.short and cell.short else cell.text)


def _line(row: Sequence[Cell], columns: Sequence[_Column]) -> "Text":
    from rich.text import Text

    line = Text()
    for at, one in enumerate(columns):
        text = cut(_text(row[one.number], one), one.width)
        space = " " * (one.width - cell_width(text))
        line.append(" " * GAP if at else "")
        line.append("" if one.left else space)
        line.append(text, style=_style(row[one.number]))
        line.append(space if one.left else "")
    line.rstrip()
    return line


def cell_width(text: str) -> int:
    """Columns that the text takes on a terminal."""
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns: its middle is replaced by "…"."""
    if cell_width(text) <= width:
        return text
    keep = max(width - 1, 0)
    head, tail = text[: keep - keep // 2], text[len(text) - keep // 2 :] if keep // 2 else ""
    while cell_width(head + tail) > keep:
        head, tail = head[:-1], tail[1:]
    return f"{head}…{tail}"


def _style(cell: Cell) -> str:
    if cell.good is not None:
        return "green" if cell.good else "red"
    return "dim" if cell.muted else "bold" if cell.exact else ""


def render_markdown(tables: Sequence[Table]) -> str:
    """Pipe tables under headings of the fourth level."""
    lines = []
    for table in tables:
        lines += [f"#### {escape.markdown_prose(table.title)}", ""] if table.title else []
        if not table.columns:
            lines += [*(f"- {escape.markdown_prose(note)}" for note in table.notes), ""]
            continue
        lines.append("| " + " | ".join(escape.markdown(" ".join(c.split("\n"))) for c in table.columns) + " |")
        texts = [at < table.text_columns or at in table.kept for at in range(len(table.columns))]
        lines.append("|" + "".join("---|" if text else "---:|" for text in texts))
        lines += ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in table.rows]
        lines += ["", *map(escape.markdown_prose, table.notes), ""] if table.notes else [""]
    return "\n".join(lines)


def render_csv(tables: Sequence[Table]) -> str:
    """Rows under their header; an empty line between two tables. Without titles and notes. Figures are without commas,
    those that have a unit in their cell in bytes, percent or counts.
    """
    return "\n".join(_csv(table) for table in tables if table.columns)


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([escape.csv(" ".join(name.split())) for name in table.columns])
    for row in table.rows:
        writer.writerow([_csv_cell(cell) for cell in row])
    return out.getvalue()


def _csv_cell(cell: Cell) -> str | float:
    plain = cell.text.replace(",", "")
    if cell.text == MISSING:
        return ""
    if re.fullmatch(r"[-+]?[0-9.]+", plain):
        return plain
    return escape.csv(cell.text) if cell.value is None else cell.value


def _markdown_cell(cell: Cell) -> str:
    text = escape.markdown(cell.text)
    return f"**{text}**" if cell.exact else text
