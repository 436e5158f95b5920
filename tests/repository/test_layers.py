# SPDX-License-Identifier: MIT
"""Dependencies run downwards, without cycles: the checkers of `make layers` find planted offences."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import REPOSITORY, run, succeed

sys.path.insert(0, str(REPOSITORY / "tools" / "layers"))
import c_arrows  # noqa: E402
import c_parameters  # noqa: E402
import layers  # noqa: E402
import python_arrows  # noqa: E402

TABLE = tomllib.loads((REPOSITORY / "tools" / "layers" / "layers.toml").read_text())


def plant_c(root: Path, files: dict[str, str]) -> Path:
    """A checkout with these C sources: name -> text."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def plant(root: Path, files: dict[str, str]) -> Path:
    """A checkout with these files in its package: name without .py -> text."""
    for name, text in files.items():
        path = root / "analysis" / "heaptape" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    return root


IMPORTS = [
    "from heaptape.high.top import thing",
    "from heaptape.high import top",
    "import heaptape.high.top",
    "from ..high import top",
    "from heaptape import high",
    "def late():\n    from heaptape.high.top import thing",
    "if TYPE_CHECKING:\n    from heaptape.high.top import thing",
]
TWO = {"top/one/a": "from heaptape.top.two import b\n", "top/two/b": "", "top/main": ""}
USING = {"low/a": "from heaptape.features.one import x\n", "features/one/b": "import heaptape.low.a\n"}
USING |= {"features/two/c": "from heaptape.features.one import b\n"}
CORE = {"low": ["features"], "features": []}
# Modules of a package, arrows that its table allows, features' arrows, the offences found.
PYTHON = [
    *(({"low/b": text, "high/top": ""}, {"low": [], "high": ["low"]}, {}, ["low/b"]) for text in IMPORTS),
    *(({"low/b": text, "high/top": ""}, {"low": ["high"], "high": ["low"]}, {}, []) for text in IMPORTS),
    ({"low/b": "import heaptape\n", "__main__": "import heaptape.low.b\n"}, {"low": []}, {}, ["low/b"]),
    ({"new/one": ""}, {}, {}, ["new/__init__", "new/one"]),
    (TWO, {"top": [], "top/one": ["top"], "top/two": []}, {}, ["top/one/a"]),
    (TWO, {"top": [], "top/one": ["top/two"], "top/two": []}, {}, []),
    (USING, CORE, {"one": [], "two": []}, ["features/two/c", "low/a"]),
    (USING, CORE, {"one": [], "two": ["one"]}, ["low/a"]),
]


@pytest.mark.parametrize(("files", "table", "features", "found"), PYTHON, ids=range(len(PYTHON)))
def test_an_import_that_no_table_has_is_found_and_no_other(tmp_path, files, table, features, found):
    root = plant(tmp_path, files)
    offences = [line.partition(".py:")[0] for line in python_arrows.offences(root, table, features)]
    assert sorted(set(offences)) == [f"analysis/heaptape/{name}" for name in found]


def test_a_cycle_is_found_even_through_a_lazy_import_or_headers(tmp_path):
    files = {"low/a": "from heaptape.low import b\n", "low/b": "from heaptape.low.c import d\n"}
    files |= {"low/c": "def d():\n    import heaptape.low.a\n", "low/e": "from heaptape.low import a\n"}
    root = plant(tmp_path, files)
    assert layers.cycles(python_arrows.graph(root)) == [["heaptape.low.a", "heaptape.low.b", "heaptape.low.c"]]
    assert python_arrows.offences(root, {"low": []}, {}) == []
    files = {"low/a.c": '#include "low/a.h"\n#include "low/b.h"\n', "low/a.h": "", "low/c.h": '#include "low/a.h"\n'}
    files |= {"low/b.h": "", "low/b.c": '#include "low/c.h"\n', "low/d.c": '#include "low/a.h"\n'}
    assert layers.cycles(c_arrows.graph(plant_c(tmp_path, files), {"low": []})) == [["low/a", "low/b", "low/c"]]


DOWN = {"low/a.c": '#include <stdio.h>\n#include "high/b.h"\n', "high/b.h": ""}
DEEP = {"top/a.c": '#include "core/x/b.h"\n', "core/x/b.h": ""}
C = [
    (DOWN, {"low": [], "high": ["low"]}, ["low/a.c:2: low may not include high/b.h"]),
    (DOWN, {"low": ["high"], "high": []}, []),
    (DOWN, {"low": ["hi/*"], "high": []}, ["low/a.c:2: low may not include high/b.h"]),
    (DEEP, {"top": ["core/*"], "core/x": []}, []),
    (DEEP, {"top": ["core"], "core/x": []}, ["top/a.c:1: top may not include core/x/b.h"]),
    ({"low/new/a.c": "", "low/test/b.c": ""}, {"low": []}, ["low/new/a.c:1: the folder low/new is not in the table"]),
]


@pytest.mark.parametrize(("files", "table", "found"), C, ids=range(len(C)))
def test_an_include_that_the_table_does_not_have_is_found_and_no_other(tmp_path, files, table, found):
    assert c_arrows.offences(plant_c(tmp_path, files), table) == found


def test_a_c_function_of_six_parameters_is_found(tmp_path):
    five = "int five(int a, int (*b)(int, int), int c[2], int d, int e) {\n  five(1, 2, 3, 4, 5, 6);\n}\n"
    six = "static struct thing *six(struct thing *a, int (*b)(int, int),\n    int c, int d, int e, int f) {\n}\n"
    of_others = "int imposed(int a, int b, int c, int d, int e, int f) {\n}\n"
    root = plant_c(tmp_path, {"low/a.c": five + six, "low/test/b.h": of_others})
    (found,) = c_parameters.offences(root, {"low"}, ["imposed"])
    assert found.startswith("low/a.c:4: six takes 6 parameters, more than 5")
    assert len(c_parameters.offences(root, {"low"}, [])) == 2
    assert c_parameters.offences(root, {"low"}, ["imposed", "six", "five"]) == [
        "layers.toml: no five takes more than 5 parameters"
    ]


def test_a_part_of_a_feature_that_is_not_there_is_an_offence(tmp_path):
    table = {"c": {}, "python": {}, "features": {}, "parameters": {"imposed": []}, "parts": {"one": ["a.c", "b"]}}
    found = layers.offences(plant_c(tmp_path, {"b/c.c": ""}), table)
    assert found == ["layers.toml: there is no a.c"]


def test_the_table_of_arrows_has_no_cycle_and_names_what_is_there():
    table = TABLE["python"]
    for place, (folder, allowed) in enumerate(table.items()):
        assert set(allowed) <= set(list(table)[:place]), folder
    package = REPOSITORY / "analysis" / "heaptape"
    folders = {str(path.parent.relative_to(package)) for path in package.glob("*/**/__init__.py")}
    features = {name.removeprefix("features/") for name in folders if name.startswith("features/")}
    assert set(table) == folders - {f"features/{name}" for name in features}
    assert set(TABLE["features"]) <= features | TABLE["parts"].keys()
    assert not layers.cycles({name: set(others) for name, others in TABLE["features"].items()})
    assert all((REPOSITORY / folder).is_dir() for folder in TABLE["c"])


def test_an_arrow_and_a_cycle_that_only_symbols_show_are_offences(tmp_path):
    sources = {"a/x": "void y(void); void x(void) { y(); }", "b/y": "void z(void); void y(void) { z(); }"}
    sources |= {"b/z": "void y(void); void z(void) { y(); }", "b/main": "void z(void); int main(void) { z(); }"}
    for name, text in sources.items():
        source, made = tmp_path / f"{name}.c", tmp_path / "out/obj" / f"{name}.o"
        for path in (source, made):
            path.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        subprocess.run(["gcc", "-c", source, "-o", made], check=True)

    def found(table: dict, back: dict) -> list[str]:
        return layers.by_symbols(tmp_path, tmp_path / "out", {"c": table, "back": back})

    assert found({"a": ["b"], "b": []}, {}) == ["a cycle of files: b/y, b/z"]
    assert found({"a": [], "b": []}, {"b/z": ["b/y"]}) == ["a may not use b: y"]
    assert found({"a": ["b"], "b": []}, {"b/z": ["b/y"]}) == []
    back = {"b/z": ["b/y"], "a/x": ["b/y"], "b/y": ["a/x"]}  # the second is in no cycle, the third no use
    sentence = "layers.toml: {} does not use {}, or is not used by it"
    rows = [sentence.format("a/x", "b/y"), sentence.format("b/y", "a/x")]
    assert found({"a": ["b"], "b": ["a"]}, back) == ["layers.toml: b does not use a", *rows]


def test_a_row_of_python_that_no_import_needs_is_an_offence(tmp_path):
    root = plant(tmp_path, USING)
    table = {"python": {"low": ["features/one"]}, "features": {"two": ["one"]}}
    assert layers.unused_in_python(root, table) == []
    table = {"python": {"low": ["features/one", "features"]}, "features": {"two": ["one"], "one": ["two"]}}
    stale = ["low does not use features", "features/one does not use features/two"]
    assert layers.unused_in_python(root, table) == [f"layers.toml: {row}" for row in stale]


@pytest.mark.long
def test_the_core_stands_without_any_feature():
    tool = REPOSITORY / "tools" / "without"
    features = [line.partition(":")[0] for line in succeed(tool, "--list").stdout.splitlines()]
    done = run(tool, *features, timeout_s=1200)
    assert done.status == 0, done.stdout + done.stderr
