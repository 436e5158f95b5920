# SPDX-License-Identifier: MIT
"""Printing a comparison, for `heaptape compare` and `heaptape replay`: the answer, or tables by name."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from heaptape import passes
from heaptape.commands.outcome import ALL, add_format_option, add_table_option, chosen_tables
from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.escape import csv_frame
from heaptape.common.output import STANDARD_OUTPUT, print_json, records, write_text

if TYPE_CHECKING:
    import argparse

    import pandas as pd

    from heaptape.common.tables import Table
    from heaptape.decide.answer import Answer
    from heaptape.results.comparing.intervals import Method
    from heaptape.results.schema import Results
    from heaptape.show.tables.kinds import Question

# What --table prints beside the tables of passes: name -> what it is (show/tables/kinds.py makes them).
TABLES = {
    "time": "predicted change of the program's CPU time, and its parts",
    "calls": "instructions per call of malloc, calloc, realloc and free",
    "memory": "peak, mean and virtual memory, and what stays when all is freed",
    "syscalls": "system calls and page faults",
    "cycles": "cycles per call, as a clock measured them, with intervals over the repetitions",
    "workloads": "the answer for each workload",
    "published": "cycles (else instructions) in all, of each call, and RSS, as tcache's were published; with --corners",
    "overhead": "peak memory against the program's live bytes, also of --corners",
    "verdict": "which differences the repetitions support, in words, with effect sizes",
    "sweep": "figures at each value of a tunable that was given as a range",
    "corners": "the matrix of --corners",
} | passes.TABLES
OF_ALL = ("time", "calls", "memory", "syscalls", "cycles")  # and those of passes, as far as they say so
SUBJECT_OF = {"calls": "instructions", "syscalls": "system", "memory": "memory", "cycles": "time"}
METRICS = {
    "calls": ("total_instructions", "instructions/", "string_", "startup_instructions"),
    "syscalls": ("syscalls/", "syscall_bytes/", "page_faults"),
    "memory": ("peak_rss", "mean_rss", "ideal_rss", "achievable_rss", "vm_size", "held_rss", "purged_rss"),
    "cycles": ("total_cycles", "calls/", "bare_", "pmu/"),
}


def add_options(parser: "argparse.ArgumentParser") -> None:
    """The options of what is printed, which all commands that compare have."""
    group = parser.add_argument_group("what is printed")
    tables = "; ".join(f"{name}: {what}" for name, what in TABLES.items())
    add_table_option(group, "print these tables instead of the answer: " + tables)
    add_format_option(group, ("json",), ", json; csv: one table, or all figures")
    group.add_argument("--json", action="store_true", help="the figures as JSON on standard output")


def table_names(asked: Sequence[str], form: str, command: str) -> list[str]:
    """The tables that --table names. Raises UsageError for unknown names, or for several as CSV."""
    names = chosen_tables(asked, TABLES)
    if form == "csv" and (len(names) > 1 or ALL in names):
        raise UsageError(f"{command} --format csv: one table at a time")
    return names


def print_answer(files: "Sequence[Results]", baseline: str, form: str = "text", method: "Method" = "t") -> None:
    """Prints the answer as text, Markdown or LaTeX, and failed runs to standard error."""
    from heaptape.show import screen

    found = _answer(files, baseline, method)
    if not found.has_figures:  # of passes that the answer is not about
        from heaptape.show.tables.kinds import Question

        print_named(Question(files, baseline, method=method), [ALL], form)
        return
    write_text(STANDARD_OUTPUT, screen.render(screen.of_answer(found), form))
    _report_failures(files)


def print_named(question: "Question", names: list[str], form: str) -> None:
    """Prints the tables of these names."""
    from heaptape.results.comparing.compare import as_shown
    from heaptape.results.comparing.intervals import LEVEL

    if form == "csv":
        _write_csv(as_shown(_frame(question, names[0])))
    elif form == "json":
        about = {"baseline": question.baseline, "level": LEVEL, "interval": question.method}
        about |= {"corners": question.corners.labels} if question.corners else {}
        about |= said(question.files, question.baseline, question.method)
        wanted = [name for one in names for name in (_of_all() if one == ALL else [one])]
        rows = {name: records(as_shown(_frame(question, name))) for name in wanted}
        print_json(about | {"tables": rows})
    else:
        tables = [table for name in names for table in _tables(question, name)]
        _print_tables(tables, question.files, form)


def _frame(question: "Question", name: str) -> "pd.DataFrame":
    from heaptape.results.comparing.compare import long_table
    from heaptape.show.tables.kinds import KINDS

    if name in KINDS:
        return KINDS[name].frame(question)
    frame = long_table(question.files, question.baseline, question.method)
    return frame[frame["metric"].str.startswith(METRICS.get(name, ("total_instructions", "peak_rss", "mean_rss")))]


def _of_all() -> list[str]:
    return [*OF_ALL, *(name for name in passes.TABLES if passes.table(name).in_all)]


def _tables(question: "Question", name: str) -> "list[Table]":
    from heaptape.show.tables.kinds import KINDS
    from heaptape.show.tables.usual import by_subject

    if name == ALL:
        found = [one for each in _of_all() for one in _tables(question, each)]
        return [one for one in found if one.rows or not one.columns]
    if name == "workloads":
        return _of_workloads(question)
    if name in SUBJECT_OF:
        every = by_subject(question.files, question.baseline, question.method)
        return [one for subject, one in every if subject == SUBJECT_OF[name]]
    return KINDS[name].view(KINDS[name].frame(question), question)


def _of_workloads(question: "Question") -> "list[Table]":
    from heaptape.decide.answer import answer
    from heaptape.show.screen import answer_table

    found = [answer([file], question.baseline) for file in question.files]
    return [replace(answer_table(one, 1000), title=one.about, notes=list(one.sentences)) for one in found]


def print_corners(question: "Question", form: str) -> None:
    from heaptape.results.comparing.compare import as_shown
    from heaptape.results.comparing.intervals import LEVEL
    from heaptape.show.tables.corner_tables import corner_matrix, corner_tables

    if form not in ("csv", "json"):
        tables = corner_tables(question.files, question.four, question.method)
        _print_tables(tables, question.files, form)
        return
    frame = as_shown(corner_matrix(question.files, question.four, question.method))
    _write_rows(frame, question.files, form, {"corners": question.four.labels, "level": LEVEL})


def write_long(
    files: "Sequence[Results]", baseline: str, form: str, method: "Method" = "t", output: str = STANDARD_OUTPUT
) -> None:
    """Writes the whole comparison as one table, for other programs."""
    from heaptape.results.comparing.compare import as_shown, long_table
    from heaptape.results.comparing.intervals import LEVEL

    table = as_shown(long_table(files, baseline, method))
    _write_rows(table, files, form, {"baseline": baseline, "level": LEVEL} | said(files, baseline, method), output)


def said(files: "Sequence[Results]", baseline: str, method: "Method" = "t") -> dict:
    """The sentences of the answer, for JSON."""
    from heaptape.show import screen

    return screen.as_json(screen.of_answer(_answer(files, baseline, method)))


def _answer(files: "Sequence[Results]", baseline: str, method: "Method") -> "Answer":
    """The answer, whose tables have the intervals of this method, too."""
    from heaptape.decide.answer import answer

    found = answer(files, baseline)
    if method == "t":
        return found
    option = f" --ci {method}"
    more = [(what, *(one + option * (what == "more") for one in commands)) for what, *commands in found.next]
    return replace(found, next=tuple(more))


def _write_rows(
    frame: "pd.DataFrame", files: "Sequence[Results]", form: str, about: dict, output: str = STANDARD_OUTPUT
) -> None:
    if form == "csv":
        _write_csv(frame)
    else:
        print_json(about | {"rows": records(frame)}, output)


def _write_csv(frame: "pd.DataFrame") -> None:
    write_text(STANDARD_OUTPUT, csv_frame(frame))


def _print_tables(tables: Sequence["Table"], files: "Sequence[Results]", form: str) -> None:
    from heaptape.show.tables.latex import render

    if not tables:
        _report_failures(files)
        raise HeaptapeError("" if any(file.failures for file in files) else "the results hold no figures to compare")
    write_text(STANDARD_OUTPUT, render(tables, form))
    _report_failures(files)


def _report_failures(files: "Sequence[Results]") -> None:
    """Each failure once, with the passes that it ended."""
    for file in files:
        passes_of: dict[tuple[str, str | None], dict[str, None]] = {}
        for run in file.failures:
            passes_of.setdefault((run.allocator, run.error), {})[run.pass_ or "?"] = None
        for (allocator, error), names in passes_of.items():
            console.error(f"{file.path}: {allocator}, pass{'es' * (len(names) > 1)} {', '.join(names)}: {error}")
