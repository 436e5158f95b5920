# SPDX-License-Identifier: MIT
"""heaptape-machine's JSON is whole: the sets asked for, of the planned lengths, and every figure with its quantiles.
No figure is held to a clock.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OUT = Path(os.environ.get("HEAPTAPE_OUT", ROOT / "out"))
PROGRAM = OUT / "libexec" / "heaptape-machine"


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def measured() -> dict:
    done = run("--working-sets", "16384,100000", "--os-pages", "64,500", "--rounds", "3")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_whole(figure: dict) -> bool:
    values = [figure[key] for key in ("least", "quarter", "median", "three_quarters")]
    return figure["samples"] == 3 and values == sorted(values) and values[0] > 0


def test_working_sets_have_a_node_in_each_line(measured):
    # 100,000 bytes: whole lines, shared out among 8 walkers.
    assert [(row["bytes"], row["lines"]) for row in measured["working_sets"]] == [(16384, 256), (99840, 1560)]


def test_os_pages_have_a_line_each_and_as_many_side_by_side(measured):
    rows = measured["os_page_sets"]
    assert [row["os_pages"] for row in rows] == [64, 496]
    assert all(row[key]["lines"] == row["os_pages"] for row in rows for key in ("one_per_os_page", "side_by_side"))


def test_every_figure_has_its_quantiles(measured):
    chains = [*measured["working_sets"]]
    chains += [row[key] for row in measured["os_page_sets"] for key in ("one_per_os_page", "side_by_side")]
    figures = [row[key] for row in chains for key in ("dependent_ns", "independent_ns")]
    figures += [
        row[key]
        for row in measured["working_sets"]
        for key in ("near_dependent_ns", "near_independent_ns", "stream_ns")
    ]
    figures += [*measured["kernel"].values(), measured["code"]["cycle_ns"]]
    assert len(figures) == 12 + 6 + 8 + 1
    assert all(map(is_whole, figures))


def test_instructions_are_counted_where_a_child_can_be_traced(measured):
    for name in ("arithmetic", "interpreter", "allocator"):
        code = measured["code"][name]
        if code["instructions_per_iteration"] is None:
            pytest.skip("a child can't be traced here")
        assert code["instructions_per_iteration"] > 4
        assert is_whole(code["instruction_ns"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rounds", "2"],
        ["--working-sets", "4095"],
        ["--working-sets", "16384,"],
        ["--os-pages", "-64"],
        ["--os-pages", "64,x"],
        ["--nothing"],
        ["word"],
    ],
)
def test_wrong_use_is_one_line_and_status_2(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("heaptape-machine: ")


def test_sizes_are_told_without_measuring():
    found = json.loads(run("--sizes").stdout)
    assert set(found) == {"tlbs"}
    assert all(row["entries"] > 0 and row["ways"] > 0 for row in found["tlbs"])


def test_the_command_measures_once_and_keeps_it(tmp_path):
    command = [OUT / "bin" / "heaptape", "machine", "--rounds", "3"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}

    def told(*more: str) -> str:
        done = subprocess.run([*command, *more], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    if "null" in told("--json"):
        pytest.skip("a child can't be traced here")
    place = tmp_path / "heaptape" / "machine.json"
    first = place.read_bytes()
    table = told()
    assert place.read_bytes() == first
    assert "goes to memory" in table
    assert "at least" in table
    told("--again")
    assert place.read_bytes() != first


def test_a_full_standard_output_is_one_line_and_status_1():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([PROGRAM, "--sizes"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
