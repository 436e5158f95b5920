# SPDX-License-Identifier: MIT
"""`heaptape plot`: one picture per kind, as a file."""

import argparse
import shlex

from heaptape.commands.outcome import add_baseline_option
from heaptape.common.console import printable
from heaptape.common.errors import HeaptapeError, UsageError, did_you_mean
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_bytes, write_text
from heaptape.features import modules

SUMMARY = "pictures: memory over time and by address, latency, costs, sizes, lifetimes"
GROUP = "Memory"
OF_RESULTS = {
    "memory": "resident memory of each allocator over progress, with live bytes",
    "address-space": "the same of virtual memory",
    "map": "address by progress, coloured by how full each region is; side by side, one scale",
    "calls": "instructions, else cycles, of all calls and of the most frequent kinds, % of the baseline's",
    "scatter": "cost of calls against peak memory, % of the baseline",
    "latency": "median, mean, 99th and 99.9th percentile and most of the frequent kinds of calls, in cycles",
    "peak": "what resident memory consists of at its largest sample",
    "corners": "the four allocators of --corners, % of the first",
} | {module.KIND: module.SUMMARY for module in modules("plot_kinds")}
OF_RECORDINGS = {
    "sizes": "requests and bytes by size",
    "lifetimes": "age of objects at their release",
    "live": "live bytes over progress",
}
KINDS = OF_RESULTS | OF_RECORDINGS
FORMATS = (".png", ".svg", ".pdf")
DESCRIPTION = (
    "Draws results (R.json, of replay) or a recording. Without KIND: memory, of a recording live. Kinds of results, "
    "for which a recording is replayed first, unless its results by this build are in this folder: "
    + "; ".join(f"{name}: {what}" for name, what in OF_RESULTS.items())
    + ". Kinds of recordings: "
    + "; ".join(f"{name}: {what}" for name, what in OF_RECORDINGS.items())
    + "."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F", help="results (.json), or a recording")
    parser.add_argument("kinds", nargs="*", default=[], metavar="KIND", help="what to draw")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="a .png, .svg or .pdf, of one KIND (default NAME.KIND.png of each)"
    )
    parser.add_argument("-a", "--allocator", action="append", metavar="NAME", help="only these (default: all)")
    add_baseline_option(parser)
    parser.add_argument(
        "--width", type=float, default=7.0, metavar="INCHES", help="3.5: a paper's column; 10: a slide (default 7)"
    )
    parser.add_argument("--title", metavar="TEXT", help="above the picture (default: the name of the workload)")
    parser.add_argument("--corners", metavar="NEITHER,A,B,BOTH", help="the allocators of the kind corners")
    parser.add_argument(
        "--show", action="store_true", help="memory, of a recording live, in characters on the terminal; no file"
    )
    parser.add_argument("--dark", action="store_true", help="for a dark background")


def run(arguments: argparse.Namespace) -> int:
    from heaptape.commands.replaying import is_recording
    from heaptape.features.plot import pictures
    from heaptape.features.profile.data import profile

    _check(arguments)
    path = arguments.input
    is_results = path.endswith((".json", ".html"))
    kinds = arguments.kinds or ["memory" if is_results else "live"]
    wrong = [kind for kind in kinds if (kind in OF_RECORDINGS) == is_results]
    if wrong and is_results:
        raise UsageError(f"plot: {wrong[0]} needs a recording")
    if wrong and not is_recording(path):
        raise UsageError(f"plot: {wrong[0]} needs results: heaptape replay {shlex.quote(path)} -o R.json")
    title = arguments.title if is_results or arguments.title is not None else pictures.stem(path)
    look = pictures.Look(
        arguments.width, title, arguments.dark, arguments.allocator, arguments.baseline, arguments.corners
    )
    found: dict[bool, pictures.Source] = {}
    if is_results or wrong:
        found[False] = pictures.results_in(path, arguments.home, kinds)
    if not is_results and len(wrong) < len(kinds):
        found[True] = profile(path, arguments.home)
    sources = {kind: found[kind in OF_RECORDINGS] for kind in kinds}
    if arguments.show:
        write_text(STANDARD_OUTPUT, pictures.characters(sources[kinds[0]], look))
        return 0
    failed = []
    for kind, source in sources.items():
        output = arguments.output or f"{pictures.stem(path)}.{kind}.png"
        try:
            data = pictures.drawn(source, kind, look, output.rpartition(".")[2])
        except HeaptapeError as error:
            failed.append(f"{kind}: {error}")
            continue
        write_bytes(output, data)
        print(f"{printable(output)}: {len(data) / 1024:.0f} KiB")
    if failed:
        raise HeaptapeError(f"{path}: {'; '.join(failed)}")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    for kind in arguments.kinds:
        if kind not in KINDS:
            near = did_you_mean(kind, KINDS)
            raise UsageError(f"plot: unknown kind '{kind}'{near or ': there are ' + ', '.join(KINDS)}")
    if arguments.show and (arguments.output or arguments.kinds not in ([], ["memory"], ["live"])):
        raise UsageError("plot --show: memory or live, and no -o")
    if arguments.output and len(arguments.kinds) > 1:
        raise UsageError("plot -o: one KIND; without -o each has a file of its own")
    if arguments.output and not arguments.output.endswith(FORMATS):
        raise UsageError(f"plot -o: {arguments.output} ends in none of {', '.join(FORMATS)}")
    if not 1 <= arguments.width <= 40:
        raise UsageError("plot --width: from 1 to 40 inches")
    if arguments.output:
        check_writable(arguments.output)
