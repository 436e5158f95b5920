# SPDX-License-Identifier: MIT
"""`heaptape fleet`: many recordings, many machines."""

import argparse
import json
import math
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import Parser, add_allocator_option, add_format_option
from heaptape.common import console
from heaptape.common.console import WorkProgress, printable
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, print_json, records, write_text
from heaptape.common.phrases import counted
from heaptape.common.tables import MISSING, Cell, Table, render_text, screen_width, wrapped

if TYPE_CHECKING:
    import pandas as pd

    from heaptape.features.fleet.atlas import Atlas
    from heaptape.features.fleet.plan import PlanFile
    from heaptape.features.fleet.store import Store, Task

SUMMARY = "replay many recordings on many machines, and keep what was measured in a store"
DESCRIPTION = (
    "Replays workloads x allocators x passes, each once, on this machine or on the workers of a Dask scheduler, and "
    "keeps every result in a store: a folder, or any URL that fsspec knows. docs/use/FLEET.md."
)
FAILURES_SHOWN, CHANGES_SHOWN = 20, 30
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", parser_class=Parser, required=True)

    run = commands.add_parser(
        "run",
        help="replay a plan's workloads on allocators, on many machines",
        description="Replays each workload on each allocator. Cells that the store has are not run again, so the same "
        "command continues where it was stopped. Passes that only count are one cell each; those that read the clock "
        "are run in blocks: baseline and candidates alternately on one machine, alone there.",
    )
    run.add_argument("inputs", nargs="+", metavar="PLAN.toml|F", help="a plan; or traces, workloads, folders of them")
    words = "as 'heaptape replay -a' takes it; repeatable (default: the plan's, or all that are found)"
    add_allocator_option(run, words, "NAME")
    run.add_argument("--store", required=True, metavar="URL", help="folder or fsspec URL; made where there is none")
    run.add_argument("--baseline", metavar="NAME", help="the allocator to compare with (default glibc)")
    words = "passes, joined by commas (default instructions,memory). Passes that read the clock are run in blocks"
    run.add_argument("--passes", metavar="LIST", help=words)
    words = "repetitions of passes that read the clock (default 5)"
    run.add_argument("-n", "--repeats", type=int, metavar="N", help=words)
    run.add_argument("--seed", type=int, metavar="N", help="seed of the order within blocks (default 0)")
    words = "of a Dask scheduler whose workers see the same store (default: this machine)"
    run.add_argument("--scheduler", default="", metavar="ADDRESS", help=words)
    words = "exact cells at a time on this machine (default: as many as processors and memory allow)"
    run.add_argument("-j", "--jobs", type=int, default=0, metavar="N", help=words)
    words = "every N-th task from the I-th, I from 0: for job arrays, without a scheduler"
    run.add_argument("--share", default="0/1", metavar="I/N", help=words)
    run.add_argument("--retries", type=int, default=2, metavar="N", help="retries of a task that fails (default 2)")
    run.add_argument("--timeout", type=float, default=0, metavar="SECONDS", help="for one run (default: none)")
    run.add_argument("--curves", action="store_true", help="keep time lines, memory maps and histograms, too")
    run.add_argument("--again", action="store_true", help="also try cells whose allocator was at fault")
    run.set_defaults(work=_run)

    status = commands.add_parser(
        "status",
        help="how far a store's plans are",
        description="Prints what of a store's plans is done, what failed and why, and how much work is left.",
    )
    status.add_argument("store", metavar="STORE", help="folder or URL")
    status.add_argument("--json", action="store_true", help="machine-readable")
    add_format_option(status, words="; csv: the cells that failed")
    status.set_defaults(work=_status)

    query = commands.add_parser(
        "query",
        help="what the cells show: the best choice for all, or any question in SQL",
        description="Without SQL: the best single choice for all workloads, by each figure. With it: the result of one "
        "query (DuckDB) on the tables cells, workloads, ratios, totals, best, single and outliers; docs/use/FLEET.md "
        "lists their columns. It can read nothing else, and changes nothing.",
    )
    query.add_argument("store", metavar="STORE", help="folder or URL")
    query.add_argument("sql", nargs="?", default="", metavar="SQL", help="one SELECT; - for standard input")
    query.add_argument("--parquet", metavar="DIR", help="write all tables there, too")
    query.add_argument("--baseline", default="glibc", metavar="NAME", help="(default glibc)")
    words = "the choice for all is nowhere worse than the baseline by more than this (default 5)"
    query.add_argument("--worst", type=float, default=5.0, metavar="PERCENT", help=words)
    add_format_option(query, ("json",), ", json")
    query.set_defaults(work=_query)

    atlas = commands.add_parser(
        "atlas",
        help="programs x allocators as one small file and a page, and what changed since",
        description="Writes every exact figure of a store as one file to commit, and a page made of it: a heat map of "
        "programs x allocators, what each cell consists of, and how well a program's profile alone chooses its "
        "allocator. Prints what became better and worse since the atlas before.",
    )
    atlas.add_argument("source", metavar="STORE|ATLAS.json", help="a store, or an atlas that was made from one")
    words = "a column of the atlas, as 'heaptape replay -a' takes it; repeatable (default: all that are found)"
    add_allocator_option(atlas, words, "NAME")
    atlas.add_argument("-o", "--output", metavar="DIR", help="write DIR/atlas.json and the page DIR/index.html")
    words = "print what is better and worse than in this one (default: DIR's own)"
    atlas.add_argument("--against", metavar="ATLAS.json", help=words)
    atlas.add_argument("--json", action="store_true", help="print these changes machine-readable")
    atlas.set_defaults(work=_atlas)


def run(arguments: argparse.Namespace) -> int:
    status: int = arguments.work(arguments)
    return status


def _run(arguments: argparse.Namespace) -> int:
    from heaptape.features.fleet import dispatch
    from heaptape.features.fleet.plan import prepare, requested
    from heaptape.features.fleet.status import left
    from heaptape.features.fleet.store import open_store
    from heaptape.features.fleet.work import Worker

    if min(arguments.jobs, arguments.retries, arguments.timeout) < 0:
        raise UsageError("fleet run: --jobs, --retries and --timeout are not negative")
    index, shares = _share(arguments.share)
    wanted = _wanted(arguments, requested(arguments.inputs))
    store = open_store(arguments.store, create=True, tell=console.note)
    prepared = prepare(wanted, store, arguments.home, arguments.timeout, arguments.curves, console.note)
    for line in prepared.plan.left_out():
        console.warning(line)
    tasks = list(prepared.plan.tasks())[index::shares]
    todo, there = left(tasks, store, again=arguments.again)
    reasons: dict[str, str] = {}
    if todo:
        try:
            with (
                WorkProgress() as progress,
                dispatch.connected(arguments.scheduler, arguments.jobs, todo) as client,
            ):
                count = 0

                def on_done(task: "Task", why: str) -> None:
                    nonlocal count
                    count += 1
                    progress.update(f"{count:,} of {len(todo):,}: {task.name}", count / len(todo))
                    if why:
                        reasons[task.key] = f"{task.name}: {why}"

                dispatch.run(Worker(store, arguments.home), todo, client, arguments.retries, arguments.again, on_done)
        except KeyboardInterrupt:
            console.note(f"interrupted: the same command continues from {store.url}")
            return INTERRUPTED
    status = _report(tasks, sum(len(record.cells) for record in there.values()), reasons, store)
    return 1 if prepared.refused else status


def _wanted(arguments: argparse.Namespace, plan: "PlanFile") -> "PlanFile":
    """The plan, with the options of the command line in place of its own."""
    import msgspec

    changes: dict[str, object] = {}
    if arguments.allocator:
        changes["allocators"] = tuple(arguments.allocator)
    if arguments.baseline:
        changes["baseline"] = arguments.baseline
    if arguments.passes is not None:
        changes["passes"] = replaying.passes_of(arguments.passes, "fleet run")
    if arguments.repeats is not None:
        replaying.check_repeats(arguments.repeats, "fleet run")
        changes["repetitions"] = arguments.repeats
    if arguments.seed is not None:
        changes["seed"] = arguments.seed
    return msgspec.structs.replace(plan, **changes)


def _share(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,9})/([1-9][0-9]{0,8})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise UsageError(f"fleet run --share: '{text}' is not I/N with I from 0 to N - 1")
    return int(match[1]), int(match[2])


def _report(tasks: "list[Task]", before: int, reasons: dict[str, str], store: "Store") -> int:
    """Prints how much is done, by the store and not by what workers reported. Returns the exit status."""
    from heaptape.features.fleet.status import left

    open_, found = left(tasks, store)
    lines = [
        f"{task.name}: {cell.label}, {cell.pass_} pass: {error}"
        for task in tasks
        if task.key in found
        for cell, error in found[task.key].errors
    ]
    failed = len(lines) + sum(len(task.cells) for task in open_)
    cells = sum(len(task.cells) for task in tasks)
    lines += [reasons.get(task.key, f"{task.name}: not run") for task in open_]
    done = f"{cells - failed:,} done ({before:,} were there before), {failed:,} not"
    print(f"{cells:,} cells: {done}. Store {printable(store.url)}")
    if not failed:
        print(printable(f"More: heaptape fleet query {shlex.quote(store.url)}"))
    lines = list(dict.fromkeys(lines))
    for line in lines[:FAILURES_SHOWN]:
        console.error(f"failed: {line}")
    if len(lines) > FAILURES_SHOWN:
        console.error(f"and {len(lines) - FAILURES_SHOWN} more: heaptape fleet status {shlex.quote(store.url)}")
    return 1 if failed else 0


def _status(arguments: argparse.Namespace) -> int:
    import msgspec

    from heaptape.features.fleet.status import failed_table, in_words, status
    from heaptape.features.fleet.store import open_store
    from heaptape.show.screen import Screen, render

    found = status(open_store(arguments.store, tell=console.note))
    if arguments.json:
        print_json(msgspec.to_builtins(found))
    else:
        first, *lines = in_words(found)
        table = failed_table(found) if arguments.format == "csv" else None
        write_text(STANDARD_OUTPUT, render(Screen(first, table, lines), arguments.format))
    return 0


def _query(arguments: argparse.Namespace) -> int:
    _needed()
    from heaptape.common.escape import csv_frame
    from heaptape.features.fleet import conclusions
    from heaptape.features.fleet import query as asked
    from heaptape.features.fleet.store import open_store
    from heaptape.show.tables.latex import render

    if not (math.isfinite(arguments.worst) and arguments.worst >= 0):
        raise UsageError("fleet query --worst: not negative")
    store = open_store(arguments.store, tell=console.note)
    sql = sys.stdin.read() if arguments.sql == "-" else arguments.sql
    tables = asked.tables(store, arguments.baseline, arguments.worst)
    if arguments.parquet:
        asked.write_parquet(tables, Path(arguments.parquet))
    found = asked.query(tables, sql) if sql else tables.get("totals")
    notes = []
    if not sql:
        concluded = conclusions.conclusions(tables["cells"], arguments.baseline, arguments.worst)
        found, notes = concluded.totals, conclusions.sentences(concluded)
    assert found is not None
    if arguments.format == "csv":
        text = csv_frame(found)
    elif arguments.format == "json":
        text = json.dumps(json.loads(found.to_json(orient="records", date_format="iso") or "[]")) + "\n"
    elif notes and arguments.format == "text":
        text = "\n".join(line for one in notes for line in wrapped(one, screen_width())) + "\n"
    elif len(found):
        text = render([_table(found)], arguments.format)
    else:
        text = "no rows\n"
    write_text(STANDARD_OUTPUT, text)
    return 0


def _needed() -> None:
    """Raises HeaptapeError if a Python package is missing. Called before anything is done."""
    from heaptape.features.fleet.files import MISSING

    try:
        import duckdb  # noqa: F401
        import fsspec  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise HeaptapeError(MISSING) from None


def _table(frame: "pd.DataFrame", title: str = "") -> Table:
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    is_text = [all(cell.value is None for cell in column) for column in zip(*rows)]
    texts = (*is_text, False).index(False)
    return Table(title, [str(name) for name in frame.columns], rows, text_columns=texts)


def _cell(value: object) -> Cell:
    if isinstance(value, float):
        return Cell(MISSING if value != value else f"{value:,.2f}".removesuffix(".00"), value)
    return Cell(f"{value:,}", value) if isinstance(value, int) else Cell(str(value))


def _atlas(arguments: argparse.Namespace) -> int:
    _needed()
    from heaptape.features.fleet import atlas, atlas_page

    folder = Path(arguments.output) if arguments.output else None
    place = str(folder / "atlas.json") if folder else ""
    before = arguments.against or (place if place and Path(place).is_file() else "")
    old = atlas.read(before) if before else None
    from_file = arguments.source.endswith(".json")
    if from_file and arguments.allocator:
        raise UsageError("fleet atlas: -a belongs to a store: an atlas has its columns")
    found = atlas.read(arguments.source) if from_file else _made_atlas(arguments.source, arguments)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        atlas.write(found, place)
        write_text(str(folder / "index.html"), atlas_page.make(found))
    changes = atlas.changes(old, found) if old else None
    if arguments.json:
        print_json({"changes": [] if changes is None else records(changes)})
        return 0
    known = sum(value is not None for of in found.cells.values() for values in of.values() for value in values)
    recordings, candidates = counted(len(found.programs), "recording"), len(found.columns)
    print(f"{recordings}, {candidates} allocators and settings, {known:,} figures.")
    if changes is not None:
        write_text(STANDARD_OUTPUT, f"{_changes_in_words(changes)}\n")
    return 0


def _made_atlas(url: str, arguments: argparse.Namespace) -> "Atlas":
    """The atlas of a store; allocators that can't be had here are listed with the reason."""
    from heaptape.allocators import registry
    from heaptape.features.fleet import atlas
    from heaptape.features.fleet.store import open_store

    known = registry.load(arguments.home)
    names = arguments.allocator or [one.label for one in registry.choose_all((), known)]
    choices, absent = {}, {}
    for name in names:
        try:
            choices[name] = registry.choose(name, known)
        except HeaptapeError as error:
            absent[name] = str(error)
    study = [name for name, one in known.items() if one.by_name]
    return atlas.of_store(open_store(url, tell=console.note), choices, study, absent)


def _changes_in_words(changes: "pd.DataFrame") -> str:
    counts = changes["change"].value_counts()
    head = ", ".join(f"{counts.get(kind, 0):,} {kind}" for kind in ("better", "worse", "new", "gone"))
    shown = changes[changes["percent"].notna()].head(CHANGES_SHOWN)
    if shown.empty:
        return head
    of = changes.dropna().drop_duplicates("column")
    of = of[of["version_before"] != of["version_after"]]
    versions = [f"{one.column}: {one.version_before} before, {one.version_after} now." for one in of.itertuples()]
    table = _table(shown[["program", "column", "figure", "percent", "before", "after"]], f"{head}; the greatest")
    return render_text([replace(table, notes=versions)]).rstrip("\n")
