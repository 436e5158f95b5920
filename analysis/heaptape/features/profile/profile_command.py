# SPDX-License-Identifier: MIT
"""`heaptape profile`: text, Markdown, JSON, one page of HTML, or a flame graph."""

import argparse
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from heaptape.commands.outcome import ALL, add_format_option, add_table_option, chosen_tables
from heaptape.common.console import printable
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.output import check_writable, write_json, write_text

if TYPE_CHECKING:
    from heaptape.features.profile.data import Profile
    from heaptape.tape.stack_names import StackNames

SUMMARY = "what a program demands of an allocator"
GROUP = "Memory"
DESCRIPTION = (
    "Request sizes, lifetimes, remote frees, reallocs, shared cache lines, hot call stacks, and what "
    "makes the workload hard."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F", help="trace, or what 'heaptape convert' can read; - for standard input")
    pictures = ", json; html: one page with plots that needs nothing else; svg: the flame graph of the call stacks"
    add_format_option(parser, ("json", "html", "svg"), pictures)
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    add_table_option(parser, "print these tables instead: sizes, lifetimes, threads, reallocs, sites, sharing")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="write there instead")


def run(arguments: argparse.Namespace) -> int:
    from heaptape.common.phrases import choice
    from heaptape.features.profile import data as library
    from heaptape.features.profile.text import NAMES, hardness, overview, tables_by_name
    from heaptape.show import screen
    from heaptape.show.tables.latex import render

    wanted = chosen_tables(arguments.table, NAMES) or [ALL] * (arguments.format == "csv")
    check_writable(arguments.output)
    found = library.profile(arguments.input, arguments.home)
    if arguments.format in ("html", "svg"):
        write_text(arguments.output, _drawn_profile(arguments, found, arguments.home))
        return 0
    command = f"heaptape profile {shlex.quote(arguments.input)}"
    more = [("More", *choice(f"{command} --table", (*NAMES, ALL))), ("More", f"{command} --format html -o FILE.html")]
    made = screen.Screen(f"{printable(found.name)}: {overview(found)}.", None, hardness(found), more=more)
    if arguments.format == "json":
        write_json(arguments.output, found.data | screen.as_json(made))
        return 0
    if not wanted:
        made = replace(made, sentences=[f"- {sentence}" for sentence in made.sentences])
        write_text(arguments.output, screen.render(made, arguments.format))
        return 0
    names = _names_of_stacks(arguments.input, found, arguments.home)
    made_tables = tables_by_name(found, names.callers if names else lambda node: [])
    shown = [table for name, tables in made_tables.items() if name in wanted or ALL in wanted for table in tables]
    write_text(arguments.output, render(shown, arguments.format))
    return 0


def _drawn_profile(arguments: argparse.Namespace, found: "Profile", home: Home) -> str:
    from heaptape.features.profile import flame_graph, page

    names = _names_of_stacks(arguments.input, found, home)
    if arguments.format == "html":
        return page.make(found, names)
    if names is None and not found.sites.empty:
        raise HeaptapeError("standard input: names of functions need a second reading; give it as a file")
    return flame_graph.of_profile(found, names.stack if names else lambda node: [])


def _names_of_stacks(path: str, found: "Profile", home: Home) -> "StackNames | None":
    """The names of functions in its stacks. None if it has no stacks, or was standard input, which is used up."""
    if found.sites.empty or path == "-":
        return None
    from heaptape.tape.stack_names import stack_names

    return stack_names(path, home)
