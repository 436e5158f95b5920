# SPDX-License-Identifier: MIT
"""`heaptape run`: runs a program whose call sites are served as a placement plan says."""

import argparse
import os
import shutil
import signal
from pathlib import Path

from heaptape.common.errors import HeaptapeError, UsageError

SUMMARY = "run a program with the placement of a plan"
TAKES_A_COMMAND = ()
DESCRIPTION = (
    "Runs the program with libheaptape-place.so, which serves the call sites of a plan of 'heaptape place' from "
    "regions of their own, and passes all other calls to the program's allocator (docs/use/PLACE.md)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--place", required=True, metavar="PLAN", help="a plan of 'heaptape place -o'")
    parser.epilog = "Example: heaptape run --place PLAN.toml -- CMD"


def run(arguments: argparse.Namespace) -> int:
    """Replaces the process by the program."""
    from heaptape.features.place import plan

    command = arguments.own_options
    if not command:
        raise UsageError("run: a program is missing: heaptape run --place PLAN -- CMD")
    plan.read(Path(arguments.place))
    library = plan.library(arguments.home)
    if shutil.which(command[0]) is None:
        raise HeaptapeError(f"{command[0]}: no such program")
    preload = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    os.environ["LD_PRELOAD"] = ":".join(preload)
    os.environ[plan.VARIABLE] = str(Path(arguments.place).resolve())
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores it, and a program would inherit that
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)
