# SPDX-License-Identifier: MIT
"""The `heaptape` command: chooses the subcommand.

Exit status: 0 done, 1 failed (one line on stderr), 2 wrong usage (one line), 128 + N ended by signal N. What a
subcommand needs is imported when it runs: `heaptape --help` must not wait for numpy.
"""

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import ModuleType

from heaptape import features
from heaptape.commands import advise, compare, ctl, machine, replay, report
from heaptape.commands.outcome import Parser, status_of
from heaptape.commands.programs import PROGRAMS
from heaptape.commands.programs import run as run_program
from heaptape.common import console
from heaptape.common.errors import did_you_mean
from heaptape.common.extensions import load_within_limits
from heaptape.common.home import Home
from heaptape.common.output import check_spares_inputs
from heaptape.common.version import __version__

# Each has SUMMARY, DESCRIPTION, add_arguments(parser) and run(arguments); arguments.home is the Home. It may have
# GROUP, its group of `heaptape --help`; and TAKES_A_COMMAND, the words behind its name if, after them, it takes those
# behind -- for a program.
COMMANDS: dict[str, ModuleType] = {
    "advise": advise,
    "ctl": ctl,
    "replay": replay,
    "compare": compare,
    "report": report,
    "machine": machine,
    **features.commands(),
}

# The groups of `heaptape --help`, each followed by the features' commands; commands that are in none are listed by
# `heaptape help all`.
GROUPS = {
    "Start here": ("advise", "record", "compare", "report"),
    "Memory": (),
    "Tune and guard": (),
    "Allocators": (),
    "Recordings": ("info", "check", "dump", "convert"),
}
AMERICAN = {"minimize": "minimise"}
TAKE_ANOTHERS_OPTIONS = (
    ("advise",),
    ("compare",),
    *((name, *command.TAKES_A_COMMAND) for name, command in COMMANDS.items() if hasattr(command, "TAKES_A_COMMAND")),
)


def make_parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line. Subcommands that are C programs are here for the help only: they read their
    own arguments. With the name of a command, only its options are added: adding all takes 10 ms of CPU time.
    """
    parser = Parser(
        prog="heaptape",
        description="Record what a program asks of malloc, replay it into any allocator, report what each one costs.",
        epilog="Example: heaptape record -o redis.tape -- redis-server; heaptape replay redis.tape -o redis.json; "
        "heaptape report redis.json. "
        + "First look: heaptape demo. " * ("demo" in COMMANDS)
        + "'heaptape help COMMAND' describes one command.",
    )
    parser.add_argument("--version", action="version", version=f"heaptape {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (_, _, summary) in PROGRAMS.items():
        commands.add_parser(name, help=summary, add_help=False)
    for name, command in COMMANDS.items():
        added = commands.add_parser(name, help=command.SUMMARY, description=command.DESCRIPTION)
        added.usual = getattr(command, "USUAL", ())
        if wanted in (None, name):
            command.add_arguments(added)
    commands.add_parser("help", help="the help of a command", add_help=False)
    return parser


def main(argv: Sequence[str], home: Home) -> int:
    """Runs the command in a process that has no other job, and sets the process's signals. Returns its exit status."""
    open_what_is_closed()
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: not all locales have all our signs
    set_signals()
    load_within_limits()
    return run(argv, home)


def open_what_is_closed() -> None:
    """Gives each standard stream that is closed a file: input ends at once, output fails, diagnostics are dropped.
    Programs that we start find it closed, as they would without us.
    """
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), "r" if name == "stdin" else "w"))


def set_signals() -> None:
    """Makes signals end the process by exceptions, so that it stops the engine and removes its files."""
    # Python ignores SIGPIPE; a filter whose reader went away should just end, and programs that we exec inherit it.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # An ignored signal (nohup) stays ignored.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    sys.unraisablehook = _signal_again


def _signal_again(lost: "sys.UnraisableHookArgs") -> None:
    """Python ignores an exception in a callback, such as that of an import's lock. Where a signal raised it there, the
    signal is sent again, after the callback: otherwise a Ctrl-C can be lost.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        number = int(signal.SIGINT)
    elif isinstance(lost.exc_value, SystemExit) and isinstance(lost.exc_value.code, int) and lost.exc_value.code > 128:
        number = lost.exc_value.code - 128
    else:
        sys.__unraisablehook__(lost)
        return
    threading.Timer(0.01, os.kill, (os.getpid(), number)).start()


def run(argv: Sequence[str], home: Home) -> int:
    """Runs the command and returns its exit status. Replaces the process for subcommands that are C programs."""
    console.reset()
    return status_of(lambda: _run(argv, home))


def _run(line: Sequence[str], home: Home) -> int:
    leading, argv = console.split(line)
    argv = [AMERICAN.get(argv[0], argv[0]), *argv[1:]] if argv else argv
    if leading:
        Parser(prog="heaptape", add_help=False).parse_args(leading)
    if argv and argv[0] in PROGRAMS:
        return run_program(argv[0], argv[1:], home)
    if list(argv[:2]) == ["help", "all"]:
        print(make_parser().format_help(), end="")
        return 0
    if argv and argv[0] == "help":
        return _run([*argv[1:2], "--help"], home)
    parser = make_parser(argv[0] if argv else None)
    if not argv:
        sys.stderr.write(overview(parser))
        return 2
    if argv[0] in ("-h", "--help"):
        print(overview(parser), end="")
        return 0
    if not argv[0].startswith("-") and argv[0] not in COMMANDS:
        near = did_you_mean(argv[0], (*PROGRAMS, *COMMANDS, "help"))
        parser.error(f"unknown command '{argv[0]}'{near or ': there are ' + ', '.join((*PROGRAMS, *COMMANDS))}")
    arguments, left = parser.parse_known_args(argv[: argv.index("--")] if _own_options(argv) else argv)
    if left and hasattr(arguments, "names") and not any(word.startswith("-") for word in left):
        arguments.names, left = [*arguments.names, *left], []  # argparse gives up on names behind an option
    if left:
        whole = parser_of(parser, argv[0])
        (parser_of(whole, argv[1]) if len(argv) > 1 else whole).refuse(left)
    arguments.own_options = argv[argv.index("--") + 1 :] if _own_options(argv) else []
    arguments.home, arguments.parser = home, parser_of(parser, argv[0])
    check_spares_inputs(arguments)
    return COMMANDS[arguments.command].run(arguments)


def overview(parser: argparse.ArgumentParser) -> str:
    """`heaptape --help`: the usual commands by group, a line each."""
    summaries = {name: summary for name, (_, _, summary) in PROGRAMS.items()}
    summaries |= {name: command.SUMMARY for name, command in COMMANDS.items()}
    lines = ["usage: heaptape COMMAND ...", "", parser.description or ""]
    grouped = {title: [*names, *_of_group(title)] for title, names in GROUPS.items()}
    for title, names in grouped.items():
        lines += ["", title, *(f"  {name:<11} {summaries[name]}" for name in names)] if names else []
    rest = [name for name in summaries if not any(name in names for names in grouped.values())]
    lines += ["", f"More (heaptape help all): {', '.join(rest)}"]
    lines += ["", "heaptape COMMAND --help describes one command, --help-all all of its options."]
    return "\n".join(lines) + "\n"


def _of_group(title: str) -> list[str]:
    return [name for name, command in COMMANDS.items() if getattr(command, "GROUP", "") == title]


def parser_of(parser: argparse.ArgumentParser, command: str) -> Parser:
    """The parser of a command, with all of its options. The whole line's parser if there is no such command."""
    found = parsers_of_commands(parser).get(command, parser)
    assert isinstance(found, Parser)
    return found


def parsers_of_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Name -> parser of each command of the whole line."""
    found = (dict(a.choices or {}) for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return next(found, {})


def _own_options(argv: Sequence[str]) -> bool:
    """Whether the words after -- belong to a pattern or a program; argparse would take them for names."""
    return "--" in argv and any(list(argv[: len(words)]) == list(words) for words in TAKE_ANOTHERS_OPTIONS)
