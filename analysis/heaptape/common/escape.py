# SPDX-License-Identifier: MIT
"""Texts from files (names, paths, marks, messages) in each language that commands write, so that they stay texts: one
function for each. For terminals: console.printable, which the others include.
"""

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from heaptape.common.console import printable

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets take a cell that begins so for one
_NUMBER = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")
_MARKDOWN = str.maketrans({one: f"\\{one}" for one in "\\|~`*[&$"} | {"<": "&lt;"})
_OUTER_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # within a word it marks nothing up
_REFERENCE = re.compile(r"(?<!\w)@(?=\w)|[#!](?=\d)")  # a user, an issue, a merge request, where it is shown in one
_CODE = re.compile(r"(`[^`|~*\[&<\\]+`)")  # what marks up nothing, even where it were no code
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$", "−": r"$-$", "–": "--", "—": "---", "…": r"\dots{}", "×": r"$\times$", "µ": r"$\mu$", "≤": r"$\le$",
    "≥": r"$\ge$", "\n": " ", "\t": " ",
}  # fmt: skip


def csv(text: str) -> str:
    """A cell of CSV before it is quoted: a spreadsheet shows it, and does not compute it. Numbers stay numbers.

    >>> [csv(one) for one in ("malloc", "=1+1", "-5.2", "-rm")]
    ['malloc', "'=1+1", '-5.2', "'-rm"]
    """
    quoted = text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return "'" * quoted + printable(text)


def csv_frame(frame: "pd.DataFrame") -> str:
    """A table as CSV, with its column names."""
    safe = frame.map(_csv_cell) if hasattr(frame, "map") else frame.applymap(_csv_cell)  # before pandas 2.1
    names = [csv(str(name)) for name in frame.columns]
    return str(safe.to_csv(index=False, header=names, lineterminator="\n"))


def _csv_cell(value: object) -> object:
    return csv(value) if isinstance(value, str) else value


def markdown(text: str) -> str:
    """A text within Markdown: no markup, no cell's end; in a comment of GitHub or GitLab, it notifies nobody.

    >>> markdown("a|<b>*")
    'a\\\\|&lt;b>\\\\*'
    >>> markdown("@user, {lambda()#1}, malloc@GLIBC_2.2.5")
    '@&#8203;user, {lambda()#&#8203;1}, malloc@GLIBC_2.2.5'
    """
    safe = _OUTER_UNDERSCORE.sub(r"\\_", printable(text).translate(_MARKDOWN))
    return _REFERENCE.sub(r"\g<0>&#8203;", safe)


def markdown_prose(text: str) -> str:
    """A sentence of ours in Markdown, with names in it: only code in back quotes stays, where it has no other markup.

    >>> markdown_prose("set `A=1` for _x, [a](b)")
    'set `A=1` for \\\\_x, \\\\[a](b)'
    """
    parts = _CODE.split(printable(text))
    return "".join(part if at % 2 else markdown(part) for at, part in enumerate(parts))


def lines(text: str) -> str:
    """A text of several lines, which stay lines, before it is escaped for SVG or HTML."""
    return "\n".join(map(printable, text.split("\n")))


def markup(text: str) -> str:
    """A text within SVG or HTML; its lines stay lines."""
    return escape(lines(text), {'"': "&quot;", "'": "&#39;"})


def latex(text: str) -> str:
    """A text within LaTeX."""
    # A hyphen between hyphens would become a dash.
    safe = "".join(_LATEX.get(c, c) if c in _LATEX or c.isprintable() else latex(printable(c)) for c in text)
    return safe if "--" not in text else safe.replace("--", "-{}-")
