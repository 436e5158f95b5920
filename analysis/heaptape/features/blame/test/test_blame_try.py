# SPDX-License-Identifier: MIT
"""heaptape blame --try on the planted pinner (tests/programs/planted_pinner.c): its site is proposed first, and the
experiments save what the layout implies.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from tests.support import HEAPTAPE_HERE, OUT, made_once, record, succeed

PINNERS = 400
BLOCK, OS_PAGE = 256, 4096
# Each pinner has an OS page; packed closely, 16 share one.
IMPLIED = PINNERS * (OS_PAGE - BLOCK)


@dataclass(frozen=True)
class Tried:
    """The command's JSON answer, and the results that it kept."""

    proposals: list[dict]
    rows: pd.DataFrame
    results: Path


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """Made once for all workers: it takes a minute on a busy machine."""

    def make(folder: Path) -> None:
        folder.mkdir()
        tape = folder / "p.tape"
        record(tape, OUT / "test-programs" / "planted_pinner", str(PINNERS), options=("--stacks",))
        done = succeed(HEAPTAPE_HERE, "blame", tape, "-a", "glibc", "--try", "2", "--json", "-o", folder / "r.json")
        (folder / "answer.json").write_text(done.stdout)

    folder = made_once(tmp_path_factory, "blame-try", make)
    data = json.loads((folder / "answer.json").read_text())
    (row,) = data["holders"]
    return Tried(row["proposals"], pd.DataFrame(data["tried"]), folder / "r.json")


def test_the_planted_site_is_proposed_first(tried: Tried) -> None:
    first = tried.proposals[0]
    assert first["experiment"] == "function=pin_here=segregate"
    assert first["saving_bytes"] == pytest.approx(IMPLIED, rel=0.1)
    assert {row["group"] for row in tried.proposals} == {"function=pin_here"}


def test_its_experiments_free_what_the_layout_implies(tried: Tried) -> None:
    assert len(tried.rows) == 2
    assert tried.rows["found_saving_bytes"].is_monotonic_decreasing
    apart = tried.rows[tried.rows["action"] == "segregate"].iloc[0]
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
