"""Comparison tables for people: as text for a terminal, as Markdown, and as cells for the HTML report.

CSV and JSON carry bytes and unrounded figures; here they are rounded, in MiB, and a difference that the repetitions
can't support says so.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from heaptape.results import disturbance
from heaptape.results import replay_errors as fidelity
from heaptape.results.compare import (
    ARITHMETIC,
    GEOMETRIC,
    MAIN_CALLS,
    absolute,
    allocator_order,
    relative,
    repetitions,
)
from heaptape.results.intervals import Method
from heaptape.results.schema import HELD_METRICS, Results, figures

MISSING = "–"
MIB = 1 << 20
WIDE_INTERVAL = 0.1  # of the figure
FILE_WIDTH = 110
INSTRUCTIONS_NOTE = (
    "Of the allocator alone, counted under Valgrind, which needs no PMU and is not disturbed by other processes."
)
HELD_NOTE = "all freed: RSS after every object was released; purged: RSS after the allocator's own purge as well."
ENDLESS = 10_000  # percent: an interval that ends beyond says nothing
LEGEND = (
    "± is half of a 95 % interval over the repetitions, (a–b) its ends where it is wide; neither: every repetition "
    "gave the same figure. ~: the repetitions don't support a difference from the baseline; ?: one repetition, so "
    "there is no interval; –: no figure, or one below the cost of reading the counter."
)

WITHIN_ERROR = "≈: the difference from the baseline is within the error of replaying, so the two are not ranked."


@dataclass(frozen=True)
class Cell:
    """One cell: as shown, and the number to sort by (None: text or missing). `muted`: a difference that isn't
    supported.
    """

    text: str
    value: float | None = None
    muted: bool = False


@dataclass(frozen=True)
class Table:
    """A titled table; the first `text_columns` columns are text, the others figures. Without columns: only notes."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    text_columns: int = 1


def comparison(files: Sequence[Results], baseline: str, method: Method = "t") -> list[Table]:
    """All tables of a comparison: per workload cycles, memory and system calls, then percentages of the baseline."""
    table = figures(files)
    order = allocator_order(files)
    values, counts = absolute(table), repetitions(table)
    percents = relative(table, baseline, method)
    tables = []
    workloads = list(dict.fromkeys(table["workload"]))
    for workload in workloads:
        here, seen = values.xs(workload), counts.xs(workload)
        rows = [label for label in order if label in here.index]
        tables += _absolute_tables(
            workload, here.loc[rows].dropna(axis=1, how="all"), seen.loc[rows], len(workloads) > 1
        )
    if len([label for label in order if label != baseline]):
        carried = all(fidelity.is_replay(file.data) for file in files)
        tables += _relative_tables(percents, order, baseline, workloads, carried)
    if tables:
        noises = {file.name: disturbance.sentence(file.data.get("noise")) for file in files}
        noise = [f"Noise{f', {name}' * (len(files) > 1)}: {text}" for name, text in noises.items() if text]
        tables[-1] = replace(tables[-1], notes=[*tables[-1].notes, *noise])
    return tables


def calls_in(columns: Sequence[str]) -> list[str]:
    """Call names among metric columns: the four main ones first, the others by name."""
    names = [c.removeprefix("calls/") for c in columns if c.startswith("calls/")]
    return [c for c in MAIN_CALLS if c in names] + sorted(c for c in names if c not in MAIN_CALLS)


def _absolute_tables(workload: str, values: pd.DataFrame, counts: pd.DataFrame, name_workload: bool) -> list[Table]:
    suffix = f" — {workload}" if name_workload else ""
    calls = calls_in(list(values.columns))
    main = [c for c in calls if c in MAIN_CALLS]
    others = [c for c in calls if c not in MAIN_CALLS]
    columns = (
        {"total_cycles": "Total, M cycles"}
        | {f"calls/{c}": c for c in main}
        | {"bare_wall": "bare, ms", "bare_cpu": "bare CPU, ms"}
    )
    tables = [_metric_table(f"Time: cycles per call, mean{suffix}", values, columns, [_n_note(counts, "total_cycles")])]
    for begin in range(0, len(others), 4):
        columns = {f"calls/{c}": c for c in others[begin : begin + 4]}
        tables.append(_metric_table(f"Time: cycles per call, mean, other calls{suffix}", values, columns, []))
    counters = {m: m.removeprefix("pmu/").replace("_", " ") for m in values.columns if m.startswith("pmu/")}
    tables.append(_metric_table(f"Processor counters per op{suffix}", values, counters, []))
    tables += _instructions_tables(suffix, values)
    memory = {
        "peak_rss": "peak RSS",
        "mean_rss": "mean RSS",
        "ideal_rss": "ideal RSS",
        "overhead": "overhead",
        "held_rss": "all freed",
        "purged_rss": "purged",
        "vm_size": "VmSize",
    }
    if {"peak_rss", "ideal_rss"} <= set(values.columns):
        values = values.assign(overhead=values["peak_rss"] - values["ideal_rss"])
    if {"peak_rss", "mean_rss", "vm_size"} & set(values.columns):
        notes = [_n_note(counts, "peak_rss"), HELD_NOTE if "held_rss" in values.columns else ""]
        tables.append(_metric_table(f"Memory, MiB{suffix}", values, memory, notes))
    system = {f"syscalls/{c}": c for c in ("mmap", "munmap", "mremap", "madvise", "brk")} | {
        "page_faults": "page faults"
    }
    tables.append(_metric_table(f"System calls and page faults{suffix}", values, system, []))
    return [t for t in tables if len(t.columns) > 1]


def _instructions_tables(suffix: str, values: pd.DataFrame) -> list[Table]:
    counted = [m.removeprefix("instructions/") for m in values.columns if m.startswith("instructions/")]
    main = [c for c in MAIN_CALLS if c in counted]
    others = sorted(c for c in counted if c not in MAIN_CALLS)
    groups = [main, *(others[begin : begin + 4] for begin in range(0, len(others), 4))]
    tables = []
    for calls in groups:
        title = f"Instructions per call, mean{', other calls' * (calls != main)}{suffix}"
        columns = {f"instructions/{c}": c for c in calls}
        tables.append(_metric_table(title, values, columns, [INSTRUCTIONS_NOTE] * (calls == main)))
    return tables


def _metric_table(title: str, values: pd.DataFrame, columns: dict[str, str], notes: list[str]) -> Table:
    present = {metric: name for metric, name in columns.items() if metric in values.columns}
    rows = [[Cell(label), *[_figure(metric, values.at[label, metric]) for metric in present]] for label in values.index]
    return Table(title, ["allocator", *present.values()], rows, [n for n in notes if n])


def _figure(metric: str, value: float) -> Cell:
    if pd.isna(value):
        return Cell(MISSING)
    if metric in ("total_cycles", "bare_wall", "bare_cpu"):
        return Cell(rounded(value / 1e6), value)
    if metric in ("peak_rss", "mean_rss", "ideal_rss", "overhead", "vm_size", *HELD_METRICS):
        return Cell(rounded(value / MIB), value)
    if metric.startswith(("calls/", "pmu/")):
        return Cell(rounded(value), value)
    return Cell(f"{value:,.0f}", value)


def rounded(value: float) -> str:
    """About three digits, never fewer than the integer has."""
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 or value == 0 else 4
    return f"{value:,.{decimals}f}"


def _n_note(counts: pd.DataFrame, metric: str) -> str:
    if metric not in counts.columns:
        return ""
    low, high = int(counts[metric].min()), int(counts[metric].max())
    return f"Means of {low} repetition{'s' * (low != 1)}." if low == high else f"Means of {low} to {high} repetitions."


def _relative_tables(
    percents: pd.DataFrame, order: list[str], baseline: str, workloads: list[str], carried: bool
) -> list[Table]:
    """`carried`: the figures are a replay's, and carry its error."""
    errors = {
        (r.allocator, r.metric): max(fidelity.errors_of([r.metric], [r.allocator, baseline]).values(), default=0.0)
        for r in percents.itertuples()
        if carried
    }
    cells = {
        (r.workload, r.allocator, r.metric): percent_cell(r, errors.get((r.allocator, r.metric), 0.0))
        for r in percents.itertuples()
    }
    calls = [c for c in calls_in(list(percents["metric"].unique())) if c in MAIN_CALLS]
    time = {"total_cycles": "Total"} | {f"calls/{c}": c for c in calls}
    bare = {"bare_wall": "bare", "bare_cpu": "bare CPU"}
    memory = {"peak_rss": "peak RSS", "mean_rss": "mean RSS", "vm_size": "VmSize", "page_faults": "page faults"}
    others = [label for label in order if label != baseline]
    means = [GEOMETRIC, ARITHMETIC] if len(workloads) > 1 else []
    tables = []
    kinds = {"Time": time, "Time of whole streams": bare, "Memory": memory}
    for title, columns in ((f"{kind}, % of {baseline}", columns) for kind, columns in kinds.items()):
        present = {m: name for m, name in columns.items() if any((w, a, m) in cells for w in workloads for a in others)}
        rows = []
        for label in others:
            for workload in workloads + means:
                line = [cells.get((workload, label, metric), Cell(MISSING)) for metric in present]
                name = label if len(workloads) == 1 else f"{label}, {workload}"
                rows.append([Cell(name), *line])
        if present:
            tables.append(Table(title, ["allocator", *present.values()], rows, [LEGEND]))
    fidelity_text = fidelity.sentence([*bare, *memory], others) if carried else ""
    # One legend is enough for tables that stand together.
    last = [f"{LEGEND} {WITHIN_ERROR}", fidelity_text] if fidelity_text else [LEGEND]
    return [Table(t.title, t.columns, t.rows, last if t is tables[-1] else []) for t in tables]


def percent_cell(row: Any, error: float = 0.0) -> Cell:  # noqa: ANN401
    """A row of `compare.relative` as shown: the percentage, its interval, and whether it is supported. `error`: by how
    many percent a replay may be off; a difference that is not beyond it is no difference.
    """
    if error > 0 and abs(row.percent - 100) <= error:
        plain = percent_cell(row)
        return Cell(f"≈{plain.text.removeprefix('~')}", plain.value, True)
    text = f"{row.percent:,.1f}"
    if row.supported is None:
        return Cell(f"{text} ?", row.percent, True)
    mark, half = "" if row.supported else "~", (row.high - row.low) / 2
    if half <= 1e-12 * row.percent:
        return Cell(f"{mark}{text}", row.percent, not row.supported)
    # Intervals are symmetric as ratios: a wide one is not around its middle, so its ends are shown.
    if half > WIDE_INTERVAL * row.percent:
        high = f"{row.high:,.{_decimals(row.high)}f}" if row.high < ENDLESS else f"{ENDLESS:,}+"
        ends = f"({row.low:,.{_decimals(row.low)}f}–{high})"
        return Cell(f"{mark}{row.percent:,.{_decimals(row.percent)}f} {ends}", row.percent, not row.supported)
    return Cell(f"{mark}{text} ±{half:,.1f}", row.percent, not row.supported)


def _decimals(percent: float) -> int:
    return 0 if percent >= 10 else 1


def render_text(tables: Sequence[Table], width: int | None = None) -> str:
    """For a terminal (rich finds out its width and whether it has colours), or FILE_WIDTH wide where there is none."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(width=width or (None if sys.stdout.isatty() else FILE_WIDTH), highlight=False)
    with console.capture() as capture:
        for table in tables:
            console.print(Text(table.title, style="bold"))
            drawn = RichTable(box=None, pad_edge=False)
            for number, column in enumerate(table.columns):
                justify: Literal["left", "right"] = "left" if number < table.text_columns else "right"
                drawn.add_column(Text(column), justify=justify, overflow="fold")
            for row in table.rows:
                drawn.add_row(*[Text(cell.text, style="dim" if cell.muted else "") for cell in row])
            if table.columns:
                console.print(drawn)
            for note in table.notes:
                console.print(Text(note, style="dim" if table.columns else ""))
            console.print()
    return capture.get()


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
        lines += ["| " + " | ".join(_escape(cell.text) for cell in row) + " |" for row in table.rows]
        lines += ["", *table.notes, ""] if table.notes else [""]
    return "\n".join(lines)


def _escape(text: str) -> str:
    # A leading ~ would start strike-through together with another one in the row.
    return text.replace("|", "\\|").replace("~", "\\~")
