# SPDX-License-Identifier: MIT
"""`heaptape advise`: which allocator a program should use, on one screen."""

import argparse
import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import AS_PRINTED, add_allocator_option, add_format_option, again
from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_bytes, write_json, write_text
from heaptape.common.phrases import counted
from heaptape.common.process import scratch_folder

if TYPE_CHECKING:
    from heaptape.advise.advise import Advisor, Wish
    from heaptape.advise.budget import Plan
    from heaptape.advise.load import Load
    from heaptape.advise.programs import Program
    from heaptape.advise.words import Advice

SUMMARY = "which allocator a program should use, and what that saves"
DESCRIPTION = (
    "Records a program (or takes a recording), replays it into every allocator found here and into its main settings, "
    "counts memory and instructions, and says what to use for memory and for CPU time, what that saves and costs, how "
    "sure that is, and what to set. Within --budget the program is then run again, where that can change the answer: "
    "once under Valgrind for its cache misses, and alternately on today's and on the best allocator. "
    "docs/use/ADVISE.md describes how it decides."
)

USUAL = ("--objective", "--limit", "-a", "--baseline", "--budget", "--live", "--keep", "--format", "--json", "-o")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "heaptape advise [OPTION...] F | [OPTION...] -- CMD [ARGUMENT...]"
    parser.add_argument(
        "input",
        metavar="F",
        nargs="?",
        help="trace or workload. Instead of it: -- CMD, which is run and recorded; of several processes, the one that "
        "takes most CPU time is used, of those with a tenth of the most calls. A program that does not end by itself "
        "is ended by Ctrl-C; the advice follows",
    )
    parser.add_argument(
        "--objective", default="both", choices=("memory", "cpu", "both"), help="what to save (default both, separately)"
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="CONDITION",
        help="a limit that the advice must keep: 'memory=64M' (of a container), 'rss-peak<=1.05*today', 'rss-mean<=64 "
        "MiB'. Repeatable",
    )
    words = "a candidate, as for replay; repeatable (default: all that are found, and their main settings)"
    add_allocator_option(parser, words)
    parser.add_argument(
        "--baseline", metavar="NAME", help="what the program runs on today (default: what it was recorded on)"
    )
    _add_recording(parser)
    parser.add_argument("-o", "--output", metavar="A.json", help="the advice and its figures; - for standard output")
    parser.add_argument("--json", action="store_true", help="the same as -o -")
    add_format_option(parser)


def _add_recording(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="F.tape", help="keep the recording there")
    parser.add_argument(
        "--program", default="", metavar="NAME", help="of several processes, use the one whose executable has this name"
    )
    parser.add_argument(
        "--load",
        metavar="CMD2",
        help="CMD is a server: in each run, when it listens, CMD2 makes its requests (the same number each time), then "
        "the server gets SIGTERM",
    )
    parser.add_argument(
        "--budget",
        metavar="TIME",
        help="wall time (90, 5m) for all of it; what replays leave of it is for running the program again (default: a "
        "minute, or 20 times the program's time if that is more; 0: the program is run once)",
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="count the instructions of all calls on every candidate, also where the first million show that it is "
        "beaten in both aims, and beyond 20 million calls",
    )
    parser.add_argument(
        "--accesses",
        action="store_true",
        help="record the data accesses of the whole program whatever the budget: about 30 times slower",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="make the live runs whatever the budget; status 1 if they show no reason to change",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the advice. Returns 1 if live runs that were asked for show that it does not hold."""
    began = time.monotonic()  # loading what follows is part of the budget

    from heaptape.advise import advise, budget, programs, words
    from heaptape.advise.load import Load
    from heaptape.allocators import registry
    from heaptape.decide import worth
    from heaptape.run.live import c_library
    from heaptape.show import screen
    from heaptape.tape.trace import recorded_cpu_ns

    command = _checked(arguments)
    wish, given_s = _wish(arguments), None if arguments.budget is None else budget.parse(arguments.budget)
    output = STANDARD_OUTPUT if arguments.json else arguments.output
    allowed_s = given_s or math.inf
    for path in (one for one in (output, arguments.keep) if one):
        check_writable(path)
    if not wish.names:
        replaying.note_others(registry.load(arguments.home))
    with replaying.work() as work, scratch_folder() as recorded:
        program, load = None, Load(arguments.load) if arguments.load else None
        if arguments.input is None:
            work.progress.note(_how_often(command, arguments))
            work.progress.update(f"recording {command[0]}")
            parts_s = budget.ENDED * allowed_s, budget.RECORDED * allowed_s
            wanted = programs.Wanted(arguments.program, 0.0, load, *parts_s)
            program = programs.record(command, recorded, arguments.home, wanted)
            if arguments.keep:
                write_bytes(arguments.keep, program.trace.path.read_bytes())
        source = program.trace.path if program else Path(arguments.input)
        name = program.trace.program if program else replaying.name_of(arguments.input)
        cpu_ns = program.cpu_ns if program else recorded_cpu_ns(source)
        run_s = program.wall_s if program else (cpu_ns or 0.0) / 1e9
        total_s = budget.default_s(run_s) if given_s is None else given_s
        alone = not program or (program.whole and program.share > 1 - programs.GOOD_PART)
        place, timed = advise.Place(arguments.home, work.scratch, work.progress.update), False
        planned = advise.no_ends
        if command and total_s:
            may_race = wish.objective != "memory" and not _why_not(program, run_s, load)
            matters = not program or math.isnan(worth.most_percent(int(program.trace.calls), 0.0, cpu_ns))
            if may_race and matters and budget.must_be_timed(total_s, run_s):
                work.progress.update(f"timing a run of {command[0]}")
                own_s = programs.seconds_of_a_run(command, load, total_s / budget.LIVE_RUNS)
                timed, run_s = own_s < math.inf, min(own_s, run_s)
                total_s = budget.default_s(run_s) if given_s is None else total_s
            work.progress.ends = began + total_s
            each_s = run_s if may_race else 0.0

            def planned() -> budget.Ends:
                return budget.Ends(*(began + end_s for end_s in budget.ends(total_s, time.monotonic() - began, each_s)))

        others = program.others if program else ""
        until = began + (1 - budget.ENDING) * allowed_s
        advisor = advise.replayed(advise.Source(source, name, cpu_ns, others, alone), wish, place, planned, until)
        if program and not program.whole:
            rest = f"recording the rest of {command[0]}", budget.rest_s(wanted.recorded_s, program.wall_s)
            advisor.left_out += (rest,)
        if advisor.has_accesses:
            advisor.count()
            advisor.simulate(None)
        left_out, race = "", f"{again(arguments, **AS_PRINTED, input=None)} -- CMD"
        if command:
            further = _Again(advisor, command, program, run_s, work, load, timed, total_s)
            left_out, race = further.refine(time.monotonic() - began, arguments), further.race
        advisor.count()
        found = advisor.found()
    found = dataclasses.replace(found, advice=_with_next(found.advice, left_out, arguments))
    confirmed = advisor.live
    advice = dataclasses.replace(found.advice, command=programs.line_of(command).words, race=race)
    shown = words.screen(advice, c_library())
    if output:
        write_json(output, advise.as_json(found, confirmed) | screen.as_json(shown))
    if output != STANDARD_OUTPUT:
        if arguments.format == "csv":
            shown = dataclasses.replace(shown, table=words.candidates(advice))
        elif arguments.format == "md":
            shown = words.pasted(advice, c_library(), again(arguments, **AS_PRINTED, keep=None))
        write_text(STANDARD_OUTPUT, screen.render(shown, arguments.format))
    return 1 if arguments.live and any(one.held is False for one in confirmed) else 0


def _how_often(command: Sequence[str], arguments: argparse.Namespace) -> str:
    """How often the program is run: the first line, as some programs do harm when they are run twice."""
    from heaptape.advise.budget import parse

    budget_s = None if arguments.budget is None else parse(arguments.budget)
    if budget_s == 0 and not (arguments.live or arguments.accesses):
        return f"{command[0]} is run once, to record it"
    within = console.duration(budget_s) if budget_s else "a minute, or 20 times its own time"
    return f"{command[0]} is run to record it, then again as often as fits into {within} (--budget 0: it is run once)"


def _checked(arguments: argparse.Namespace) -> Sequence[str]:
    """The program's command line; empty if none was given. Raises UsageError for options that exclude each other."""
    command = list(arguments.own_options)
    if arguments.input is None and not command:
        raise UsageError("advise: a recording F, or a program: heaptape advise -- CMD ...")
    if arguments.load is not None and not (command and arguments.load.split()):
        raise UsageError("advise --load: a command, and the server's at the end: advise --load CMD2 -- SERVER ...")
    if arguments.live and not command:
        raise UsageError("advise --live: which program? Name it at the end: -- CMD ...")
    if arguments.input is not None and command and not arguments.live:
        raise UsageError("advise: a recording F or a program, not both; a program beside F is for --live")
    if arguments.input is not None and (arguments.keep or arguments.accesses):
        raise UsageError("advise: --keep and --accesses are about recording, and F is a recording")
    if arguments.input is not None and not command and arguments.budget is not None:
        raise UsageError("advise --budget is time for running a program again, and F is a recording: -- CMD ...")
    if arguments.budget is not None:
        from heaptape.advise.budget import parse

        parse(arguments.budget)
    return command


def _wish(arguments: argparse.Namespace) -> "Wish":
    from heaptape.advise.advise import REFERENCE, Wish
    from heaptape.results.fits import memory_limit
    from heaptape.run.condition import parse

    memory = [limit for text in arguments.limit if (limit := memory_limit(text)) is not None]
    limits = [parse(text, (REFERENCE, "default")) for text in arguments.limit if memory_limit(text) is None]
    return Wish(
        arguments.objective, arguments.allocator, arguments.baseline, limits, min(memory, default=None), arguments.exact
    )


@dataclasses.dataclass
class _Again:
    """Runs the program again, where that can change the answer. `program`: as recorded here; None: F is a recording.
    `run_s`: wall time of one run; `timed`: of one that was not recorded. `race`: afterwards, the command that has time
    for a longer race; empty: none can be run.
    """

    advisor: "Advisor"
    command: Sequence[str]
    program: "Program | None"
    run_s: float
    work: replaying.Work
    load: "Load | None"
    timed: bool
    total_s: float
    race: str = ""

    def refine(self, spent_s: float, arguments: argparse.Namespace) -> str:
        """Spends what is left of the budget. Returns what was not done, in words; empty: nothing was left out."""
        from heaptape.advise import budget
        from heaptape.advise.confirm import to_run
        from heaptape.common.engine import OF_ACCESSES

        began, left_s = time.monotonic(), (1 - budget.ENDING) * self.total_s - spent_s
        forced = [budget.ACCESSES] * arguments.accesses + [budget.LIVE] * arguments.live
        why = _why_not(self.program, self.run_s, self.load)
        races = not why and (left_s >= budget.LIVE_RUNS * self.run_s or arguments.live) and not arguments.accesses
        if not races or not self.advisor.racers():
            self.advisor.count()  # else a race tells more, and sooner
        advice, racers = self.advisor.advice(), self.advisor.racers()
        if arguments.accesses and not OF_ACCESSES:
            raise HeaptapeError("--accesses: this build has no pass that uses data accesses")
        simulates = bool(OF_ACCESSES and self.program)
        wanted = [budget.ACCESSES] * bool(simulates and (self.advisor.finalists() or arguments.accesses))
        wanted += [budget.LIVE] * bool(racers or any(to_run(advice, pick) for pick in advice.picks))
        if arguments.live and not arguments.accesses:
            wanted = [one for one in wanted if one == budget.LIVE]
        if why and set(forced) & set(wanted):
            raise HeaptapeError(f"{self.command[0]}: can't be run again, as {why}")
        plan = budget.plan(0.0 if why else left_s, self.run_s, wanted, forced)
        said = self._accesses(plan.accesses, arguments) + self._live(plan, racers, arguments)
        is_open = any(pick.open for pick in self.advisor.advice().picks)
        if plan.live_s and is_open and simulates and not plan.accesses:
            left_s -= time.monotonic() - began
            said += self._accesses(budget.plan(left_s, self.run_s, {budget.ACCESSES}).accesses, arguments)
        left_out = (*self.advisor.left_out, *plan.left_out)
        budget_s = budget.with_room(spent_s, sum(needed_s for _, needed_s in left_out), self.total_s)
        self.race = "" if why else again(arguments, **AS_PRINTED, keep=None, budget=f"{budget_s / 60:.0f}m")
        return " ".join(filter(None, [*said, budget.not_done(left_out, budget_s, why)]))

    def _accesses(self, share: float, arguments: argparse.Namespace) -> list[str]:
        """Records data accesses of this share of the program, simulates caches. Returns what failed, in words."""
        from heaptape.advise import programs
        from heaptape.run.exact import TimeUpError

        if not share:
            return []
        self.work.progress.update(f"recording data accesses of {self.command[0]}")
        same = self.program.trace.program if self.program and self.program.others else ""
        try:
            with scratch_folder() as folder:
                forced = arguments.accesses
                within_s = math.inf if forced else self.advisor.ends - time.monotonic()
                wanted = programs.Wanted(arguments.program or same, share, self.load, within_s)
                traced = programs.record(self.command, folder, arguments.home, wanted)
                failed = self.advisor.simulate(traced.trace.path, share, forced)
        except TimeUpError:
            failed = "there was no time for it"
        except HeaptapeError as error:
            failed = str(error)
        return [f"Data accesses are not used: {failed}."] * bool(failed)

    def _live(self, plan: "Plan", racers: Sequence[str], arguments: argparse.Namespace) -> list[str]:
        """Makes the live runs. Returns what failed, in words. Raises HeaptapeError where they were asked for."""
        from heaptape.advise import confirm

        if not plan.live_s:
            return []
        name = self.program.trace.program if self.program else arguments.program
        status = self.program.status if self.program else None
        command = confirm.Command(
            tuple(self.command), name, status, arguments.home, plan.live_s, self.load,
            self.work.progress.update,
            whole=not arguments.program, within=not arguments.live, replayed=self.advisor.source.alone,
        )  # fmt: skip
        try:
            with scratch_folder() as folder:
                observer = confirm.Observer(command, folder)
                self.advisor.live, repeated = confirm.made(self.advisor, racers, observer, self.run_s, self.timed)
        except HeaptapeError as error:
            if arguments.live:
                raise HeaptapeError(f"live: {error}") from None
            return [f"Live runs failed: {error}."]
        again = f"{counted(repeated, 'disturbed run was', 'disturbed runs were')} repeated."
        return [again] * bool(repeated)


def _why_not(program: "Program | None", run_s: float, load: "Load | None") -> str:
    """Why the program is not run again; empty: it can be."""
    from heaptape.advise import budget, programs

    if program is None or load:
        return ""
    if program.ended:
        return "it did not end in its part of the budget"
    cpu_ns = program.cpu_ns
    return budget.not_repeatable(program.status, programs.input_kind(), run_s, cpu_ns / 1e9 if cpu_ns else None)


def _with_next(advice: "Advice", left_out: str, arguments: argparse.Namespace) -> "Advice":
    """With what was left out, and what to do next."""
    if arguments.own_options or all(pick.label == advice.today and not pick.open for pick in advice.picks):
        return dataclasses.replace(advice, left_out=left_out)
    return dataclasses.replace(
        advice, next_step=[("Confirm live", again(arguments, **AS_PRINTED, live=True) + " -- CMD")]
    )
