# SPDX-License-Identifier: MIT
"""packaging/reference COMMAND FOLDER: man pages and completions into FOLDER, laid out as under PREFIX/share. COMMAND: a
heaptape that can be run, for the help of the C programs.
"""

import argparse
import sys
from pathlib import Path

import man_pages
import shtab
from commands import pages, whole_parser
from heaptape.commands.main import parsers_of_commands
from heaptape.common.version import __version__

COMPLETIONS = {
    "bash": "bash-completion/completions/heaptape",
    "zsh": "zsh/site-functions/_heaptape",
    "fish": "fish/vendor_completions.d/heaptape.fish",
}
FILES = ("F", "FILE", "F.tape", "R.json", "IN", "OUT", "LIB", "OUT.json", "OUT.work", "STORE", "URL", "DIR")


def _complete_files(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner)
        if not action.choices and (not action.option_strings or action.metavar in FILES):
            action.complete = shtab.FILE  # type: ignore[attr-defined]


def _describe(parser: argparse.ArgumentParser, name: str, summaries: dict[str, str]) -> None:
    """Shells show descriptions beside names: a line is enough."""
    parser.description = summaries[name]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, sub in action.choices.items():
                _describe(sub, f"{name}-{inner}", summaries)


def main(command: Path, folder: Path) -> None:
    found = pages(command)
    man_pages.write(found, folder / "man" / "man1", __version__)
    parser = whole_parser(command)
    summaries = {page.name: page.summary for page in found}
    for name, sub in parsers_of_commands(parser).items():
        _describe(sub, f"heaptape-{name}", summaries)
        _complete_files(sub)
    for shell, path in COMPLETIONS.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(shtab.complete(parser, shell))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
