# SPDX-License-Identifier: MIT
"""`heaptape tune`: searches an allocator's best settings for given workloads."""

import argparse
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import AS_PRINTED, add_format_option, add_table_option, again, chosen_tables
from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json, write_text
from heaptape.common.phrases import counted, percent
from heaptape.common.process import processors

if TYPE_CHECKING:
    from heaptape.features.tune.goals import Goals, Space
    from heaptape.features.tune.search import Budget, Search
    from heaptape.show.screen import Screen

SUMMARY = "search an allocator's settings for those that suit workloads best"
GROUP = "Tune and guard"
TAKES_A_COMMAND = ()
DESCRIPTION = (
    "Replays workloads with one setting of the allocator's tunables after another, counts exactly, and reports which "
    "settings are best, what each of them contributes and what to put into the environment. The same command, run "
    "again, continues where it ended. docs/use/TUNING.md."
)
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("inputs", nargs="+", metavar="F", help="traces or workloads")
    parser.add_argument(
        "-a",
        "--allocator",
        required=True,
        metavar="NAME",
        help="an allocator of the registry ('heaptape allocators --tunables NAME' lists what can be set)",
    )
    parser.add_argument(
        "--objective",
        default="rss-peak",
        metavar="LIST",
        help="what to minimise, joined by commas: rss-peak, rss-mean, instructions (of the calls), misses (of the last "
        "cache; needs a recording with data accesses), cpu (the program's CPU time as predicted from counts; needs "
        "one, too), vmsize-peak, syscalls, faults (default rss-peak)",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="CONDITION",
        help="what must hold on each workload: 'rss<=1.05*today' (today: the default settings), 'rss-peak<=64 MiB'; "
        "repeatable",
    )
    parser.add_argument(
        "--budget",
        default="60",
        metavar="RUNS|TIME",
        help="number of replays, or with s, m or h a time (default 60): settings x workloads x passes, with the "
        "default and the variants; a replay that an earlier start made counts, and takes no time",
    )
    parser.add_argument("--tunables", default="", metavar="LIST", help="search only these (default: all that matter)")
    parser.add_argument(
        "--weights", default="", metavar="LIST", help="weights of the workloads, in their order (default: equal)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the search (default 0)")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="replays at once (default: the processors)")
    parser.add_argument(
        "--storage", metavar="FILE", help="keep the search there, to continue it (default NAME.ALLOCATOR.tune.journal)"
    )
    parser.add_argument(
        "-o", "--output", metavar="T.json", help="the results, with all points (default NAME.ALLOCATOR.tune.json)"
    )
    parser.add_argument("--json", action="store_const", const="-", dest="output", help="the same as -o -")
    add_table_option(parser, "all points of the front, and what each tunable contributes")
    add_format_option(parser)
    parser.add_argument(
        "--live",
        action="store_true",
        help="then run the command after -- alternately with the default and the winner, and say whether it held",
    )
    parser.add_argument("--live-runs", type=int, default=5, metavar="N", help="runs of each with --live (default 5)")
    parser.usage = "heaptape tune F [F ...] -a NAME [options] [--live -- CMD ...]"


@dataclass(frozen=True)
class Request:
    """What is searched, where it is kept, and where the answer goes. `workloads`: name -> the file that was named."""

    workloads: Mapping[str, str]
    space: "Space"
    goals: "Goals"
    seed: int
    storage: Path
    output: str


def run(arguments: argparse.Namespace) -> int:
    """Searches, writes the results, prints them. Returns 130 if interrupted."""
    from heaptape.features.tune import trials
    from heaptape.show import screen

    _check(arguments)
    request = _request(arguments)
    trials.require_optuna()
    check_writable(request.output)
    data, interrupted = _searched(request, arguments)
    to_file = request.output != STANDARD_OUTPUT
    if to_file:  # before live runs, which may fail
        write_json(request.output, data)
    if arguments.live and not interrupted:
        data["live"] = _lived(arguments, data, request.space)
    shown = _screen(data, request, arguments)
    write_json(request.output, data | screen.as_json(shown))
    if to_file:
        _print(data, shown, arguments)
    if interrupted:
        console.note(f"interrupted: the same command continues from {request.storage}")
        return INTERRUPTED
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raises UsageError for mistakes that show before any file is read."""
    chosen_tables(arguments.table, ())
    _budget(arguments.budget)
    if arguments.live != bool(arguments.own_options):
        raise UsageError("tune --live: needs the command after --, and -- needs --live")
    if arguments.live_runs < 2:
        raise UsageError("tune --live-runs: at least two, so that there is an interval")
    if arguments.jobs < 0:
        raise UsageError("tune --jobs: a number of replays")


def _budget(text: str) -> tuple[int | None, float]:
    """The number of replays, or None; the seconds, infinite where replays are counted."""
    match = re.fullmatch(r"(\d{1,9})([smh]?)", text)
    if not match or int(match[1]) == 0:
        raise UsageError(f"tune --budget: '{text}' is neither a number of replays nor a time such as 10m")
    count = int(match[1])
    return (None, count * console.SECONDS[match[2]]) if match[2] else (count, float("inf"))


def _request(arguments: argparse.Namespace) -> Request:
    from heaptape.allocators import registry
    from heaptape.features.tune import goals
    from heaptape.features.tune.goals import space_of

    names = [replaying.name_of(path) for path in arguments.inputs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"tune: two workloads are called {twice}")
    wanted = goals.Goals(
        goals.objectives(arguments.objective), goals.limits(arguments.limit), goals.weights(names, arguments.weights)
    )
    only = [name for name in arguments.tunables.split(",") if name]
    space = space_of(arguments.allocator, registry.load(arguments.home), only)
    stem = f"{'+'.join(names)}.{arguments.allocator}.tune"
    storage = Path(arguments.storage or f"{stem}.journal")
    workloads = dict(zip(names, arguments.inputs))
    return Request(workloads, space, wanted, arguments.seed, storage, arguments.output or f"{stem}.json")


def _searched(request: Request, arguments: argparse.Namespace) -> tuple[dict, bool]:
    """The answer, and whether Ctrl-C ended the search."""
    from heaptape.features.tune.answer import answer
    from heaptape.features.tune.search import Search
    from heaptape.features.tune.trials import Trials, opened
    from heaptape.run import judging, replay
    from heaptape.tape.workload_format import read_workload

    with replaying.work() as work:
        prepared = {}
        for name, source in request.workloads.items():
            folder = work.scratch / name
            folder.mkdir()
            prepared[name] = replay.prepare(source, arguments.home, folder)
            if wrong := judging.judged(Path(source), prepared[name], arguments.home):
                raise HeaptapeError(f"{name}: {wrong}")
        trials = Trials(prepared, request.space, request.goals, arguments.home)
        about = _about(request)
        with opened(request.storage, about, len(request.goals.objectives), request.space) as kept:
            search = Search(request.space, request.goals, trials, kept, request.seed)
            interrupted = _run(search, _bounds(request, arguments), work)
            if not any(not point.settings and not point.error for point in search.points):
                raise KeyboardInterrupt  # before there was anything to report
            found = answer(request.space, request.goals, search.points, about)
            found["mean_over_calls"] = any(read_workload(path).mean_over_calls for path in prepared.values())
            return found, interrupted


def _bounds(request: Request, arguments: argparse.Namespace) -> "Budget":
    from heaptape.features.tune.search import Budget

    runs, seconds = _budget(arguments.budget)
    each = request.goals.runs_of_a_point
    if runs is not None and runs < each:
        raise UsageError(f"tune --budget: {runs} replays are less than one setting needs, {each}")
    points = None if runs is None else runs // each
    return Budget(points, time.monotonic() + seconds, arguments.jobs or processors())


def _run(search: "Search", budget: "Budget", work: replaying.Work) -> bool:
    began = time.monotonic()

    def tell(points: int) -> None:
        elapsed = time.monotonic() - began
        share = points / budget.points if budget.points else elapsed / max(budget.until - began, 1e-3)
        best = search.leading()
        best_so_far = f", best so far {percent(100 * (best.balance - 1))}" if best else ""
        work.progress.update(f"{counted(points, 'setting')}{best_so_far}", min(share, 1.0))

    try:
        search.run(budget, tell)
    except KeyboardInterrupt:
        return True
    return False


def _about(request: Request) -> dict:
    """What has to be the same for a search to be continued."""
    from heaptape.allocators.registry import sha256_of
    from heaptape.common.version import __version__

    allocator, goals = request.space.allocator, request.goals
    assert allocator.path
    return {
        "heaptape": __version__,
        "workloads": {name: sha256_of(Path(path)) for name, path in request.workloads.items()},
        "allocator": {"name": allocator.name, "version": allocator.version, "sha256": sha256_of(allocator.path)},
        "space": {name: list(levels) for name, levels in request.space.levels.items()},
        "objectives": list(goals.objectives),
        "limits": [limit.text for limit in goals.limits],
        "figures": list(goals.figures),
        "weights": dict(goals.weights),
        "seed": request.seed,
    }


def _screen(data: dict, request: Request, arguments: argparse.Namespace) -> "Screen":
    from heaptape.features.tune.tables import conclusion, live_lines, range_lines, tune_answer
    from heaptape.show.screen import Screen

    table = tune_answer(data)
    said = [*range_lines(data), *conclusion(data), *live_lines(data)]
    as_printed = AS_PRINTED if request.output == STANDARD_OUTPUT else {"format": "text"}
    kept = [f"All points are in {request.output}."] * (request.output != STANDARD_OUTPUT)
    caveats = [" ".join([*kept, f"The search is in {request.storage}."])]
    return Screen(table.title, table, said, caveats, [("More", again(arguments, **as_printed, table=["all"]))])


def _print(data: dict, shown: "Screen", arguments: argparse.Namespace) -> None:
    from heaptape.features.tune.tables import tune_tables
    from heaptape.show.screen import render
    from heaptape.show.tables import latex

    if not arguments.table:
        write_text(STANDARD_OUTPUT, render(shown, arguments.format))
        return
    first, last = tune_tables(data)
    last.notes.extend([*shown.sentences, *shown.caveats])
    write_text(STANDARD_OUTPUT, latex.render([first, last], arguments.format))


def _lived(arguments: argparse.Namespace, data: dict, space: "Space") -> dict | None:
    """Alternate live runs of default and winner, and their results for each objective and limit. None: the winner is
    the default.
    """
    from heaptape.run import live_command

    best = data["winner"]
    if best is None or not best["settings"]:
        return None
    default, winner = space.choice({}), space.choice(best["settings"])
    turns = live_command.Turns(arguments.own_options, default, winner, arguments.live_runs, arguments.home)
    with replaying.work() as work:
        rows = live_command.take(turns, work.progress.update)
    return {
        "command": arguments.own_options,
        "runs": arguments.live_runs,
        "rows": rows.astype(object).where(rows.notna(), None).to_dict("records"),
        "figures": live_command.judge(rows, data["search"]["objectives"], _bounds_of_limits(arguments)),
    }


def _bounds_of_limits(arguments: argparse.Namespace) -> dict[str, float]:
    """figure -> the most it may be, as a multiple of the default's. Absolute limits hold for the replayed workload."""
    from heaptape.features.tune import goals

    return {one.figure: float(one.most) for one in goals.limits(arguments.limit) if one.of_default}
