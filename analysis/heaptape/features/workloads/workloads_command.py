# SPDX-License-Identifier: MIT
"""`heaptape workloads`: lists, sets up, records, writes and runs workloads, and runs suites."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from heaptape.commands.outcome import Parser, status_of
from heaptape.common import console
from heaptape.common.console import printable
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import STANDARD_OUTPUT, check_writable, print_json, write_text
from heaptape.common.tables import listing

if TYPE_CHECKING:
    from heaptape.features.workloads import known as workloads
    from heaptape.features.workloads.capture import Captured

SUMMARY = "synthetic programs, and recipes of real ones: record them unattended"
TAKES_A_COMMAND = ("write",)
DESCRIPTION = (
    "Without an action: lists the workloads, and why some of them can't run here. capture: records NAME.tape. run: "
    "records and replays it; for a suite, records what is missing, replays, compares and reports, in a folder. "
    "write: writes a synthetic pattern as NAME.work without running it, with the pattern's options after --. "
    "setup: installs what recipes need (root or sudo). Prepared inputs are kept in "
    "$XDG_CACHE_HOME/heaptape."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["capture", "run", "write", "setup"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    help_of_output = "where the trace goes (default NAME.tape), or the workload, or a suite's folder (default its name)"
    parser.add_argument("-o", "--output", metavar="F", help=help_of_output)
    parser.add_argument("--all", action="store_true", help="keep the traces of the other processes too, as F.PID.tape")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    suite = parser.add_argument_group("run a suite")
    suite.add_argument("-a", "--allocator", action="append", metavar="NAME", help="instead of the suite's own")
    suite.add_argument("-n", dest="repeats", type=int, metavar="N", help="repetitions, instead of the suite's own")
    suite.add_argument("--only", action="append", metavar="WORKLOAD", help="this workload of the suite (repeatable)")
    record = parser.add_argument_group("as for 'heaptape record'")
    record.add_argument("--stacks", nargs="?", const="", metavar="DEPTH")
    for name in ("latency", "usable", "describe"):
        record.add_argument(f"--{name}", action="store_true")
    record.add_argument("--preload", metavar="LIB")
    record.add_argument("--max-size", metavar="BYTES")


def run(arguments: argparse.Namespace) -> int:
    from heaptape.features.workloads import known as workloads

    action, names = arguments.action, arguments.names
    if action is None:
        return _list(arguments.json, arguments.home)
    if not names:
        raise UsageError(f"workloads {action}: which one? 'heaptape workloads' lists them")
    if action == "write":
        if len(names) > 1:
            raise UsageError("workloads write: one at a time")
        (workload,) = workloads.named(names, workloads.find(arguments.home))
        path = Path(arguments.output or f"{names[0]}.work")
        done = workloads.write(workload, path, arguments.own_options)
        if done.returncode == 0:
            print(printable(f"{path}: {done.stdout.strip() or 'written'}"))
        return done.returncode
    if action == "setup":
        workloads.set_up(names, arguments.home)
        print(f"can run: {', '.join(names)}")
        return 0
    if action == "capture":
        return _capture(names, arguments)
    if len(names) > 1:
        raise UsageError("workloads run: one at a time")
    suite = next((suite for suite in workloads.find_suites() if suite.name == names[0]), None)
    if suite:
        if arguments.repeats is not None and arguments.repeats < 1:
            raise UsageError("workloads run -n: at least one repetition")
        folder = Path(arguments.output or suite.name)
        wishes = {"allocators": arguments.allocator or (), "repeats": arguments.repeats, "only": arguments.only or ()}
        return _run_suite(suite, folder, arguments.home, **wishes)
    return _record_and_replay(names[0], arguments)


def _list(as_json: bool, home: Home) -> int:
    from heaptape.features.workloads import known as workloads

    known = workloads.find(home)
    if as_json:
        found = [workload.as_object() for workload in known] + [suite.as_object() for suite in workloads.find_suites()]
        print_json({"workloads": found})
        return 0
    if not known:
        raise HeaptapeError("no workloads are built here: run 'make' in the checkout")
    entries = {}
    for workload in known:
        notes = filter(None, (workload.missing and f"can't run here: {workload.missing}", workload.recipe.known))
        entries[workload.name] = [f"{workload.kind}: {workload.summary}", *(f"({note})" for note in notes)]
    for suite in workloads.find_suites():
        entries[suite.name] = [f"suite: {suite.summary} ({len(suite.workloads)} workloads)"]
    write_text(STANDARD_OUTPUT, listing(entries))
    return 0


def _record_options(arguments: argparse.Namespace) -> tuple[str, ...]:
    options = [f"--{name}" for name in ("latency", "usable", "describe") if getattr(arguments, name)]
    if arguments.stacks is not None:
        options.append(f"--stacks={arguments.stacks}" if arguments.stacks else "--stacks")
    for name in ("preload", "max-size"):
        value = getattr(arguments, name.replace("-", "_"))
        options += [f"--{name}", value] if value is not None else []
    return tuple(options)


def _capture(names: Sequence[str], arguments: argparse.Namespace) -> int:
    """Records each workload and prints what was recorded. A failure is reported, and the next workload is recorded."""
    from heaptape.features.workloads import capture
    from heaptape.features.workloads.known import find, named

    home, output = arguments.home, arguments.output
    chosen = named(names, find(home))
    if output and len(chosen) > 1:
        raise UsageError("workloads capture -o: names the trace of one workload")
    if output:
        check_writable(output)
    rows: list[dict] = []
    for workload in chosen:
        tape, options = Path(output or f"{workload.name}.tape"), _record_options(arguments)
        try:
            done = capture.capture(workload.recipe, tape, home, options, arguments.all, console.note)
        except HeaptapeError as error:
            if len(chosen) == 1:
                raise
            console.error(str(error))
            rows.append({"name": workload.name, "failure": str(error).partition("\n")[0]})
            continue
        rows.append(done.row())
        if not arguments.json:
            _print_captured(done, arguments.all, home)
    if arguments.json:
        print_json({"workloads": rows})
    return 1 if any("failure" in row or not row["check"]["ok"] for row in rows) else 0


def _print_captured(done: "Captured", kept: bool, home: Home) -> None:
    sys.stdout.flush()
    subprocess.run([home.program("convert"), "info", done.chosen.path])
    others = ""
    if done.others:
        events = sum(trace.about["events"] for trace in done.others)
        what = "kept beside it" if kept else "not kept: --all"
        others = f"; {len(done.others)} more processes, {events:,} events ({what})"
    print(printable(f"{done.chosen.path}: {done.recipe.name}, {done.wall_s:.1f} s{others}"))
    if done.recipe.known:
        print(f"note: {done.recipe.known}")


def _record_and_replay(name: str, arguments: argparse.Namespace) -> int:
    """Records NAME.tape in the current directory, and replays it."""
    from heaptape.commands import replay

    status = _capture([name], arguments)
    sys.stdout.flush()
    words = [arguments.output or f"{name}.tape", "-o", f"{name}.json"]
    return status or _run_other(replay, words, arguments.home)


def _run_suite(suite: "workloads.Suite", folder: Path, home: Home, **wishes: Any) -> int:  # noqa: ANN401
    """`workloads.run_suite`, then the tables on standard output and FOLDER/SUITE.html. 1: a workload has no results."""
    from heaptape.commands import compare, report
    from heaptape.features.workloads import known as workloads

    began = time.monotonic()
    outcomes = workloads.run_suite(suite, folder, home, notify=console.note, **wishes)
    files = [str(outcome.results) for outcome in outcomes if outcome.results]
    sys.stdout.flush()
    if files:
        _run_other(compare, files, home)
        if suite.corners and not wishes.get("allocators"):
            print(flush=True)
            _run_other(compare, ["--corners", ",".join(suite.corners), *files], home)
        _run_other(report, ["-o", str(folder / f"{suite.name}.html"), *files], home)
    minutes = (time.monotonic() - began) / 60
    console.note(f"suite {suite.name}, {minutes:.1f} minutes:")
    for outcome, line in zip(outcomes, workloads.summary(outcomes), strict=True):
        (console.error if outcome.failure else console.note)(line)
    return 0 if len(files) == len(outcomes) else 1


def _run_other(command: ModuleType, words: Sequence[str], home: Home) -> int:
    """Runs another command in this process and returns its exit status. Errors are reported as if it ran alone."""
    parser = Parser()
    command.add_arguments(parser)
    arguments = parser.parse_args(words)
    arguments.home = home
    return status_of(lambda: command.run(arguments))
