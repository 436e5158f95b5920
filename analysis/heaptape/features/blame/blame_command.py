# SPDX-License-Identifier: MIT
"""`heaptape blame`: who holds resident memory, and whether that is a leak, retention or fragmentation."""

import argparse
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import ALL, add_allocator_option, add_format_option, add_table_option, chosen_tables
from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, print_json, write_json, write_text

if TYPE_CHECKING:
    import pandas as pd

    from heaptape.features.blame.views import Holder, View
    from heaptape.results.schema import Results
    from heaptape.show.screen import Screen

SUMMARY = "who holds the memory: by call site, thread, size, phase or age"
GROUP = "Memory"
DESCRIPTION = (
    "Replays a recording and finds for each OS page what lives in it and who put it there. Prints whether that is a "
    "leak, retention or fragmentation, who keeps most of it, and which change is expected to save "
    "most; --try measures that. For two recordings or results, two allocators or two positions, the difference. "
    "docs/use/BLAME.md defines the terms."
)
BY = ("site", "function", "thread", "size", "phase", "age")
TABLES = {
    "groups": "every group that holds memory",
    "states": "what is resident and not live",
    "time": "who holds most over the run",
    "change": "from one position, recording or allocator to the other",
}
PICTURES = (".svg", ".pdf", ".png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="F",
        help="trace or workload, or results (R.json, report) of this command; or two",
    )
    words = "as for 'heaptape replay'; repeatable (default: what it was recorded on; for results, all that they have)"
    add_allocator_option(parser, words)
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
        "--try",
        dest="trials",
        type=int,
        metavar="N",
        help="run the N experiments expected to save most, as 'heaptape whatif' does, and rank them by what they save",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="R.json",
        help="keep the results, for this command and for the report; with --try, those of the experiments",
    )
    parser.add_argument(
        "--debuginfod",
        action="store_true",
        help="fetch missing debug information from DEBUGINFOD_URLS, so that call sites have names",
    )
    parser.add_argument("--flame", metavar="F.svg", help="write a flame graph of what the call sites hold")
    parser.add_argument(
        "--graph", metavar="FILE", help="draw memory over progress, coloured by group (.svg, .pdf or .png)"
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of the answer")
    add_table_option(parser, "; ".join(f"{name}: {what}" for name, what in TABLES.items()))
    add_format_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replays where it has to, prints the sentences and tables, writes the files that options name."""
    _check(arguments)
    names_of_tables = _tables(arguments.table)
    from heaptape.features.blame import proposals
    from heaptape.features.blame import views as library
    from heaptape.show import screen

    files = [_results(path, arguments) for path in arguments.inputs]
    names = _names(arguments.inputs, files)
    found: list[Holder] = []
    for file, name in zip(files, names):
        found += library.of_results(file, arguments.allocator if _holds_results(file.path) else None, name)
    places = arguments.at or ["widest"]
    view = library.View(found, places, tuple(dict.fromkeys(arguments.by or ())))
    estimates = library.estimates(view)
    wanted = proposals.best(proposals.promising(estimates), arguments.trials or 0)
    experiments = _replay_experiments(wanted, view, arguments) if wanted else None
    kept = experiments or files[0]
    if arguments.output:
        write_json(arguments.output, kept.data)
    if arguments.flame:
        write_text(
            arguments.flame,
            library.flame(found, places[-1], f"{' and '.join(dict.fromkeys(names))}: who holds its memory"),
        )
    if arguments.graph:
        library.write_graph(files, found, view.groupings(found[0])[0], arguments.graph)
    tried = proposals.tried(experiments, estimates, library.positions(view)) if experiments else None
    shown = _Shown(view, dict(zip(names, files)), _traces(arguments.inputs, files, names), tried, _given(arguments))
    if arguments.json:
        data = library.as_json(view, tried)
        for holder, made in zip(data["holders"], _screens(shown)):
            holder |= screen.as_json(made)
        print_json(data)
    else:
        write_text(STANDARD_OUTPUT, _text(shown, names_of_tables, arguments.format))
    return 1 if any(file.failures for file in [*files, kept]) else 0


def _given(arguments: argparse.Namespace) -> str:
    given = [(name, one) for name in ("allocator", "at") for one in getattr(arguments, name) or []]
    return "".join(f" {'-a' if name == 'allocator' else '--at'} {shlex.quote(one)}" for name, one in given)


def _tables(asked: Sequence[str]) -> list[str]:
    names = chosen_tables(asked, TABLES)
    return list(TABLES) if ALL in names else names


@dataclass(frozen=True)
class _Shown:
    """`files`, `traces`: by name. `tried`: of --try. `given`: the options that say what is measured, as typed."""

    view: "View"
    files: Mapping[str, "Results"]
    traces: Mapping[str, str]
    tried: "pd.DataFrame | None"
    given: str


def _text(asked: _Shown, tables: Sequence[str], form: str) -> str:
    """The answer for each allocator, position and file, with what changes between them; or tables by name; with --try,
    what the experiments saved.
    """
    from heaptape.features.blame import pass_table as blame
    from heaptape.features.blame import views as library
    from heaptape.results.judged import disproof_of
    from heaptape.show import screen
    from heaptape.show.tables.latex import render

    view, files = asked.view, asked.files
    if asked.tried is not None:
        return render([blame.ranking(asked.tried)], form)
    if tables:
        return render([one for name in tables for one in library.tables(view)[name]], form)
    changes = library.differences(view)
    if changes:
        wrong = dict.fromkeys(text for file in files.values() if (text := disproof_of(file)))
        said = "\n".join([*wrong, *library.sentences(view)]) + "\n\n" if form == "text" else ""
        return said + render(changes[: 1 if form == "text" else None], form)
    shown = [screen.render(made, form) for made in _screens(asked)]
    others = [one for name in view.by[1:] for one in library.tables(view)["groups"] if f": by {name}, " in one.title]
    return "\n".join(shown) + (("\n" + render(others, form)) if others else "")


def _screens(asked: _Shown) -> "list[Screen]":
    """The answer of each holder."""
    from heaptape.features.blame import holders
    from heaptape.features.blame import screen as holding
    from heaptape.features.blame import views as library
    from heaptape.features.blame.data import position_at
    from heaptape.features.blame.settings import best
    from heaptape.results.judged import disproof_of

    view, shown = asked.view, []
    for holder in view.holders:
        place = position_at(holder.found, view.places[-1])
        promised = library.promising(view, holder)
        source = asked.traces.get(holder.source, f"{holder.source}.tape")
        about = holder.source, holder.allocator, holder.calls
        groupings = view.groupings(holder) if view.by else (holders.first_grouping(holder.found),)
        file = asked.files[holder.source]
        remedies = holding.Remedies(promised, best(file, holder.allocator, place), disproof_of(file))
        shown.append(
            holding.screen(holder.found, about, (view.places[-1], place), groupings[0], remedies, source, asked.given)
        )
    return shown


def _traces(paths: Sequence[str], files: Sequence["Results"], names: Sequence[str]) -> dict[str, str]:
    """Name of the results -> their trace, for use in a command. For results files, whose trace's path is not known, its
    likely name.
    """
    given = [path != "-" and not _holds_results(path) for path in paths]
    return {name: path if known else f"{file.name}.tape" for path, known, file, name in zip(paths, given, files, names)}


def _replay_experiments(wanted: Sequence[str], view: "View", arguments: argparse.Namespace) -> "Results":
    from heaptape.allocators import registry
    from heaptape.features.blame import views as library
    from heaptape.features.whatif import experiments as whatif
    from heaptape.results.schema import Results
    from heaptape.run import rounds

    path = arguments.inputs[0]
    choices = registry.choose_all([holder.allocator for holder in view.holders], registry.load(arguments.home))
    settings = rounds.Settings(
        repeats=2,
        passes=whatif.PASSES,
        seed=replaying.random_seed(),
        optional=("instructions",),
        at=tuple(str(place) for place in sorted(set(library.positions(view).values()))),
    )
    with replaying.work() as work:
        job = whatif.Job(Path(path), whatif.experiments(wanted, together=False), choices, settings)
        data = whatif.run(job, arguments.home, work.scratch, work.on_progress, work.on_failure)
    replaying.tell_left_out(data)
    return Results(path, data)


def _check(arguments: argparse.Namespace) -> None:
    if len(arguments.inputs) > 2:
        raise UsageError("blame: one recording, or two to compare")
    if len(arguments.at or []) > 2:
        raise UsageError("blame --at: one position, or two to compare")
    if arguments.trials is not None:
        _check_try(arguments)
    if any(where == "" for where in arguments.at or []):
        raise UsageError("blame --at: a position is missing")
    if arguments.debuginfod and not os.environ.get("DEBUGINFOD_URLS"):
        raise UsageError("blame --debuginfod: DEBUGINFOD_URLS is not set (Debian: https://debuginfod.debian.net)")
    if len(arguments.inputs) > 1 and (arguments.output or arguments.flame or arguments.graph):
        raise UsageError("blame -o, --flame, --graph: of one recording only")
    if arguments.graph and Path(arguments.graph).suffix not in PICTURES:
        raise UsageError(f"blame --graph: '{arguments.graph}' is none of {', '.join(PICTURES)}")
    for output in (arguments.output, arguments.flame, arguments.graph):
        if output:
            check_writable(output)


def _check_try(arguments: argparse.Namespace) -> None:
    from heaptape.tape.workload_format import is_workload

    if arguments.trials < 1:
        raise UsageError("blame --try: at least one experiment")
    if len(arguments.inputs) > 1 or len(arguments.at or []) > 1:
        raise UsageError("blame --try: of one recording, at one position")
    path = arguments.inputs[0]
    if path == "-" or _holds_results(path) or (Path(path).is_file() and is_workload(Path(path))):
        raise UsageError(f"blame --try: {path}: experiments need the trace, as a file")


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
        if arguments.debuginfod:
            raise UsageError(f"blame --debuginfod: {path}: names are looked up in a recording, not in results")
        return results(path)
    return _replayed(path, arguments)


def _holds_results(path: str) -> bool:
    """By content: JSON or HTML. No trace begins like these."""
    if path == "-" or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(256).lstrip()[:1] in (b"{", b"<")


def _replayed(path: str, arguments: argparse.Namespace) -> "Results":
    """Replays a trace or workload. Reports runs that failed. Raises HeaptapeError if all failed."""
    from heaptape.allocators import registry
    from heaptape.common.engine import OF_ORIGINS
    from heaptape.features.blame.settings import Replayed, with_memory
    from heaptape.results.schema import Results
    from heaptape.run import replay, rounds
    from heaptape.run.recorded import as_recorded

    known = registry.load(arguments.home)
    named = registry.choose_all(arguments.allocator, known) if arguments.allocator else []
    with replaying.work() as work:
        workload = replay.prepare(
            path, arguments.home, work.scratch, origins=True, options=["--debuginfod"] * arguments.debuginfod
        )
        about = replay.describe_workload(workload, replaying.name_of(path))
        own = replaying.own_choice(str(workload), arguments.home)
        choices = as_recorded(arguments.allocator, named, own) or [own]
        settings = rounds.Settings(
            1, passes=OF_ORIGINS, seed=replaying.random_seed(), at=_places(path, arguments.at or [], about["ops"])
        )
        data = replay.replay(workload, about, choices, settings, arguments.home, work.on_progress, work.keep_failure)
        if len(work.failed) < len(choices):
            of = Replayed(Path(path), workload, choices, arguments.home)
            data = with_memory(data, of, not arguments.table and len(arguments.inputs) == 1, work.on_progress)
    failed = work.failed
    if len(failed) == len(choices) and len({error for _, error in failed}) == 1:
        raise HeaptapeError(_with_name(path, failed[0][1]))
    for run, error in failed:
        console.error(f"{path}: {run.choice.label}: {error}")
    if len(failed) == len(choices):
        raise HeaptapeError("")
    return Results(path, data)


def _with_name(path: str, error: str) -> str:
    """The error with the name of the user's file: the engine names the compiled workload."""
    return f"{path}: {re.sub(r'^[^:]*[.]work: ', '', error)}"


def _places(path: str, at: Sequence[str], ops: int) -> tuple[str, ...]:
    """The values of --at that the pass needs, as `places_of`. Raises HeaptapeError for a position beyond the end."""
    for where in at:
        if where.isdecimal() and int(where) > ops:
            raise HeaptapeError(f"{path}: position {int(where):,} is beyond the end: there are {ops:,} ops")
    return replaying.places_of(at)
