# SPDX-License-Identifier: MIT
"""`heaptape diff`: what a change of the program did to its allocations, by call site."""

import argparse
import shlex

from heaptape.commands.outcome import add_format_option
from heaptape.common.output import STANDARD_OUTPUT, print_json, records, write_text

SUMMARY = "what a change of the program did to its allocations and peak, by call site"
GROUP = "Memory"
DESCRIPTION = (
    "Compares recordings of two versions of a program by call site (the innermost three functions, without wrappers of "
    "malloc): allocations, bytes requested, live bytes at the peak, objects that another thread frees, mean lifetime "
    "(in bytes that the program allocated meanwhile). Record both with --stacks; both builds must still be where they "
    "ran, as names are in their files. Recordings of one version are not alike; with several of each, only what "
    "differs between all of them is a change."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="OLD.tape", help="a recording of the old version")
    parser.add_argument("after", metavar="NEW.tape", help="a recording of the new version")
    for name in ("old", "new"):
        parser.add_argument(
            f"--{name}", action="append", default=[], metavar="F", help=f"a further recording of the {name} version"
        )
    parser.add_argument("--json", action="store_true", help="all call sites as JSON on standard output")
    add_format_option(parser)


def run(arguments: argparse.Namespace) -> int:
    from heaptape.features.diff import diff
    from heaptape.show import screen

    old, new = (
        diff.version([first, *others], arguments.home)
        for first, others in ((arguments.before, arguments.old), (arguments.after, arguments.new))
    )
    frame = diff.compared(old, new)
    shown = diff.screen(old, new, frame, [("Who holds it", f"heaptape blame {shlex.quote(arguments.after)}")])
    if arguments.json:
        print_json(screen.as_json(shown) | {"rows": records(frame)})
    else:
        write_text(STANDARD_OUTPUT, screen.render(shown, arguments.format))
    return 0
