# SPDX-License-Identifier: MIT
"""What a command prints by default: one screen of 24 lines of 80 columns. What was measured, one table, the answer,
what could change it, and where more is. Every command makes a `Screen`; `render` prints it as text, Markdown or LaTeX.

A new command: put its rows into a `Table` (common/tables.py: `short` texts, `good` cells, `kept` columns), its
sentences into a `Screen`, and give the text of `render` to `write_text`. Cells are never broken: that is the table's
work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heaptape.common import phrases
from heaptape.common.console import printable
from heaptape.common.escape import markdown_prose
from heaptape.common.phrases import percent
from heaptape.common.tables import (
    MISSING,
    Cell,
    Table,
    command_lines,
    render_csv,
    render_markdown,
    render_text,
    screen_width,
    wrapped,
)
from heaptape.decide.answer import AMONG_FASTEST, Answer, Row
from heaptape.decide.cpu import cpu_text
from heaptape.show.tables.latex import render_latex

MOST_ROWS = 9
CLEAR_PERCENT = 2.0  # from this change on, a cell is coloured


@dataclass(frozen=True)
class Screen:
    """`about`: what was measured, a line. `table`: one row per choice; None: none. `sentences`: the answer. `caveats`:
    what could change it. `more`: (label, command) for what to do next, with the command as it can be typed behind one
    that shows a choice (phrases.choice); a label that is as the one before is not repeated.
    """

    about: str
    table: Table | None
    sentences: Sequence[str] = ()
    caveats: Sequence[str] = ()
    more: Sequence[tuple[str, ...]] = ()


def render(screen: Screen, form: str = "text") -> str:
    """The screen as "text", "md", "csv" or "latex". Markdown is a block to paste into a pull request: without `more`;
    CSV is the table.
    """
    if form == "text":
        return _text(screen)
    if form == "csv":
        return render_csv([screen.table] if screen.table else [])
    below = [*screen.sentences, *screen.caveats]
    table = (
        replace(screen.table, title=screen.about, notes=below) if screen.table else Table(screen.about, [], [], below)
    )
    if form == "latex":
        return render_latex([table])
    body = render_markdown([replace(table, title="", notes=[])]) if screen.table else ""
    said = "\n".join(map(markdown_prose, below))
    return "\n\n".join([part for part in (markdown_prose(screen.about), body.rstrip(), said) if part]) + "\n"


def as_json(screen: Screen) -> dict[str, Any]:
    """What every answer has in --json: what was measured, the sentences, and what to type next."""
    return {
        "about": screen.about,
        "sentences": list(screen.sentences),
        "caveats": list(screen.caveats),
        "next": [typed for *_, typed in screen.more],
    }


def _text(screen: Screen) -> str:
    width = screen_width()
    parts = ["\n".join(wrapped(screen.about, width))]
    if screen.table:
        parts.append(render_text([replace(screen.table, title="")]).rstrip("\n"))
    said = [line for sentence in (*screen.sentences, *screen.caveats) for line in wrapped(sentence, width)]
    more = _more_lines(screen.more, width)
    return "\n\n".join(part for part in (*parts, "\n".join(said), "\n".join(more)) if part) + "\n"


def _more_lines(more: Sequence[tuple[str, ...]], width: int) -> list[str]:
    indent = max((len(label) for label, *_ in more), default=0) + 2
    out, before = [], ""
    for label, command, *_ in more:
        shown = f"{label}:" if label != before else ""
        out += command_lines(f"{shown:<{indent}}{printable(command)}", width, " " * (indent + 2))
        before = label
    return out


def of_answer(answer: Answer) -> Screen:
    """The answer of a comparison."""
    labels = {"more": "More", "report": "More", "live": "Live"}
    more = [(labels[what], *commands) for what, *commands in answer.next]
    return Screen(answer.about, answer_table(answer), answer.sentences, answer.caveats, more)


def answer_table(answer: Answer, most: int = MOST_ROWS) -> Table:
    """A row for each allocator, best first; columns that no row has are left out. Of more than `most` rows, those with
    marks and the first ones.
    """
    rows = _shortened(answer.rows, most)
    one = answer.workloads == 1
    instructions = [_with_base(row, answer, row.instructions_percent, row.instructions, phrases.count) for row in rows]
    columns = [
        ("CPU\ntime", [_cpu(row, answer) for row in rows]),
        ("peak\nmemory", [_known(row.peak_bytes, phrases.size) for row in rows]),
        (
            "change" if answer.workloads == 1 else "peak\nmemory",
            [_change(row.peak_percent, row, answer) for row in rows],
        ),
        (
            phrases.mean_head(answer.mean_over_calls),
            [_with_base(row, answer, row.mean_percent, row.mean_bytes, phrases.size) for row in rows],
        ),
        ("malloc\ninstr.", instructions),
    ]
    if all(row.instructions_percent is None for row in rows):
        cells = [_with_base(row, answer, row.cycles_percent, row.cycles, phrases.count) for row in rows]
        columns.append(("malloc\ncycles", cells))
    if not one:
        columns.append(("worst\nworkload", [_worst(row, answer) for row in rows]))
    columns = [(name, cells) for name, cells in columns if any(cell.value is not None for cell in cells)]
    marks = [Cell(", ".join(row.marks)) for row in rows]
    names = [Cell(printable(row.name), short=printable(row.label)) for row in rows]
    lines = [[name, *(cells[at] for _, cells in columns), mark] for at, (name, mark) in enumerate(zip(names, marks))]
    left = len(answer.rows) - len(rows)
    notes = [f"{left} more allocators: --table all."] * bool(left)
    return Table("", ["", *(name for name, _ in columns), ""], lines, notes, kept=frozenset([len(columns) + 1]))


def _shortened(rows: Sequence[Row], most: int) -> list[Row]:
    if len(rows) <= most:
        return list(rows)
    marked = [row for row in rows if set(row.marks) - {AMONG_FASTEST}]
    first = [row for row in rows if row not in marked][: most - len(marked)]
    return [row for row in rows if row in marked or row in first]


def _cpu(row: Row, answer: Answer) -> Cell:
    if row.label == answer.baseline and row.cpu is None:
        return Cell(phrases.seconds(answer.cpu_ns) if answer.cpu_ns and answer.recorded_on_baseline else "")
    if row.cpu is None or not row.cpu.is_figure:
        return Cell(MISSING)
    clear = True if row.cpu.is_reason else False if row.cpu.low > 0 and row.cpu.percent >= CLEAR_PERCENT else None
    return Cell(cpu_text(row.cpu), row.cpu.percent, good=clear)


def _known(value: float | None, show: Callable[[float], str]) -> Cell:
    return Cell("") if value is None else Cell(show(value), value)


def _change(change: float | None, row: Row, answer: Answer) -> Cell:
    if change is None or row.label == answer.baseline:
        return Cell("")
    good = None if abs(change) < CLEAR_PERCENT else change < 0
    return Cell(percent(change), change, good=good)


def _with_base(
    row: Row, answer: Answer, change: float | None, value: float | None, show: Callable[[float], str]
) -> Cell:
    """The change; of the baseline the figure itself."""
    if row.label == answer.baseline:
        return _known(value, show)
    return _change(change, row, answer)


def _worst(row: Row, answer: Answer) -> Cell:
    found = row.worst.get("cpu") or row.worst.get("memory")
    if not found or row.label == answer.baseline:
        return Cell("")
    return Cell(f"{printable(found[0])} {percent(found[1])}", found[1])
