# SPDX-License-Identifier: MIT
"""Printing the tables of a comparison, for `heaptape compare` and `heaptape replay`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heaptape.common import console
from heaptape.common.errors import HeaptapeError
from heaptape.common.output import STANDARD_OUTPUT, print_json, records, write_text
from heaptape.results import margins
from heaptape.results.comparing.intervals import LEVEL, Method
from heaptape.results.schema import Results

if TYPE_CHECKING:
    import pandas as pd

    from heaptape.common.tables import Table
    from heaptape.show.tables.kinds import Question


def print_comparison(files: Sequence[Results], baseline: str, form: str = "text", method: Method = "t") -> None:
    """Prints the usual tables as text, Markdown or LaTeX, and failed runs to standard error. Raises HeaptapeError if
    there are no tables.
    """
    from heaptape import passes
    from heaptape.results.model.time_model import prediction, sentences
    from heaptape.show.tables import time_table
    from heaptape.show.tables.usual import comparison

    predicted = prediction(files, baseline)
    time = time_table.usual(predicted, baseline, sentences(predicted, files, baseline))
    counted = [*time, *passes.usual(files, baseline, counted=True)]
    others = passes.usual(files, baseline, counted=False)
    _print_tables([*counted, *comparison(files, baseline, method), *others], files, form)


def print_kinds(question: "Question", names: list[str], form: str) -> None:
    """Prints the tables of these names (kinds.KINDS)."""
    from heaptape.results.comparing.compare import as_shown
    from heaptape.show.tables.kinds import KINDS
    from heaptape.show.tables.usual import with_sentences

    frames = {name: KINDS[name].frame(question) for name in names}
    if form == "csv":
        _write_csv(as_shown(frames[names[0]]), question.files)
    elif form == "json":
        about = {"baseline": question.baseline, "level": LEVEL, "interval": question.method}
        about |= {"corners": question.corners.labels} if question.corners else {}
        about |= _stand_ins(question.files)
        rows = {name: records(as_shown(frame)) for name, frame in frames.items()}
        print_json(about | {"tables": rows})
    else:
        tables = [table for name in names for table in KINDS[name].view(frames[name], question)]
        tables = with_sentences(tables, question.files)
        _print_tables(tables, question.files, form)


def print_corners(question: "Question", form: str) -> None:
    from heaptape.results.comparing.compare import as_shown
    from heaptape.show.tables.corner_tables import corner_tables
    from heaptape.show.tables.frames import corner_matrix
    from heaptape.show.tables.usual import with_sentences

    if form not in ("csv", "json"):
        tables = with_sentences(corner_tables(question.files, question.four, question.method), question.files)
        _print_tables(tables, question.files, form)
        return
    frame = as_shown(corner_matrix(question.files, question.four, question.method))
    _print_rows(frame, question.files, form, {"corners": question.four.labels, "level": LEVEL})


def print_long(files: Sequence[Results], baseline: str, form: str, method: Method) -> None:
    """Prints the whole comparison as one table, for other programs."""
    from heaptape.results.comparing.compare import as_shown, long_table

    table = as_shown(long_table(files, baseline, method))
    _print_rows(table, files, form, {"baseline": baseline, "level": LEVEL})


def _print_rows(frame: "pd.DataFrame", files: Sequence[Results], form: str, about: dict) -> None:
    if form == "csv":
        _write_csv(frame, files)
    else:
        print_json(about | {"rows": records(frame)} | _stand_ins(files))


def _write_csv(frame: "pd.DataFrame", files: Sequence[Results]) -> None:
    """CSV has no place for notes about the files: they go to standard error."""
    write_text(STANDARD_OUTPUT, frame.to_csv(index=False, lineterminator="\n"))
    for sentence in margins.sentences(files):
        console.warning(sentence)


def _stand_ins(files: Sequence[Results]) -> dict:
    """The workloads that stand for another, each with its kind and margins in percent; empty if there are none."""
    about = {file.name: one.as_json() for file in files if (one := margins.stand_in(file.workload))}
    return {"stand_ins": about} if about else {}


def _print_tables(tables: Sequence["Table"], files: Sequence[Results], form: str) -> None:
    from heaptape.common.tables import render_markdown, render_text
    from heaptape.show.tables.latex import render_latex

    if not tables:
        raise HeaptapeError("the results hold no figures to compare")
    render = {"text": render_text, "md": render_markdown, "latex": render_latex}[form]
    write_text(STANDARD_OUTPUT, render(tables))
    for file in files:
        for run in file.failures:
            console.error(f"{file.path}: {run.allocator}, {run.pass_ or '?'} pass: {run.error}")


def plot(question: "Question", path: str) -> None:
    from heaptape.show.figures import sweep_plot
    from heaptape.show.tables.kinds import KINDS

    sweep_plot.write(KINDS["sweep"].frame(question), path)
