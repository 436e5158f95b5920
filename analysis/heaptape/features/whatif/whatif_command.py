# SPDX-License-Identifier: MIT
"""`heaptape whatif`: replays a trace with groups of its objects treated differently, beside the original."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import (
    ALL,
    AS_PRINTED,
    add_allocator_option,
    add_format_option,
    add_table_option,
    again,
    chosen_tables,
)
from heaptape.common import console
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json, write_text

if TYPE_CHECKING:
    from heaptape.results.schema import Results
    from heaptape.run import rounds
    from heaptape.show.screen import Screen

SUMMARY = "what memory and time would be, had groups of objects been treated differently"
GROUP = "Memory"
TABLES = {"figures": "every figure beside the original's", "holders": "who holds the memory, before and after"}
DEFAULT_PASSES = "memory,instructions,blame"
DESCRIPTION = (
    "Rewrites the trace for each experiment, replays original and experiments into allocators, and prints peak memory, "
    "mean memory, instructions and who holds the memory, of each beside the original's. docs/use/BLAME.md defines how "
    "groups are named, and what an experiment assumes."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F", help="a trace (.tape)")
    parser.add_argument(
        "-g",
        "--group",
        action="append",
        required=True,
        metavar="EXPR=ACTION",
        help="an experiment. EXPR: terms joined by &: site=N, function=NAME, frame=NAME (any frame's function or "
        "library), thread=N, size=FROM..TO, phase=MARK; several values joined by commas, * stands for anything. "
        "ACTION: remove, segregate (into memory apart), pool=BYTES (carved from chunks of that size), early or late "
        "(acquired before or after all other objects). Repeatable",
    )
    parser.add_argument(
        "--together", action="store_true", help="all groups in one experiment (default: one for each group)"
    )
    add_allocator_option(parser, "as for replay; repeatable (default: the one it was recorded on)")
    parser.add_argument(
        "--passes",
        default=DEFAULT_PASSES,
        metavar="LIST",
        help=f"as for replay (default {DEFAULT_PASSES}); blame: who holds the memory, beside the original",
    )
    parser.add_argument(
        "--at",
        default="peak",
        metavar="WHERE",
        help="where memory is attributed, as for 'heaptape blame'; a position counts the trace's ops (default "
        "peak: the original and each experiment where its own RSS is largest)",
    )
    add_table_option(parser, "; ".join(f"{name}: {what}" for name, what in TABLES.items()))
    add_format_option(parser)
    parser.add_argument("--json", action="store_true", help="the same as -o -")
    parser.add_argument(
        "-o",
        "--output",
        metavar="R.json",
        help="where the results go (default: NAME.whatif.json in the current folder, reported on standard error; - for "
        "standard output)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Replays, writes R.json, prints the table. Returns 1 if a run failed."""
    from heaptape.allocators import registry
    from heaptape.features.whatif import experiments as whatif
    from heaptape.features.whatif import screen as experiments
    from heaptape.results.schema import Results
    from heaptape.run.recorded import as_recorded
    from heaptape.show import screen

    settings = _settings(arguments)
    _tables(arguments)
    own = replaying.own_choice(arguments.input, arguments.home)
    named = registry.choose_all(arguments.allocator, registry.load(arguments.home)) if arguments.allocator else [own]
    choices = as_recorded(arguments.allocator, named, own)
    tried = whatif.experiments(arguments.group, together=arguments.together)
    output = (
        arguments.output
        or (STANDARD_OUTPUT if arguments.json else "")
        or replaying.free_name(replaying.name_of(arguments.input), "whatif")
    )
    check_writable(output)
    with replaying.work() as work:
        job = whatif.Job(Path(arguments.input), tried, choices, settings)
        data = whatif.run(job, arguments.home, work.scratch, work.on_progress, work.on_failure)
    file = Results(output, data)
    shown = experiments.screen(file, again(arguments, **AS_PRINTED, table=["all"]))
    write_json(output, data | (screen.as_json(shown) if output == STANDARD_OUTPUT else {}))
    if output != STANDARD_OUTPUT:
        _print_tables(file, shown, arguments)
    if not arguments.output and not arguments.json:
        console.note(f"results in {output}")
    replaying.tell_left_out(data)
    return 1 if work.failed else 0


def _settings(arguments: argparse.Namespace) -> "rounds.Settings":
    from heaptape.common import engine
    from heaptape.run import rounds

    return rounds.Settings(
        repeats=2,
        passes=replaying.passes_of(arguments.passes, "whatif", without=engine.OF_ACCESSES),
        seed=replaying.random_seed(),
        optional=("instructions",) if arguments.passes == DEFAULT_PASSES else (),
        at=replaying.places_of([arguments.at]),
    )


def _print_tables(file: "Results", shown: "Screen", arguments: argparse.Namespace) -> None:
    from heaptape import features
    from heaptape.features.whatif.tables import whatif_tables
    from heaptape.results.judged import disproof_of
    from heaptape.show import screen
    from heaptape.show.tables.latex import render

    names = _tables(arguments)
    if not names:
        write_text(STANDARD_OUTPUT, screen.render(shown, arguments.format))
        return
    if disproof := disproof_of(file):
        console.warning(disproof)
    tables = whatif_tables(file) if "figures" in names else []
    if "holders" in names:
        for feature in features.modules("experiment_tables"):
            tables += feature.tables(file, arguments.at)
    write_text(STANDARD_OUTPUT, render(tables, arguments.format))


def _tables(arguments: argparse.Namespace) -> list[str]:
    names = chosen_tables(arguments.table, TABLES)
    return list(TABLES) if ALL in names else names
