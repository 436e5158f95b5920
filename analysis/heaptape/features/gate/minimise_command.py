# SPDX-License-Identifier: MIT
"""`heaptape minimise`: the smallest piece of a tape on which a condition still holds."""

import argparse
from pathlib import Path

from heaptape.commands import replaying
from heaptape.common.output import STANDARD_OUTPUT, write_text
from heaptape.features.gate import gate_command as gate

SUMMARY = "the smallest piece of a tape on which a condition still holds"
GROUP = "Tune and guard"
DESCRIPTION = (
    "Leaves out threads, groups of objects and stretches of time, as long as the condition holds, and keeps what is "
    "left: a tape, its figures on both allocators, and the command that shows them. Each piece is a legal history: an "
    "object is kept whole, or not at all. If interrupted, it keeps the smallest piece so far."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F", help="a trace, a workload or another recording")
    gate.add_pair(parser)
    parser.add_argument(
        "--if",
        dest="condition",
        required=True,
        metavar="CONDITION",
        help="of the new allocator: FIGURE OP BOUND, as in 'rss-peak>1.1*old', 'syscalls>old+10', 'rss-mean>64 MiB', "
        "'broken>0' (it breaks a rule of malloc). docs/use/GATE.md lists the figures",
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="folder for the tape and its figures (default NAME.minimised)"
    )
    gate.add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    from heaptape.common.tables import paragraphs
    from heaptape.features.gate import minimise
    from heaptape.features.gate.minimise import ENDINGS, Minimiser, Question, in_words
    from heaptape.run import replay
    from heaptape.run.condition import parse

    condition = parse(arguments.condition)
    question = Question(condition, *gate.choose_pair(arguments, "minimise"))
    limits = gate.limits_of(arguments, "minimise")
    folder = Path(arguments.output or f"{replaying.name_of(arguments.input)}.minimised")
    minimise.check_folder(folder)
    with replaying.work() as work:
        workload = replay.prepare(arguments.input, arguments.home, work.scratch)
        minimiser = Minimiser(workload, question, arguments.home, work.scratch, limits)
        minimiser.tell = work.progress.update
        try:
            minimiser.run()
        finally:  # interrupted or not
            minimise.write(folder, arguments.input, minimiser)
    result = minimiser.result
    start_up = minimise.start_up_in_words(result)
    words = [in_words(question, result.pair), *([start_up] if start_up else []), ENDINGS[result.why]]
    kept = f"{folder / minimise.TAPE}: {result.pair.events:,} of {result.whole.events:,} events."
    write_text(STANDARD_OUTPUT, paragraphs([kept, "; ".join(words) + "."]))
    return 0
