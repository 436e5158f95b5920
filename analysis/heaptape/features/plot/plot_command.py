# SPDX-License-Identifier: MIT
"""`heaptape plot`: one picture per kind, as a file."""

import argparse
import shlex

from heaptape.commands.outcome import add_baseline_option
from heaptape.common.errors import HeaptapeError, UsageError, did_you_mean
from heaptape.common.output import check_writable, write_bytes

SUMMARY = "pictures: memory over time and by address, latency, costs, sizes, lifetimes"
GROUP = "Memory"
OF_RESULTS = {
    "memory": "resident memory of each allocator over progress, with live bytes",
    "address-space": "the same of virtual memory",
    "map": "address by progress, coloured by how full each region is; side by side, one scale",
    "calls": "cost of each allocator's calls in % of the baseline's",
    "scatter": "cost of calls against peak memory, % of the baseline",
    "latency": "median to 99.9th percentile of the most frequent calls, in cycles",
}
OF_RECORDINGS = {
    "sizes": "requests and bytes by size",
    "lifetimes": "age of objects at their release",
    "live": "live bytes over progress",
}
KINDS = OF_RESULTS | OF_RECORDINGS
FORMATS = (".png", ".svg", ".pdf")
DESCRIPTION = (
    "Draws results (R.json, of replay) or a recording. Without KIND: memory, of a recording live. Kinds of results: "
    + "; ".join(f"{name}: {what}" for name, what in OF_RESULTS.items())
    + ". Kinds of recordings: "
    + "; ".join(f"{name}: {what}" for name, what in OF_RECORDINGS.items())
    + "."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F", help="results (.json), or a recording")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="what to draw")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="a .png, .svg or .pdf, of one KIND (default NAME.KIND.png of each)"
    )
    parser.add_argument("-a", "--allocator", action="append", metavar="NAME", help="only these (default: all)")
    add_baseline_option(parser)
    parser.add_argument(
        "--width", type=float, default=7.0, metavar="INCHES", help="3.5: a paper's column; 10: a slide (default 7)"
    )
    parser.add_argument("--title", metavar="TEXT", help="above the picture (default: the name of the workload)")
    parser.add_argument("--dark", action="store_true", help="for a dark background")


def run(arguments: argparse.Namespace) -> int:
    from heaptape.features.plot import pictures

    _check(arguments)
    source = pictures.opened(arguments.input, arguments.home)
    kinds = arguments.kinds or ["live" if isinstance(source, pictures.Profile) else "memory"]
    possible = OF_RECORDINGS if isinstance(source, pictures.Profile) else OF_RESULTS
    if wrong := [kind for kind in kinds if kind not in possible]:
        results = f"needs results: heaptape replay {shlex.quote(arguments.input)} -o R.json"
        needs = results if possible is OF_RECORDINGS else ""
        raise UsageError(f"plot: {wrong[0]} {needs or 'needs a recording'}")
    look = pictures.Look(arguments.width, arguments.title, arguments.dark, arguments.allocator, arguments.baseline)
    failed = []
    for kind in kinds:
        output = arguments.output or f"{pictures.stem(arguments.input)}.{kind}.png"
        try:
            data = pictures.drawn(source, kind, look, output.rpartition(".")[2])
        except HeaptapeError as error:
            failed.append(f"{kind}: {error}")
            continue
        write_bytes(output, data)
        print(f"{output}: {len(data) / 1024:.0f} KiB")
    if failed:
        raise HeaptapeError(f"{arguments.input}: {'; '.join(failed)}")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    for kind in arguments.kinds:
        if kind not in KINDS:
            near = did_you_mean(kind, KINDS)
            raise UsageError(f"plot: unknown kind '{kind}'{near or ': there are ' + ', '.join(KINDS)}")
    if arguments.output and len(arguments.kinds) > 1:
        raise UsageError("plot -o: one KIND; without -o each has a file of its own")
    if arguments.output and not arguments.output.endswith(FORMATS):
        raise UsageError(f"plot -o: {arguments.output} ends in none of {', '.join(FORMATS)}")
    if not 1 <= arguments.width <= 40:
        raise UsageError("plot --width: from 1 to 40 inches")
    if arguments.output:
        check_writable(arguments.output)
