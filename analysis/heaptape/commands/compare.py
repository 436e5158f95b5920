# SPDX-License-Identifier: MIT
"""`heaptape compare`: which tables, in which format."""

import argparse
from pathlib import Path

from heaptape import passes
from heaptape.common.errors import UsageError
from heaptape.common.output import STANDARD_OUTPUT, write_text

# What `compare --table` prints beside the tables of passes: name -> what it is (show/tables/kinds.py makes them).
TABLES = {
    "time": "predicted change of the program's CPU time, from counts and what they cost (heaptape machine)",
    "cost": "total cycles, mean cycles per malloc, calloc, realloc and free, peak RSS",
    "percent": "the same in percent of the baseline, with their means over workloads",
    "corners": "the matrix of --corners",
    "overhead": "RSS against ideal RSS, of the corners, or of each allocator against the baseline",
    "system": "system calls and their bytes, virtual and resident size",
    "sweep": "figures at each value of a tunable",
    "verdict": "which differences the repetitions support, in words, with effect sizes",
} | passes.TABLES
PLOTS = (".svg", ".pdf", ".png")

SUMMARY = "tables of results, with intervals"
DESCRIPTION = (
    "Prints what each allocator cost, then the same as percentages of a baseline with 95 % intervals "
    "over the repetitions. Several files are several workloads."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", metavar="R.json", help="results of replay, or reports; - for standard input"
    )
    parser.add_argument(
        "--baseline", metavar="NAME", help="allocator that percentages refer to (default: glibc, else the first)"
    )
    parser.add_argument(
        "--table",
        action="append",
        metavar="NAME",
        choices=TABLES,
        help="print this table instead of all usual ones; repeatable: "
        + "; ".join(f"{name}: {what}" for name, what in TABLES.items()),
    )
    parser.add_argument(
        "--format",
        default="text",
        choices=["text", "md", "csv", "json", "latex"],
        help="text (default), Markdown, CSV (one --table at a time), JSON, or LaTeX for the package booktabs",
    )
    parser.add_argument(
        "--interval",
        default="t",
        choices=["t", "bootstrap"],
        help="95 %% intervals by Student's t on paired log ratios (default), or by a studentised bootstrap of them, "
        "which covers better where noise is skewed, and is wider; for fewer than 5 repetitions it is Student's",
    )
    parser.add_argument(
        "--verdict",
        action="store_true",
        help="which differences the repetitions support, in words: the same as --table verdict",
    )
    parser.add_argument(
        "--corners",
        metavar="NEITHER,A,B,BOTH",
        help="the four-corner matrix of two switches instead, and RSS overhead: four allocators of the results, for "
        "instance reference:neither,reference:fastbins,reference:tcache,reference",
    )
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="figures at each value of a tunable that replay was given as a range: the same as --table sweep",
    )
    parser.add_argument("--tunable", metavar="NAME", help="with --sweep: which, where several were swept")
    parser.add_argument(
        "--plot", metavar="FILE", help="with --sweep: draw its curves into FILE too (.svg, .pdf or .png)"
    )
    parser.add_argument(
        "--ministat",
        action="store_true",
        help="the repetitions drawn as BSD's ministat does, with Student's t against the baseline, instead",
    )


def run(arguments: argparse.Namespace) -> int:
    from heaptape.commands.comparison import plot, print_comparison, print_corners, print_kinds, print_long
    from heaptape.results.comparing.compare import allocator_order, choose_baseline
    from heaptape.results.comparing.variants import parse_corners
    from heaptape.results.schema import all_results
    from heaptape.show.tables.kinds import Question

    names = _names(arguments)
    files = [file for path in arguments.results for file in all_results(path)]
    corners = parse_corners(arguments.corners, allocator_order(files)) if arguments.corners is not None else None
    baseline = choose_baseline(files, arguments.baseline)
    question = Question(files, baseline, corners, arguments.tunable or "", arguments.interval)
    if arguments.ministat:
        from heaptape.show.tables.ministat import distributions

        write_text(STANDARD_OUTPUT, distributions(files, baseline))
    elif names:
        print_kinds(question, names, arguments.format)
    elif corners:
        print_corners(question, arguments.format)
    elif arguments.format in ("csv", "json"):
        print_long(files, baseline, arguments.format, arguments.interval)
    else:
        print_comparison(files, baseline, arguments.format, arguments.interval)
    if arguments.plot:
        plot(question, arguments.plot)
    return 0


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
        raise UsageError("compare --tunable: needs --sweep")
    if arguments.plot and "sweep" not in names:
        raise UsageError("compare --plot: needs --sweep, which it draws")
    if arguments.plot and Path(arguments.plot).suffix not in PLOTS:
        raise UsageError(f"compare --plot: '{arguments.plot}' is none of {', '.join(PLOTS)}")
    return names
