# SPDX-License-Identifier: MIT
"""Options do what their help says of them where they are not given."""

import argparse
import re
from collections.abc import Iterator

import pytest
from heaptape.commands.main import COMMANDS, make_parser, parser_of

UNSAID = ("-", "text", "0/1")  # standard output, for people, the whole
# "default 5", "(default ./heaptape-demo)"; not a name in capitals, which stands for something, nor words for nothing.
TOLD = re.compile(r"(?:^|\()default (?:\./)?(?![A-Z]+\b|its\b)(.+?)[,:;)]?(?=[ ;)]|$)")


def options(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from options(inner)
        elif action.option_strings and action.default != argparse.SUPPRESS and action.help:
            yield parser, action


@pytest.mark.parametrize("name", COMMANDS)
def test_the_default_of_an_option_is_the_one_that_its_help_names_and_else_nothing(name: str) -> None:
    for parser, action in options(parser_of(make_parser(name), name)):
        text = parser._get_formatter()._expand_help(action)
        told, default, where = TOLD.search(text), action.default, f"{action.option_strings[-1]}: {text}"
        if told and default is not None:  # None: found out later
            number = isinstance(default, int | float)
            assert (f"{default:g}" if number else default) == told[1], where
        elif "(default)" in text:
            assert default == list(action.choices or [])[0], where
        else:
            assert not default or default in UNSAID, where
