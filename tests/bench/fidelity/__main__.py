# SPDX-License-Identifier: MIT
"""`python -m tests.bench.fidelity`: runs live programs and replays, or reads their results, prints the table of errors,
writes the certificate.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands.outcome import Parser, status_of
from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import STANDARD_OUTPUT, write_text

from tests.bench.fidelity.live_rounds import Session, is_done
from tests.support import OUT

if TYPE_CHECKING:
    import pandas as pd
    from heaptape.run.recipes import Recipe

# kind of results -> module and function that make the table of one app's errors
FRAMES = {
    "counted": ("counted_certificate", "changes"),
    "timed": ("timed_certificate", "pairs"),
    "fidelity": ("certificate", "errors"),
}
COMMAND = "python -m tests.bench.fidelity"
DESCRIPTION = (
    "Runs each app (a recipe of workloads/apps) live on every allocator, records it once on glibc, "
    "replays the recording on every allocator, and prints how far the predictions are from the live runs. "
    "With --counted: how far the predicted counts (instructions, page faults, system calls, misses) are from those of "
    "the program under a simulation. With --timed: how far the change of CPU time that the model of time predicts from "
    "counts is from that of alternate live runs."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "apps", nargs="*", metavar="APP", help="recipes by name (default: all that are in a set); results with --read"
    )
    parser.add_argument("-n", "--repeats", type=int, default=3, help="live runs and replays for CPU time (default 3)")
    parser.add_argument(
        "-a", "--allocator", action="append", metavar="NAME", help="repeatable (default: all that are found)"
    )
    parser.add_argument("--results", metavar="FOLDER", help="keep raw results there, one file for each app")
    parser.add_argument("--read", action="store_true", help="run nothing: the arguments are files of raw results")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--counted",
        action="store_true",
        help="count instead: live under a simulation, exact and free of noise; apps are those of workloads/counted",
    )
    kinds.add_argument(
        "--timed",
        action="store_true",
        help="CPU time: what counts predict, then alternate live runs, until each allocator is decided or --seconds "
        "are spent (apps of workloads/counted, by name those of workloads/apps too)",
    )
    parser.add_argument(
        "--accesses", action="store_true", help="with --counted: record data accesses and replay the pass misses too"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60,
        help="with --timed: CPU time of each app's live runs, including earlier ones in --results; 0: only predict "
        "(default 60)",
    )
    parser.add_argument(
        "--stop-after",
        type=float,
        default=float("inf"),
        metavar="MINUTES",
        help="with --timed: end after this; the same command continues from --results",
    )
    parser.add_argument("--write", metavar="F.md", help="write the certificate there (default: print it)")
    parser.add_argument("--table", metavar="F.json", help="write the table of errors that compare and report carry")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is being run")


def run(arguments: argparse.Namespace) -> int:
    """Prints how far predictions are from live runs. Returns 1 if an app or an allocator failed."""
    from tests.bench.fidelity.raw import read_results

    if not (arguments.seconds >= 0 and arguments.stop_after >= 0):
        raise UsageError("--seconds and --stop-after must not be negative")
    if arguments.read:
        results, failed = read_results([Path(path) for path in arguments.apps]), False
    else:
        results, failed = _make(arguments)
    if not results:
        raise HeaptapeError("nothing to compare: no app could be run")
    by_kind = {kind: [data for data in results if data["kind"] == kind] for kind in FRAMES}
    _write(arguments, by_kind)
    return 1 if failed else 0


def _is_followed(arguments: argparse.Namespace) -> bool:
    return bool(sys.stderr.isatty() or arguments.verbose)


def _make(arguments: argparse.Namespace) -> tuple[list[dict], bool]:
    """The runs of all chosen apps; whether one of them failed."""
    from heaptape.allocators import registry

    from tests.bench.fidelity.raw import write_results
    from tests.bench.fidelity.verify import not_verified

    kind = _kind(arguments)
    chosen = _chosen(_known(kind, bool(arguments.apps)), arguments.apps)
    arguments.until = time.monotonic() + 60 * arguments.stop_after
    choices = _choices(arguments.allocator, registry.load(arguments.home))
    folder = Path(arguments.results) if arguments.results else None
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    results, failed = [], False
    for number, recipe in enumerate(chosen):

        def tell(text: str, about: str = f"{recipe.name} ({number + 1} of {len(chosen)})") -> None:
            if _is_followed(arguments):
                console.note(f"{about}: {text}")

        try:
            data = _verify(arguments, recipe, choices, tell)
        except HeaptapeError as error:
            data = not_verified(recipe, str(error), kind)
        for label, why in data["failures"].items():
            console.error(f"{recipe.name}, {label}: {why}")
        failed = failed or bool(data["failures"])
        results.append(data)
        path = folder / f"{recipe.name}.json.zst" if folder else None
        if path and not (arguments.timed and path.exists()):  # such a result has been kept all along
            write_results(data, path)
        print(_frame(data).round(2).to_string(index=False, na_rep="–"), flush=True)
    if kind == "timed":
        _tell_unfinished(results, arguments.seconds)
    return results, failed


def _kind(arguments: argparse.Namespace) -> str:
    return "counted" if arguments.counted else "timed" if arguments.timed else "fidelity"


def _frame(data: dict) -> "pd.DataFrame":
    """The errors of one app."""
    import importlib

    module, function = FRAMES[data["kind"]]
    return getattr(importlib.import_module(f"tests.bench.fidelity.{module}"), function)([data])


def _known(kind: str, named: bool) -> "list[Recipe]":
    """The recipes. --timed takes more of them by name than by default."""
    from heaptape.run import recipes

    from tests.bench.fidelity import counted, timed

    if kind == "fidelity":
        return recipes.find()
    return recipes.find(timed.DIRECTORIES if kind == "timed" and named else counted.DIRECTORIES)


def _verify(arguments: argparse.Namespace, recipe: "Recipe", choices: Sequence, tell: Callable[[str], None]) -> dict:
    from heaptape.run import recipes

    from tests.bench.fidelity import counted
    from tests.bench.fidelity.verify import verify

    if arguments.timed:
        return _time(arguments, recipe, choices, tell)
    home, cache = arguments.home, recipes.cache_directory()
    if arguments.counted:
        layouts = len(counted.LAYOUTS)
        return counted.count(recipe, choices, layouts, home, cache / "counted", tell, accesses=arguments.accesses)
    return verify(recipe, choices, arguments.repeats, home, cache, tell)


def _time(arguments: argparse.Namespace, recipe: "Recipe", choices: Sequence, tell: Callable[[str], None]) -> dict:
    """Continues from what is in --results."""
    from heaptape.run import recipes

    from tests.bench.fidelity import timed

    program = timed.Program(recipe, choices, arguments.home, recipes.cache_directory() / "timed", tell)
    path = Path(arguments.results) / f"{recipe.name}.json.zst" if arguments.results else None
    return timed.judge(program, Session(arguments.seconds, arguments.until), path)


def _tell_unfinished(results: list[dict], seconds: float) -> None:

    left = [data["app"]["name"] for data in results if data["predicted"] and not is_done(data, seconds)]
    if left:
        console.warning(f"not done yet, run the same command again: {', '.join(left)}")


def _write(arguments: argparse.Namespace, by_kind: dict[str, list[dict]]) -> None:
    import json

    from tests.bench.fidelity import certificate
    from tests.bench.fidelity.certificate_document import document

    found = (by_kind[kind] for kind in ("counted", "timed"))
    text = document(by_kind["fidelity"], f"{COMMAND} --write", *found)
    write_text(arguments.write or STANDARD_OUTPUT, text)
    if arguments.table:
        write_text(arguments.table, json.dumps(certificate.carried_errors(by_kind["fidelity"]), indent=1) + "\n")


def _chosen(known: Sequence, names: Sequence[str]) -> list:
    by_name = {recipe.name: recipe for recipe in known}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UsageError(f"unknown app '{unknown[0]}': known are {', '.join(by_name)}")
    chosen = [by_name[name] for name in names] or [recipe for recipe in known if recipe.set]
    if names:
        return chosen
    for recipe in chosen:
        if recipe.missing():
            console.warning(f"{recipe.name} is left out: {recipe.missing()}")
    return [recipe for recipe in chosen if not recipe.missing()]


def _choices(names: Sequence[str] | None, known: dict) -> list:
    from heaptape.allocators import registry

    choices = registry.choose_all(names or [], known)
    if not any(choice.label == "glibc" for choice in choices):
        choices.insert(0, registry.choose("glibc", known))
    return choices


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0; 1 where an app or an allocator failed; 2 for wrong usage."""
    parser = Parser(prog=COMMAND, description=DESCRIPTION)
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    arguments.home = Home(OUT)
    return status_of(lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
