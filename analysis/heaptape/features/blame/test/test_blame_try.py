# SPDX-License-Identifier: MIT
"""heaptape blame --try on the planted pinner (tests/programs/planted_pinner.c): under each allocator its site is
proposed first, and the experiments save what the layout implies. Long: other allocators, some of which keep empty OS
pages; a report.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from tests.support import HEAPTAPE_HERE, OUT, made_once, record, succeed

PINNERS = 400
BLOCK, OS_PAGE = 256, 4096
FIRST, OTHERS = ("glibc",), ("mimalloc", "jemalloc", "tcmalloc")
ALLOCATORS = [*FIRST, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
# Each pinner has an OS page; packed closely, 16 share one.
IMPLIED = PINNERS * (OS_PAGE - BLOCK)


@dataclass(frozen=True)
class Tried:
    """The command's JSON answer, and the results that it kept."""

    proposals: dict[str, list[dict]]
    rows: pd.DataFrame
    results: Path


def tried_on(allocators: tuple[str, ...], name: str, folders: pytest.TempPathFactory) -> Tried:
    """Made once for all workers: it takes a minute on a busy machine."""

    def make(folder: Path) -> None:
        folder.mkdir()
        tape = folder / "p.tape"
        record(tape, OUT / "test-programs" / "planted_pinner", str(PINNERS), options=("--stacks",))
        chosen = [word for name in allocators for word in ("-a", name)]
        done = succeed(HEAPTAPE_HERE, "blame", tape, *chosen, "--try", "2", "--json", "-o", folder / "r.json")
        (folder / "answer.json").write_text(done.stdout)

    folder = made_once(folders, name, make)
    data = json.loads((folder / "answer.json").read_text())
    proposals = {row["allocator"]: row["proposals"] for row in data["holders"]}
    return Tried(proposals, pd.DataFrame(data["tried"]), folder / "r.json")


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    return tried_on(FIRST, "blame-try", tmp_path_factory)


@pytest.fixture(scope="module")
def tried_on_others(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    return tried_on(OTHERS, "blame-try-others", tmp_path_factory)


@pytest.fixture
def tried_on_each(allocator: str, request: pytest.FixtureRequest) -> Tried:
    return request.getfixturevalue("tried" if allocator in FIRST else "tried_on_others")


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_the_planted_site_is_proposed_first(tried_on_each: Tried, allocator: str) -> None:
    first = tried_on_each.proposals[allocator][0]
    assert first["experiment"] == "function=pin_here=segregate"
    assert first["saving_bytes"] == pytest.approx(IMPLIED, rel=0.1)
    assert {row["group"] for row in tried_on_each.proposals[allocator]} == {"function=pin_here"}


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_its_experiments_free_what_the_layout_implies(tried_on_each: Tried, allocator: str) -> None:
    """glibc and jemalloc give it back; tcmalloc and mimalloc keep the empty OS pages."""
    rows = tried_on_each.rows[tried_on_each.rows["allocator"] == allocator]
    assert len(rows) == 2
    assert rows["found_saving_bytes"].is_monotonic_decreasing
    apart = rows[rows["action"] == "segregate"].iloc[0]
    freed = apart["found_saving_bytes"] + apart["found_left_bytes"]
    assert freed == pytest.approx(IMPLIED, rel=0.1)
    if allocator in ("glibc", "jemalloc"):
        assert apart["found_saving_bytes"] == pytest.approx(IMPLIED, rel=0.1)


def test_nothing_is_saved_of_the_peak_which_was_before(tried: Tried) -> None:
    assert tried.rows["peak_saving_bytes"].abs().max() < IMPLIED / 20
    assert tried.rows["found_peak_saving_bytes"].abs().max() < IMPLIED / 20


def test_the_results_are_those_of_whatif(tried: Tried) -> None:
    data = json.loads(tried.results.read_text())
    assert {about["name"] for about in data["whatif"]} == set(tried.rows["experiment"])
    command = (HEAPTAPE_HERE, "compare", tried.results, "--table", "blame", "--format", "json")
    held = pd.DataFrame(json.loads(succeed(*command).stdout)["tables"]["blame"])
    pairs = set(zip(held["one"], held["other"], strict=True))
    assert ("glibc", "glibc:function=pin_here=segregate") in pairs


@pytest.mark.long
def test_a_report_of_the_results_has_the_experiments(tried: Tried, tmp_path: Path) -> None:
    data = json.loads(tried.results.read_text())
    results, page = tmp_path / "r.json", tmp_path / "report.html"
    results.write_text(json.dumps(data | {"runs": [run for run in data["runs"] if run["allocator"] == "glibc"]}))
    succeed(HEAPTAPE_HERE, "report", results, "-o", page)
    text = page.read_text()
    assert "What if — p" in text
    assert re.search(r"<h\d[^>]*>Who holds the memory</h\d>", text)
    assert "Who holds the memory where RSS is largest: from glibc to glibc:function=pin_here=segregate" in text
