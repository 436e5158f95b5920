# SPDX-License-Identifier: MIT
"""`heaptape gate`: is a new allocator worse than the old one, and what is the smallest tape that shows it?"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import add_format_option, add_table_option, chosen_tables, given
from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json, write_text

if TYPE_CHECKING:
    from heaptape.allocators.registry import Choice
    from heaptape.features.gate.gate import Pairing
    from heaptape.features.gate.minimise import Limits

SUMMARY = "is a new allocator worse than the old one, and the smallest tape that shows it"
GROUP = "Tune and guard"
DESCRIPTION = (
    "Replays tapes into both allocators and compares exact figures: memory, page faults, system calls, instructions, "
    "and verifies that the new allocator keeps the rules of malloc. Exit status 0: no figure is worse than tolerated; "
    "1: some are, or verification failed; 125: something could not be measured; 2: wrong usage. So 'git bisect run' "
    "finds the revision since which an allocator is worse. If a figure is worse, "
    "the smallest tape that still shows it is kept (docs/use/GATE.md)."
)
WHICH = ("worst", "all", "none")
LIMITS = ("minimise_runs", "minimise_minutes")  # names of the options of `add_limits`
SOUND = "reference"
PLANTED = {  # of --self-test
    SOUND: "nothing is planted",
    "reference:neither": "calls that cost more are planted",
    "reference:random-placement": "scattered memory is planted",
    "reference:leak": "a leak is planted",
}
UNMEASURED = 125  # git bisect run skips such a revision


def add_pair(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Adds --old and --new, which `heaptape minimise` has too."""
    for name, what in (("old", "the allocator to compare with"), ("new", "the allocator in question")):
        parser.add_argument(
            f"--{name}",
            required=required,
            metavar="NAME[:VARIANT]|glibc=DIR|LIB.so",
            help=f"{what}, as for -a of replay",
        )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Adds the limits on making one tape smaller, which `heaptape minimise` has too."""
    parser.add_argument(
        "--minimise-runs", type=int, default=400, metavar="N", help="try at most N pieces of a tape (default 400)"
    )
    parser.add_argument(
        "--minimise-minutes", type=float, default=5, metavar="MINUTES", help="for at most this long (default 5)"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "corpus", nargs="+", metavar="CORPUS", help="a trace, workload or other recording, or a folder of them"
    )
    add_pair(parser, required=False)
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="show on this corpus that the gate catches what is planted: calls that cost more, memory that is "
        "scattered, and a leak, by switches of our own allocator; without --old and --new",
    )
    parser.add_argument(
        "--tolerate",
        default="rss=1%,instructions=2%,syscalls=10%",
        metavar="LIST",
        help="how much worse each figure may be: percent, an amount (5, 64 KiB) or both (1%%+64 KiB). rss is rss-peak "
        "(peak memory) and rss-mean (mean memory); other figures are vmsize-peak, faults, misses. Figures not named "
        "are only shown (default %(default)s)",
    )
    parser.add_argument("--junit", metavar="F.xml", help="write the result as JUnit XML")
    parser.add_argument("-o", "--output", metavar="G.json", help="write all figures (-: standard output)")
    parser.add_argument(
        "--artefacts",
        default="heaptape-gate",
        metavar="DIR",
        help="where minimised tapes go, each in its own folder (default %(default)s)",
    )
    parser.add_argument(
        "--minimise",
        default="worst",
        choices=WHICH,
        help="which tapes are made smaller: the worst one for each figure, all, or none (default %(default)s)",
    )
    add_limits(parser)
    parser.add_argument("--timeout", type=float, default=0, metavar="SECONDS", help="for one replay (default: none)")
    parser.add_argument("--json", action="store_const", const="-", dest="output", help="the same as -o -")
    add_table_option(parser, "all figures of all workloads; so in other formats than text")
    add_format_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compares, prints the table, minimises tapes whose figures are worse. Returns 1 if any are, else
    UNMEASURED if anything could not be measured.
    """
    from heaptape.allocators import c_libraries
    from heaptape.allocators.registry import BUILT, is_library, library_of
    from heaptape.features.gate import gate, minimise

    chosen_tables(arguments.table, ())
    limits = limits_of(arguments, "gate")
    if arguments.self_test != (arguments.old is None) or arguments.self_test != (arguments.new is None):
        raise UsageError("gate: --old and --new, or --self-test")
    if arguments.self_test:
        return _self_test(arguments)
    if is_library(arguments.new) and not library_of(arguments.new).is_file():
        console.error(f"gate: {library_of(arguments.new)}: no such library")
        return UNMEASURED
    if arguments.new.startswith(BUILT):
        try:
            c_libraries.find(Path(arguments.new.removeprefix(BUILT).partition(":")[0]))
        except HeaptapeError as error:
            console.error(f"gate: {error}")
            return UNMEASURED
    pairing = _pairing(arguments)
    try:
        files = gate.find(arguments.corpus)
    except HeaptapeError as error:
        raise UsageError(f"gate: {error}") from None
    for output in filter(None, (arguments.output, arguments.junit)):
        check_writable(output)
    minimise.check_folder(Path(arguments.artefacts))
    with replaying.work() as work:
        results = gate.compare_all(
            files,
            pairing,
            arguments.home,
            work.scratch,
            lambda _, done: work.progress.update(f"{done} of {len(files)} workloads compared", done / len(files)),
        )
        data = gate.describe(results, pairing)
        wanted = gate.failing(results, pairing) if arguments.minimise != "none" else []
        wanted = gate.worst(wanted) if arguments.minimise == "worst" else wanted
        try:
            for about in gate.minimise_each(
                wanted, pairing, arguments.home, Path(arguments.artefacts), limits, work.progress.update
            ):
                data["not_minimised" if "why" in about else "minimised"].append(about)
        finally:  # interrupted or not: the comparison is complete
            _write(data, arguments)
    return 0 if data["passed"] else 1 if any(one.is_worse for one in results) else UNMEASURED


def _self_test(arguments: argparse.Namespace) -> int:
    """Compares our own allocator with itself, and with each of PLANTED. Returns 1 if the gate is wrong on one."""
    from heaptape.features.gate import gate
    from heaptape.features.gate.tables import gate_lines

    files, right = gate.find(arguments.corpus), True
    for new, what in PLANTED.items():
        arguments.old, arguments.new = SOUND, new
        pairing = _pairing(arguments)
        with replaying.work() as work:
            work.progress.note(what)
            results = gate.compare_all(files, pairing, arguments.home, work.scratch, lambda _, done: None)
        found = gate.describe(results, pairing)
        as_it_should = found["passed"] == (new == SOUND)
        right &= as_it_should
        lines = [f"{what}: {'right' if as_it_should else 'WRONG'}", *gate_lines(found)[:2]]
        write_text(STANDARD_OUTPUT, "\n  ".join(lines) + "\n")
    console.verdict(f"self-test {'passed' if right else 'failed'}", right)
    return 0 if right else 1


def _pairing(arguments: argparse.Namespace) -> "Pairing":
    from heaptape.features.gate.gate import Pairing
    from heaptape.run.condition import parse_tolerances

    tolerances = parse_tolerances(arguments.tolerate)
    old, new = choose_pair(arguments, "gate")
    return Pairing(old, new, tolerances, arguments.timeout)


def choose_pair(arguments: argparse.Namespace, command: str) -> "tuple[Choice, Choice]":
    """--old and --new. Raises UsageError."""
    from heaptape.allocators import registry

    known = registry.load(arguments.home)
    try:
        return registry.choose(arguments.old, known), registry.choose(arguments.new, known)
    except HeaptapeError as error:
        raise UsageError(f"{command}: {error}") from None


def limits_of(arguments: argparse.Namespace, command: str) -> "Limits":
    """Raises UsageError."""
    from heaptape.features.gate.minimise import Limits

    if arguments.minimise_runs < 1 or not arguments.minimise_minutes > 0:
        raise UsageError(f"{command}: --minimise-runs and --minimise-minutes: more than 0")
    return Limits(arguments.minimise_runs, arguments.minimise_minutes)


def _write(data: dict, arguments: argparse.Namespace) -> None:
    from heaptape.features.gate.minimise import junit_xml
    from heaptape.features.gate.tables import gate_said, gate_tables, gate_text
    from heaptape.show.tables.latex import render

    limits = given(arguments, LIMITS)
    if arguments.output:
        write_json(arguments.output, data | gate_said(data, limits))
    if arguments.junit:
        write_text(arguments.junit, junit_xml(data))
    if STANDARD_OUTPUT not in (arguments.output, arguments.junit):
        wanted = arguments.table or arguments.format != "text"
        text = render(gate_tables(data), arguments.format) if wanted else gate_text(data, limits)
        write_text(STANDARD_OUTPUT, text)
    console.verdict(f"gate {'passed' if data['passed'] else 'failed'}", data["passed"])
