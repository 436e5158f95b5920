# SPDX-License-Identifier: MIT
"""A feature is added by the steps of CONTRIBUTING.md ("Add a feature"), as files of one folder in a copy of the tree,
and nothing else is needed: its command, its table of `heaptape compare` and its plot work, and the arrows stay allowed.
"""

import os
import shutil
import sys
import tomllib

import pytest

from tests.support import OUT, REPOSITORY, run

sys.path.insert(0, str(REPOSITORY / "tools" / "layers"))
import python_arrows

COMMAND = '''
"""`heaptape sizes`: which sizes a program requests."""

import argparse

from heaptape.common.output import STANDARD_OUTPUT, write_bytes, write_text

SUMMARY = "which sizes a program requests"
DESCRIPTION = "Prints how many requests are of each size, and draws them."
GROUP = "Memory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="R.json", help="results")
    parser.add_argument("-o", "--output", metavar="F.png", help="a picture of them")


def run(arguments: argparse.Namespace) -> int:
    from heaptape.features.sizes import pass_table, plots
    from heaptape.results.schema import results
    from heaptape.show.tables.latex import render

    found = pass_table.requests([results(arguments.input)])
    write_text(STANDARD_OUTPUT, render(pass_table.tables(found), "text"))
    if arguments.output:
        write_bytes(arguments.output, plots.picture(found))
    return 0
'''
TABLE = '''
"""Requests by size."""

from collections.abc import Sequence

import pandas as pd

from heaptape.common.tables import Cell, Table
from heaptape.passes import PassTable
from heaptape.results.schema import Results


def requests(files: Sequence[Results]) -> pd.DataFrame:
    """Rows: size_bytes (the class's largest), requests."""
    rows = [row[:2] for file in files for row in file.workload.request_sizes or []]
    return pd.DataFrame(rows, columns=["size_bytes", "requests"]).astype(int)


def tables(found: pd.DataFrame) -> list[Table]:
    rows = [[Cell(f"{size:,}", size), Cell(f"{count:,}", count)] for size, count in found.itertuples(index=False)]
    return [Table("Requests by size", ["bytes", "requests"], rows)]


TABLE = PassTable(lambda files, baseline: requests(files), lambda found, baseline: tables(found))
'''
PLOTS = '''
"""Requests by size, drawn."""

import io

import pandas as pd
from matplotlib.figure import Figure


def picture(found: pd.DataFrame) -> bytes:
    """A PNG."""
    figure, out = Figure(), io.BytesIO()
    figure.subplots().bar(found["size_bytes"].astype(str), found["requests"])
    figure.savefig(out)
    return out.getvalue()
'''
FILES = {
    "__init__.py": '"""Requests by size."""\n\nTABLE = "how many requests are of each size"\n',
    "sizes_command.py": COMMAND,
    "pass_table.py": TABLE,
    "plots.py": PLOTS,
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the package with the feature; all else of the checkout is the checkout's."""
    root = tmp_path_factory.mktemp("tree")
    for path in REPOSITORY.iterdir():
        if path.name not in ("analysis", ".git"):
            (root / path.name).symlink_to(path)
    package = root / "analysis" / "heaptape"
    shutil.copytree(REPOSITORY / "analysis" / "heaptape", package, ignore=shutil.ignore_patterns("__pycache__", "test"))
    (package / "features" / "sizes").mkdir()
    for name, text in FILES.items():
        (package / "features" / "sizes" / name).write_text(text)
    return root


@pytest.fixture
def heaptape_with_it(tree):
    environment = os.environ | {"PYTHONPATH": str(tree / "analysis"), "HEAPTAPE_OUT": str(OUT)}
    return lambda *words: run(sys.executable, "-m", "heaptape", *words, env=environment)


def test_the_command_and_the_table_are_there_and_its_picture_is_drawn(heaptape_with_it, tmp_path):
    from synthetic_results import make_results, write

    data = make_results("small")
    data["workload"]["request_sizes"] = [[16, 70, 1000], [32, 3, 90]]
    results = tmp_path / "small.json"
    write(results, data)
    assert "sizes       which sizes a program requests" in heaptape_with_it("--help").stdout
    done = heaptape_with_it("sizes", results, "-o", tmp_path / "f.png")
    assert done.status == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines() if line.strip()][-2:] == [["16", "70"], ["32", "3"]]
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    compared = heaptape_with_it("compare", results, "--table", "sizes")
    assert compared.status == 0, compared.stderr
    assert "Requests by size" in compared.stdout
    assert "sizes: how many" in " ".join(heaptape_with_it("compare", "--help-all").stdout.split()).replace("  ", " ")
    assert heaptape_with_it("sizes").status == 2


def test_no_arrow_has_to_be_allowed_for_it(tree):
    table = tomllib.loads((REPOSITORY / "tools" / "layers" / "layers.toml").read_text())
    assert python_arrows.offences(tree, table["python"], table["features"]) == []
    (tree / "analysis/heaptape/features/other").mkdir()
    (tree / "analysis/heaptape/features/other/__init__.py").touch()
    (tree / "analysis/heaptape/features/sizes/bad.py").write_text("import heaptape.features.other\n")
    (found,) = python_arrows.offences(tree, table["python"], table["features"])
    assert "sizes/ may not import heaptape.features.other" in found
