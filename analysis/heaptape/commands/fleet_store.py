# SPDX-License-Identifier: MIT
"""`heaptape fleet status` and `heaptape fleet merge`."""

import argparse
import time

from heaptape.commands.fleet_data import needed
from heaptape.commands.outcome import Subcommand
from heaptape.common import console
from heaptape.common.output import STANDARD_OUTPUT, print_json, write_text


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder or URL")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def _status(arguments: argparse.Namespace) -> int:
    import msgspec

    from heaptape.fleet.status import in_words, status
    from heaptape.fleet.store import open_store

    found = status(open_store(arguments.store, tell=console.note), time.time())
    if arguments.json:
        print_json(msgspec.to_builtins(found))
    else:
        write_text(STANDARD_OUTPUT, in_words(found) + "\n")
    return 0


def _merge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="store")
    parser.add_argument("into", metavar="INTO", help="store; made where there is none")


def _merge(arguments: argparse.Namespace) -> int:
    needed()
    from heaptape.fleet.merge import merge
    from heaptape.fleet.store import open_store

    source = open_store(arguments.source, tell=console.note)
    merged = merge(source, open_store(arguments.into, create=True, tell=console.note))
    print(f"{merged.cells:,} cells and {merged.others:,} other files taken over")
    for name in merged.damaged:
        console.warning(f"{arguments.source}: {name}: damaged, and left out")
    return 1 if merged.damaged else 0


STATUS = Subcommand(
    "how far a store's plans are",
    "Prints what of a store's plans is done, who runs what, what failed and why, and when the rest will be ready.",
    _status_arguments,
    _status,
)
MERGE = Subcommand(
    "put one store into another",
    "Takes over what the second store lacks: workloads, libraries, plans, results, traces. Nothing is replaced "
    "except blocks that are not whole.",
    _merge_arguments,
    _merge,
)
