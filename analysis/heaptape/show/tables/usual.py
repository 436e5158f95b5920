# SPDX-License-Identifier: MIT
"""Comparison tables for people.

CSV and JSON carry bytes and unrounded figures; here they are rounded, in MiB, and a difference that the repetitions
can't support is marked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from heaptape.common.phrases import counted, mean_name, size_above
from heaptape.common.tables import MIB, MISSING, Cell, Table
from heaptape.results import disturbance
from heaptape.results import replay_errors as fidelity
from heaptape.results.cells import grouped, in_unit
from heaptape.results.comparing.compare import (
    ARITHMETIC,
    GEOMETRIC,
    MAIN_CALLS,
    absolute,
    allocator_order,
    exactness,
    relative,
    repetitions,
)
from heaptape.results.comparing.intervals import Method
from heaptape.results.comparing.rare_calls import OTHER, RARE, rare_calls, together
from heaptape.results.fits import smallest_limits, spread_notes
from heaptape.results.schema import HELD_METRICS, OF_WORKLOAD, Results, figures, unique_name

FIRST_CALLS = (*MAIN_CALLS, OTHER)  # in the first table; others follow
WIDE_INTERVAL = 0.1  # of the figure
INSTRUCTIONS_NOTE = (
    "Of the allocator's calls only, counted under Valgrind, and so independent of clock, PMU and other processes."
)
STARTUP_NOTE = "start-up: the allocator's before the first call; not in other columns."
STRINGS_NOTE = (
    "string: repeated string instructions (rep stos, rep movs; one instruction each, as a processor counts them), and "
    "the bytes that they fill or copy."
)
HELD_NOTE = "all freed: RSS after every object was released; purged: RSS after the allocator's own purge as well."
LIMIT_NOTE = "fits in: the smallest memory limit (of a cgroup) for the whole program, its own memory included."
SHOWN_HALF = 0.05  # percent: a narrower half interval would be shown as 0.0
NOISY = "too noisy"
# Figures whose differences are withheld within the error of replaying. Counted figures (instructions, faults, system
# calls, memory) are shown, with the error of replaying beside them.
WITHHELD = ("bare_wall", "bare_cpu")
# The order in which comparisons are printed: counted figures first, as they need no repetitions.
SUBJECTS = ("instructions", "system", "memory", "time")
EXACT_LEGEND = (
    "No mark: exact, the same in every repetition (bold, where the format has bold), or within 0.05 of what is shown."
)
# mark -> does a cell have it, what it means
MARKS: dict[str, tuple[Callable[[str], bool], str]] = {
    "±": (lambda text: "±" in text, "half of the 95 % interval over the repetitions"),
    "(a–b)": (lambda text: "(" in text and "–" in text, "its ends, where it is wide"),
    "~": (lambda text: "~" in text, "the repetitions don't support a difference from the baseline"),
    "?": (lambda text: "?" in text, "one repetition, so there is no interval"),
    "≈": (lambda text: "≈" in text, "within the error of replaying CPU time, so the two are not ranked by it"),
    "–": (lambda text: text == MISSING, "no figure, or one below the cost of reading the counter"),
}


@dataclass(frozen=True)
class _Figures:
    """One workload: figures by allocator and metric, their numbers of repetitions, which are exact; the ops whose
    instructions were counted, if not all; a note on rare calls; and the
    smallest memory limits by allocator.
    """

    values: pd.DataFrame
    counts: pd.DataFrame
    exact: pd.DataFrame
    counted_ops: str
    rare_calls: str
    limits: Mapping[str, float]


def comparison(files: Sequence[Results], baseline: str, method: Method = "t") -> list[Table]:
    """All tables of a comparison, subject by subject: exactly counted figures (instructions, system calls and page
    faults, memory), then those that a clock measured. For one workload, each subject's percentages of the baseline
    follow its figures; for several, the figures of each workload come first.
    """
    return [one for _, one in by_subject(files, baseline, method)]


def by_subject(files: Sequence[Results], baseline: str, method: Method = "t") -> list[tuple[str, Table]]:
    """The tables of `comparison`, each with its one of SUBJECTS."""
    rare = rare_calls(files)
    table = together(figures(files), rare)
    order = allocator_order(files)
    values, counts, exact = absolute(table), repetitions(table), exactness(table)
    workloads = list(dict.fromkeys(table["workload"]))
    tables: list[tuple[int, Table]] = []
    for number, workload in enumerate(workloads):
        rows = [label for label in order if label in values.xs(workload).index]
        here = [frame.xs(workload).loc[rows] for frame in (values, counts, exact)]
        shown = _Figures(
            here[0].dropna(axis=1, how="all"),
            here[1],
            here[2],
            _counted_ops(files, workload),
            _rare_note(rare.get(workload, {})),
            _limits(files, workload, here[0]),
        )
        suffix = f" — {workload}" if len(workloads) > 1 else ""
        base = len(SUBJECTS) * number if len(workloads) > 1 else 0
        tables += [(base + SUBJECTS.index(subject), one) for subject, one in _absolute_tables(shown, suffix)]
    if len([label for label in order if label != baseline]):
        percents = relative(table, baseline, method)
        carried = all(file.is_replay for file in files)
        base = len(SUBJECTS) * len(workloads) if len(workloads) > 1 else 0
        found = _relative_tables(percents, order, baseline, workloads, carried)
        tables += [(base + SUBJECTS.index(subject), one) for subject, one in found]
    in_order = [(SUBJECTS[rank % len(SUBJECTS)], one) for rank, one in sorted(tables, key=lambda pair: pair[0])]
    if in_order:
        subject, last = in_order[-1]
        in_order[-1] = subject, replace(last, notes=[*last.notes, *_closing_notes(files)])
    if any(file.mean_over_calls for file in files):
        return [(subject, _with_means_over_calls(one)) for subject, one in in_order]
    return in_order


def _with_means_over_calls(table: Table) -> Table:
    usual, named = (mean_name(over_calls) for over_calls in (False, True))
    return replace(table, columns=[named if name == usual else name for name in table.columns])


def _closing_notes(files: Sequence[Results]) -> list[str]:
    notes: list[str] = []
    for file in files:
        name = f", {file.name}" * (len(files) > 1)
        left_out = (file.parsed.settings or {}).get("left_out")
        reasons = left_out.items() if isinstance(left_out, dict) else ()
        notes += [f"Left out{name}: {pass_} ({why})." for pass_, why in reasons]
        most = {run.label: run.huge_pages for run in file.measured if run.huge_pages}
        found = ", ".join(f"{label} {pages:,.0f}" for label, pages in most.items())
        notes += [f"Page faults that gave 2 MiB at a time, huge pages{name}: {found}."] * bool(found)
        notes += spread_notes(file, name)
        noise = disturbance.sentence(file.parsed.noise)
        notes += [f"Noise{name}: {noise}"] * bool(noise)
    return notes


def _counted_ops(files: Sequence[Results], workload: str) -> str:
    """A note if instructions were counted only at the beginning of the workload."""
    names: dict[tuple, str] = {}
    for file in files:
        if unique_name(file, names) == workload:
            for run in file.measured:
                if run.pass_ == "instructions" and run.op_limit:
                    return f"Of the first {run.op_limit:,} of {file.workload.ops or 0:,} ops."
    return ""


def _limits(files: Sequence[Results], workload: str, values: pd.DataFrame) -> dict[str, float]:
    names: dict[tuple, str] = {}
    file = next(file for file in files if unique_name(file, names) == workload)
    return smallest_limits(file, values["peak_rss"].dropna().to_dict()) if "peak_rss" in values.columns else {}


def calls_in(columns: Sequence[str]) -> list[str]:
    """Call names among metric columns: FIRST_CALLS first, then by name."""
    names = [c.removeprefix("calls/") for c in columns if c.startswith("calls/")]
    return [c for c in FIRST_CALLS if c in names] + sorted(c for c in names if c not in FIRST_CALLS)


def _rare_note(rare: Mapping[str, float]) -> str:
    return f"{OTHER}: {', '.join(sorted(rare))}, each less than {100 * RARE:.0f} % of all calls." if rare else ""


def _absolute_tables(shown: "_Figures", suffix: str) -> list[tuple[str, Table]]:
    """(subject, table) for one workload."""
    values, tables = shown.values, [("instructions", one) for one in _instructions_tables(shown, suffix)]
    system = {f"syscalls/{c}": c for c in ("mmap", "munmap", "mremap", "madvise", "brk")} | {
        "page_faults": "page faults"
    }
    tables.append(("system", _metric_table(f"System calls and page faults{suffix}", shown, system, [])))
    memory = {
        "peak_rss": "peak memory",
        "mean_rss": mean_name(over_calls=False),
        "ideal_rss": "ideal RSS",
        "achievable_rss": "achievable",
        "overhead": "overhead",
        "held_rss": "all freed",
        "purged_rss": "purged",
        "vm_size": "VmSize",
        "smallest_limit": "fits in",
    }
    if {"peak_rss", "mean_rss", "vm_size"} & set(values.columns):
        more = values
        if {"peak_rss", "ideal_rss"} <= set(values.columns):
            more = values.assign(overhead=values["peak_rss"] - values["ideal_rss"])
        if shown.limits:
            more = more.assign(
                smallest_limit=pd.Series({label: size_above(one) for label, one in shown.limits.items()})
            )
        notes = [
            _n_note(shown.counts, "peak_rss"),
            HELD_NOTE if "held_rss" in values.columns else "",
            LIMIT_NOTE if shown.limits else "",
        ]
        tables.append(("memory", _metric_table(f"Memory, MiB{suffix}", replace(shown, values=more), memory, notes)))
    calls = calls_in(list(values.columns))
    timed = {"total_cycles", *(f"calls/{c}" for c in calls), "bare_wall", "bare_cpu"} & set(values.columns)
    columns = (
        ({"total_instructions": "instructions, M"} if timed else {})
        | {"total_cycles": "Total, M cycles"}
        | {f"calls/{c}": c for c in calls if c in FIRST_CALLS}
        | {"bare_wall": "bare, ms", "bare_cpu": "bare CPU, ms"}
    )
    notes = [_n_note(shown.counts, "total_cycles"), shown.rare_calls if f"calls/{OTHER}" in values.columns else ""]
    tables.append(("time", _metric_table(f"Time: cycles per call, mean{suffix}", shown, columns, notes)))
    others = [c for c in calls if c not in FIRST_CALLS]
    for begin in range(0, len(others), 4):
        columns = {f"calls/{c}": c for c in others[begin : begin + 4]}
        tables.append(("time", _metric_table(f"Time: cycles per call, mean, other calls{suffix}", shown, columns, [])))
    counters = {m: m.removeprefix("pmu/").replace("_", " ") for m in values.columns if m.startswith("pmu/")}
    tables.append(("time", _metric_table(f"Processor counters per op{suffix}", shown, counters, [])))
    return [(subject, table) for subject, table in tables if len(table.columns) > 1]


def _instructions_tables(shown: "_Figures", suffix: str) -> list[Table]:
    metrics = [m for m in shown.values.columns if m.startswith("instructions/")]
    counted = [m.removeprefix("instructions/") for m in metrics]
    main = [c for c in FIRST_CALLS if c in counted]
    others = sorted(c for c in counted if c not in FIRST_CALLS)
    total = "total_instructions"
    exact = total in shown.values.columns and bool(shown.exact.loc[shown.values[total].notna(), total].all())
    notes = [shown.rare_calls if OTHER in main else "", INSTRUCTIONS_NOTE, shown.counted_ops]
    if "startup_instructions" in shown.values.columns:
        notes.append(STARTUP_NOTE)
    strings = {}
    if "string_bytes" in shown.values.columns and shown.values["string_bytes"].max() > 0:
        notes.append(STRINGS_NOTE)
        strings = {"string_instructions": "string", "string_bytes": "string MiB"}
    groups = [main, *(others[begin : begin + 4] for begin in range(0, len(others), 4))]
    tables = []
    for number, calls in enumerate(groups):
        title = f"Instructions per call{', other calls' * (number > 0)}{' (exact)' * exact}{suffix}"
        columns = {f"instructions/{c}": c for c in calls}
        if number == 0:
            columns = {"total_instructions": "Total, M"} | columns | strings | {"startup_instructions": "start-up, M"}
        below = [" ".join(note for note in notes if note)] if number == 0 else []
        tables.append(_metric_table(title, shown, columns, below))
    return tables


def _metric_table(title: str, shown: "_Figures", columns: dict[str, str], notes: list[str]) -> Table:
    values, exact = shown.values, shown.exact
    present = {metric: name for metric, name in columns.items() if metric in values.columns}
    rows = []
    for label in values.index:
        cells = [
            replace(
                _figure(metric, values.at[label, metric]),
                exact=metric in exact.columns and bool(exact.at[label, metric]),
            )
            for metric in present
        ]
        rows.append([Cell(label), *cells])
    return Table(title, ["allocator", *present.values()], rows, [n for n in notes if n])


def _figure(metric: str, value: float) -> Cell:
    if metric in ("total_instructions", "startup_instructions", "total_cycles", "bare_wall", "bare_cpu"):
        return in_unit(value, 1e6)
    sizes = ("string_bytes", "peak_rss", "mean_rss", *OF_WORKLOAD, "overhead", "vm_size", "smallest_limit")
    if metric in sizes or metric in HELD_METRICS:
        return in_unit(value, MIB)
    return in_unit(value) if metric.startswith(("calls/", "pmu/")) else grouped(value)


def _n_note(counts: pd.DataFrame, metric: str) -> str:
    if metric not in counts.columns:
        return ""
    low, high = int(counts[metric].min()), int(counts[metric].max())
    return f"Means of {counted(low, 'repetition')}." if low == high else f"Means of {low} to {high} repetitions."


def _relative_tables(
    percents: pd.DataFrame, order: list[str], baseline: str, workloads: list[str], carried: bool
) -> list[tuple[str, Table]]:
    """(subject, table). `carried`: the figures are a replay's, and carry its error."""
    cells = {}
    for r in percents.itertuples():
        withheld = carried and r.metric in WITHHELD
        errors = fidelity.errors_of([r.metric], [r.allocator, baseline]) if withheld else {}
        cells[r.workload, r.allocator, r.metric] = percent_cell(r, max(errors.values(), default=0.0))
    present = set(percents["metric"])
    calls = [c for c in calls_in([m.replace("instructions/", "calls/") for m in present]) if c in FIRST_CALLS]
    totals = percents[percents["metric"] == "total_instructions"]
    exact = len(totals) > 0 and bool(totals["exact"].all())
    instructions = {"total_instructions": f"instructions{' (exact)' * exact}"}
    memory = {
        "peak_rss": "peak memory",
        "mean_rss": mean_name(over_calls=False),
        "vm_size": "VmSize",
        "page_faults": "page faults",
    }
    bare = {"bare_wall": "bare", "bare_cpu": "bare CPU"}
    cycles = {"total_cycles": "Total"} | {f"calls/{c}": c for c in calls}
    kinds = [
        (
            "instructions",
            f"Instructions{' (exact)' * exact}",
            {"total_instructions": "Total"} | {f"instructions/{c}": c for c in calls},
        ),
        ("memory", "Memory", memory),
        ("time", "Time", instructions | cycles if present & set(cycles) else {}),
        ("time", "Time of the whole replay", instructions | bare if present & set(bare) else {}),
    ]
    others = [label for label in order if label != baseline]
    means = [GEOMETRIC, ARITHMETIC] if len(workloads) > 1 else []
    tables: list[tuple[str, Table]] = []
    for subject, kind, columns in kinds:
        here = {m: name for m, name in columns.items() if any((w, a, m) in cells for w in workloads for a in others)}
        rows = []
        for label in others:
            for workload in workloads + means:
                name = label if len(workloads) == 1 else f"{label}, {workload}"
                rows.append([Cell(name), *[cells.get((workload, label, m), Cell(MISSING)) for m in here]])
        if here:
            tables.append((subject, Table(f"{kind}, % of {baseline}", ["allocator", *here.values()], rows)))
    if tables:
        # One legend is enough for tables next to each other.
        fidelity_text = fidelity.sentence([*bare, *memory], others) if carried else ""
        notes = legend([table for _, table in tables]) + [fidelity_text] * bool(fidelity_text)
        tables[-1] = (tables[-1][0], replace(tables[-1][1], notes=notes))
    return tables


def legend(tables: Sequence[Table]) -> list[str]:
    """Explains the marks of percentages that occur."""
    cells = [cell for table in tables for row in table.rows for cell in row[table.text_columns :]]
    found = {mark: what for mark, (has, what) in MARKS.items() if any(has(cell.text) for cell in cells)}
    marks = "; ".join(f"{mark}: {what}" for mark, what in found.items())
    parts = [EXACT_LEGEND] * any(cell.exact for cell in cells) + [f"{marks}."] * bool(marks)
    notes = [" ".join(parts)] if parts else []
    noisy = [cell.reason for cell in cells if cell.reason]
    if noisy:
        one, *_ = noisy
        first = "of one of them, " * (len(noisy) > 1) + one.removeprefix(f"{NOISY}: ")
        which = f"{len(noisy)} figures" if len(noisy) > 1 else "1 figure"
        notes.append(f"{NOISY} ({which}): {first}.")
    return notes


def percent_cell(row: Any, error: float = 0.0) -> Cell:  # noqa: ANN401
    """A row of `compare.relative` as shown: the percentage, its interval, and whether it is supported. `error`: by how
    many percent a replay may be off; a difference that is not beyond it is marked ≈.
    """
    if row.reason:
        return Cell(NOISY, None, True, reason=row.reason)
    if error > 0 and abs(row.percent - 100) <= error:
        plain = percent_cell(row)
        return Cell(f"≈{plain.text.removeprefix('~')}", plain.value, True)
    text = f"{row.percent:,.1f}"
    if row.supported is None:
        return Cell(f"{text} ?", row.percent, True)
    mark, half = "" if row.supported else "~", (row.high - row.low) / 2
    if half <= 1e-12 * row.percent:
        # An interval of width 0 is sure.
        return Cell(text, row.percent, exact=bool(getattr(row, "exact", True)))
    if half < SHOWN_HALF:
        return Cell(f"{mark}{text}", row.percent, not row.supported)
    # Intervals are symmetric as ratios: a wide one is not centred on the figure, so its ends are shown.
    if half > WIDE_INTERVAL * row.percent:
        ends = f"({row.low:,.{_decimals(row.low)}f}–{row.high:,.{_decimals(row.high)}f})"
        return Cell(f"{mark}{row.percent:,.{_decimals(row.percent)}f} {ends}", row.percent, not row.supported)
    return Cell(f"{mark}{text} ±{half:,.1f}", row.percent, not row.supported)


def _decimals(percent: float) -> int:
    return 0 if percent >= 10 else 1
