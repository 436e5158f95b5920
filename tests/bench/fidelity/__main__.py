# SPDX-License-Identifier: MIT
"""`python -m tests.bench.fidelity`: runs live programs and replays, or reads their results, prints the table of errors,
writes the certificate.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from heaptape.allocators import registry
from heaptape.commands.outcome import Parser, status_of
from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import STANDARD_OUTPUT, write_text
from heaptape.run import recipes

from tests.bench.fidelity import counted, judged, timed
from tests.bench.fidelity.document import document
from tests.bench.fidelity.live_rounds import BASELINE, Program, Session, is_done
from tests.bench.fidelity.raw import not_verified, read_results, write_results
from tests.bench.fidelity.verify import verify
from tests.support import OUT

ERRORS = {"counted": judged.counted_errors, "timed": judged.timed_pairs, "fidelity": judged.memory_errors}
COMMAND = "python -m tests.bench.fidelity"
DESCRIPTION = (
    "Runs each app (a recipe of workloads/apps) live on every allocator, records it once on glibc, replays "
    "the recording on every allocator, and prints how far the predictions of memory are from the live runs."
)
COUNTED = "instead: predicted counts, against live runs under a simulation, exact and free of noise (workloads/counted)"
TIMED = "instead: the change of CPU time that counts predict, against alternate live runs (until all are decided)"
SECONDS = "with --timed: CPU time of an app's live runs, with earlier ones in --results; 0: only predict (default 60)"


def parser() -> argparse.ArgumentParser:
    made = Parser(prog=COMMAND, description=DESCRIPTION)
    add, kind = made.add_argument, made.add_mutually_exclusive_group().add_argument
    add("apps", nargs="*", metavar="APP", help="recipes by name (default: all that are in a set); results with --read")
    add("-n", "--repeats", type=int, default=3, help="live runs and replays for CPU time (default 3)")
    add("-a", "--allocator", action="append", metavar="NAME", help="repeatable (default: all that are found)")
    add("--results", type=Path, metavar="FOLDER", help="keep raw results there, one file for each app")
    add("--read", action="store_true", help="run nothing: the arguments are files of raw results")
    kind("--counted", action="store_true", help=COUNTED)
    kind("--timed", action="store_true", help=TIMED)
    add("--accesses", action="store_true", help="with --counted: record data accesses and replay the pass misses too")
    add("--seconds", type=float, default=60, help=SECONDS)
    stop = "with --timed: end after so many minutes; the same command continues from --results"
    add("--stop-after", type=float, default=float("inf"), metavar="MINUTES", help=stop)
    add("--write", metavar="F.md", help="write the certificate there (default: print it)")
    add("--table", metavar="F.json", help="write the table of errors that compare and report carry")
    add("-v", "--verbose", action="store_true", help="say what is being run")
    return made


def run(arguments: argparse.Namespace) -> int:
    """Prints how far predictions are from live runs. Returns 1 if an app or an allocator failed."""
    if not (arguments.seconds >= 0 and arguments.stop_after >= 0):
        raise UsageError("--seconds and --stop-after must not be negative")
    results = read_results(list(map(Path, arguments.apps))) if arguments.read else _made(arguments)
    if not results:
        raise HeaptapeError("nothing to compare: no app could be run")
    write_text(arguments.write or STANDARD_OUTPUT, document(results, f"{COMMAND} --write"))
    if arguments.table:
        memory = [data for data in results if data["kind"] == "fidelity"]
        write_text(arguments.table, json.dumps(judged.carried_errors(memory), indent=1) + "\n")
    return 1 if not arguments.read and any(data["failures"] for data in results) else 0


def _made(arguments: argparse.Namespace) -> list[dict]:
    """The runs of all chosen apps."""
    kind = "counted" if arguments.counted else "timed" if arguments.timed else "fidelity"
    folder = arguments.results
    until = time.monotonic() + 60 * arguments.stop_after
    choices = registry.choose_all(arguments.allocator or [], known := registry.load(arguments.home))
    if not any(choice.label == BASELINE for choice in choices):
        choices.insert(0, registry.choose(BASELINE, known))
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    results, chosen = [], _chosen(kind, arguments.apps)
    for number, recipe in enumerate(chosen):

        def tell(text: str, about: str = f"{recipe.name} ({number + 1} of {len(chosen)})") -> None:
            if sys.stderr.isatty() or arguments.verbose:
                console.note(f"{about}: {text}")

        cache = recipes.cache_directory() / ("" if kind == "fidelity" else kind)
        program = Program(recipe, choices, arguments.home, cache, tell)
        path = folder / f"{recipe.name}.json.zst" if folder else None
        try:
            if kind == "timed":
                data = timed.judge(program, Session(arguments.seconds, until), path)
            elif kind == "counted":
                data = counted.count(program, len(counted.LAYOUTS), arguments.accesses)
            else:
                data = verify(program, arguments.repeats)
        except HeaptapeError as error:
            data = not_verified(recipe, str(error), kind)
        for label, why in data["failures"].items():
            console.error(f"{recipe.name}, {label}: {why}")
        results.append(data)
        if path and not (kind == "timed" and path.exists()):  # such a result has been kept all along
            write_results(data, path)
        print(ERRORS[kind]([data]).round(2).to_string(index=False, na_rep="–"), flush=True)
    timed_ones = [data for data in results if kind == "timed" and data["predicted"]]
    left = [data["app"]["name"] for data in timed_ones if not is_done(data, arguments.seconds)]
    if left:
        console.warning(f"not done yet, run the same command again: {', '.join(left)}")
    return results


def _chosen(kind: str, names: Sequence[str]) -> list[recipes.Recipe]:
    """By name, or all that are in a set and can run here. Of --timed there are more by name than by default."""
    of_kind = timed.DIRECTORIES if kind == "timed" and names else counted.DIRECTORIES
    by_name = {one.name: one for one in (recipes.find() if kind == "fidelity" else recipes.find(of_kind))}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UsageError(f"unknown app '{unknown[0]}': known are {', '.join(by_name)}")
    if names:
        return [by_name[name] for name in names]
    chosen = [recipe for recipe in by_name.values() if recipe.set]
    for recipe in chosen:
        if recipe.missing():
            console.warning(f"{recipe.name} is left out: {recipe.missing()}")
    return [recipe for recipe in chosen if not recipe.missing()]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0; 1 where an app or an allocator failed; 2 for wrong usage."""
    arguments = parser().parse_args(argv)
    arguments.home = Home(OUT)
    return status_of(lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
