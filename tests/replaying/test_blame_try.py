"""heaptape blame --try on the planted pinner (tests/programs/planted_pinner.c): under each allocator its site is
proposed first, and the experiments bring what the layout implies.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from tests.support import HEAPTAPE, OUT, record, succeed

PINNERS = 400
BLOCK, OS_PAGE = 256, 4096
ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
# Each pinner has an OS page; packed closely 16 have one.
IMPLIED = PINNERS * (OS_PAGE - BLOCK)


@dataclass(frozen=True)
class Tried:
    """What the command said as JSON, and the results that it kept."""

    proposals: dict[str, list[dict]]
    rows: pd.DataFrame
    results: Path


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    folder = tmp_path_factory.mktemp("try")
    tape, results = folder / "p.tape", folder / "r.json"
    record(tape, OUT / "test-programs" / "planted_pinner", str(PINNERS), options=("--stacks",))
    chosen = [word for name in ALLOCATORS for word in ("-a", name)]
    data = json.loads(succeed(HEAPTAPE, "blame", tape, *chosen, "--try", "3", "--json", "-o", results).stdout)
    proposals = {row["allocator"]: row["proposals"] for row in data["holders"]}
    return Tried(proposals, pd.DataFrame(data["tried"]), results)


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_the_planted_site_is_proposed_first(tried: Tried, allocator: str) -> None:
    first = tried.proposals[allocator][0]
    assert first["experiment"] == "function=pin_here=segregate"
    assert first["saving_bytes"] == pytest.approx(IMPLIED, rel=0.1)
    assert {row["group"] for row in tried.proposals[allocator]} == {"function=pin_here"}


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_its_experiments_free_what_the_layout_implies(tried: Tried, allocator: str) -> None:
    """glibc and jemalloc give it back; tcmalloc and mimalloc keep the empty OS pages."""
    rows = tried.rows[tried.rows["allocator"] == allocator]
    assert len(rows) == 3
    assert rows["found_saving_bytes"].is_monotonic_decreasing
    apart = rows[rows["action"] == "segregate"].iloc[0]
    freed = apart["found_saving_bytes"] + apart["found_left_bytes"]
    assert freed == pytest.approx(IMPLIED, rel=0.1)
    if allocator in ("glibc", "jemalloc"):
        assert apart["found_saving_bytes"] == pytest.approx(IMPLIED, rel=0.1)


def test_nothing_is_saved_of_the_peak_which_was_before(tried: Tried) -> None:
    assert tried.rows["peak_saving_bytes"].abs().max() < IMPLIED / 20
    assert tried.rows["found_peak_saving_bytes"].abs().max() < IMPLIED / 20


def test_the_results_are_those_of_whatif(tried: Tried, tmp_path: Path) -> None:
    data = json.loads(tried.results.read_text())
    assert {about["name"] for about in data["whatif"]} == set(tried.rows["experiment"])
    told = json.loads(succeed(HEAPTAPE, "compare", tried.results, "--table", "blame", "--format", "json").stdout)
    held = pd.DataFrame(told["tables"]["blame"])
    pairs = set(zip(held["one"], held["other"], strict=True))
    assert ("mimalloc", "mimalloc:function=pin_here=segregate") in pairs
    assert ("glibc", "mimalloc") in pairs
    page = tmp_path / "report.html"
    succeed(HEAPTAPE, "report", tried.results, "-o", page)
    text = page.read_text()
    assert "What if — p" in text
    assert "Who holds the memory where RSS is largest: from glibc to glibc:function=pin_here=segregate" in text
