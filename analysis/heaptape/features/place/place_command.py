# SPDX-License-Identifier: MIT
"""`heaptape place`: which call sites to serve from memory of their own, found by replays."""

import argparse
import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import add_format_option, again
from heaptape.common.errors import UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, print_json, write_text

if TYPE_CHECKING:
    from heaptape.features.place.confirm import Confirmed
    from heaptape.features.place.search import Found, Tried
    from heaptape.show.screen import Screen

SUMMARY = "which call sites to keep apart to save memory, as a plan for 'heaptape run'"
GROUP = "Memory"
TAKES_A_COMMAND = ()
DESCRIPTION = (
    "Replays a recording with groups of its call sites in memory of their own, and writes the best as a plan, which "
    "'heaptape run --place' applies to the program without a rebuild (docs/use/PLACE.md)."
)
CODE = ("jemalloc", "mimalloc", "pmr")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F", help="a trace with call stacks; with --code, also a plan (.toml)")
    parser.add_argument(
        "held_out", metavar="G", nargs="?", help="another recording of the same build, in which the plan must save, too"
    )
    parser.add_argument("-a", "--allocator", metavar="NAME", help="as for replay (default: the one it was recorded on)")
    parser.add_argument("--aim", choices=("peak", "mean"), default="peak", help="RSS to save (default peak)")
    parser.add_argument(
        "--limit",
        type=float,
        default=25.0,
        metavar="PERCENT",
        help="most instructions more in malloc and free (default 25)",
    )
    parser.add_argument("-o", "--output", metavar="PLAN.toml", help="where the plan goes")
    parser.add_argument("--code", choices=CODE, help="print the lines to patch at the sites of the plan")
    parser.add_argument("--live-runs", type=int, default=3, metavar="N", help="of CMD, without and with (default 3)")
    parser.add_argument("--json", action="store_true", help="JSON instead of the answer")
    add_format_option(parser)
    parser.usage = "heaptape place F [G] [options] [-- CMD ...]"
    parser.epilog = "CMD, the recorded command, is run live without and with the plan, alternately."


def run(arguments: argparse.Namespace) -> int:
    """Searches, writes the plan, prints the answer or the code."""
    from heaptape.allocators import registry
    from heaptape.features.place import code, confirm, plan, search
    from heaptape.run.live_command import Turns
    from heaptape.run.recorded import as_recorded
    from heaptape.show import screen

    if arguments.code and arguments.input.endswith(".toml"):
        write_text(STANDARD_OUTPUT, code.lines(plan.read(Path(arguments.input)), arguments.code))
        return 0
    if arguments.live_runs < 2:
        raise UsageError("place --live-runs: at least two, so that there is an interval")
    if arguments.output:
        check_writable(arguments.output)
    choice = replaying.own_choice(arguments.input, arguments.home)
    if arguments.allocator:
        named = registry.choose_all([arguments.allocator], registry.load(arguments.home))
        (choice,) = as_recorded([arguments.allocator], named, choice)
    held_out = Path(arguments.held_out) if arguments.held_out else None
    with replaying.work() as work:
        asked = search.Search(
            Path(arguments.input), held_out, choice, arguments.aim, arguments.limit, arguments.home,
            work.on_progress, work.on_failure,
        )  # fmt: skip
        found = search.search(asked, work.scratch)
        if arguments.output and found.plan:
            write_text(arguments.output, plan.write(found.plan))
        confirmed = None
        if arguments.own_options and found.plan:
            path = work.scratch / "plan.toml"
            path.write_text(plan.write(found.plan))
            turns = Turns(arguments.own_options, choice, choice, arguments.live_runs, arguments.home)
            confirmed = confirm.confirm(found, path, turns, work.progress.update)
    shown = _screen(found, asked.choice.label, arguments)
    shown = replace(shown, sentences=[*shown.sentences, *(_live(confirmed, arguments.live_runs) if confirmed else [])])
    if arguments.json:
        print_json(_as_json(found, asked.choice.label, confirmed) | screen.as_json(shown))
    elif arguments.code and found.plan:
        write_text(STANDARD_OUTPUT, code.lines(found.plan, arguments.code))
    else:
        write_text(STANDARD_OUTPUT, screen.render(shown, arguments.format))
    return 0


def _screen(found: "Found", allocator: str, arguments: argparse.Namespace) -> "Screen":
    from heaptape.common.console import printable
    from heaptape.common.phrases import calls_of, counted, mean_head
    from heaptape.common.tables import Cell, Table
    from heaptape.features.place.search import UPPER
    from heaptape.results.fits import mean_notes, range_note
    from heaptape.results.structs import WALL_TIME
    from heaptape.show.screen import Screen

    name = replaying.name_of(arguments.input)
    about = f"{name}: {calls_of(found.about.ops or 0, found.about.witness)}, replayed on {allocator} with "
    about += counted(len(found.tried), "placement") + "."
    rows = [[Cell("as recorded"), *_cells(found.base, found.base)]]
    rows += [[Cell(printable(one.candidate.name)), *_cells(one.figures, found.base)] for one in found.tried]
    mean = mean_head(found.base_run.mean_over != WALL_TIME)
    columns = ["placement", "peak\nmemory", "change", mean, "change", "malloc\ninstr."]
    more = []
    if found.plan:
        path = arguments.output or "PLAN.toml"
        if not arguments.output:
            more.append(("Plan", again(arguments, format="text", json=False, output=path)))
        command = shlex.join(arguments.own_options) if arguments.own_options else "CMD"
        more.append(("Run", f"heaptape run --place {shlex.quote(path)} -- {command}"))
    peaks = {"as recorded": found.base} | {printable(one.candidate.name): one.figures for one in found.tried}
    ends = {name: (figures["peak_rss"], figures[UPPER]) for name, figures in peaks.items()}
    note = range_note(ends, rule="a saving holds at both ends")
    runs = {"as recorded": found.base_run} | {printable(one.candidate.name): one.run for one in found.tried}
    means = {of: (run.rss_anon_mean_bytes or 0.0, run.other_means or {}) for of, run in runs.items()}
    notes = [note] * bool(note) + mean_notes(means, found.about)
    return Screen(about, Table("", columns, rows), _sentences(found, arguments), notes, more)


def _cells(figures: dict[str, float], base: dict[str, float]) -> list:
    from heaptape.common.phrases import percent, size
    from heaptape.common.tables import Cell

    cells = []
    for metric in ("peak_rss", "mean_rss"):
        change = 100 * (figures[metric] / base[metric] - 1) if base[metric] else 0.0
        shown = "" if figures is base else percent(change)
        cells += [Cell(size(figures[metric]), figures[metric]), Cell(shown, change, good=change < -2 or None)]
    more = _more_instructions(figures, base)
    known = not math.isnan(more)
    return [*cells, Cell(percent(more) if known and figures is not base else "", more if known else None)]


def _more_instructions(figures: dict[str, float], base: dict[str, float]) -> float:
    before = base.get("total_instructions", 0.0)
    return 100 * (figures.get("total_instructions", math.nan) / before - 1) if before else math.nan


def _sentences(found: "Found", arguments: argparse.Namespace) -> list[str]:
    from heaptape.common.console import printable
    from heaptape.common.phrases import counted, percent, size
    from heaptape.decide.worth import LEAST_SAVING, NO_REASON

    metric, said = f"{arguments.aim}_rss", []
    if found.held_out:
        before, after = (figures[metric] for figures in found.held_out)
        held = f"In {replaying.name_of(arguments.held_out)}, {size(before)} become {size(after)}"
        said.append(f"{held} ({percent(100 * (after / before - 1))}).")
    if found.best is None or found.plan is None:
        why = f"none saves {LEAST_SAVING} of {arguments.aim} memory within the limits"
        return [f"Nothing to win, {NO_REASON}: {why}.", *said]
    saved = found.base[metric] - found.best.figures[metric]
    change = percent(-100 * saved / found.base[metric])
    sites = counted(len(found.plan.sites), "call site")
    name = printable(found.best.candidate.name)
    said.insert(0, f"{name} in memory of their own ({sites}) save {size(saved)} ({change}).")
    if found.left_out:
        said.append(f"{counted(found.left_out, 'call site')} can't be told from others, and are left out of the plan.")
    return said


def _live(confirmed: "Confirmed", runs: int) -> list[str]:
    from heaptape.common.phrases import percent, size
    from heaptape.decide.worth import is_known, measured, more_runs

    said = []
    for metric, name in (("peak_rss", "peak"), ("mean_rss", "mean")):
        before, after, predicted = (part[metric] for part in (confirmed.before, confirmed.after, confirmed.predicted))
        live = f"Live, {name} memory is {size(after)} instead of {size(before)}"
        said.append(f"{live} ({percent(100 * (after / before - 1))}); predicted {percent(-100 * predicted / before)}.")
    if confirmed.cpu:
        change, *ends = (100 * (confirmed.cpu[key] - 1) for key in ("ratio", "low", "high"))
        said.append(f"Live, the change of CPU time is {measured(change, *ends)}.")
        said += [more_runs("--live-runs", runs)] * (not is_known(*ends))
    return said


KEYS = {"peak_rss": "peak_rss_bytes", "upper_peak_rss": "upper_peak_rss_bytes", "mean_rss": "mean_rss_bytes",
        "total_instructions": "instructions"}  # fmt: skip


def _as_json(found: "Found", allocator: str, confirmed: "Confirmed | None") -> dict:
    def keyed(figures: Mapping[str, float]) -> dict[str, float]:
        return {KEYS[metric]: value for metric, value in figures.items()}

    def placement(one: "Tried") -> dict:
        sites = [sorted(part) for part in one.candidate.regions]
        return {"label": one.candidate.name, "sites": sites, "figures": keyed(one.figures)}

    sides = dict(zip(("as_recorded", "placed"), map(keyed, found.held_out))) if found.held_out else None
    live = confirmed and {key: value if key == "cpu" else keyed(value) for key, value in asdict(confirmed).items()}
    return {
        "ops": found.samples.ops,
        "allocator": allocator,
        "as_recorded": keyed(found.base),
        "placements": [placement(one) for one in found.tried],
        "pick": found.best.candidate.name if found.best else None,
        "held_out": sides,
        "sites": [asdict(one) for one in found.plan.sites] if found.plan else [],
        "left_out": found.left_out,
        "live": live,
    }
