# SPDX-License-Identifier: MIT
"""How every command is parsed and ends: exit statuses, and one line on standard error for what went wrong."""

import argparse
import resource
import shlex
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError, did_you_mean, unknown
from heaptape.common.output import flush_standard_output

MOST_OPTIONS = 12  # that --help shows
ALL = "all"  # tables
FORMATS = ("text", "md", "csv", "latex")
EVERYWHERE = {"-h", "--help", "--help-all", "--color", "--quiet"}


def all_options(hidden: int) -> str:
    """The last line of a help text that shows not all options; core/command/cli.c has the same words."""
    return f"--help-all shows {hidden} more options."


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:  # noqa: ANN401
        assert isinstance(parser, Parser)
        parser.shows_all = True
        parser.print_help()
        parser.exit()


class Parser(argparse.ArgumentParser):
    """One line on wrong usage, not the whole usage text."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **settings)
        self.usual: Sequence[str] = ()
        self.shows_all = False
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help=argparse.SUPPRESS)
        console.add_options(self)

    def format_help(self) -> str:
        """At most MOST_OPTIONS options: those of `usual`, else the first; all with --help-all."""
        own = [one for one in self._actions if one.option_strings and one.help != argparse.SUPPRESS]
        own = [one for one in own if not set(one.option_strings) & EVERYWHERE]
        if self.shows_all or len(own) <= MOST_OPTIONS:
            return super().format_help()
        usual = [one for one in own if set(one.option_strings) & set(self.usual)] or own[:MOST_OPTIONS]
        rare = [one for one in own if one not in usual]
        kept = [(one, one.help) for one in rare]
        try:
            for one in rare:
                one.help = argparse.SUPPRESS
            text = super().format_help()
        finally:
            for one, words in kept:
                one.help = words
        return f"{text}\n{all_options(len(rare))}\n"

    def error(self, message: str) -> NoReturn:
        self.exit(2, console.line("error", f"{message} (see '{self.prog} --help')", self.prog) + "\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401
        """In place of argparse's message, which lists all choices in other words than ours."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        rest = did_you_mean(str(value), known) or f": there are {', '.join(known)}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"unknown command '{value}'{rest}")
        raise argparse.ArgumentError(action, f"unknown '{value}'{rest}")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        option = next((word.partition("=")[0] for word in words if word.startswith("-") and word != "-"), None)
        if option is None:
            self.error(f"too many arguments: {' '.join(words)}")
        self.error(f"unknown option {option}{did_you_mean(option, self._option_string_actions)}")


def add_allocator_option(parser: argparse._ActionsContainer, words: str, value: str = "NAME[:VARIANT]|LIB.so") -> None:
    """-a, which every command has that replays on several allocators."""
    parser.add_argument("-a", "--allocator", action="append", default=[], metavar=value, help=words)


def add_baseline_option(parser: argparse._ActionsContainer, words: str = "allocator that percentages refer to") -> None:
    """--baseline, which every command has that compares results."""
    parser.add_argument("--baseline", metavar="NAME", help=f"{words} (default: what was recorded on, else glibc)")


def add_table_option(parser: argparse._ActionsContainer, words: str) -> None:
    """--table, which every command has whose screen has tables behind it."""
    parser.add_argument("--table", action="append", default=[], metavar="NAME,...|all", help=words)


def add_format_option(parser: argparse._ActionsContainer, more: Sequence[str] = (), words: str = "") -> None:
    """--format, which every command has that prints figures. `more`: formats of this command alone, and `words` on
    them.
    """
    parser.add_argument(
        "--format",
        default="text",
        choices=[*FORMATS, *more],
        help=f"text (default), md to paste into a pull request, csv, latex{words}",
    )


def chosen_tables(given: Sequence[str], known: Iterable[str]) -> list[str]:
    """The names that --table was given, each once; ALL as it is. Raises UsageError for a name that is not known."""
    names = list(dict.fromkeys(name for text in given for name in text.split(",") if name))
    allowed = [*known, ALL]
    for name in names:
        if name not in allowed:
            raise unknown("table", name, allowed)
    return names


AS_PRINTED = {"format": "text", "output": None, "json": False}  # for `again`: the answer, to be read by people


def again(arguments: argparse.Namespace, **changed: Any) -> str:  # noqa: ANN401
    """The command line with these arguments, as it is typed: every option that was given; with `changed` in the place
    of the values of these names.
    """
    parser = arguments.parser
    words = [*parser.prog.split(), *_typed(parser._actions, vars(arguments) | changed)]
    return shlex.join([*words, *(["--", *arguments.own_options] if arguments.own_options else [])])


def given(arguments: argparse.Namespace, names: Iterable[str]) -> str:
    """The options of these names that were given, for another command that has them."""
    return shlex.join(_typed([one for one in arguments.parser._actions if one.dest in names], vars(arguments)))


def _typed(actions: Iterable[argparse.Action], values: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    told: set[str] = set()
    for action in sorted(actions, key=lambda one: (bool(one.option_strings), one.nargs == 0)):
        value = values.get(action.dest)
        if action.dest in told or action.default == argparse.SUPPRESS:
            continue
        told.add(action.dest)  # --json may be another name of --format json
        if value in (None, action.default):
            continue
        texts = [str(one) for one in (value if isinstance(value, list) else [value])]
        if not action.option_strings:
            words += texts
        elif action.nargs == 0:
            words.append(action.option_strings[0])
        else:  # a value that begins with - would be taken for an option
            name = action.option_strings[0]
            pairs = ([f"{name}={one}"] if one.startswith("-") and len(one) > 1 else [name, one] for one in texts)
            words += [word for pair in pairs for word in pair]
    return words


def status_of(work: Callable[[], int]) -> int:
    """The exit status of a command: what `work` returns, or the status for the error it raises, which is printed."""
    try:
        try:
            return work()
        finally:  # --help ends by SystemExit; what print could not write fails again, and the error names the output
            flush_standard_output()
    except UsageError as error:
        if str(error):  # empty: as below
            console.error(str(error))
        return 2
    except HeaptapeError as error:
        if str(error):  # empty: a C program has reported it already
            console.error(str(error))
        return 1
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        console.error(f"{named}{error.strerror or error}")
        return 1
    except (MemoryError, ImportError, SystemError, RuntimeError) as error:
        # Under a limit, libraries fail in all of these ways: the loader, numpy's first import, a thread's start.
        if any(frame.f_code is threading.Thread.start.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
            console.error("can't start a thread")
        elif isinstance(error, MemoryError) or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            console.error("out of memory")
        else:
            raise
        return 1
    except KeyboardInterrupt:
        return 130
