# SPDX-License-Identifier: MIT
"""A page for each command: from its parser where it is Python, from its table of options (--describe-options) if it is
a C program; from its --help if that has no table yet (record, observe).

Both man pages (man_pages.py) and completions (__main__.py) are made from this, so neither can differ from the command.
"""

import argparse
import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heaptape.commands.main import make_parser, parsers_of_commands
from heaptape.commands.programs import PROGRAMS
from heaptape.export.targets import DESCRIPTIONS

USAGE_FLAG = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)(?:(\[=| |=)([^\[\]\s-][^\]\s]*))?")
HELP_OPTION = re.compile(r"  (-.*?)(?:  +(.*))?$")
CHOICES = re.compile(r"[a-z]+(\|[a-z]+)+")


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
            table = described(command, name)
            _add_table(sub, table) if table else _add_flags(sub, _help(command, name))
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


def described(command: Path, name: str) -> dict[str, Any] | None:
    """A C program's description of its command (core/base/cli.h). None: it has none."""
    done = subprocess.run([command, name, "--describe-options"], capture_output=True, text=True)
    commands = json.loads(done.stdout)["commands"] if done.returncode == 0 else []
    return next((table for table in commands if table["called"] == f"heaptape {name}"), None)


def _of_program(command: Path, name: str) -> Page:
    table = described(command, name)
    if table is None:
        return _from_help(name, _help(command, name))
    page = Page(f"heaptape-{name}", "", [f"{table['called']} {form}" for form in table["synopsis"]], table["details"])
    for option in table["options"]:
        text = option["help"] + (f" (default {option['default']})" if option["default"] else "")
        page.groups.setdefault(option["group"], []).append(Option(_term(option), text))
    if name == "convert":
        page.groups["formats that --to also takes"] = [Option(*format_) for format_ in DESCRIPTIONS.items()]
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


def _help(command: Path, name: str) -> str:
    done = subprocess.run([command, name, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


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


def _from_help(name: str, text: str) -> Page:
    """The page of a --help: usage up to the first empty line, then paragraphs and options ("  --flag VALUE   text")."""
    usage, _, rest = text.partition("\n\n")
    page = Page(f"heaptape-{name}", "", [line.removeprefix("usage: ").strip("\n") for line in usage.splitlines()], [])
    page.synopsis = [re.sub(r"^ {7}", "", line) for line in page.synopsis]
    for paragraph in rest.strip("\n").split("\n\n"):
        _take_paragraph(page, paragraph.splitlines())
    return page


def _take_paragraph(page: Page, lines: list[str]) -> None:
    words: list[str] = []
    for line in lines:
        option = HELP_OPTION.match(line)
        if option:
            page.groups.setdefault("options", []).append(Option(option[1].strip(), (option[2] or "").strip()))
        elif line.startswith("        ") and page.groups:
            options = page.groups["options"]
            options[-1] = Option(options[-1].term, f"{options[-1].text} {line.strip()}".strip())
        elif line.startswith(("usage:", "       ", "  ")):
            words.append(f"\n{line}")
        else:
            words.append(line)
    if words:
        page.paragraphs.append("\n".join(words).strip("\n"))


def _add_flags(parser: argparse.ArgumentParser, text: str) -> None:
    usage = "\n".join(part for part in text.split("\n\n") if part.startswith("usage:"))
    texts = {
        flag: option.text for option in _from_help("", text).groups.get("options", []) for flag in option.term.split()
    }
    seen: dict[str, tuple[str, str]] = {}
    for flag, how, value in USAGE_FLAG.findall(usage):
        seen.setdefault(flag, (how, value))
    for flag, (how, value) in seen.items():
        help_ = texts.get(flag, "").replace("%", "%%") or None
        if not value:
            parser.add_argument(flag, action="store_true", help=help_)
        else:
            choices = value.split("|") if CHOICES.fullmatch(value) else None
            nargs = "?" if how == "[=" else None
            parser.add_argument(flag, choices=choices, nargs=nargs, metavar=None if choices else value, help=help_)
    parser.add_argument("files", metavar="F", nargs="*")
