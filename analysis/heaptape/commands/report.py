# SPDX-License-Identifier: MIT
"""`heaptape report`: the HTML report, or a notebook."""

import argparse
import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_text

if TYPE_CHECKING:
    from heaptape.results.schema import Results

SUMMARY = "one self-contained HTML file, or a notebook"
DESCRIPTION = (
    "Writes one HTML file with tables, graphs, how it was measured, and the raw results; or a notebook "
    "that reads the results and draws the same."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", metavar="R.json", help="results of replay, or reports; - for standard input"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="default report.html or report.ipynb; - for standard output"
    )
    parser.add_argument("--notebook", action="store_true", help="a Jupyter notebook instead")
    parser.add_argument(
        "--baseline", metavar="NAME", help="allocator that percentages refer to (default: glibc, else the first)"
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="keep the memory maps among the raw results even where they make a very large page",
    )


def run(arguments: argparse.Namespace) -> int:
    from heaptape.common.progress import WorkProgress
    from heaptape.results.comparing.compare import choose_baseline

    output = arguments.output or ("report.ipynb" if arguments.notebook else "report.html")
    check_writable(output)
    if arguments.notebook:
        try:
            from heaptape.show.pages.notebook import notebook
        except ImportError as error:
            raise HeaptapeError(
                "a notebook: its Python package is missing: pip install 'heaptape[notebook]'"
            ) from error
        page = notebook(arguments.results, arguments.baseline, output)
    else:
        from heaptape.show.pages.page import make

        files = _read_all(arguments.results)
        gc.freeze()  # they stay to the end: no collection needs to search them
        with WorkProgress() as progress:
            page = make(files, choose_baseline(files, arguments.baseline), progress.update, arguments.whole)
    write_text(output, page)
    if output != STANDARD_OUTPUT:
        print(f"{output}: {len(page.encode()) / (1 << 20):.1f} MiB")
    return 0


def _read_all(paths: Sequence[str]) -> "list[Results]":
    from heaptape.results.schema import all_results

    return [file for path in paths for file in all_results(path)]
