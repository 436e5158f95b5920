"""`heaptape compare`: which tables, in which format."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, write_text
from heaptape.results.intervals import LEVEL, Method
from heaptape.results.schema import Results, all_results

if TYPE_CHECKING:
    import pandas as pd

    from heaptape.tables.kinds import Question
    from heaptape.tables.usual import Table

PLOTS = (".svg", ".pdf", ".png")


def compare(arguments: argparse.Namespace) -> int:
    """Reads the results, prints the tables."""
    from heaptape.results.compare import allocator_order, choose_baseline
    from heaptape.results.corners import parse_corners
    from heaptape.tables.kinds import Question

    names = _names(arguments)
    files = [file for path in arguments.results for file in all_results(path)]
    corners = parse_corners(arguments.corners, allocator_order(files)) if arguments.corners is not None else None
    baseline = choose_baseline(files, arguments.baseline)
    question = Question(files, baseline, corners, arguments.tunable or "", arguments.interval)
    if arguments.ministat:
        from heaptape.tables.ministat import distributions

        write_text(STANDARD_OUTPUT, distributions(files, baseline))
    elif names:
        _print_kinds(question, names, arguments.format)
    elif corners:
        _print_corners(question, arguments.format)
    elif arguments.format in ("csv", "json"):
        _print_long(files, baseline, arguments.format, arguments.interval)
    else:
        print_comparison(files, baseline, arguments.format, arguments.interval)
    if arguments.plot:
        _plot(question, arguments.plot)
    return 0


def print_comparison(files: Sequence[Results], baseline: str, form: str = "text", method: Method = "t") -> None:
    """The usual tables as text, Markdown or LaTeX; failed runs to standard error. HeaptapeError if there are none."""
    from heaptape.tables import line_sharing
    from heaptape.tables.usual import comparison

    sharing = line_sharing.table(line_sharing.summary(files))
    _print_tables([*comparison(files, baseline, method), *sharing], files, form)


def _names(arguments: argparse.Namespace) -> list[str]:
    names = list(arguments.table or [])
    names += ["sweep"] * arguments.sweep + ["verdict"] * arguments.verdict
    names = list(dict.fromkeys(names))
    if len(names) > 1 and arguments.format == "csv":
        raise UsageError("compare --format csv: one table at a time")
    if arguments.ministat and (names or arguments.corners is not None):
        raise UsageError("compare --ministat: prints no tables")
    if "corners" in names and arguments.corners is None:
        raise UsageError("compare --table corners: of which four? --corners NEITHER,A,B,BOTH")
    if arguments.tunable is not None and "sweep" not in names:
        raise UsageError("compare --tunable: is of a sweep, so --sweep is needed")
    if arguments.plot and "sweep" not in names:
        raise UsageError("compare --plot: draws a sweep, so --sweep is needed")
    if arguments.plot and Path(arguments.plot).suffix not in PLOTS:
        raise UsageError(f"compare --plot: '{arguments.plot}' is none of {', '.join(PLOTS)}")
    return names


def _print_kinds(question: "Question", names: list[str], form: str) -> None:
    from heaptape.tables.kinds import KINDS

    frames = {name: KINDS[name].frame(question) for name in names}
    if form == "csv":
        write_text(STANDARD_OUTPUT, frames[names[0]].to_csv(index=False, lineterminator="\n"))
    elif form == "json":
        about = {"schema": 1, "baseline": question.baseline, "level": LEVEL, "interval": question.method}
        about |= {"corners": question.corners.labels} if question.corners else {}
        tables = {name: _records(frame) for name, frame in frames.items()}
        write_text(STANDARD_OUTPUT, json.dumps(about | {"tables": tables}, indent=1) + "\n")
    else:
        tables = [table for name in names for table in KINDS[name].view(frames[name], question)]
        _print_tables(tables, question.files, form)


def _print_corners(question: "Question", form: str) -> None:
    from heaptape.tables.corner_tables import corner_tables
    from heaptape.tables.frames import corner_matrix

    if form not in ("csv", "json"):
        _print_tables(corner_tables(question.files, question.four, question.method), question.files, form)
        return
    frame = corner_matrix(question.files, question.four, question.method)
    if form == "csv":
        write_text(STANDARD_OUTPUT, frame.to_csv(index=False, lineterminator="\n"))
        return
    about = {"schema": 1, "corners": question.four.labels, "level": LEVEL, "rows": _records(frame)}
    write_text(STANDARD_OUTPUT, json.dumps(about, indent=1) + "\n")


def _print_long(files: Sequence[Results], baseline: str, form: str, method: Method) -> None:
    from heaptape.results.compare import long_table

    table = long_table(files, baseline, method)
    if form == "csv":
        write_text(STANDARD_OUTPUT, table.to_csv(index=False, lineterminator="\n"))
        return
    about = {"schema": 1, "baseline": baseline, "level": LEVEL, "rows": _records(table)}
    write_text(STANDARD_OUTPUT, json.dumps(about, indent=1) + "\n")


def _print_tables(tables: Sequence["Table"], files: Sequence[Results], form: str) -> None:
    from heaptape.tables.latex import render_latex
    from heaptape.tables.usual import render_markdown, render_text

    if not tables:
        raise HeaptapeError("the results hold no figures to compare")
    render = {"text": render_text, "md": render_markdown, "latex": render_latex}[form]
    write_text(STANDARD_OUTPUT, render(tables))
    for file in files:
        for run in file.failures:
            label = f"{run['allocator']}, {run.get('pass', '?')} pass"
            print(f"heaptape: {file.path}: {label}: {run['error']}", file=sys.stderr)


def _plot(question: "Question", path: str) -> None:
    from heaptape.plots import sweep_plot
    from heaptape.tables.kinds import KINDS

    sweep_plot.write(KINDS["sweep"].frame(question), path)


def _records(frame: "pd.DataFrame") -> list[dict]:
    return json.loads(frame.to_json(orient="records", double_precision=15))
