# SPDX-License-Identifier: MIT
"""The subcommands that are C programs: they read their own arguments, and print their own help."""

import os
import signal
import subprocess
import textwrap
from collections.abc import Sequence

from heaptape.commands import observe
from heaptape.common import console
from heaptape.common.home import Home
from heaptape.common.output import flush_standard_output
from heaptape.common.tables import screen_width

# name -> (program, leading arguments, its line in `heaptape --help`)
PROGRAMS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "record": ("record", (), "run a program and record its malloc calls"),
    "info": ("convert", ("info",), "show what a trace or workload holds"),
    "dump": ("convert", ("dump",), "print events, one per line"),
    "check": ("convert", ("check",), "prove that a trace or workload is a legal history"),
    "convert": ("convert", ("convert",), "translate between formats"),
    "compile": ("convert", ("compile",), "make a workload from a trace"),
    "observe": ("observe", (), observe.SUMMARY),
}


def run(name: str, arguments: Sequence[str], home: Home) -> int:
    """Replaces the process by the program. Returns only for commands written in Python: some conversions, observe."""
    if name == "observe":
        return observe.run(arguments, home)
    status = _convert(arguments, home) if name == "convert" and arguments else None
    if status is None:
        program, leading, _ = PROGRAMS[name]
        path = str(home.program(program))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and a recorded program would inherit that
        os.execv(path, [path, *leading, *console.words(), *arguments])
    return status


def _convert(arguments: Sequence[str], home: Home) -> int | None:
    """The exit status. None: the C program has to do this conversion."""
    from heaptape import features

    if "--help" in arguments or "-h" in arguments:
        return _help_of_convert(home)
    if list(arguments) == ["--list"]:
        return _list_formats(home)
    for feature in features.modules("conversions"):
        if feature.wanted(arguments):
            status: int = feature.convert(arguments, home)
            return status
    return None


def descriptions() -> dict[str, str]:
    """The formats that features write, each with its line of help."""
    from heaptape import features

    return {name: text for feature in features.modules("conversions") for name, text in feature.DESCRIPTIONS.items()}


def _list_formats(home: Home) -> int:
    """The formats of heaptape-convert, then ours in the same columns."""
    done = subprocess.run([home.program("convert"), "convert", "--list"], check=False)
    if done.returncode == 0:
        for name, description in descriptions().items():
            beside = f"{name:<14} {'write':<11} "
            print(
                textwrap.fill(description, screen_width(), initial_indent=beside, subsequent_indent=" " * len(beside))
            )
        flush_standard_output()
    return done.returncode


def _help_of_convert(home: Home) -> int:
    done = subprocess.run([home.program("convert"), "convert", "--help"], stdout=subprocess.PIPE, errors="replace")
    print(done.stdout + "\n--to also takes:")
    for name, description in descriptions().items():
        print(f"  {name:<14} {description}")
    return done.returncode
