# SPDX-License-Identifier: MIT
"""`heaptape distil`: a small part of a trace that stands for the whole, with its errors."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import add_allocator_option, add_format_option
from heaptape.common import console
from heaptape.common.errors import UsageError
from heaptape.common.output import check_writable

if TYPE_CHECKING:
    from heaptape.distil.distil import Distilled, Wanted
    from heaptape.run.registry import Choice

SUMMARY = "a small part of a trace that stands for the whole, with the error printed on it"
DESCRIPTION = (
    "Keeps the objects that determine memory (those live when their size class is at its peak, and large ones), and "
    "windows of calls for instructions; replays the whole and the distillate on all allocators, and writes the errors "
    "into the trace: those on each allocator, and those to expect on another one, found by leaving out one allocator "
    "at a time. docs/use/DISTILLATION.md."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F", help="a trace, a workload or another recording")
    parser.add_argument("-o", "--output", required=True, metavar="D.tape", help="the distillate")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--ops", type=int, metavar="N", help="how many ops it may have")
    size.add_argument("--ratio", type=float, metavar="R", help="what share of the ops, 0 to 1 (default 0.01)")
    size.add_argument(
        "--error", type=float, metavar="PERCENT", help="the smallest whose expected errors are not above this"
    )
    parser.add_argument(
        "--kind", default="both", choices=["time", "memory", "both"], help="what it stands for (default both)"
    )
    words = "an allocator to fit it on (repeatable; default: all that are here, and the variants that matter)"
    add_allocator_option(parser, words, "NAME")
    parser.add_argument(
        "--misses", action="store_true", help="misses of caches and TLBs, too; needs a recording with --accesses"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the choice of windows (default 0)")
    add_format_option(parser)
    parser.add_argument("--json", action="store_true", help="the errors that the trace carries, and the wanted ops")


def run(arguments: argparse.Namespace) -> int:
    """Writes the distillate; prints what it keeps and its errors."""
    from heaptape.distil.distil import Distiller
    from heaptape.run import replay

    wanted = _wanted(arguments)
    choices = _choices(arguments)
    check_writable(arguments.output)
    with replaying.work() as work:
        workload = replay.prepare(arguments.input, arguments.home, work.scratch)
        name = replaying.name_of(arguments.input)
        distiller = Distiller(workload, name, choices, wanted, arguments.home, work.scratch)
        distiller.tell = work.progress.update
        made = distiller.make(Path(arguments.output))
    _print(made, wanted, arguments)
    return 0


def _wanted(arguments: argparse.Namespace) -> "Wanted":
    """Raises UsageError."""
    from heaptape.distil.distil import Wanted

    if arguments.output == "-":
        raise UsageError("distil -o: a file")
    if arguments.ops is not None and arguments.ops < 1:
        raise UsageError("distil --ops: a number of ops")
    if arguments.ratio is not None and not 0 < arguments.ratio <= 1:
        raise UsageError("distil --ratio: a share, above 0 and at most 1")
    if arguments.error is not None and not arguments.error > 0:
        raise UsageError("distil --error: percent, above 0")
    if arguments.misses and arguments.kind == "memory":
        raise UsageError("distil --misses: needs windows, which --kind memory does not have")
    if arguments.seed < 0:
        raise UsageError("distil --seed: a number, 0 or more")
    return Wanted(arguments.kind, arguments.ops, arguments.ratio, arguments.error, arguments.seed, arguments.misses)


def _choices(arguments: argparse.Namespace) -> list["Choice"]:
    """The allocators to fit on. Raises HeaptapeError; UsageError if there are too few to leave one out."""
    from heaptape.run import registry

    known = registry.load(arguments.home)
    chosen = registry.choose_all(arguments.allocator, known)
    if not arguments.allocator:
        for name in {choice.allocator: None for choice in chosen}:
            matter = [variant for variant, one in known[name].variants.items() if one.advise == "always"]
            chosen += [registry.choose(f"{name}:{variant}", known) for variant in matter]
    if len({choice.allocator for choice in chosen}) < 3:
        raise UsageError("distil -a: at least three allocators, as one at a time is left out")
    return chosen


def _print(made: "Distilled", wanted: "Wanted", arguments: argparse.Namespace) -> None:
    from heaptape.common.output import flush_standard_output
    from heaptape.distil.distil import about, as_json, error_table, sentences, warnings
    from heaptape.show.screen import Screen, render

    screen = Screen(about(made, arguments.output), error_table(made), sentences(made, wanted))
    flush_standard_output(as_json(made) if arguments.json else render(screen, arguments.format))
    for line in warnings(made, wanted):
        console.warning(line)
