# SPDX-License-Identifier: MIT
"""`heaptape report`: the HTML report."""

import argparse
import gc

from heaptape.commands.outcome import add_baseline_option
from heaptape.common.console import printable
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_text

SUMMARY = "one self-contained HTML file"
DESCRIPTION = "Writes one HTML file with tables, graphs, how it was measured, and the raw results."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", metavar="R.json", help="results of replay, or reports; - for standard input"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="report.html", help="default report.html; - for standard output"
    )
    add_baseline_option(parser)
    parser.add_argument(
        "--whole",
        action="store_true",
        help="leave nothing out of the raw results: memory maps, and time lines of all repetitions; a much larger page",
    )


def run(arguments: argparse.Namespace) -> int:
    from heaptape.common.console import WorkProgress
    from heaptape.results.comparing.compare import choose_baseline
    from heaptape.results.schema import all_results
    from heaptape.show.pages.page import make

    output = arguments.output
    check_writable(output)
    files = [file for path in arguments.results for file in all_results(path)]
    gc.freeze()  # they stay to the end: no collection needs to search them
    with WorkProgress() as progress:
        page = make(files, choose_baseline(files, arguments.baseline), progress.update, arguments.whole)
    write_text(output, page)
    if output != STANDARD_OUTPUT:
        print(f"{printable(output)}: {len(page.encode()) / (1 << 20):.1f} MiB")
    return 0
