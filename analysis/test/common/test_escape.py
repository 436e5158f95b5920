# SPDX-License-Identifier: MIT
"""One table of hostile names, through every language that commands write: each stays a text."""

import csv
import io
import json
import re
import xml.dom.minidom
from contextlib import redirect_stdout

import jinja2
import markupsafe
import pandas as pd
import pytest
from heaptape.common import escape, output
from heaptape.common.console import printable
from heaptape.common.tables import Cell, Table, render_csv, render_markdown, render_text
from heaptape.show.pages import environment
from heaptape.show.screen import Screen, render
from heaptape.show.tables.latex import render_latex
from heaptape.tape import embedded
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

HOSTILE = (
    "=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1",  # formulas
    "\x1b[31mred", "\x1b]0;title\x07", "\x9b2J", "a\x00b", "a\x7fb", "line\nline", "\x85",  # control characters
    "abc\u202egpj.exe", "\u2066x\u2069", "\u200fx", "\u061cx", "\u2028x",  # directions and separators
    "<script>alert(1)</script>", "</title><b>", "a&b;\"'", "]]>", "<!--",  # markup
    "a|b", r"a\|b", r"\[x](y)", "` <b> ``", "`` <i> `x", "_x_", "&lt;",
    "[x](javascript:y)", "![i](http://h)", "`code`", "**bold**", "~~gone~~",  # Markdown
    "@user", "f(@a-team/b)", "x/y#12", "{lambda()#1}", "!7",  # who is told of a comment
    r"\input{/etc/passwd}", "$x^2$", "a_b#c%d&e~f^g", "{", "--x",  # LaTeX
)  # fmt: skip
CONTROLS = [chr(one) for one in (*range(32), 127, *range(128, 160), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F))]
CONTROLS += [chr(one) for one in range(0x2066, 0x206A)]
names = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))


def has_controls(text: str) -> bool:
    return any(one in text.replace("\n", "") for one in CONTROLS)


@given(names)
def test_a_cell_of_csv_is_no_formula_and_numbers_stay(name):
    cells = list(csv.reader(io.StringIO(render_csv([Table("", ["name", "n"], [[Cell(name), Cell("-5", -5.0)]])]))))
    assert not cells[1][0].startswith(("=", "+", "@", "\t", "\r")) or escape._NUMBER.fullmatch(cells[1][0])
    assert cells[1][1] == "-5"
    framed = list(csv.reader(io.StringIO(escape.csv_frame(pd.DataFrame([[1, name]], columns=[name, "n"])))))
    assert framed[1][1] == escape.csv(name)
    assert not has_controls("".join(framed[1]))


@pytest.mark.parametrize("form", ["text", "md", "latex", "csv"])
@given(name=names)
def test_no_format_controls_a_terminal(form, name):
    table = Table(name, ["a", name], [[Cell(name), Cell("1", 1)]], [name])
    made = {"text": render_text, "md": render_markdown, "latex": render_latex, "csv": render_csv}[form]([table])
    assert not has_controls(made)
    assert not has_controls(render(Screen(name, table, [name], [name], [("More", name)]), form))


def said_in_markdown(made: str, where: str) -> list[str]:
    """The text of each such element, by CommonMark and its tables. Fails if any is more than a text, or names a user or
    an issue to GitHub or GitLab, which code does not.
    """
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(made)
    said = []
    for before, inline in zip(tokens, tokens[1:]):
        assert not before.type.startswith("html")
        if before.type == f"{where}_open":
            assert {one.type for one in inline.children or []} <= {"text", "text_special", "code_inline"}
            texts = "".join("`" if one.type == "code_inline" else one.content for one in inline.children or [])
            assert not re.search(r"(?<!\w)@[A-Za-z0-9]|[#!][0-9]", texts)
            said.append("".join(one.content for one in inline.children or []).replace("\u200b", ""))
    return said


@given(names)
def test_a_name_in_markdown_is_a_text(name):
    made = render_markdown([Table("", ["a", "b"], [[Cell(name), Cell("1")]])])
    assert said_in_markdown(made, "td") == [printable(name).strip(), "1"]
    (said,) = said_in_markdown(escape.markdown_prose(f"Set `A=1` on {name}."), "paragraph")
    assert said.replace("`", "") == f"Set A=1 on {printable(name)}.".replace("`", "")  # which may be code


@given(names)
def test_markup_is_well_formed_xml(name):
    text = xml.dom.minidom.parseString(f'<a b="{escape.markup(name)}">{escape.markup(name)}</a>').documentElement
    shown = "".join(one.data for one in text.childNodes)
    assert shown == "\n".join(map(printable, name.split("\n")))
    assert text.getAttribute("b").split() == shown.split()


@given(names)
def test_a_page_shows_a_name_as_it_is_and_runs_and_turns_nothing(name):
    page = environment(jinja2.DictLoader({"p": '<a b="{{ n }}">{{ n }}</a>{{ "<b>" | safe }}'})).get_template("p")
    made = page.render(n=name)
    assert made == f'<a b="{markupsafe.escape(escape.lines(name))}">{markupsafe.escape(escape.lines(name))}</a><b>'
    assert not has_controls(made)


@given(names)
def test_data_of_a_script_shows_a_name_as_a_page_does_and_ends_no_script(name):
    made = embedded.in_script({name: [name, "é😀", 0.5]})
    assert made.isascii()
    assert made.isprintable()
    assert not set(made) & set("<&")
    assert json.loads(made) == {escape.lines(name): [escape.lines(name), "é😀", 0.5]}


@given(names)
def test_output_that_nobody_has_escaped_controls_no_terminal_and_keeps_its_lines(name):
    with redirect_stdout(io.StringIO()) as shown:
        output.write_text("-", f"a\n{name}é\u00a0\udce9\tb\n")
    assert not has_controls(shown.getvalue().replace("\t", ""))
    assert shown.getvalue().startswith("a\n")
    assert shown.getvalue().endswith("é\u00a0\\udce9\tb\n")
