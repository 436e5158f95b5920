# SPDX-License-Identifier: MIT
"""`heaptape pack`: `convert --anonymise --archive`, `check`, and what is in the file."""

import argparse
import shlex
import subprocess
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_text

SUMMARY = "a recording to send to others: anonymised, small, checked; says what is in it"
GROUP = "Recordings"
DESCRIPTION = (
    "Writes an anonymised archive of a recording, proves that its history is legal, and says what the file holds and "
    "what it does not. Everything that reads traces reads it."
)
HOLDS = (
    "It holds, of each call: kind, size, alignment, thread, and which object; of the process: samples of its memory, "
    "and which allocator it ran on, with which settings."
)
LACKS = (
    "It does not hold: addresses, times, contents of memory, call stacks, marks, the program's name and arguments, "
    "paths, host, user."
)
DOUBT = "Sizes and counts may tell something about the data that the program worked on."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F.tape", help="a recording")
    parser.add_argument("-o", "--output", metavar="FILE", help="the archive (default F.packed.tape in this folder)")


def run(arguments: argparse.Namespace) -> int:
    from heaptape.common.phrases import counted, size
    from heaptape.common.process import convert_json
    from heaptape.show.screen import Screen, render

    output = arguments.output or f"{Path(arguments.input).name.removesuffix('.tape')}.packed.tape"
    check_writable(output)
    program = arguments.home.program("convert")
    words = [program, "convert", "--quiet", "--anonymise", "--archive", arguments.input, output]
    if subprocess.run(words).returncode != 0:
        raise HeaptapeError("")  # the program has reported it
    found = convert_json(arguments.home, "info", output)
    legal = "a legal history" if found["ok"] else "NOT a legal history: heaptape check says why"
    about = f"{output}: {size(found['file_bytes'])}, {counted(found['events'], 'call')}, {legal}."
    more = [("Look", f"heaptape dump {shlex.quote(output)}")]
    write_text(STANDARD_OUTPUT, render(Screen(about, None, [HOLDS, LACKS], [DOUBT], more)))
    return 0 if found["ok"] else 1
