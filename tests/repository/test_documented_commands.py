# SPDX-License-Identifier: MIT
"""The commands accept every command line that a document shows: its command and its options exist."""

import argparse
import functools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from heaptape.commands.main import make_parser, parsers_of_commands
from heaptape.commands.programs import PROGRAMS

from tests.repository.test_documents import DOCUMENTS, ROOT, parts
from tests.support import HEAPTAPE, succeed

SHOWN = re.compile(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S+/)?heaptape ([a-z].*)$")
FLAG = re.compile(r"--?[a-zA-Z][a-z-]*")


def command_lines(document: Path) -> Iterator[str]:
    """The text after `heaptape` in blocks of code (lines that end in a backslash are joined) and in quoted text."""
    for part in parts(document, "fence", "code_block", "code_inline"):
        yield from (shown[1] for line in part.content.replace("\\\n", " ").splitlines() if (shown := SHOWN.match(line)))


def words(line: str) -> list[str]:
    """The words up to the recorded program's own words, a comment, or another command."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    found: list[str] = []
    try:
        for word in lexer:
            if word == "--" or set(word) <= set("|;&<>()"):
                break
            found.append(word)
    except ValueError:  # an apostrophe in a sentence
        pass
    return found


@functools.cache
def options(command: str) -> frozenset[str]:
    """All options that a command takes, and those of its own commands."""
    if command in PROGRAMS:
        tables = json.loads(succeed(HEAPTAPE, command, "--describe-options").stdout)["commands"]
        table = next(table for table in tables if table["called"] == f"heaptape {command}")
        return frozenset(flag for option in table["options"] for flag in option["flags"])
    return frozenset(_flags(parsers()[command]))


parsers = functools.cache(lambda: parsers_of_commands(make_parser()))


def _flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _flags(sub)


def wrong(line: str) -> str | None:
    """The parts of it that the commands don't take."""
    command, *rest = words(line)
    alternatives = command.split("|")
    if any(name not in parsers() for name in alternatives):
        return f"no command {command}"
    for word in rest:
        flag = FLAG.match(word.lstrip("["))
        if flag and not any(flag[0] in options(name) for name in alternatives):
            return f"{command} has no {flag[0]}"
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_take_every_command_line_shown(document: Path) -> None:
    found = {line: wrong(line) for line in command_lines(document)}
    assert {line: what for line, what in found.items() if what} == {}


@pytest.mark.parametrize("line", ["replai F", "replay F --pases memory", "profile F --jsn"])
def test_a_command_line_that_no_command_takes_is_found(line: str) -> None:
    assert wrong(line)
