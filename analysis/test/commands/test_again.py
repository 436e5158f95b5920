# SPDX-License-Identifier: MIT
"""A command that is printed for what to do next has every setting of the one that prints it."""

import argparse
import shlex

import pytest
from heaptape.commands.main import COMMANDS, make_parser, parser_of
from heaptape.commands.outcome import AS_PRINTED, again
from hypothesis import given
from hypothesis import strategies as st

PLAIN = [
    name
    for name in COMMANDS
    if not any(isinstance(one, argparse._SubParsersAction) for one in parser_of(make_parser(name), name)._actions)
]
WORDS = st.text("ab =-'$\"|é\n", min_size=1, max_size=5).filter(lambda word: word != "--")  # argparse drops it


def parsed(name: str, line: list[str]) -> argparse.Namespace:
    argv = line[: line.index("--")] if "--" in line else line
    parser = make_parser(name)
    arguments = parser.parse_args(argv)
    arguments.own_options = line[len(argv) + 1 :]
    arguments.parser = parser_of(parser, name)
    return arguments


def settings(arguments: argparse.Namespace) -> dict:
    return {name: value for name, value in vars(arguments).items() if name != "parser"}


def value_of(action: argparse.Action, data: st.DataObject) -> str:
    if action.choices:
        return str(data.draw(st.sampled_from(list(action.choices))))
    if action.type in (int, float):
        return str(data.draw(st.integers(-3, 99)))
    return "3" if action.type else data.draw(WORDS)


@pytest.mark.parametrize("name", PLAIN)
@given(st.data())
def test_a_command_typed_again_has_the_same_settings(name: str, data: st.DataObject) -> None:
    behind, line = [], [name]
    for action in parser_of(make_parser(name), name)._actions:
        if not action.option_strings:
            behind += ["F"] if action.nargs in (None, "+", "*") and not action.choices else []
        elif action.dest.startswith("help") or action.default == argparse.SUPPRESS:
            continue
        elif action.required or data.draw(st.booleans()):
            option = action.option_strings[-1]
            line += [option] if action.nargs == 0 else [f"{option}={value_of(action, data)}"]
    try:
        first = parsed(name, [name, *behind, *line[1:]])
    except SystemExit:
        return  # not what this is about: options that exclude each other
    typed = again(first)
    assert typed.startswith(f"heaptape {name}")
    assert settings(parsed(name, shlex.split(typed)[1:])) == settings(first)


def test_words_behind_the_dashes_and_changes_are_kept_and_the_output_is_left_out() -> None:
    words = ["advise", "-a", "glibc", "--program", "a b", "--budget", "3m", "--json", "--live", "--", "prog", "-x"]
    typed = again(parsed("advise", words), **AS_PRINTED, keep="F")
    assert shlex.split(typed)[-3:] == words[-3:]
    assert sorted(shlex.split(typed)[:-3]) == sorted(["heaptape", *words[:7], "--keep", "F", "--live"])
