# SPDX-License-Identifier: MIT
"""`heaptape ctl`: what heaptape.run.ctl does, as a command."""

import argparse

from heaptape.common.output import STANDARD_OUTPUT, print_json, write_text

SUMMARY = "start, stop, flush or query a running recording"
DESCRIPTION = (
    "Controls a running 'heaptape record'. PID is a recorded process, or the recorder for all that it "
    "records. 'stop' suspends recording until 'start'; the trace counts the calls that were missed. 'begin-burst' "
    "and 'end-burst' begin and end a burst of data accesses in a recording with --burst; a process notices at its next "
    "call of the malloc API. 'flush' makes the trace readable up to now. Only for the user who records, and root."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", metavar="PID", type=int)
    verbs = ["start", "stop", "begin-burst", "end-burst", "flush", "status"]
    parser.add_argument("verb", metavar="|".join(verbs), choices=verbs)
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(arguments: argparse.Namespace) -> int:
    from heaptape.run.ctl import command, in_words

    reply = command(arguments.verb, arguments.pid)
    if arguments.json:
        print_json(reply)
    else:
        write_text(STANDARD_OUTPUT, in_words(reply) + "\n")
    return 0
