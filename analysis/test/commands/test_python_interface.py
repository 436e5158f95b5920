# SPDX-License-Identifier: MIT
"""The Python interface: examples in docs/use/PYTHON.md and in docstrings run unchanged."""

import doctest
import importlib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import heaptape as package
import pandas as pd
import pytest
from heaptape.results.schema import results
from synthetic_blame import make_run, planted
from synthetic_results import make_results, write

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "analysis" / "heaptape"
DOCUMENTED = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, heaptape, small_tape):
    """A folder with the files of the examples: small.tape, small.json."""
    place = tmp_path_factory.mktemp("examples")
    done = heaptape("convert", small_tape, place / "small.tape")
    assert done.returncode == 0, done.stderr
    data = make_results("small", repeats=2)
    data["runs"].append(make_run("glibc", planted("fragmentation")))
    write(place / "small.json", data)
    return place


@pytest.fixture
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return folder


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_in_docstrings_are_true(inside, name):
    module = importlib.import_module(name.removesuffix(".__init__"))
    done = doctest.testmod(module, extraglobs={"pd": pd}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted > 0
    assert done.failed == 0


def test_the_page_about_python_runs_from_top_to_bottom(inside, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "use" / "PYTHON.md").read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        if not all(hasattr(package, name) for name in re.findall(r"\bheaptape\.(\w+)", block)):
            continue  # of a feature that is not there
        exec(compile(block, "docs/use/PYTHON.md", "exec"), names)
    output = capsys.readouterr().out
    assert "2 threads 6666 events 0 dropped" in output
    assert "small.json 0 not a heaptape trace" in output
    assert (inside / "comparison.png").stat().st_size > 10_000


def test_the_page_names_only_columns_and_functions_that_are_there(inside):
    text = (ROOT / "docs" / "use" / "PYTHON.md").read_text()
    listed = re.findall(r"`(\w+)`", re.search(r"Columns: (.*?)\. What", text, re.DOTALL)[1])
    with package.open("small.tape") as trace:
        assert listed == next(trace.events()).schema.names
    for name in re.findall(r"heaptape\.(\w+)\b", re.sub(r"heaptape\.(tape|html)", "", text)):
        assert hasattr(package, name), name
    for name in re.findall(r"plots\.(\w+)", text):
        assert hasattr(package.plots, name), name


def test_the_packages_own_example_runs(inside, heaptape):
    example = re.search(r"\n\n((?:    .*\n)+)", package.__doc__)[1]
    done = heaptape("compile", "small.tape", "-o", "small.work")
    assert done.returncode == 0, done.stderr
    for name in ("redis.tape", "redis.work", "redis.json"):
        example = example.replace(name, name.replace("redis", "small"))
    axes = importlib.import_module("matplotlib.pyplot").figure().subplots()
    exec(textwrap.dedent(example), {"heaptape": package, "axes": axes})
    assert axes.lines


def test_everything_public_is_there_and_documented():
    for name in package.__all__:
        assert getattr(package, name).__doc__, name
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_compare_is_a_module_and_a_function_at_once(folder):
    from heaptape import compare
    from heaptape.compare import long_table

    assert compare is package.compare
    result = results(folder / "small.json")
    table = compare(result, baseline="jemalloc")
    pd.testing.assert_frame_equal(table, long_table([result], "jemalloc"))
    pd.testing.assert_frame_equal(table, compare(folder / "small.json", baseline="jemalloc"))
    with pytest.raises(package.HeaptapeError, match="unknown baseline"):
        compare(result, baseline="none such")


def test_import_alone_loads_neither_numpy_nor_pandas():
    """Nor do the imports of `heaptape convert --help`, `observe` and `machine`."""
    modules = "heaptape.commands.main, heaptape.common.tables, heaptape.allocators.registry"
    script = f"import sys, {modules}; print({{'numpy', 'pandas', 'matplotlib'}} & set(sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "analysis")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "set()\n"


def test_results_give_timelines_and_maps_of_first_memory_passes_in_the_order_of_allocators(folder):
    result = results(folder / "small.json")
    first = next(run for run in result.measured if run.allocator == "mimalloc" and run.timeline)
    assert list(result.timelines()) == result.labels == list(result.memory_maps())
    assert result.timelines()["mimalloc"]["live_bytes"].to_list() == [row[3] for row in first.timeline]
    assert results(folder / "small.json").calls()["call"].nunique() == 4
