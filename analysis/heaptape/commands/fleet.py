# SPDX-License-Identifier: MIT
"""`heaptape fleet`: many recordings, many machines. Its commands are in separate modules."""

import argparse

from heaptape.commands import fleet_data as data
from heaptape.commands import fleet_members as members
from heaptape.commands import fleet_replay as replay
from heaptape.commands import fleet_store as store
from heaptape.commands.outcome import Parser, Subcommand

SUMMARY = "replay many recordings on many machines, and keep what was measured in a store"
DESCRIPTION = (
    "Replays workloads x allocators x passes, each once, on this machine, on the workers of a Dask scheduler or in a "
    "batch system, and keeps every result in a store: a folder, or any URL that fsspec knows. docs/use/FLEET.md."
)

SUBCOMMANDS: dict[str, Subcommand] = {
    "replay": replay.REPLAY,
    "work": replay.WORK,
    "status": store.STATUS,
    "merge": store.MERGE,
    "ingest": data.INGEST,
    "query": data.QUERY,
    "choose": data.CHOOSE,
    "report": data.REPORT,
    "keys": members.KEYS,
    "scheduler": members.SCHEDULER,
    "worker": members.WORKER,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", parser_class=Parser, required=True)
    for name, subcommand in SUBCOMMANDS.items():
        added = commands.add_parser(name, help=subcommand.summary, description=subcommand.description)
        subcommand.add_arguments(added)


def run(arguments: argparse.Namespace) -> int:
    return SUBCOMMANDS[arguments.subcommand].run(arguments)
