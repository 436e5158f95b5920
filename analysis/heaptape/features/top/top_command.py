# SPDX-License-Identifier: MIT
"""`heaptape top`: shows a running recording (heaptape.features.top), as a command."""

import argparse
import json
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.common.home import Home
from heaptape.common.output import STANDARD_OUTPUT, write_text

if TYPE_CHECKING:
    from heaptape.features.top.screen import Watch

SUMMARY = "watch a recording while it runs"
GROUP = "Memory"
DESCRIPTION = (
    "Shows a running recording: calls and requested bytes per second, live bytes beside RSS, threads, and the sites "
    "that hold and acquire most, if they are recorded (record --stacks). PID is a recorded process or its recorder, "
    "F.tape the trace that is being written; neither is needed where only one recording runs. Quitting does not end "
    "the recording. Without a terminal, samples are printed one after another. Counts are exact, live bytes and sites "
    "are estimates with their errors (docs/use/TOP.md). For a finished trace, its summary is printed."
)


def _interval(text: str) -> float:
    seconds = float(text)
    if not math.isfinite(seconds) or not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("a number of seconds from 0.1 to 3600")
    return seconds


def _refreshes(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a number from 1 on")
    return number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="PID|F.tape", nargs="?", help="what to watch; default: the only recording")
    parser.add_argument(
        "--interval", metavar="SECONDS", type=_interval, default=1.0, help="from one refresh to the next (default 1)"
    )
    parser.add_argument("-n", "--refreshes", metavar="N", type=_refreshes, help="end after this many")
    parser.add_argument("--once", action="store_true", help="print one sample as text, like -n 1 without a terminal")
    parser.add_argument("--json", action="store_true", help="machine-readable: one sample; with -n N a line for each")


def run(arguments: argparse.Namespace) -> int:
    """Watches until the user or the recording ends it."""
    from heaptape.features.top.recording import find, only_one

    found = only_one() if arguments.target is None else find(arguments.target)
    if found is None:
        return _finished(arguments.home, arguments.target, arguments.json)
    from heaptape.features.top.screen import Watch

    watch = Watch(arguments.home, *found)
    if arguments.json or arguments.once or not sys.stdout.isatty():
        return _print(watch, arguments)
    return _show(watch, arguments)


def _print(watch: "Watch", arguments: argparse.Namespace) -> int:
    from heaptape.features.top.screen import plain, samples

    refreshes = arguments.refreshes or (1 if arguments.once or arguments.json else None)
    printed = 0
    for sample in samples(watch, arguments.interval, refreshes):
        text = json.dumps({"schema": 1} | sample) + "\n" if arguments.json else "\n" * (printed > 0)
        write_text(STANDARD_OUTPUT, text if arguments.json else text + plain(watch, sample))
        printed += 1
    if refreshes is None or printed < refreshes:
        print("heaptape: the recording has ended", file=sys.stderr)
    return 0 if printed else 1


def _show(watch: "Watch", arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from heaptape.features.top.screen import plain, show

    try:
        last = show(watch, arguments.interval, arguments.refreshes, Console(highlight=False))
    except KeyboardInterrupt:  # another way to quit
        return 0
    if last:
        write_text(STANDARD_OUTPUT, plain(watch, last))
        print("heaptape: the recording has ended", file=sys.stderr)
    return 0


def _finished(home: Home, trace: str, as_json: bool) -> int:
    """Prints the summary of a trace that is not being recorded. Raises HeaptapeError if the file is not a trace."""
    from heaptape.common.phrases import counted, size
    from heaptape.common.process import convert_json
    from heaptape.common.tables import screen_width, wrapped

    about = convert_json(home, "info", trace)
    if as_json:
        kept = ("events", "calls", "threads", "dropped", "truncated", "file_bytes", "peak_live_bytes", "live_at_end")
        finished = {"schema": 1, "trace": trace, "ended": True} | {key: about[key] for key in kept if key in about}
        write_text(STANDARD_OUTPUT, json.dumps(finished) + "\n")
        return 0
    end = about.get("footer", {}).get("end", "the file has no end: its recorder was killed, or runs elsewhere")
    said = (
        f"{Path(trace).name} is not being recorded here ({end}).",
        f"{counted(about['events'], 'call')}, {counted(about['threads'], 'thread')}, peak live "
        f"{size(about['peak_live_bytes'])}, {counted(about.get('live_at_end', 0), 'object')} live at the end, "
        f"{about.get('dropped', 0):,} dropped.",
        f"More: heaptape info {shlex.quote(trace)}",
    )
    width = screen_width()
    write_text(STANDARD_OUTPUT, "".join(f"{line}\n" for one in said for line in wrapped(one, width)))
    return 0
