# SPDX-License-Identifier: MIT
"""Dependencies run downwards, without cycles: the checkers of `make layers` find planted offences."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))
import c_arrows  # noqa: E402
import c_parameters  # noqa: E402
import c_symbols  # noqa: E402
import layers  # noqa: E402
import python_arrows  # noqa: E402

TABLE = tomllib.loads((REPOSITORY / "tools" / "layers.toml").read_text())


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


@pytest.mark.parametrize(
    "text",
    [
        "from heaptape.high.top import thing\n",
        "from heaptape.high import top\n",
        "import heaptape.high.top\n",
        "from ..high import top\n",
        "from heaptape import high\n",
        "def late():\n    from heaptape.high.top import thing\n",
        "if TYPE_CHECKING:\n    from heaptape.high.top import thing\n",
    ],
)
def test_an_import_that_the_table_does_not_have_is_found_in_any_form(tmp_path, text):
    root = plant(tmp_path, {"low/bottom": "import os\n\n" + text, "high/top": "thing = 1\n"})
    (found,) = python_arrows.offences(root, {"low": [], "high": ["low"]}, {})
    line = 3 + text.count("\n    ")
    assert found.startswith(f"analysis/heaptape/low/bottom.py:{line}: low/ may not import heaptape.high")
    assert python_arrows.offences(root, {"low": ["high"], "high": ["low"]}, {}) == []


def test_an_import_of_the_public_interface_from_within_is_found(tmp_path):
    root = plant(tmp_path, {"low/bottom": "import heaptape\n", "__main__": "import heaptape.low.bottom\n"})
    assert python_arrows.offences(root, {"low": []}, {}) == [
        "analysis/heaptape/low/bottom.py:1: low/ may not import heaptape"
    ]


def test_a_sub_package_that_is_not_in_the_table_is_found(tmp_path):
    root = plant(tmp_path, {"new/one": ""})
    assert "analysis/heaptape/new/one.py:1: new/ is not in the table of arrows" in python_arrows.offences(root, {}, {})


def test_a_sub_package_of_a_sub_package_has_its_own_arrows(tmp_path):
    root = plant(tmp_path, {"top/one/a": "from heaptape.top.two import b\n", "top/two/b": "", "top/main": ""})
    (found,) = python_arrows.offences(root, {"top": [], "top/one": ["top"], "top/two": []}, {})
    assert found.startswith("analysis/heaptape/top/one/a.py:1: top/one/ may not import heaptape.top.two")
    assert python_arrows.offences(root, {"top": [], "top/one": ["top/two"], "top/two": []}, {}) == []


def test_a_cycle_of_modules_is_found_even_through_a_lazy_import(tmp_path):
    root = plant(
        tmp_path,
        {
            "low/a": "from heaptape.low import b\n",
            "low/b": "from heaptape.low.c import d\n",
            "low/c": "def d():\n    import heaptape.low.a\n",
            "low/e": "from heaptape.low import a\n",
        },
    )
    assert layers.cycles(python_arrows.graph(root)) == [["heaptape.low.a", "heaptape.low.b", "heaptape.low.c"]]
    assert python_arrows.offences(root, {"low": []}, {}) == []


def test_an_include_that_the_table_does_not_have_is_found(tmp_path):
    root = plant_c(tmp_path, {"low/a.c": '#include <stdio.h>\n#include "high/b.h"\n', "high/b.h": ""})
    assert c_arrows.offences(root, {"low": [], "high": ["low"]}) == ["low/a.c:2: low may not include high/b.h"]
    assert c_arrows.offences(root, {"low": ["high"], "high": []}) == []
    assert c_arrows.offences(root, {"low": ["hi/*"], "high": []}) == ["low/a.c:2: low may not include high/b.h"]


def test_a_star_allows_the_folders_below_it_and_no_other(tmp_path):
    root = plant_c(tmp_path, {"top/a.c": '#include "core/x/b.h"\n', "core/x/b.h": ""})
    assert c_arrows.offences(root, {"top": ["core/*"], "core/x": []}) == []
    assert c_arrows.offences(root, {"top": ["core"], "core/x": []}) == ["top/a.c:1: top may not include core/x/b.h"]


def test_a_folder_of_c_that_is_not_in_the_table_is_found(tmp_path):
    root = plant_c(tmp_path, {"low/new/a.c": "", "low/test/b.c": ""})
    assert c_arrows.offences(root, {"low": []}) == ["low/new/a.c:1: the folder low/new is not in the table"]


def test_a_cycle_of_c_files_is_found_through_their_headers(tmp_path):
    files = {"low/a.c": '#include "low/a.h"\n#include "low/b.h"\n', "low/a.h": "", "low/c.h": '#include "low/a.h"\n'}
    files |= {"low/b.h": "", "low/b.c": '#include "low/c.h"\n', "low/d.c": '#include "low/a.h"\n'}
    root = plant_c(tmp_path, files)
    assert layers.cycles(c_arrows.graph(root, {"low": []})) == [["low/a", "low/b", "low/c"]]


def test_a_c_function_of_six_parameters_is_found(tmp_path):
    five = "int five(int a, int (*b)(int, int), int c[2], int d, int e) {\n  five(1, 2, 3, 4, 5, 6);\n}\n"
    six = "static struct thing *six(struct thing *a, int (*b)(int, int),\n    int c, int d, int e, int f) {\n}\n"
    of_others = "int imposed(int a, int b, int c, int d, int e, int f) {\n}\n"
    root = plant_c(tmp_path, {"low/a.c": five + six, "low/test/b.h": of_others})
    (found,) = c_parameters.offences(root, {"low"}, ["imposed"])
    assert found.startswith("low/a.c:4: six takes 6 parameters, more than 5")
    assert len(c_parameters.offences(root, {"low"}, [])) == 2


def test_the_table_of_arrows_has_no_cycle_and_names_what_is_there():
    table = TABLE["python"]
    for place, (folder, allowed) in enumerate(table.items()):
        assert set(allowed) <= set(list(table)[:place]), folder
    package = REPOSITORY / "analysis" / "heaptape"
    folders = {str(path.parent.relative_to(package)) for path in package.glob("*/**/__init__.py")}
    features = {name.removeprefix("features/") for name in folders if name.startswith("features/")}
    assert set(table) == folders - {f"features/{name}" for name in features}
    assert set(TABLE["features"]) <= features
    assert not layers.cycles({name: set(others) for name, others in TABLE["features"].items()})
    assert all((REPOSITORY / folder).is_dir() for folder in TABLE["c"])


def test_an_arrow_that_only_symbols_show_is_an_offence(tmp_path):
    for folder, text in (("a", "void b_of(void); void a_of(void) { b_of(); }"), ("b", "void b_of(void) {}")):
        (tmp_path / "out/obj" / folder).mkdir(parents=True)
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.c").write_text(text)
        made = [tmp_path / folder / "x.c", "-o", tmp_path / "out/obj" / folder / "x.o"]
        subprocess.run(["gcc", "-c", *made], check=True)
    planted = tmp_path, tmp_path / "out"
    assert c_symbols.offences(*planted, {"a": [], "b": []}) == ["a may not use b: b_of"]
    assert c_symbols.offences(*planted, {"a": ["b"], "b": []}) == []


def test_no_folder_of_the_core_imports_a_feature_and_features_use_each_other_by_the_table(tmp_path):
    lines = {"low/a": "from heaptape.features.one import x\n", "features/one/b": "import heaptape.low.a\n"}
    lines |= {"features/two/c": "from heaptape.features.one import b\n"}
    root = plant(tmp_path, lines)
    core = {"low": ["features"], "features": []}
    found = python_arrows.offences(root, core, {"one": [], "two": []})
    assert [line.partition(":")[0].removeprefix("analysis/heaptape/") for line in found] == [
        "features/two/c.py",
        "low/a.py",
    ]
    assert len(python_arrows.offences(root, core, {"one": [], "two": ["one"]})) == 1
