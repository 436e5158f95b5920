# SPDX-License-Identifier: MIT
"""`heaptape fleet`: many recordings, many machines. Its commands are in modules of their own."""

import argparse

from heaptape.cli import fleet_data, fleet_members, fleet_replay, fleet_store
from heaptape.cli.outcome import Parser
from heaptape.cli.subcommand import Subcommand

SUMMARY = "replay many recordings on many machines, and keep what was measured in a store"
DESCRIPTION = (
    "Replays workloads x allocators x passes, each once, on this machine, on the workers of a Dask scheduler or in a "
    "batch system, and keeps every result in a store: a folder, or any URL that fsspec knows. docs/FLEET.md."
)

SUBCOMMANDS: dict[str, Subcommand] = {
    "replay": fleet_replay.REPLAY,
    "work": fleet_replay.WORK,
    "status": fleet_store.STATUS,
    "merge": fleet_store.MERGE,
    "ingest": fleet_data.INGEST,
    "query": fleet_data.QUERY,
    "choose": fleet_data.CHOOSE,
    "report": fleet_data.REPORT,
    "keys": fleet_members.KEYS,
    "scheduler": fleet_members.SCHEDULER,
    "worker": fleet_members.WORKER,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    commands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", parser_class=Parser, required=True)
    for name, subcommand in SUBCOMMANDS.items():
        added = commands.add_parser(name, help=subcommand.summary, description=subcommand.description)
        subcommand.add_arguments(added)


def run(arguments: argparse.Namespace) -> int:
    """Runs the subcommand."""
    return SUBCOMMANDS[arguments.subcommand].run(arguments)
