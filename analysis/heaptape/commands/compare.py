# SPDX-License-Identifier: MIT
"""`heaptape compare`: which tables, in which format."""

import argparse

from heaptape.commands import comparison
from heaptape.commands.outcome import add_baseline_option
from heaptape.common.errors import UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_text

SUMMARY = "which allocator costs what: the answer, or tables of results"
DESCRIPTION = (
    "Prints which allocator needs the least CPU time and memory, from results of replay. Several files are several "
    "workloads. A recording, or -- CMD, is replayed first."
)

USUAL = ("--baseline", "--table", "--format", "--json", "--sweep", "--verdict", "--corners", "--ci", "-o")


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
        "--ci",
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
        "--ministat",
        action="store_true",
        help="the repetitions drawn as BSD's ministat does, with Student's t against the baseline, instead",
    )


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
    question = Question(files, baseline, corners, arguments.tunable or "", arguments.ci)
    if arguments.ministat:
        from heaptape.show.tables.ministat import distributions

        write_text(STANDARD_OUTPUT, distributions(files, baseline))
    elif names:
        comparison.print_named(question, names, arguments.format)
    elif corners:
        comparison.print_corners(question, arguments.format)
    elif arguments.format in ("csv", "json"):
        comparison.write_long(files, baseline, arguments.format, arguments.ci)
    else:
        comparison.print_answer(files, baseline, arguments.format, arguments.ci)
    if arguments.output:
        comparison.write_long(files, baseline, "json", arguments.ci, arguments.output)
    return 0


def _names(arguments: argparse.Namespace) -> list[str]:
    asked = [*arguments.table, *["sweep"] * arguments.sweep, *["verdict"] * arguments.verdict]
    names = comparison.table_names(asked, arguments.format, "compare")
    if arguments.ministat and (names or arguments.corners is not None):
        raise UsageError("compare --ministat: prints no tables")
    if "corners" in names and arguments.corners is None:
        raise UsageError("compare --table corners: of which four? --corners NEITHER,A,B,BOTH")
    if arguments.tunable is not None and "sweep" not in names:
        raise UsageError("compare --tunable: needs --sweep")
    return names
