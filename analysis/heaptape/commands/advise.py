# SPDX-License-Identifier: MIT
"""`heaptape advise`: which allocator a program should use, on one screen."""

import argparse
import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import add_format_option
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_bytes, write_json, write_text
from heaptape.common.process import scratch_folder

if TYPE_CHECKING:
    from heaptape.advise.advise import Found, Wish
    from heaptape.advise.confirm import Confirmed
    from heaptape.advise.programs import Program

SUMMARY = "which allocator a program should use, and what that saves"
DESCRIPTION = (
    "Records a program (or takes a recording), replays it into every allocator found here and into its main settings, "
    "counts memory and instructions, and says what to use for memory and for CPU time, what that saves and costs, how "
    "sure that is, and what to set. docs/use/ADVISE.md describes how it decides."
)

USUAL = ("--objective", "--limit", "-a", "--baseline", "--live", "--accesses", "--keep", "--format", "--json", "-o")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "heaptape advise [OPTION...] F | [OPTION...] -- CMD [ARGUMENT...]"
    parser.add_argument(
        "input",
        metavar="F",
        nargs="?",
        help="trace or workload. Instead of it: -- CMD, which is run and recorded; of several processes, the one that "
        "makes the most calls is used. A program that does not end by itself is ended by Ctrl-C; the advice follows",
    )
    parser.add_argument(
        "--objective", default="both", choices=("memory", "cpu", "both"), help="what to save (default both, separately)"
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="CONDITION",
        help="a limit that the advice must keep: 'memory=64M' (of a container), 'rss-peak<=1.05*today', 'rss-mean<=64 "
        "MiB'. Repeatable",
    )
    parser.add_argument(
        "-a",
        "--allocator",
        action="append",
        default=[],
        metavar="NAME[:VARIANT]|LIB.so",
        help="a candidate, as for replay; repeatable (default: all that are found, and their main settings)",
    )
    parser.add_argument(
        "--baseline", metavar="NAME", help="what the program runs on today (default: what it was recorded on)"
    )
    _add_recording(parser)
    parser.add_argument("-o", "--output", metavar="A.json", help="the advice and its figures; - for standard output")
    parser.add_argument("--json", action="store_true", help="the same as -o -")
    add_format_option(parser)


def _add_recording(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="F.tape", help="keep the recording there")
    parser.add_argument(
        "--program", default="", metavar="NAME", help="of several processes, use the one whose executable has this name"
    )
    parser.add_argument(
        "--accesses",
        action="store_true",
        help="record data accesses too, under Valgrind, about 20 times slower: CPU time then includes cache misses",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="run the program alternately on the advised and on today's allocator, and say whether the advice holds; "
        "standard input must be a file, or nothing",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60,
        help="with --live: CPU time for runs that measure it (default 60; 0: only memory is measured)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the advice. Returns 1 if live runs show that it does not hold."""

    from heaptape.advise import advise, programs, words
    from heaptape.run import registry
    from heaptape.run.live import c_library
    from heaptape.show import screen
    from heaptape.tape.trace import recorded_cpu_ns

    command = _checked(arguments)
    wish = _wish(arguments)
    output = STANDARD_OUTPUT if arguments.json else arguments.output
    for path in (one for one in (output, arguments.keep) if one):
        check_writable(path)
    if not wish.names:
        replaying.note_others(registry.load(arguments.home))
    with replaying.work() as work, scratch_folder() as recorded:
        program = None
        if arguments.input is None:
            work.progress.update(f"recording {command[0]}", 0.0)
            options = ["--accesses"] if arguments.accesses else []
            program = programs.record(command, recorded, arguments.home, options, arguments.program)
            if arguments.keep:
                write_bytes(arguments.keep, program.trace.path.read_bytes())
        source = program.trace.path if program else Path(arguments.input)
        name = program.trace.program if program else replaying.name_of(arguments.input)
        cpu_ns = program.cpu_ns if program else recorded_cpu_ns(source)
        place = advise.Place(arguments.home, work.scratch, work.progress.update)
        found = advise.advise(advise.Source(source, name, cpu_ns), wish, place)
        confirmed = _confirm(found, arguments, command, program, work) if arguments.live else []
    found = advise.with_next_step(found, confirmed, _next_step(found, confirmed, arguments, command))
    if output:
        write_json(output, advise.as_json(found, confirmed))
    if output != STANDARD_OUTPUT:
        advice = dataclasses.replace(found.advice, command=command)
        shown = words.screen(advice, c_library())
        if arguments.format == "csv":
            shown = dataclasses.replace(shown, table=words.candidates(advice))
        write_text(STANDARD_OUTPUT, screen.render(shown, arguments.format))
    return 1 if any(one.held is False for one in confirmed) else 0


def _checked(arguments: argparse.Namespace) -> Sequence[str]:
    """The program's command line; empty if none was given. Raises UsageError for options that exclude each other."""
    command = list(arguments.own_options)
    if arguments.input is None and not command:
        raise UsageError("advise: a recording F, or a program: heaptape advise -- CMD ...")
    if arguments.live and not command:
        raise UsageError("advise --live: which program? Name it at the end: -- CMD ...")
    if arguments.input is not None and command and not arguments.live:
        raise UsageError("advise: a recording F or a program, not both; a program beside F is for --live")
    if arguments.input is not None and (arguments.keep or arguments.accesses):
        raise UsageError("advise: --keep and --accesses are about recording, and F is a recording")
    if arguments.seconds < 0:
        raise UsageError("advise --seconds: not negative")
    return command


def _wish(arguments: argparse.Namespace) -> "Wish":
    from heaptape.advise.advise import REFERENCE, Wish
    from heaptape.advise.fits import memory_limit
    from heaptape.gate.condition import parse

    memory = [limit for text in arguments.limit if (limit := memory_limit(text)) is not None]
    limits = [parse(text, (REFERENCE, "default")) for text in arguments.limit if memory_limit(text) is None]
    return Wish(arguments.objective, arguments.allocator, arguments.baseline, limits, min(memory, default=None))


def _confirm(
    found: "Found", arguments: argparse.Namespace, words: Sequence[str], program: "Program | None", work: replaying.Work
) -> "list[Confirmed]":
    from heaptape.advise.confirm import Command, confirm

    if program and program.status > 128:
        raise HeaptapeError(f"{words[0]}: --live needs a program that ends by itself")
    name = program.trace.program if program else arguments.program
    status = program.status if program else None

    def tell(what: str) -> None:
        work.progress.update(what, 1.0)

    command = Command(tuple(words), name, status, arguments.home, arguments.seconds, tell)
    return confirm(found.advice, command)


def _next_step(
    found: "Found", confirmed: "Sequence[Confirmed]", arguments: argparse.Namespace, words: Sequence[str]
) -> list[tuple[str, str]]:
    if confirmed or arguments.live or all(pick.label == found.advice.today for pick in found.advice.picks):
        return []
    return [("Confirm live", f"heaptape advise --live -- {shlex.join(words) if words else 'CMD'}")]
