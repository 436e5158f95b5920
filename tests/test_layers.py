"""Dependencies run downwards, in no circle: the checkers find what is planted, and nothing in the real tree."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import REPOSITORY


@pytest.fixture(scope="module")
def arrows() -> ModuleType:
    """tools/python_arrows.py."""
    spec = importlib.util.spec_from_file_location("python_arrows", REPOSITORY / "tools" / "python_arrows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
def test_an_import_that_the_table_does_not_have_is_found_in_any_form(arrows, tmp_path, text):
    root = plant(tmp_path, {"low/bottom": "import os\n\n" + text, "high/top": "thing = 1\n"})
    (found,) = arrows.offences(root, {"low": (), "high": ("low",)})
    line = 3 + text.count("\n    ")
    assert found.startswith(f"analysis/heaptape/low/bottom.py:{line}: low/ may not import heaptape.high")
    assert arrows.offences(root, {"low": ("high",), "high": ("low",)}) == []


def test_an_import_of_the_public_interface_from_within_is_found(arrows, tmp_path):
    root = plant(tmp_path, {"low/bottom": "import heaptape\n", "__main__": "import heaptape.low.bottom\n"})
    assert arrows.offences(root, {"low": ()}) == ["analysis/heaptape/low/bottom.py:1: low/ may not import heaptape"]


def test_a_sub_package_that_is_not_in_the_table_is_found(arrows, tmp_path):
    root = plant(tmp_path, {"new/one": ""})
    assert "analysis/heaptape/new/one.py:1: new/ is not in the table of arrows" in arrows.offences(root, {})


def test_a_circle_of_modules_is_found_even_through_a_lazy_import(arrows, tmp_path):
    root = plant(
        tmp_path,
        {
            "low/a": "from heaptape.low import b\n",
            "low/b": "from heaptape.low.c import d\n",
            "low/c": "def d():\n    import heaptape.low.a\n",
            "low/e": "from heaptape.low import a\n",
        },
    )
    assert arrows.circles(root) == [["heaptape.low.a", "heaptape.low.b", "heaptape.low.c"]]
    assert arrows.offences(root, {"low": ()}) == []


def test_this_checkout_has_no_such_import_and_no_circle(arrows):
    assert arrows.offences(REPOSITORY, arrows.PYTHON_ARROWS) == []
    assert arrows.circles(REPOSITORY) == []


def test_the_table_of_arrows_has_no_circle_and_names_what_is_there(arrows):
    table = arrows.PYTHON_ARROWS
    for place, (room, allowed) in enumerate(table.items()):
        assert set(allowed) <= set(list(table)[:place]), room
    rooms = {path.parent.name for path in (REPOSITORY / "analysis" / "heaptape").glob("*/__init__.py")}
    assert set(table) == rooms
