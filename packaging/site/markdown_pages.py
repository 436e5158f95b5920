# SPDX-License-Identifier: MIT
"""The pages of commands in Markdown."""

import re
from collections.abc import Sequence
from pathlib import Path

from commands import Option, Page

MARKED = re.compile(r"([\\`*_<>\[\]#|~])")


def write(pages: Sequence[Page], folder: Path) -> None:
    """NAME.md for each page, and index.md, which lists them, into `folder`, which is made."""
    folder.mkdir(parents=True)
    for page in pages:
        (folder / f"{page.name}.md").write_text(_markdown(page))
    rows = [f"| [`{page.name.replace('-', ' ', 1)}`]({page.name}.md) | {_text(page.summary)} |" for page in pages]
    (folder / "index.md").write_text("\n".join(["# Commands", "", "| command | does |", "|---|---|", *rows, ""]))


def _markdown(page: Page) -> str:
    lines = [f"# {page.name.replace('-', ' ', 1)}", "", _text(page.summary), "", "```", *page.synopsis, "```", ""]
    for paragraph in page.paragraphs:
        lines += [*_block(paragraph), ""]
    for title, options in page.groups.items():
        lines += [f"## {title.capitalize()}", "", *(line for option in options for line in _option(option)), ""]
    return "\n".join(lines)


def _block(paragraph: str) -> list[str]:
    """Verbatim where lines are indented, else filled."""
    if any(line.startswith((" ", "usage:")) for line in paragraph.splitlines()):
        return ["```", *paragraph.splitlines(), "```"]
    return [_text(paragraph)]


def _option(option: Option) -> list[str]:
    return [f"`{option.term}`", f":   {_text(option.text) or '&nbsp;'}", ""]


def _text(text: str) -> str:
    return MARKED.sub(r"\\\1", text)
