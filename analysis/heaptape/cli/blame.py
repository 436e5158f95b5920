"""`heaptape blame`: who holds resident memory, and whether that is a leak, retention or fragmentation."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.cli import replaying
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json, write_text

if TYPE_CHECKING:
    from heaptape.report.holders import Holder
    from heaptape.results.schema import Results

SUMMARY = "who holds the memory: by call site, thread, size, phase or age"
DESCRIPTION = (
    "Replays a recording and says of each OS page what lives in it and who put it there: a leak, retention or "
    "fragmentation in one sentence, then the groups of objects that hold resident memory, what it consists of, and "
    "both over time. Of two recordings or results, two allocators or two positions also the difference. "
    "docs/BLAME.md defines all of it."
)
BY = ("site", "function", "thread", "size", "phase", "age")
NAMED_PLACES = ("widest", "peak", "live-peak", "end")
DEFAULT_ALLOCATOR = "glibc"
PICTURES = (".svg", ".pdf", ".png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="F",
        help="trace or workload, or results (R.json, report) of the pass blame; or two",
    )
    parser.add_argument(
        "-a",
        "--allocator",
        action="append",
        metavar="NAME[:VARIANT]|LIB.so",
        help=f"as of 'heaptape replay'; repeatable (default {DEFAULT_ALLOCATOR}; of results all that they have)",
    )
    parser.add_argument(
        "--at",
        action="append",
        metavar="WHERE",
        help="widest (where RSS is most above live bytes; default), peak (of RSS), live-peak, end, a position in ops, "
        "or the text of a mark; given twice: the difference",
    )
    parser.add_argument(
        "--by",
        action="append",
        choices=BY,
        help="group objects by this; repeatable (default: site; where there are no call stacks thread, size and age)",
    )
    parser.add_argument(
        "-o", "--output", metavar="R.json", help="keep the results, for this command and for the report"
    )
    parser.add_argument("--flame", metavar="F.svg", help="write a flame graph of what the call sites hold")
    parser.add_argument(
        "--graph", metavar="FILE", help="draw memory over progress, coloured by group (.svg, .pdf or .png)"
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Replays where it has to, prints the sentences and tables, writes the files that are asked for."""
    _check(arguments)
    from heaptape.report import holders as library

    files = [_results(path, arguments) for path in arguments.inputs]
    names = _names(arguments.inputs, files)
    found: list[Holder] = []
    for file, name in zip(files, names):
        found += library.of_results(file, arguments.allocator if len(files) else None, name)
    places = arguments.at or ["widest"]
    view = library.View(found, places, tuple(dict.fromkeys(arguments.by or ())))
    if arguments.output:
        write_json(arguments.output, files[0].data)
    if arguments.flame:
        write_text(
            arguments.flame,
            library.flame(found, places[-1], f"{' and '.join(dict.fromkeys(names))}: who holds its memory"),
        )
    if arguments.graph:
        library.write_graph(files, found, view.groupings(found[0])[0], arguments.graph)
    write_text(STANDARD_OUTPUT, library.as_json(view) if arguments.json else library.as_text(view))
    return 1 if any(file.failures for file in files) else 0


def _check(arguments: argparse.Namespace) -> None:
    if len(arguments.inputs) > 2:
        raise UsageError("blame: one recording, or two to compare")
    if len(arguments.at or []) > 2:
        raise UsageError("blame --at: one position, or two to compare")
    if any(where == "" for where in arguments.at or []):
        raise UsageError("blame --at: where?")
    if len(arguments.inputs) > 1 and (arguments.output or arguments.flame or arguments.graph):
        raise UsageError("blame -o, --flame, --graph: of one recording only")
    if arguments.graph and Path(arguments.graph).suffix not in PICTURES:
        raise UsageError(f"blame --graph: '{arguments.graph}' is none of {', '.join(PICTURES)}")
    for output in (arguments.output, arguments.flame, arguments.graph):
        if output:
            check_writable(output)


def _names(paths: Sequence[str], files: Sequence["Results"]) -> list[str]:
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        names = [Path(path).stem for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _results(path: str, arguments: argparse.Namespace) -> "Results":
    from heaptape.results.schema import results

    if _holds_results(path):
        if arguments.output:
            raise UsageError("blame -o: these are results already")
        return results(path)
    return _replayed(path, arguments)


def _holds_results(path: str) -> bool:
    """By content: JSON or HTML. No trace begins so."""
    if path == "-" or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(256).lstrip()[:1] in (b"{", b"<")


def _replayed(path: str, arguments: argparse.Namespace) -> "Results":
    """Replays a trace or workload in the pass blame. HeaptapeError if every run failed; others are told."""
    from heaptape.cli.outcome import report_line
    from heaptape.measure import registry, replay, rounds
    from heaptape.results.schema import Results

    choices = registry.choose_all(arguments.allocator or [DEFAULT_ALLOCATOR], registry.load(arguments.home))
    with replaying.work() as work:
        workload = replay.prepare(path, arguments.home, work.scratch, origins=True)
        about = replay.describe_workload(workload, replaying.name_of(path))
        settings = rounds.Settings(
            1, passes=("blame",), seed=replaying.random_seed(), at=_places(path, arguments.at or [], about["ops"])
        )
        data = replay.replay(workload, about, choices, settings, arguments.home, work.on_progress, work.keep_failure)
    failed = work.failed
    if len(failed) == len(choices) and len({error for _, error in failed}) == 1:
        raise HeaptapeError(_with_name(path, failed[0][1]))
    for run, error in failed:
        report_line(f"{path}: {run.choice.label}: {error}")
    if len(failed) == len(choices):
        raise HeaptapeError("")
    return Results(path, data)


def _with_name(path: str, error: str) -> str:
    """The engine names the workload that it was given, which was compiled."""
    return f"{path}: {re.sub(r'^[^:]*[.]work: ', '', error)}"


def _places(path: str, at: Sequence[str], ops: int) -> tuple[str, ...]:
    """Those of --at that the pass has to be told, in its words. Raises HeaptapeError for a position beyond the end."""
    for where in at:
        if where.isdecimal() and int(where) > ops:
            raise HeaptapeError(f"{path}: position {int(where):,} is beyond the end: there are {ops:,} ops")
    told = [where for where in at if where not in ("widest", "peak", "end")]
    return tuple(where if where.isdecimal() or where in NAMED_PLACES else f"mark={where}" for where in told)
