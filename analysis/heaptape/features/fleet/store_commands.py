# SPDX-License-Identifier: MIT
"""`heaptape fleet ingest`, `query`, `choose`, `report` and `atlas`: what a store's traces and cells show."""

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands.outcome import Subcommand, add_allocator_option, add_format_option
from heaptape.common import console
from heaptape.common.console import WorkProgress
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, print_json, records, write_bytes, write_text
from heaptape.common.phrases import counted
from heaptape.common.tables import MISSING, Cell, Table, render_text, screen_width, wrapped

if TYPE_CHECKING:
    import pandas as pd

    from heaptape.features.fleet.atlas import Atlas
    from heaptape.features.fleet.choose import Chosen
    from heaptape.features.fleet.dispatch import Attempt, Ended, Work

ERRORS_SHOWN = 5
CHANGES_SHOWN = 30
DEFAULT_BASELINE = "glibc"
STORE_WAIT_S, SCHEDULER_WAIT_S = 300.0, 60.0


def add_store_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store-wait",
        type=float,
        default=STORE_WAIT_S,
        metavar="SECONDS",
        help=f"how long to wait for a store that can't be read or written (default {STORE_WAIT_S:g})",
    )


def add_keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", metavar="DIR", help="folder that 'heaptape fleet keys' made; for tls:// addresses")


def local_workers(scheduler: str) -> int | None:
    """How many tasks at a time on this machine, 0 for as many as fit; None: a scheduler's workers run them. Raises
    UsageError.
    """
    match = re.fullmatch(r"local(=([1-9][0-9]{0,3}))?", scheduler)
    if match:
        return int(match[2] or 0)
    if scheduler.startswith("local"):
        raise UsageError(f"fleet --scheduler: '{scheduler}' is none of local, local=N, tls://..., tcp://...")
    return None


def progress_of(progress: WorkProgress, total: int) -> "Callable[[Work, Ended], None]":
    """Shows the progress, called with each task that is done."""
    done = 0

    def on_done(task: "Work", ended: "Ended") -> None:
        nonlocal done
        done += 1
        progress.update(f"{done:,} of {total:,}: {task.name}", done / total)

    return on_done


def needed() -> None:
    """Raises HeaptapeError if a Python package is missing. Called before anything is done."""
    from heaptape.features.fleet.files import MISSING

    try:
        import duckdb  # noqa: F401
        import fsspec  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise HeaptapeError(f"fleet {MISSING}") from None


def _ingest_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tapes", nargs="+", metavar="TAPE", help="trace, folder of *.tape, or fsspec URL, which may be a pattern"
    )
    parser.add_argument("--store", required=True, metavar="URL", help="folder or fsspec URL; made where there is none")
    parser.add_argument("--program", default="", metavar="NAME", help="of all tapes, instead of the recorded one")
    parser.add_argument("--build-id", default="", metavar="ID", help="likewise (recordings with stacks have it)")
    parser.add_argument(
        "--host-class",
        default="",
        metavar="NAME",
        help="kind of machine they were recorded on (default: its processor's name)",
    )
    parser.add_argument(
        "--scheduler",
        default="local",
        metavar="ADDRESS",
        help="tls://HOST:PORT or tcp://127.0.0.1:PORT, whose workers see the same store and traces; or local=N: N "
        "processes on this machine (default local: as many as there are processors)",
    )
    add_keys(parser)
    parser.add_argument(
        "--retries", type=int, default=2, metavar="N", help="retries of a batch whose worker is lost (default 2)"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    add_store_wait(parser)


def _ingest(arguments: argparse.Namespace) -> int:
    needed()
    from heaptape.common.process import processors
    from heaptape.features.fleet import dispatch, ingest
    from heaptape.features.fleet.store import open_store

    workers = local_workers(arguments.scheduler)
    if arguments.retries < 0:
        raise UsageError("fleet ingest: --retries is not negative")
    tapes = ingest.tapes_of(arguments.tapes)
    store = open_store(arguments.store, create=True, patience_s=arguments.store_wait, tell=console.note)
    labels = ingest.Labels(arguments.program, arguments.build_id, arguments.host_class)
    todo = ingest.batches(tapes, labels)
    attempt: Attempt[ingest.Batch] = partial(ingest.locally, store, arguments.home, workers or processors())
    retries = 0
    with WorkProgress() as progress:
        if workers is None:
            from heaptape.features.fleet.cluster import run_batch, security_of

            security = security_of(arguments.scheduler, arguments.keys)
            tell, retries = progress.note, arguments.retries
            attempt = dispatch.Scheduler(
                arguments.scheduler, security, store.id, run_batch, SCHEDULER_WAIT_S, tell
            ).attempt
        ended = dispatch.run(todo, attempt, retries, progress.error, progress_of(progress, len(todo)))
    done, failed = ended.done, ended.failed
    there = len(tapes) - done - len(failed)
    if arguments.json:
        print_json({"ingested": done, "there": there, "failed": failed})
    else:
        print(f"{counted(done, 'trace')} ingested, {there:,} were there before, {len(failed):,} not. Store {store.url}")
    return 1 if failed else 0


def _query_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder or URL")
    parser.add_argument(
        "sql", metavar="SQL", help="one SELECT on traces, histogram, sites, cells; - for standard input"
    )
    add_format_option(parser, ("json",), ", json")
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def _query(arguments: argparse.Namespace) -> int:
    needed()
    import sys

    from heaptape.common.escape import csv_frame
    from heaptape.features.fleet.dataset import query
    from heaptape.features.fleet.store import open_store
    from heaptape.show.tables.latex import render

    sql = sys.stdin.read() if arguments.sql == "-" else arguments.sql
    found = query(open_store(arguments.store, tell=console.note), sql)
    if arguments.format == "csv":
        text = csv_frame(found)
    elif arguments.format == "json":
        text = (found.to_json(orient="records", date_format="iso") or "[]") + "\n"
    elif len(found):
        text = render([_table(found)], arguments.format)
    else:
        text = "no rows\n"
    write_text(STANDARD_OUTPUT, text)
    return 0


def _choose_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder or URL")
    parser.add_argument("-n", type=int, default=12, dest="count", metavar="N", help="how many (default 12)")
    parser.add_argument(
        "--by",
        default="program",
        choices=["program", "build_id", "host_class", "day", "none"],
        help="each value of this column has at least one recording that stands for it (default program)",
    )
    parser.add_argument(
        "--weight",
        default="recordings",
        choices=["recordings", "ops"],
        help="what the weights mean: how many recordings each stands for (default), or how many times its ops",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the draw among many recordings (default 1)"
    )
    parser.add_argument("--baseline", default=DEFAULT_BASELINE, metavar="NAME", help="for the errors (default glibc)")
    parser.add_argument("-o", "--output", metavar="PLAN.toml", help="write a plan for 'heaptape fleet replay'")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def _choose(arguments: argparse.Namespace) -> int:
    needed()
    from heaptape.features.fleet import choose, dataset
    from heaptape.features.fleet.plan import chosen_plan
    from heaptape.features.fleet.store import open_store

    if arguments.count < 1 or arguments.seed < 0:
        raise UsageError("fleet choose: -n is 1 at least, --seed not negative")
    if arguments.output:
        check_writable(arguments.output)
    store = open_store(arguments.store, tell=console.note)
    traces = dataset.traces(store)
    by = "" if arguments.by == "none" else arguments.by
    chosen = choose.choose(traces, arguments.count, by, arguments.weight, arguments.seed)
    errors, measured = choose.errors_in(store, chosen, arguments.baseline)
    if arguments.output:
        write_text(arguments.output, chosen_plan(Path(arguments.output), chosen.traces, arguments.baseline))
    if arguments.json:
        print_json({"chosen": records(chosen.traces), "explained": chosen.explained, "errors": records(errors)})
    else:
        print(_chosen_in_words(chosen, errors, measured, len(traces)))
    return 0


def _table(frame: "pd.DataFrame", title: str = "") -> Table:
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    is_text = [all(cell.value is None for cell in column) for column in zip(*rows)]
    texts = (*is_text, False).index(False)
    return Table(title, [str(name) for name in frame.columns], rows, text_columns=texts)


def _cell(value: object) -> Cell:
    if isinstance(value, float):
        return Cell(MISSING if value != value else f"{value:,.2f}".removesuffix(".00"), value)
    return Cell(f"{value:,}", value) if isinstance(value, int) else Cell(str(value))


def _chosen_in_words(chosen: "Chosen", errors: "pd.DataFrame", measured: int, count: int) -> str:
    table = _table(chosen.traces[["name", "program", "ops", "recordings", "weight"]])
    said = f"{len(chosen.traces)} of {count:,}, which have {100 * chosen.explained:.0f} % of the fleet's variety."
    if len(errors):
        largest = errors.sort_values("error_percent", key=abs, ascending=False).head(ERRORS_SHOWN)
        of_all = _table(largest, "Their error against the whole, by the exact cells of all")
        return render_text([replace(table, notes=[said]), of_all]).rstrip("\n")
    said += f" Error not known, as not all have exact cells: {measured:,} of {count:,} recordings have a workload here."
    return render_text([replace(table, notes=[said])]).rstrip("\n")


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder or URL")
    parser.add_argument("-o", "--output", default="fleet.html", metavar="F.html", help="(default fleet.html)")
    parser.add_argument(
        "--parquet", metavar="DIR", help="write the tables there, too: ratios, totals, best, single, outliers"
    )
    parser.add_argument("--baseline", default=DEFAULT_BASELINE, metavar="NAME", help="(default glibc)")
    parser.add_argument(
        "--worst",
        type=float,
        default=5.0,
        metavar="PERCENT",
        help="the single choice for all is nowhere worse than the baseline by more than this (default 5)",
    )


def _report(arguments: argparse.Namespace) -> int:
    needed()
    import math

    from heaptape.features.fleet import page as fleet_page
    from heaptape.features.fleet.matrix import matrix
    from heaptape.features.fleet.store import open_store

    if not (math.isfinite(arguments.worst) and arguments.worst >= 0):
        raise UsageError("fleet report --worst: not negative")
    check_writable(arguments.output)
    store = open_store(arguments.store, tell=console.note)
    found = matrix(store.results(), arguments.baseline, arguments.worst)
    if arguments.parquet:
        Path(arguments.parquet).mkdir(parents=True, exist_ok=True)
        for name, table in found.tables().items():
            write_bytes(str(Path(arguments.parquet) / f"{name}.parquet"), table.to_parquet(index=False))
    write_text(arguments.output, fleet_page.make(found, store.url))
    if arguments.output != STANDARD_OUTPUT:
        said = [line for one in fleet_page.sentences(found) for line in wrapped(one, screen_width())]
        print("\n".join([*said, arguments.output]))
    return 0


def _atlas_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="STORE|ATLAS.json", help="a store, or an atlas that was made from one")
    words = "a column of the atlas, as 'heaptape replay -a' takes it; repeatable (default: all that are found)"
    add_allocator_option(parser, words, "NAME")
    parser.add_argument("-o", "--output", metavar="DIR", help="write DIR/atlas.json and the page DIR/index.html")
    parser.add_argument(
        "--against", metavar="ATLAS.json", help="print what is better and worse than in this one (default: DIR's own)"
    )
    parser.add_argument("--json", action="store_true", help="print these changes machine-readable")


def _atlas(arguments: argparse.Namespace) -> int:
    needed()
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
        print(_changes_in_words(changes))
    return 0


def _made_atlas(url: str, arguments: argparse.Namespace) -> "Atlas":
    """The atlas of a store; allocators that can't be had here are listed with the reason."""
    from heaptape.features.fleet import atlas
    from heaptape.features.fleet.store import open_store
    from heaptape.run import registry

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


SUBCOMMANDS = {
    "ingest": Subcommand(
        "profile traces into the store's dataset",
        "Counts what each trace asks of an allocator, once, and keeps it as Parquet: features, histogram of sizes and "
        "lifetimes, call stacks. A trace that is there is not counted again, so the same command continues where it "
        "was stopped.",
        _ingest_arguments,
        _ingest,
    ),
    "query": Subcommand(
        "ask the store's tables in SQL",
        "Runs one query (DuckDB) on the tables traces, histogram, sites and cells; docs/use/FLEET.md lists their "
        "columns. It can read nothing else, and changes nothing.",
        _query_arguments,
        _query,
    ),
    "choose": Subcommand(
        "which recordings stand for all",
        "Chooses recordings that stand for all that were ingested, each with its weight, and prints the error made, "
        "where the store has exact cells of all of them.",
        _choose_arguments,
        _choose,
    ),
    "report": Subcommand(
        "workloads x candidates as one page",
        "Writes one HTML page: each workload on each candidate, the best per workload, the best single choice for all, "
        "what it would save over the fleet, and outliers.",
        _report_arguments,
        _report,
    ),
    "atlas": Subcommand(
        "programs x allocators as one small file and a page, and what changed since",
        "Writes every exact figure of a store as one file to commit, and a page made of it: a heat map of programs x "
        "allocators, what each cell consists of, and how well a program's profile alone chooses its allocator. Prints "
        "what became better and worse since the atlas before.",
        _atlas_arguments,
        _atlas,
    ),
}
