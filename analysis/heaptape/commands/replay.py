# SPDX-License-Identifier: MIT
"""`heaptape replay`: replays, writes R.json, prints the comparison."""

import argparse
import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import comparison, replaying
from heaptape.commands.outcome import add_allocator_option, add_baseline_option
from heaptape.common import console
from heaptape.common.console import printable
from heaptape.common.errors import UsageError, unknown
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json

if TYPE_CHECKING:
    from heaptape.results.structs import Run
    from heaptape.run import rounds

SUMMARY = "replay a recording into allocators: which needs least CPU time and memory"
DESCRIPTION = (
    "Replays a trace (.tape), workload (.work) or Android trace into allocators, one fresh process per "
    "run, allocators interleaved in random order, and prints the answer."
)

USUAL = (
    "-a",
    "-n",
    "--passes",
    "--order",
    "--baseline",
    "-o",
    "--table",
    "--format",
    "--json",
    "--seed",
    "--jobs",
    "--verify",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)
    _add_conditions(parser)
    _add_passes(parser)
    _add_rest(parser)
    comparison.add_options(parser)


def _add_runs(parser: argparse.ArgumentParser) -> None:
    from heaptape.common.engine import BY_NAME, REPEATED

    often = [one.name for one in BY_NAME.values() if one.repeats == REPEATED]
    parser.add_argument("input", metavar="F", help="trace, workload or Android trace; - for standard input")
    add_allocator_option(
        parser,
        "an allocator of the registry, an installed version of one ('heaptape allocators list'; @3: the newest "
        "3.x), or a library by path; either may be followed by ':NAME=VALUE': a tunable "
        "('heaptape allocators --variants NAME' lists them) or a variable of the environment. VALUE may be a range, "
        "one variant for each value: glibc:tcache_count=0..16/4, reference:tcache_count=1..64*2 (powers), for a "
        "tunable also 0,7,100. Repeatable. Default: all of the registry that are found, except those for study only",
        "NAME[@VERSION][:VARIANT]|glibc=DIR|LIB.so",
    )
    parser.add_argument(
        "-n",
        "--repeats",
        type=int,
        metavar="N",
        default=5,
        help=f"repetitions of {', '.join(often)} (default 5); other passes run once or twice, memory more often where "
        "that is not enough",
    )
    parser.add_argument(
        "--until-ci",
        type=float,
        default=0,
        metavar="PERCENT",
        help="repeat until the 95 %% interval of each allocator's cycles, as a ratio to the baseline's, is within this "
        "many percent, at most 50 repetitions",
    )


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--order",
        default="",
        metavar="MODE",
        help="recorded, causal, window[=N], paced[=SPEED] (keeps the recorded times, SPEED times as fast) or "
        "random=SEED (a random legal order, one thread at a time). Default: window for time and bare, recorded for "
        "instructions and memory",
    )
    parser.add_argument(
        "--as-malloc",
        action="store_true",
        help="call only malloc and free, whatever was recorded: calloc clears, realloc copies, alignment is ignored",
    )
    parser.add_argument(
        "--threads-to-cores",
        action="store_true",
        help="bind each thread to one processor, in turn; allocators that ask how many processors they may use see one",
    )
    parser.add_argument(
        "--clock",
        default="recorded",
        choices=("recorded", "real"),
        help="the clock that the allocator reads, for what it does by time: as in the recording (default), or the real "
        "one, which advances less, as a replay is shorter",
    )
    parser.add_argument(
        "--disturb",
        type=int,
        default=0,
        metavar="LINES",
        help="before each timed call read this many cache lines of other memory, as a program would, so that the "
        "allocator's lines are as cold as in the program (default 0, at most 1048576; slow)",
    )
    parser.add_argument(
        "--warm",
        type=int,
        default=0,
        metavar="ROUNDS",
        help="replay the recording (of one thread) this many times in the same process before the measured one, live "
        "objects released between: warms the heap of a short recording. Without the passes that measure memory",
    )
    parser.add_argument(
        "--touch",
        default="recorded",
        metavar="POLICY",
        help="what to write into each new object: recorded (as many OS pages as the program touched; where that is not "
        "known, as lines and a byte of each OS page of the first 64 KiB), lines (a byte in every 64 of the first 256; "
        "recorded=N, lines=N: of the first N), spread (as recorded, but where it is not known which parts of a large "
        "object were touched, evenly), least (as recorded, but of objects of 4 to 8 KiB the first 256 bytes), first "
        "(the first byte), pages (a byte of each OS page), all or none (default recorded)",
    )


def _add_passes(parser: argparse.ArgumentParser) -> None:
    from heaptape.common.engine import BY_NAME, DEFAULT_PASSES, OF_ACCESSES  # here: it reads what the build describes

    parser.add_argument(
        "--passes",
        metavar="LIST",
        help="; ".join(f"{one.name}: {one.summary}" for one in BY_NAME.values())
        + ". Default: "
        + ", ".join(DEFAULT_PASSES)
        + f" (instructions only where heaptape's Valgrind tool is); {', '.join(OF_ACCESSES)}, too, where the trace "
        "has data accesses",
    )
    for name, what in (("caches", "BYTES:WAYS"), ("tlbs", "ENTRIES:WAYS")):
        parser.add_argument(
            f"--{name}",
            default="",
            metavar=f"{what},...",
            help=f"{name} of {', '.join(OF_ACCESSES)}, the first level first (default: this machine's, where `heaptape "
            "machine` has measured it)",
        )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="instead of measuring, check that each allocator keeps the rules of malloc (no overlap, alignment, "
        "contents, zeroes, usable size); exit 1 and name the op if one doesn't",
    )


def _add_rest(parser: argparse.ArgumentParser) -> None:
    from heaptape.common.engine import BY_NAME

    counting = ", ".join(one.name for one in BY_NAME.values() if one.exact)
    parser.add_argument(
        "--aslr", action="store_true", help="keep address space randomisation (default: the same addresses in each run)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed of the random order of runs (default: random, and stored in the results)",
    )
    parser.add_argument(
        "--timeout", type=float, default=0, metavar="SECONDS", help="give up on a run after this long (default: never)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=0,
        metavar="N",
        help=f"how many runs of passes that only count ({counting}) are made at a time; runs that read "
        "the clock are alone (default 0: one for each processor, if there is memory)",
    )
    add_baseline_option(parser, "allocator that the printed percentages refer to")
    parser.add_argument(
        "-o",
        "--output",
        metavar="R.json",
        help="where the results go (default: NAME.results.json in the current folder, where NAME is F without folder "
        "and ending, reported on standard error; - for standard output)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Replays into all allocators, writes R.json, prints the answer. Returns 1 if a run failed."""
    from heaptape.common.engine import OF_ACCESSES, need_origins
    from heaptape.results.disturbance import doubts
    from heaptape.run import judging, replay
    from heaptape.tape import placement

    settings = _replay_settings(arguments)
    tables = comparison.table_names(arguments.table, arguments.format, "replay")
    choices = replaying.choices_of(arguments.allocator, arguments.home)
    name = replaying.name_of(arguments.input)
    output = arguments.output or (STANDARD_OUTPUT if arguments.json else replaying.free_name(name))
    check_writable(output)
    labels = [choice.label for choice in choices]
    if arguments.baseline is not None and arguments.baseline not in labels:
        raise unknown("baseline", arguments.baseline, labels, "replayed are")
    with replaying.work() as work:
        workload = replay.prepare(arguments.input, arguments.home, work.scratch, need_origins(settings.passes))
        about = replaying.about(workload, name, arguments.input)
        choices = replaying.with_recorded_settings(arguments.allocator, choices, workload, arguments.home)
        if arguments.baseline not in (None, *(choice.label for choice in choices)):  # it has the recorded settings now
            arguments.baseline = next(choice.label for choice in choices if choice.as_recorded)
            settings = dataclasses.replace(settings, baseline=arguments.baseline)
        if arguments.passes is None and not arguments.verify and not arguments.warm and replay.has_accesses(workload):
            settings = dataclasses.replace(settings, passes=(*settings.passes, *OF_ACCESSES))
        if "memory" in tables:
            about["achievable_bytes"] = placement.best(placement.lifetimes(workload)).bytes
        for doubt in doubts(about.get("witness")):
            console.warning(f"{arguments.input}: {doubt}")
        replaying.calibrate(settings.passes, arguments.home, work)
        data = replay.replay(workload, about, choices, settings, arguments.home, work.on_progress, work.on_failure)
        if "memory" in settings.passes:
            judging.judge(data["workload"], Path(arguments.input), workload, arguments.home)
    _give_results(output, data, arguments, tables)
    if not arguments.output and not arguments.json:
        console.note(f"results in {output}")
    replaying.tell_left_out(data)
    stop_rule = data["settings"].get("until_ci")
    if stop_rule:
        done = "reached" if stop_rule["reached"] else "not reached"
        often, widest = data["settings"]["repeats"]["time"], stop_rule["widest_percent"]
        rule = f"intervals within {stop_rule['percent']:g} %"
        console.note(f"{rule}: {done} after {often} repetitions (widest {widest} %)")
    if work.failed:
        console.error(f"{len(work.failed)} of {len(data['runs'])} runs failed")
    if data["settings"].get("interrupted"):
        again = "the same command makes the others, and heaptape compare takes both files"
        console.warning(f"stopped: {len(data['runs'])} runs are kept; {again}")
        return 130
    return 1 if work.failed else 0


def _replay_settings(arguments: argparse.Namespace) -> "rounds.Settings":
    from heaptape.common import engine
    from heaptape.run import rounds

    passes: tuple[str, ...] = engine.DEFAULT_PASSES
    if arguments.verify or arguments.passes is not None:
        passes = replaying.passes_of("verify" if arguments.verify else arguments.passes, "replay")
    if arguments.warm < 0:
        raise UsageError("replay --warm: a number of rounds")
    if arguments.warm and arguments.passes is None and not arguments.verify:
        passes = tuple(name for name in passes if name in engine.WARM)
    if arguments.warm and (cold := set(passes) - set(engine.WARM)):
        raise UsageError(f"replay --warm: is for the passes {', '.join(engine.WARM)}, not {min(cold)}")
    replaying.check_repeats(arguments.repeats, "replay")
    if not 0 <= arguments.until_ci < 1000:
        raise UsageError("replay --until-ci: a percentage")
    if arguments.until_ci and "time" not in passes:
        raise UsageError("replay --until-ci: is about cycles, so the time pass is needed")
    if not _is_order(arguments.order):
        raise UsageError(
            f"replay --order: '{arguments.order}' is none of recorded, causal, window[=N], paced[=SPEED], random=SEED"
        )
    replaying.check_touch(arguments.touch, "replay")
    if not 0 <= arguments.disturb <= 1 << 20:
        raise UsageError("replay --disturb: between 0 and 1048576 lines")
    if arguments.jobs < 0:
        raise UsageError("replay --jobs: at least one run at a time")
    seed = arguments.seed if arguments.seed is not None else replaying.random_seed()
    return rounds.Settings(
        arguments.repeats,
        arguments.order,
        arguments.touch,
        passes,
        seed,
        arguments.timeout,
        arguments.until_ci,
        max(rounds.MOST_ROUNDS, arguments.repeats),
        arguments.baseline,
        arguments.aslr,
        arguments.as_malloc,
        arguments.threads_to_cores,
        arguments.clock == "real",
        arguments.disturb,
        arguments.warm,
        arguments.caches,
        arguments.tlbs,
        optional=("instructions",) if arguments.passes is None else (),
        jobs=arguments.jobs,
    )


def _is_order(text: str) -> bool:
    mode, equals, value = text.partition("=")
    number = re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) is not None
    match mode:
        case "" | "recorded" | "causal":
            return not equals
        case "window":
            return not equals or (value.isdigit() and int(value) > 0)
        case "paced":
            return not equals or (number and 1e-6 <= float(value) <= 1e6)
        case "random":
            return value.isdigit() and int(value) < 1 << 64
    return False


def _give_results(output: str, data: dict, arguments: argparse.Namespace, tables: list[str]) -> None:
    """Writes R.json first, as a reader of the answer may go away. If that fails, the answer is printed anyway."""
    try:
        write_json(output, data | (_said(data, arguments) if output == STANDARD_OUTPUT else {}))
    finally:
        if output != STANDARD_OUTPUT:
            _print(output, data, arguments, tables)


def _said(data: dict, arguments: argparse.Namespace) -> dict:
    """The answer's sentences, for JSON on standard output; none if nothing was measured."""
    from heaptape.results.comparing.compare import choose_baseline
    from heaptape.results.schema import Results

    file = Results(STANDARD_OUTPUT, data | {"runs": [run for run in data["runs"] if "error" not in run]})
    if all(run.verified for run in file.measured):
        return {}
    return comparison.said([file], choose_baseline([file], arguments.baseline))


def _print(path: str, data: dict, arguments: argparse.Namespace, tables: list[str]) -> None:
    from heaptape.results.comparing.compare import choose_baseline
    from heaptape.results.schema import Results
    from heaptape.show.tables.kinds import Question

    file = Results(path, data)
    verified = [run for run in file.measured if run.verified]
    for run in verified:
        _print_verified(run)
    if verified and len(verified) == len(file.measured):
        return
    runs = [run for run in data["runs"] if "error" not in run]
    if not runs:  # each failure was printed
        return
    measured = [Results(path, data | {"runs": runs})]
    baseline = choose_baseline([file], arguments.baseline)
    if tables:
        comparison.print_named(Question(measured, baseline), tables, arguments.format)
    elif arguments.format == "csv":
        comparison.write_long(measured, baseline, "csv")
    else:
        comparison.print_answer(measured, baseline, arguments.format)


def _print_verified(run: "Run") -> None:
    done = {name: count or 0 for name, count in (run.verified or {}).items()}
    partly = f", {done['partly_stamped_objects']:,.0f} of them in part" if done["partly_stamped_objects"] else ""
    refused = f", {run.failed_calls:,.0f} requests refused" if run.failed_calls else ""
    print(
        f"{printable(run.label)}: verification passed: {run.ops or 0:,} ops, {done['objects']:,.0f} objects of "
        f"{done['bytes'] / (1 << 20):,.1f} MiB stamped and checked{partly}{refused}"
    )
