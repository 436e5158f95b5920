# SPDX-License-Identifier: MIT
"""`heaptape compare`: which tables, in which format."""

import argparse

from heaptape.commands import comparison
from heaptape.commands.outcome import add_baseline_option
from heaptape.common.errors import UsageError
from heaptape.common.output import check_writable

SUMMARY = "which allocator costs what: the answer, or tables of results"
DESCRIPTION = (
    "Prints which allocator needs the least CPU time and memory, from results of replay. Several files are several "
    "workloads. A recording, or -- CMD, is replayed first."
)

USUAL = ("--baseline", "--table", "--format", "--json", "--corners", "-o")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(own_options=[], home=None)
    parser.usage = "heaptape compare [OPTION...] F... | [OPTION...] -- CMD [ARGUMENT...]"
    parser.add_argument(
        "results", nargs="*", metavar="F", help="results of replay, reports, or recordings; - for standard input"
    )
    add_baseline_option(parser)
    comparison.add_options(parser)
    parser.add_argument(
        "-o", "--output", metavar="C.json", help="also write all figures as JSON, as --json prints them"
    )
    parser.add_argument(
        "--corners",
        metavar="NEITHER,A,B,BOTH",
        help="the four-corner matrix of two switches instead, and RSS overhead: four allocators of the results, for "
        "instance reference:neither,reference:fastbins,reference:tcache,reference",
    )
    parser.add_argument("--tunable", metavar="NAME", help="of --table sweep, where several were swept")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.results and not arguments.own_options:
        raise UsageError("compare: results or recordings, or a program: heaptape compare -- CMD ...")
    if arguments.json:
        arguments.format = "json"
    names = _names(arguments)
    if arguments.output:
        check_writable(arguments.output)

    from heaptape.commands.replaying import results_of
    from heaptape.results.comparing.compare import allocator_order, choose_baseline
    from heaptape.results.comparing.variants import parse_corners
    from heaptape.show.tables.kinds import Question

    files = results_of(arguments.results, arguments.own_options, arguments.home)
    corners = parse_corners(arguments.corners, allocator_order(files)) if arguments.corners is not None else None
    baseline = choose_baseline(files, arguments.baseline)
    question = Question(files, baseline, corners, arguments.tunable or "")
    if names:
        comparison.print_named(question, names, arguments.format)
    elif corners:
        comparison.print_corners(question, arguments.format)
    elif arguments.format in ("csv", "json"):
        comparison.write_long(files, baseline, arguments.format)
    else:
        comparison.print_answer(files, baseline, arguments.format)
    if arguments.output:
        comparison.write_long(files, baseline, "json", arguments.output)
    return 0


def _names(arguments: argparse.Namespace) -> list[str]:
    names = comparison.table_names(arguments.table, arguments.format, "compare")
    if "corners" in names and arguments.corners is None:
        raise UsageError("compare --table corners: of which four? --corners NEITHER,A,B,BOTH")
    if arguments.tunable is not None and "sweep" not in names:
        raise UsageError("compare --tunable: needs --table sweep")
    return names
