# SPDX-License-Identifier: MIT
"""heaptape-machine's JSON is complete: the requested sets, of the planned lengths, and every figure with its quantiles.
No figure is compared with a clock.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import support
from tests.support import HEAPTAPE_HERE, OUT, refused, succeed

PROGRAM = OUT / "libexec" / "heaptape-machine"
LIBRARY = OUT / "lib" / "libheaptape-machine-loads.so"
# Runs the program with more sets, but only once, and notes each run.
STAND_IN = f"""#!/bin/sh
cd "${{0%/*}}"
[ "$1" = --sizes ] && exec {PROGRAM} --sizes
echo >>runs
[ -e output ] || {PROGRAM} --working-sets "$2,100000" --os-pages "$4,500" "$5" "$6" --library {LIBRARY} >output
cat output
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the stand-in for the program, and the command's cache."""
    folder = tmp_path_factory.mktemp("machine")
    program = folder / "libexec" / PROGRAM.name
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support, "OUT", folder)
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def measured(folder: Path) -> dict:
    return json.loads(succeed(HEAPTAPE_HERE, "machine", "--rounds", "3", "--json").stdout)


def is_whole(figure: dict) -> bool:
    values = [figure[key] for key in ("least", "quarter", "median", "three_quarters")]
    return figure["samples"] == 3 and values == sorted(values) and values[0] > 0


def test_working_sets_have_a_node_in_each_line(measured):
    # 100,000 bytes: whole lines, divided among 8 walkers.
    sets = [(row["bytes"], row["lines"]) for row in measured["working_sets"]]
    assert sets[0] == (16384, 256)
    assert sets[-1] == (99840, 1560)


def test_os_pages_have_a_line_each_and_as_many_side_by_side(measured):
    rows = measured["os_page_sets"]
    assert rows[-1]["os_pages"] == 496
    assert all(row[key]["lines"] == row["os_pages"] for row in rows for key in ("one_per_os_page", "side_by_side"))


def test_every_figure_has_its_quantiles(measured):
    sets, pages = measured["working_sets"], measured["os_page_sets"]
    chains = [*sets, *(row[key] for row in pages for key in ("one_per_os_page", "side_by_side"))]
    figures = [row[key] for row in chains for key in ("dependent_ns", "independent_ns")]
    figures += [row[key] for row in sets for key in ("near_dependent_ns", "near_independent_ns", "stream_ns")]
    figures += [*measured["kernel"].values(), measured["code"]["cycle_ns"]]
    figures += [measured["strings"][kind][key] for kind in ("fill", "copy") for key in ("line_ns", "byte_ns")]
    assert len(figures) == 5 * len(sets) + 4 * len(pages) + 10 + 1 + 4
    assert all(map(is_whole, figures))


def test_instructions_are_counted_where_a_child_can_be_traced(measured):
    for name in ("arithmetic", "interpreter", "allocator"):
        code = measured["code"][name]
        if code["instructions_per_iteration"] is None:
            pytest.skip("a child can't be traced here")
        assert 4 <= code["instructions_per_iteration"] < 2000
        assert is_whole(code["instruction_ns"])


def test_instructions_of_symbol_lookups_are_counted_and_priced(measured):
    """Of 1,024 symbols: hashing the name, the table, and comparing it; warm, and with the caches filled otherwise."""
    loading = measured["loading"]
    if loading is None:
        pytest.skip("a child can't be traced here")
    assert 200 < loading["instructions"] / 1024 < 3000
    for figure in (loading["warm_ns"], loading["cold_ns"]):
        values = [figure[key] for key in ("least", "quarter", "median", "three_quarters")]
        assert figure["samples"] == 3
        assert values == sorted(values)


def test_without_a_library_the_dynamic_linkers_instructions_have_no_price():
    small = ["--working-sets", "4096", "--os-pages", "64", "--rounds", "3"]
    assert json.loads(succeed(PROGRAM, *small, "--library", "/nonexistent.so").stdout)["loading"] is None


SETS = "--working-sets 4095", "--working-sets 16384,", "--os-pages -64", "--os-pages 64,x"


@pytest.mark.parametrize("arguments", [*SETS, "--rounds 2", "--nothing", "word"])
def test_wrong_use_is_one_line_and_status_2(arguments):
    assert refused(PROGRAM, *arguments.split(), says="heaptape-machine: ", status=2).stdout == ""


def test_sizes_are_reported_without_measuring():
    found = json.loads(succeed(PROGRAM, "--sizes").stdout)
    assert set(found) == {"tlbs"}
    assert all(row["entries"] > 0 and row["ways"] > 0 for row in found["tlbs"])


def test_the_command_measures_once_and_keeps_it(folder, measured):
    if "null" in json.dumps(measured):
        pytest.skip("a child can't be traced here")
    kept, runs = folder / "heaptape" / "machine.json", folder / "libexec" / "runs"
    assert json.loads(kept.read_text()) == measured
    table = succeed(HEAPTAPE_HERE, "machine").stdout
    assert runs.read_text() == "\n"
    assert "goes to memory" in table
    assert "at least" in table
    kept.write_text(json.dumps(measured | {"cores": 0}))
    succeed(HEAPTAPE_HERE, "machine", "--again")
    assert runs.read_text() == "\n\n"
    assert json.loads(kept.read_text())["cores"] == measured["cores"]


def test_a_full_standard_output_is_one_line_and_status_1():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([PROGRAM, "--sizes"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
