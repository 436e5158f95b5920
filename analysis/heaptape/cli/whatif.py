"""`heaptape whatif`: replays a trace with groups of its objects treated otherwise, beside the original."""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.common.errors import UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json, write_text

if TYPE_CHECKING:
    from heaptape.measure import rounds
    from heaptape.measure.rounds import Run

SUMMARY = "what memory and time would be, had groups of objects been treated otherwise"
DESCRIPTION = (
    "Rewrites the trace for each experiment, replays original and experiments into allocators, and prints peak RSS, "
    "mean RSS and instructions of each beside the original's. docs/BLAME.md tells how groups are named, and what an "
    "experiment assumes."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
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
        "(acquired before or after the others). Repeatable",
    )
    parser.add_argument(
        "--together", action="store_true", help="all groups in one experiment (default: one for each group)"
    )
    parser.add_argument(
        "-a", "--allocator", action="append", metavar="NAME[:VARIANT]|LIB.so", help="as of replay; repeatable"
    )
    parser.add_argument("-n", "--repeats", type=int, default=2, help="repetitions (default 2, which are enough)")
    parser.add_argument(
        "--passes", default="memory,instructions", metavar="LIST", help="as of replay (default memory,instructions)"
    )
    parser.add_argument("--touch", default="recorded", metavar="POLICY", help="as of replay (default recorded)")
    parser.add_argument("--format", default="text", choices=["text", "md"], help="of the table (default text)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="R.json",
        help="where the results go (default NAME.whatif.json; -: standard output)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Replays, writes R.json, prints the table. 1 if a run failed."""
    from heaptape.common.progress import WorkProgress
    from heaptape.measure import registry, whatif

    settings = _settings(arguments)
    choices = registry.choose_all(arguments.allocator or [], registry.load(arguments.home))
    tried = whatif.experiments(arguments.group, together=arguments.together)
    output = arguments.output or f"{Path(arguments.input).name.split('.')[0]}.whatif.json"
    check_writable(output)
    failures = []
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch, WorkProgress() as progress:

        def on_progress(name: str, run: "Run | None", share: float) -> None:
            what = f"{run.choice.label}, {run.pass_} pass" if run else "done"
            progress.update(f"{name}: {what}" if name else what, share)

        def on_failure(run: "Run", error: str) -> None:
            failures.append(run)
            progress.message(f"heaptape: {run.choice.label}, {run.pass_} pass, repetition {run.repeat + 1}: {error}")

        data = whatif.run(
            whatif.Job(Path(arguments.input), tried, choices, settings),
            arguments.home,
            Path(scratch),
            on_progress,
            on_failure,
        )
    write_json(output, data)
    if output != STANDARD_OUTPUT:
        _print_table(output, data, arguments.format)
    for pass_, why in data["settings"].get("left_out", {}).items():
        print(f"heaptape: {pass_} are left out: {why}", file=sys.stderr)
    return 1 if failures else 0


def _settings(arguments: argparse.Namespace) -> "rounds.Settings":
    from heaptape.measure import rounds

    passes = tuple(dict.fromkeys(p for p in arguments.passes.split(",") if p))
    unknown = [p for p in passes if p not in rounds.PASSES or p in rounds.OF_ACCESSES]
    if unknown or not passes:
        raise UsageError(f"whatif --passes: {f'no pass {unknown[0]!r} here' if unknown else 'no pass'}")
    if arguments.repeats < 1:
        raise UsageError("whatif -n: at least one repetition")
    if arguments.touch.partition("=")[0] not in rounds.TOUCH_POLICIES:
        raise UsageError(f"whatif --touch: '{arguments.touch}' is none of {', '.join(rounds.TOUCH_POLICIES)}")
    return rounds.Settings(
        repeats=arguments.repeats,
        touch=arguments.touch,
        passes=passes,
        seed=int.from_bytes(os.urandom(4), "little"),
        optional=("instructions",) if arguments.passes == "memory,instructions" else (),
    )


def _print_table(path: str, data: dict, form: str) -> None:
    from heaptape.results.schema import Results
    from heaptape.tables.usual import render_markdown, render_text
    from heaptape.tables.whatif_table import whatif_tables

    tables = whatif_tables(Results(path, data))
    write_text(STANDARD_OUTPUT, render_markdown(tables) if form == "md" else render_text(tables))
    print(f"results in {path}")
