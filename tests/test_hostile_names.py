# SPDX-License-Identifier: MIT
"""One table of commands, each in all of its formats, over inputs in which every name is hostile: of program, thread,
function, library, mark, allocator, file, and each text of results. Every output stays what its format says, and no
name in it is more than a text.

Long: all of the table; whatever replays.
"""

import csv
import io
import json
import re
import shutil
import subprocess
import time
import xml.dom.minidom
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from heaptape.allocators import installed
from heaptape.common import home
from heaptape.common.console import _CONTROLS
from heaptape.run import recipes
from markdown_it import MarkdownIt

from tests.support import (
    CONVERT,
    HEAPTAPE,
    HEAPTAPE_HERE,
    OUT,
    RECORD,
    REPOSITORY,
    compile_c,
    made_once,
    record,
    run,
    succeed,
)

# What would turn text, move a cursor, begin an element, a link, code or a formula, and be a command of LaTeX; of a file
# name, which has no slash. A formula begins with the character that a place puts before it.
REST = "1+1|<script>alert(1)<b>\x1b[31m\x9b2J\u202e\u2066\x7f\n\t`<i>``[x](y)![z](z)**$x^2$\\input{e}_%&#~;\"'"
FORMULAS = "=+-@\t\r"
NAME = f"={REST}"
STORE = "=store|<i>`[x](y)**$x^2$_%&#~;\"'"  # a store's name is printable
# Names in an ELF file are replaced by as many bytes.
PLACE = "placeholder_of_a_name_{}_" + "x" * (len(REST.encode()) - 21)
FUNCTIONS = 5
SOURCE = """
#define _GNU_SOURCE
#include "capture/wire/heaptape.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *volatile kept[4096];
static int count;
void *of_library(size_t bytes);
FUNCTIONS
static void *work(void *name) {
  pthread_setname_np(pthread_self(), name);
  for (int i = 0; i < 200; i++)
    free(kept[0] = malloc(64));
  return NULL;
}
int main(int argc, char **argv) {
  int times = atoi(argv[1]);
  pthread_t thread;
  pthread_create(&thread, NULL, work, argv[2]);
  pthread_join(thread, NULL);
  heaptape_mark(argv[3]);
  for (int i = 0; i < times; i++) {
    CALLS
    kept[count++] = of_library(2000);
  }
  heaptape_mark(argv[4]);
  while (argc > 5 && getchar() != EOF)
    ;
  return 0;
}
"""
LIBRARY = """
#include <stdlib.h>
__attribute__((noinline)) static void *PLACE(size_t bytes) { void *volatile object = malloc(bytes); return object; }
void *of_library(size_t bytes) { void *volatile object = PLACE(bytes); return object; }
"""


def place(number: int) -> str:
    return PLACE.format(number)[: len(REST.encode()) + 1]


def renamed(file: Path) -> Path:
    """Puts hostile names into an ELF file in place of PLACE."""
    data = file.read_bytes()
    for number, before in enumerate(FORMULAS):
        data = data.replace(place(number).encode(), (before + REST).encode())
    file.write_bytes(data)
    return file


def program(folder: Path) -> Path:
    functions = "".join(
        f"__attribute__((noinline)) void {place(n)}(void) {{ kept[count++] = malloc({100 * n + 100}); }}\n"
        for n in range(FUNCTIONS)
    )
    calls = " ".join(f"{place(n)}();" for n in range(FUNCTIONS))
    library = compile_c(
        folder / f"@{REST}.so", LIBRARY.replace("PLACE", place(5)), "-shared", "-fPIC", "-O1", "-Wl,-soname,plain.so"
    )
    plain = folder / "plain.so"
    plain.symlink_to(library.name)
    source = SOURCE.replace("FUNCTIONS", functions).replace("CALLS", calls)
    made = compile_c(folder / NAME, source, plain, "-O1", f"-I{REPOSITORY}", "-pthread", "-Wl,-rpath,$ORIGIN")
    renamed(library)
    return renamed(made)


@dataclass(frozen=True)
class Inputs:
    folder: Path

    def __getitem__(self, name: str) -> Path:
        """The file of that name, with what is hostile before its ending. "": the program."""
        if name.startswith("store"):
            return self.folder / name.replace("store", STORE)
        stem, dot, ending = name.partition(".")
        return self.folder / f"={stem}{REST}{dot}{ending}"


def hostile(value: Any) -> Any:
    """JSON with a hostile text in place of each text whose key is not kept."""
    if isinstance(value, dict):
        return {key: one if key in KEPT else hostile(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return f"{value}{REST}</script>" if isinstance(value, str) else value


# Keys whose texts are words of the format.
KEPT = {"pass", "order", "touch", "encoding", "columns", "residency", "sha256", "kind", "unit", "phase", "cells",
        "values", "data", "instruction", "offset", "groupings", "why", "walk_states", "clock", "peaks"}  # fmt: skip


def make(folder: Path) -> None:
    """Records the program twice, replays it into a library of a hostile name, and writes hostile results."""
    folder.mkdir()
    inputs = Inputs(folder)
    made = program(folder)
    for name, times in (("old", 40), ("new", 90)):
        words = [made, str(times), f"+{REST}"[:15], f"-{REST}/", f"@{REST}</script>"]
        record(folder / "t.tape", *words, options=("--stacks", "--describe", "--usable"))
        (folder / "t.tape").rename(inputs[f"{name}.tape"])
    shutil.copy(OUT / "lib" / "libreference.so", inputs["reference.so"])
    allocators = ("-a", "glibc", "-a", inputs["reference.so"])
    succeed(HEAPTAPE_HERE, "replay", inputs["new.tape"], *allocators, "-n", "2", "-o", inputs["r.json"])
    succeed(HEAPTAPE_HERE, "blame", inputs["new.tape"], *allocators, "-o", inputs["b.json"])
    for name in ("r", "b"):
        data = json.loads(inputs[f"{name}.json"].read_text())
        inputs[f"f{name}.json"].write_text(json.dumps(hostile(data)))
    shutil.copy(OUT / "lib" / "libreference.so", inputs["store.so"])
    allocators = ("-a", "glibc", "-a", inputs["store.so"])
    store = ("--store", inputs["store"], "--passes", "memory,instructions")
    succeed(HEAPTAPE_HERE, "fleet", "run", inputs["new.tape"], *allocators, *store)
    make_store_hostile(inputs["store"])
    succeed(HEAPTAPE_HERE, "fleet", "atlas", inputs["store"], *allocators, "-o", folder / "atlas")
    inputs["atlas.json"].write_bytes((folder / "atlas" / "atlas.json").read_bytes())
    data = json.loads(inputs["atlas.json"].read_text())
    made_up = {key: hostile(data[key]) for key in ("machine", "failures", "engines", "columns")}
    made_up["columns"][0]["name"] = "glibc"
    inputs["fatlas.json"].write_text(json.dumps(data | made_up | {"absent": {NAME: NAME}}))


def make_store_hostile(url: Path) -> None:
    """Of its four cells one has failed, and another one's allocator did."""
    from heaptape.features.fleet.store import open_store  # here: the rest stands without it

    store = open_store(str(url))
    for name, workload in store.workloads().items():
        changed = {key: f"={REST}{getattr(workload, key)}" for key in ("name", "program", "source")}
        store.put(f"workloads/{name}.json", msgspec.structs.replace(workload, **changed, about=hostile(workload.about)))
    for name, machine in store.machines().items():
        store.put(f"machines/{name}.json", hostile(machine))
    for done in store.records():
        (cell,) = done.cells
        if cell.pass_ == "memory":
            variant = REST.replace("\x1b", "").replace("\n", "").replace("\t", "")
            other = msgspec.structs.replace(cell, variant=variant) if cell.allocator != "glibc" else cell
            store.put_record(msgspec.structs.replace(done, cells=(other,)))
        elif cell.allocator == "glibc":
            (url / "cells" / done.key[:2] / f"{done.key}.json").unlink()
            store.put_failure(done.key, NAME, NAME, 1.0)
        else:
            store.put_record(msgspec.structs.replace(done, results=({"error": NAME},), machine=NAME))


# --- what an output may not be ---


def calm(text: str) -> str:
    """What is wrong with a text on a terminal; "": nothing."""
    found = _CONTROLS.search(text)
    return f"controls the terminal: {text[max(0, found.start() - 60) : found.end() + 20]!r}" if found else ""


def of_csv(text: str) -> str:
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            if cell.startswith(tuple(FORMULAS)) and not re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", cell):
                return f"a formula: {cell!r}"
    return calm(text)


def of_markdown(text: str) -> str:
    """No HTML, link, picture or emphasis; a table's rows have as many cells as its header."""
    tokens = [one for block in MARKDOWN.parse(text) for one in [block, *(block.children or [])]]
    found = next((one for one in tokens if re.match("html|link|image|em_|s_", one.type)), None)
    if re.search(r"(?<!\\)\$x", re.sub(r"(?m)^    .*$", "", text)):  # not of CommonMark, but of GitHub and pandoc
        return "Markdown: a formula"
    return f"Markdown: {found.type} {found.content}" if found else calm(text)


def of_latex(text: str) -> str:
    found = re.search(r"\\input|(?<!\\)\$x|(?<!\\)_%|(?<!\\)[#~]", text)
    return f"LaTeX: {text[max(0, found.start() - 60) : found.end() + 40]!r}" if found else calm(text)


def of_json(text: str) -> str:
    for line in text.splitlines() if text.count("\n{") else [text]:
        json.loads(line)
    return "" if text.isascii() else "JSON is not ASCII"


class Elements(HTMLParser):
    """The elements and attributes of a page that a hostile name may have made."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong = ""
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        if tag in ("i", "b") and any(value and "alert" in value for _, value in attrs):
            self.wrong = f"element {tag} {attrs}"

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script" and data.startswith("alert(1)"):
            self.wrong = "a script of a name"


def of_html(text: str) -> str:
    page = Elements()
    page.feed(text)
    return page.wrong or calm(text) or ("an element of a name" if "<script>alert" in text else "")


def of_xml(text: str) -> str:
    whole = xml.dom.minidom.parseString(text)
    scripts = [one.firstChild.data for one in whole.getElementsByTagName("script") if one.firstChild]
    return (
        "a script of a name"
        if any(one.startswith("alert") for one in scripts) or whole.getElementsByTagName("b")
        else calm(text)
    )


def of_folded(text: str) -> str:
    wrong = [line for line in text.splitlines() if not re.search(r" \d+$", line)]
    return f"no stack: {wrong[0]!r}" if wrong else calm(text)


JUDGES: dict[str, Callable[[str], str]] = {
    "text": calm, "csv": of_csv, "md": of_markdown, "latex": of_latex, "json": of_json, "html": of_html,
    "svg": of_xml, "xml": of_xml, "folded": of_folded,
}  # fmt: skip
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
USUAL = "text md csv latex"
MINIMISE = "{new.tape} --old glibc --new {reference.so} --if rss-peak>0.5*old --minimise-runs 4"
TUNE = "{new.tape} -a glibc --budget 4 --storage [j.journal] -o [t.json]"


@dataclass(frozen=True)
class Row:
    """A command, its words; {NAME}: an input, [NAME]: a file to write. `formats`: that it has, or of the file that its
    last word writes; `writes`: that one's ending, or its place in a folder.
    """

    words: str
    formats: str = USUAL
    writes: str = ""
    long: bool = True
    status: tuple[int, ...] = (0,)


TABLE = (
    Row("info {new.tape}", "text", long=False),
    Row("info --table all {new.tape}", "text"),
    Row("info --json {new.tape}", "json"),
    Row("dump {new.tape}", "text"),
    Row("dump --stacks {new.tape}", "text", long=False),
    Row("dump --format jsonl {new.tape}", "json"),
    Row("check {new.tape}", "text"),
    Row("check --json {new.tape}", "json"),
    Row("profile {new.tape}", USUAL, long=False),
    Row("profile {new.tape} --table all"),
    Row("profile {new.tape} --json", "json"),
    Row("profile {new.tape} --format html -o", "html", ".html"),
    Row("profile {new.tape} --format svg -o", "svg", ".svg"),
    Row("diff {old.tape} {new.tape}"),
    Row("diff {old.tape} {new.tape} --json", "json"),
    Row("plot {new.tape} --show", "text"),
    *(Row(f"plot {{new.tape}} {kind} -o", "svg", ".svg") for kind in ("sizes", "lifetimes", "live")),
    Row("convert {new.tape} --to chrome", "json", ".chrome"),
    Row("convert {new.tape} --to folded", "folded", ".folded"),
    Row("pack {new.tape} -o", "text", ".tape"),
    *(
        row
        for name in ("r", "fr")
        for row in (
            Row(f"compare {{{name}.json}}", long=name == "fr"),
            Row(f"compare {{{name}.json}} --table all", "text md latex"),
            *(
                Row(f"compare {{{name}.json}} --table {table}", "csv")
                for table in ("time", "calls", "memory", "cycles", "workloads", "verdict", "latency", "fragmentation")
            ),
            Row(f"compare {{{name}.json}} --json", "json"),
            Row(f"compare {{{name}.json}} --ministat", "text"),
            Row(f"plot {{{name}.json}} --show", "text"),
            *(
                Row(f"plot {{{name}.json}} {kind} -o", "svg", ".svg", long=kind != "peak")
                for kind in ("memory", "address-space", "map", "calls", "scatter", "latency", "peak")
            ),
        )
    ),
    *(
        row
        for name in ("b", "fb")
        for row in (
            Row(f"blame {{{name}.json}}", long=name == "b"),
            Row(f"blame {{{name}.json}} --table all"),
            Row(f"blame {{{name}.json}} --by site --by phase --by thread"),
            Row(f"blame {{{name}.json}} --at peak --at end"),
            Row(f"blame {{{name}.json}} --json", "json"),
            Row(f"blame {{{name}.json}} --flame", "svg", ".svg"),
            Row(f"blame {{{name}.json}} --graph", "svg", ".svg"),
        )
    ),
    *(Row(f"report {{{name}.json}} -o", "html", ".html") for name in ("r", "fr", "b", "fb")),
    Row("replay {new.tape} -a {reference.so} -n 1 --passes memory -o /dev/null"),
    Row("replay {new.tape} -a {reference.so} -n 1 --passes memory --json", "json"),
    Row("replay {new.tape} -a {reference.so} --verify", "text"),
    Row("whatif {new.tape} -a glibc --group size=100=remove -o /dev/null"),
    Row("whatif {new.tape} -a glibc --group size=100=remove --json", "json"),
    Row("place {new.tape} -a glibc"),
    Row("place {new.tape} -a glibc --json", "json"),
    *(Row(f"place {{new.tape}} -a glibc --code {kind}", "text") for kind in ("jemalloc", "mimalloc", "pmr")),
    Row("gate {new.tape} --old glibc --new {reference.so} --tolerate rss=0.001% --minimise none", status=(1,)),
    Row("gate {new.tape} --old glibc --new {reference.so} --minimise none --junit", "xml", ".xml", status=(0, 1)),
    Row(f"minimise {MINIMISE} -o [min]", "text"),
    Row(f"minimise {MINIMISE} -o", "md", "/README.md", long=False),
    Row(f"minimise {MINIMISE} -o", "json", "/minimised.json"),
    Row(f"tune {TUNE}", long=False),
    Row(f"tune {TUNE} --table all"),
    Row(f"tune {TUNE} --json", "json"),
    Row(f"tune {TUNE} --live --live-runs 2 -- {{}} 3 a b c"),
    Row("fleet run {new.tape} -a glibc -a {store.so} --passes memory --store {store}", "text"),
    Row("fleet run {new.tape} -a {reference.so} --passes memory --store {store}", "text", status=(1,)),
    Row("fleet status {store}"),
    Row("fleet status {store} --json", "json"),
    *(
        row
        for words in ("", " SELECT~*~FROM~cells", " SELECT~*~FROM~workloads")
        for row in (
            Row(f"fleet query {{store}}{words}"),
            Row(f"fleet query {{store}}{words} --format json", "json"),
        )
    ),
    Row("fleet query {store} SELECT~'\x1b[31m'~FROM~nowhere", "text", status=(1,)),
    Row("fleet atlas {store} -a glibc -a {store.so} -o", "html", "/index.html"),
    Row("fleet atlas {fatlas.json} -o", "html", "/index.html"),
    Row("fleet atlas {fatlas.json} --against {atlas.json}", "text"),
    Row("fleet atlas {fatlas.json} --against {atlas.json} --json", "json"),
    Row("observe -o - -- {} 3 a b c", long=False),
    Row("observe -o - --json -- {} 3 a b c", "json"),
    Row("observe -a {reference.so} -o - -- {} 3 a b c", "text"),
    Row("observe --simulate -o - -- {} 3 a b c"),
    Row("advise {new.tape} -a glibc -a {reference.so}"),
    Row("advise {new.tape} -a glibc -a {reference.so} --json", "json"),
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(made_once(tmp_path_factory, "hostile_names", make))


def shown(inputs: Inputs, row: Row, form: str, folder: Path) -> Iterator[str]:
    """What is wrong about the output."""
    words: list[str | Path] = []
    for word in row.words.split():
        name, there = word[1:-1], {"{": inputs, "[": Inputs(folder)}.get(word[0])
        words.append(there[name] if there else word.replace("~", " "))
    written = folder / f"={REST}{row.writes}"
    options = ["--format", form] if form in ("md", "csv", "latex") and not row.writes else []
    at = words.index("--") if "--" in words else len(words)
    words[at:at] = options
    if row.writes:
        words.append(written.parent if row.writes.startswith("/") else written)
    others = {"info": CONVERT, "dump": CONVERT, "check": CONVERT, "observe": HEAPTAPE}
    program = others.get(row.words.split()[0], HEAPTAPE_HERE)
    result = run(program, *words)
    if result.status not in row.status:
        yield f"status {result.status}: {result.stderr}"
    texts = [("text", result.stderr), ("text" if row.writes else form, result.stdout)]
    texts += [(form, written.read_text())] if row.writes and form != "text" else []
    for language, text in texts:
        if text and (wrong := JUDGES[language](text)):
            yield f"{language}: {wrong}"
        yield from unquoted(language, text)


def unquoted(language: str, text: str) -> Iterator[str]:
    """Commands to paste in which a shell would take a name for more."""
    commands = [line for line in text.splitlines() if line.startswith("    heaptape ")]
    if language == "json" and not text.count("\n{"):
        output = json.loads(text)
        commands = [*output.get("next", []), *filter(None, [output.get("replay")])] if isinstance(output, dict) else []
    for command in commands:
        if re.search("[<`;&$]", re.sub(r"'[^']*'|\"'\"", "", command)):
            yield f"a shell would run {command}"


@pytest.mark.parametrize("row", [pytest.param(row, id=row.words, marks=[pytest.mark.long] * row.long) for row in TABLE])
def test_no_name_is_more_than_a_text(row: Row, inputs: Inputs, tmp_path: Path) -> None:
    wrong = {form: list(shown(inputs, row, form, tmp_path)) for form in row.formats.split()}
    assert {form: one for form, one in wrong.items() if one} == {}


@pytest.mark.long
def test_no_name_is_more_than_a_text_while_it_is_recorded(inputs: Inputs, tmp_path: Path) -> None:
    """`top` and `ctl`, of a recorder whose replies have the names."""
    words = [inputs.folder / NAME, "3", f"+{REST}"[:15], f"-{REST}/", REST, "wait"]
    command = [RECORD, "--stacks", "--describe", "-o", tmp_path / f"={REST}.tape", "--", *words]
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
        try:
            while run(HEAPTAPE_HERE, "ctl", str(recorder.pid), "status").stdout.count("\n  ") < 1:
                assert recorder.poll() is None
                time.sleep(0.1)
            for command in (("ctl", str(recorder.pid), "status"), ("top", str(recorder.pid), "--once")):
                result = run(HEAPTAPE_HERE, *command)
                assert (result.status, calm(result.stdout), result.stderr) == (0, "", "")
                as_json = run(HEAPTAPE_HERE, *(word for word in command if word != "--once"), "--json")
                assert (as_json.status, of_json(as_json.stdout)) == (0, "")
        finally:
            _, said = recorder.communicate(b"")
    assert calm(said.decode()) == ""


@pytest.mark.long
def test_no_name_in_a_list_of_allocators_is_more_than_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of allocators.toml, and of an installed candidate's record."""
    folder = tmp_path / "allocators"
    folder.mkdir()
    name, text = json.dumps(f"={REST}").replace("\x7f", "\\u007f"), json.dumps(REST).replace("\x7f", "\\u007f")
    entry = f"[{name}]\nlibrary={text}\nsummary={text}\npackage={text}\n[{name}.variants.{text}]\n"
    before = home.SHARED / "allocators"
    (folder / "allocators.toml").write_text(
        f"{entry}environment={{A={text}}}\nsummary={text}\n{(before / 'allocators.toml').read_text()}"
    )
    shutil.copy(before / "candidates.toml", folder)
    monkeypatch.setattr(home, "SHARED", tmp_path)
    there = tmp_path / f"{REST}@1"
    there.mkdir()
    (there / "lib.so").touch()
    source = installed.Source(*[REST] * 4)
    installed.write(
        there,
        installed.Record(
            1, REST, "1", "lib.so", REST, REST, source, REST, (REST,), REST, REST, (), None, REST, None, 0
        ),
    )
    for words in (("allocators",), ("allocators", "list"), ("allocators", "--variants", f"={REST}")):
        result = run(HEAPTAPE_HERE, *words, "--into", tmp_path)
        assert (result.status, calm(result.stdout), calm(result.stderr)) == (0, "", "")
        assert r"\x1b[31m" in result.stdout
        as_json = run(HEAPTAPE_HERE, *words, "--into", tmp_path, "--json")
        assert (as_json.status, of_json(as_json.stdout)) == (0, "")


RECIPES = {
    f"{REST.replace('/', '')}1": "command = [{0}, '{1}']\nknown = {0}\nstands_for = {0}",
    f"{REST.replace('/', '')}2": "command = ['true']\nstands_for = ''\n"
    "prepare = 'printf \"\\\\377\\\\33[31m\"; exit 1'",
    f"{REST.replace('/', '')}3": "command = ['sh', '-c', 'kill -9 $$']\nready = 'exit 1'\nstands_for = ''",
}


@pytest.mark.long
def test_no_name_of_a_recipe_or_a_suite_is_more_than_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workloads = pytest.importorskip("heaptape.features.workloads.known")
    hostile = json.dumps(REST).replace("\x7f", "\\u007f")
    for name, text in RECIPES.items():
        about = f"summary = {hostile}\n{text.format(hostile, '$WORK')}\n"
        (tmp_path / f"{name}.toml").write_text(about)
    suites = tmp_path / "suites"
    suites.mkdir()
    (suites / f"={REST.replace('/', '')}.toml").write_text(
        f"summary = {hostile}\nsource = {hostile}\n[[workload]]\nname = {hostile}\nsynthetic = {hostile}\n"
    )
    monkeypatch.setattr(recipes.find, "__defaults__", ((tmp_path,),))
    monkeypatch.setattr(workloads.find_suites, "__defaults__", ((suites,),))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wanted = [(), *(("capture", name, "-o", str(tmp_path / "t.tape")) for name in RECIPES)]
    wanted += [("capture", *RECIPES), ("write", next(iter(RECIPES))), ("run", REST), ("setup", next(iter(RECIPES)))]
    wanted += [("run", f"={REST.replace('/', '')}", "-o", str(tmp_path / "suite"))]
    for words in wanted:
        for as_json in ((), ("--json",)):
            result = run(HEAPTAPE_HERE, "workloads", *words, *as_json)
            assert (calm(result.stdout), calm(result.stderr)) == ("", ""), words
            assert r"\x1b[31m" in result.stdout + result.stderr or as_json, words
            assert not (as_json and result.stdout and of_json(result.stdout)), words
