# SPDX-License-Identifier: MIT
"""docs/ARCHITECTURE.md names files, functions and folders: each is there."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
# `path/file.c:name` in backticks; a name may be a function, a macro, a table or a class.
NAMED = re.compile(r"`([\w./-]+\.(?:c|h|py)):(\w+)`")
FOLDER = re.compile(r"`([\w./-]+)/`")
# Its place: the number and title of a hop, or a question.
PLACE = re.compile(r"^(?:(\d+\. )?\*\*(.+?)\*\*)", re.MULTILINE)


def places() -> list[tuple[str, str, str]]:
    """(place in the document, file, name), each once, in order."""
    found: dict[tuple[str, str, str], None] = {}
    place = "before the first hop"
    for line in DOCUMENT.splitlines():
        if match := PLACE.match(line):
            place = (match[1] or "") + match[2].rstrip(".")
        found |= {(place, *named): None for named in NAMED.findall(line)}
    return list(found)


def defines_in_c(source: str, name: str) -> bool:
    """A macro, or a function or table with a body, starts a line here: it is not only declared or used."""
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    if re.search(rf"^#\s*define {name}\b", source, re.MULTILINE):
        return True
    heads = re.findall(r"^\w[^;{}]*\{", source, re.MULTILINE)
    return any(re.search(rf"\b{name}[(\[]", head) for head in heads)


def defines_in_python(source: str, name: str) -> bool:
    """A function or class at the module's top level."""
    return any(
        isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name for node in ast.parse(source).body
    )


@pytest.mark.parametrize(("place", "file", "name"), places(), ids=lambda value: value.replace("/", "."))
def test_what_a_hop_names_is_defined_there(place: str, file: str, name: str) -> None:
    path = ROOT / file
    assert path.is_file(), f"{place}: there is no {file}"
    defines = defines_in_python if path.suffix == ".py" else defines_in_c
    assert defines(path.read_text(), name), f"{place}: {file} does not define {name}"


def test_an_event_passes_every_part() -> None:
    hops = [file for place, file, _ in places() if place[0].isdigit()]
    assert {"capture", "core", "convert", "replay", "analysis"} == {file.split("/")[0] for file in hops}


def test_every_folder_of_the_table_of_arrows_is_described() -> None:
    described = set(FOLDER.findall(DOCUMENT))
    assert set(tomllib.loads((ROOT / "tools" / "layers.toml").read_text())["c"]) <= described


def test_every_folder_is_there() -> None:
    analysis = ROOT / "analysis" / "heaptape"
    missing = [name for name in FOLDER.findall(DOCUMENT) if not any((at / name).is_dir() for at in (ROOT, analysis))]
    assert not missing
