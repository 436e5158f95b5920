# SPDX-License-Identifier: MIT
"""A page for each command: from its parser where it is Python, from its table of options (--describe-options) if it is
a C program.

Both man pages (man_pages.py) and completions (__main__.py) are made from this, so neither can differ from the command.
"""

import argparse
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heaptape.commands.main import make_parser, parsers_of_commands
from heaptape.commands.programs import PROGRAMS, descriptions


@dataclass(frozen=True)
class Option:
    """`term` as the help shows it: flags and value; `text`: what it does."""

    term: str
    text: str


@dataclass
class Page:
    """One command. `synopsis`: lines; `paragraphs`: what it does; `groups`: title -> options."""

    name: str
    summary: str
    synopsis: list[str]
    paragraphs: list[str]
    groups: dict[str, list[Option]] = field(default_factory=dict)


def whole_parser(command: Path) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of C programs. `command`: a heaptape that can be run."""
    parser = make_parser()
    for name, sub in parsers_of_commands(parser).items():
        if name in PROGRAMS:
            _add_table(sub, described(command, name))
    return parser


def pages(command: Path) -> list[Page]:
    """The pages of heaptape itself, which is the first, and of every command."""
    parser = make_parser()
    summaries = {a.dest: a.help or "" for a in _listed(parser)}
    top = _parsed("heaptape", parser.description or "", parser)
    top.groups["commands"] = [Option(name, text) for name, text in summaries.items()]
    found = [top]
    for name, sub in parsers_of_commands(parser).items():
        page = _of_program(command, name) if name in PROGRAMS else _parsed(f"heaptape-{name}", "", sub)
        page.summary = summaries[name]
        found.append(page)
        found += _inner(page, sub)
    return found


def _inner(page: Page, parser: argparse.ArgumentParser) -> list[Page]:
    """Pages of a command's own commands, which its page lists."""
    if not any(isinstance(action, argparse._SubParsersAction) for action in parser._actions):
        return []
    summaries = {a.dest: a.help or "" for a in _listed(parser)}
    page.groups["commands"] = [Option(name, text) for name, text in summaries.items()]
    found = []
    for name, sub in parsers_of_commands(parser).items():
        found.append(_parsed(f"{page.name}-{name}", "", sub))
        found[-1].summary = summaries[name]
    return found


def _listed(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return list(action._choices_actions)


def described(command: Path, name: str) -> dict[str, Any]:
    """A C program's description of its command (core/command/cli.h)."""
    done = subprocess.run([command, name, "--describe-options"], capture_output=True, text=True, check=True)
    return next(table for table in json.loads(done.stdout)["commands"] if table["called"] == f"heaptape {name}")


def _of_program(command: Path, name: str) -> Page:
    table = described(command, name)
    page = Page(f"heaptape-{name}", "", [f"{table['called']} {form}" for form in table["synopsis"]], table["details"])
    for option in table["options"]:
        text = option["help"] + (f" (default {option['default']})" if option["default"] else "")
        page.groups.setdefault(option["group"], []).append(Option(_term(option), text))
    if name == "convert":
        page.groups["formats that --to also takes"] = [Option(*format_) for format_ in descriptions().items()]
    return page


def _term(option: dict[str, Any]) -> str:
    value = option["value"] or ""
    shown = f"[={value}]" if option["value_optional"] else f" {value}" if value else ""
    return ", ".join(option["flags"]) + shown


def _add_table(parser: argparse.ArgumentParser, table: dict[str, Any]) -> None:
    for option in table["options"]:
        how: dict[str, Any] = {"action": "store_true"}
        if option["value"]:
            how = {"choices": option["choices"], "nargs": "?" if option["value_optional"] else None}
            how["metavar"] = None if option["choices"] else option["value"]
        if option["group"] != "messages":  # which every parser has
            parser.add_argument(*option["flags"], help=option["help"].replace("%", "%%"), **how)
    parser.add_argument("files", metavar="F", nargs="*")


def _parsed(name: str, summary: str, parser: argparse.ArgumentParser) -> Page:
    formatter = argparse.HelpFormatter(parser.prog, width=100)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, "")
    page = Page(name, summary, formatter.format_help().strip().splitlines(), [])
    page.paragraphs = [text.replace("%(prog)s", parser.prog) for text in (parser.description, parser.epilog) if text]
    for group in parser._action_groups:
        options = [o for o in (_option(formatter, a) for a in group._group_actions) if o]
        if options:
            page.groups[group.title or "options"] = options
    return page


def _option(formatter: argparse.HelpFormatter, action: argparse.Action) -> Option | None:
    if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
        return None
    return Option(formatter._format_action_invocation(action), formatter._expand_help(action) if action.help else "")
