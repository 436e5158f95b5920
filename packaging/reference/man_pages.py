# SPDX-License-Identifier: MIT
"""Man pages in roff, section 1."""

from collections.abc import Iterable
from pathlib import Path

from commands import Option, Page

EXIT_STATUS = "0: done. 1: failed, with a line on standard error. 2: wrong usage. 128 + N: ended by signal N."
ROFF = {"\\": "\\e", "-": "\\-", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha"}
RECORD_STATUS = "The exit status of CMD. 2: wrong usage."


def write(pages: Iterable[Page], folder: Path, version: str) -> None:
    """NAME.1 for each page into `folder`, which is made."""
    folder.mkdir(parents=True)
    names = [page.name for page in pages]
    for page in pages:
        (folder / f"{page.name}.1").write_text(_roff(page, names, f"heaptape {version}"))


def _roff(page: Page, names: list[str], version: str) -> str:
    lines = [f'.TH "{_text(page.name.upper())}" 1 "" "{version}" "User Commands"', ".SH NAME"]
    lines += [f"{_text(page.name)} \\- {_text(page.summary.rstrip('.'))}", ".SH SYNOPSIS", ".nf"]
    lines += [*map(_line, page.synopsis), ".fi", ".SH DESCRIPTION"]
    for paragraph in page.paragraphs:
        lines += [".PP", *_block(paragraph)]
    for title, options in page.groups.items():
        lines += [f'.SH "{_text(title.upper())}"', *(line for option in options for line in _tagged(option))]
    status = RECORD_STATUS if page.name in ("heaptape-record", "heaptape-observe") else EXIT_STATUS
    others = [f"\\fB{_text(name)}\\fR(1)" for name in names if name != page.name]
    lines += [".SH EXIT STATUS", _line(status), ".SH SEE ALSO", ",\n".join(others)]
    return "\n".join(lines) + "\n"


def _block(paragraph: str) -> list[str]:
    """Filled, except for indented lines."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        if line.startswith(" ") or line.startswith("usage:"):
            lines += [".nf", _line(line), ".fi"]
        elif line:
            lines.append(_line(line))
    return lines


def _tagged(option: Option) -> list[str]:
    return [".TP", f"\\fB{_text(option.term)}\\fR", *([_line(option.text)] if option.text else [])]


def _line(text: str) -> str:
    escaped = _text(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'", " ")) else escaped


def _text(text: str) -> str:
    return "".join(ROFF.get(character, character) for character in text)
