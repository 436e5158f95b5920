# SPDX-License-Identifier: MIT
"""`heaptape synth`: a workload from a profile alone."""

import argparse
import sys

from heaptape.common.errors import UsageError
from heaptape.common.input import file_bytes
from heaptape.common.output import check_writable
from heaptape.common.progress import WorkProgress

SUMMARY = "a workload drawn from a profile, where no trace can be shared"
DESCRIPTION = (
    "Draws a workload from what 'heaptape profile F --format json' prints: calls and sizes, lifetimes by size, threads "
    "and who frees whose objects, growth by realloc, and what is live over progress. It is labelled as synthetic "
    "wherever its figures are shown, and they carry the errors of such workloads (docs/use/SYNTH.md)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE.json", help="a profile; - for standard input")
    parser.add_argument("-o", "--output", required=True, metavar="S.tape", help="the trace")
    parser.add_argument("--ops", type=int, metavar="N", help="about how many calls (default: as many as the profile)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same workload (default 1)")


def run(arguments: argparse.Namespace) -> int:
    """Writes the trace; prints what it stands for, and what the profile does not contain."""
    from heaptape.results.margins import stand_in
    from heaptape.synth import synth

    if arguments.ops is not None and arguments.ops < 1:
        raise UsageError("synth --ops: at least 1")
    if arguments.seed < 0:
        raise UsageError("synth --seed: not negative")
    check_writable(arguments.output)
    standard_input = arguments.profile == "-"
    path = "standard input" if standard_input else arguments.profile
    of = synth.read(path, sys.stdin.buffer.read() if standard_input else file_bytes(arguments.profile))
    wish = synth.Wish(arguments.output, arguments.seed, arguments.ops)
    with WorkProgress() as progress:
        made = synth.write(of, path, wish, arguments.home, lambda share: progress.update("drawing", share))
    one = stand_in({"synthetic": synth.about(of, wish)})
    assert one
    print(f"{made:,} calls of {of.threads:,} threads")
    print(one.sentence(arguments.output))
    print(f"Not in the profile, so invented: {', '.join(of.lacks)}.")
    return 0
