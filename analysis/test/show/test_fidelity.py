# SPDX-License-Identifier: MIT
"""The errors that answers carry: how they are looked up, and how comparisons use them."""

import json
from pathlib import Path

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.tables import render_text
from heaptape.results import replay_errors as fidelity
from heaptape.results.comparing.verdicts import verdicts
from heaptape.results.schema import Results
from heaptape.show.tables.usual import comparison
from planted_runs import cycles_and_rss

TABLE = {
    "schema": 1,
    "baseline": "glibc",
    "apps": ["a", "b", "c", "d", "e"],
    "figures": {"peak_rss": {"all": {"p90": 9.0, "pairs": 10}, "allocators": {"jemalloc": {"p90": 4.0, "pairs": 5}}}},
}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Replaces the packaged table of errors."""

    def put(content: object) -> None:
        path = tmp_path / f"fidelity-{len(list(tmp_path.iterdir()))}.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        monkeypatch.setattr(fidelity, "FILE", path)

    return put


def peaks(**peaks: int) -> Results:
    file = cycles_and_rss(rss={name: (value, value) for name, value in peaks.items()}, name="made")
    return Results(file.path, file.data | {"heaptape": {}})


def shown(file: Results) -> str:
    return render_text(comparison([file], "glibc"), 200)


def test_an_allocator_has_its_own_error_or_that_of_all(table) -> None:
    table(TABLE)
    assert fidelity.error_percent("peak_rss", "jemalloc") == 4.0
    assert fidelity.error_percent("peak_rss", "jemalloc:no-decay") == 4.0
    assert fidelity.error_percent("peak_rss", "mine.so") == 9.0
    assert fidelity.error_percent("peak_rss", "glibc") == 0.0
    assert fidelity.error_percent("total_cycles", "jemalloc") is None
    assert fidelity.errors_of(["peak_rss", "vm_size"], ["jemalloc", "other", "glibc"]) == {"peak_rss": 9.0}


def test_errors_of_few_programs_are_not_used(table) -> None:
    table(TABLE | {"apps": ["a"]})
    assert fidelity.error_percent("peak_rss", "jemalloc") is None


@pytest.mark.parametrize(
    "damage",
    ["{", "[]", "3", json.dumps(TABLE | {"schema": 2}), json.dumps(TABLE | {"figures": {"peak_rss": {}}})]
    + [
        json.dumps(TABLE | {"figures": {"peak_rss": {"all": {"p90": value}, "allocators": {}}}})
        for value in (None, "4", -1, float("nan"), True)
    ],
)
def test_a_damaged_table_is_refused_by_name(table, damage: str) -> None:
    table(damage)
    with pytest.raises(HeaptapeError, match="fidelity-"):
        fidelity.error_percent("peak_rss", "jemalloc")


def test_compare_ranks_cpu_time_only_beyond_the_error(table) -> None:
    table(TABLE | {"figures": {"bare_cpu": TABLE["figures"]["peak_rss"]}})
    file = peaks(glibc=100_000, jemalloc=103_000, mimalloc=111_000)
    for run in file.data["runs"]:
        run |= {"pass": "bare", "cpu_ns": run.pop("rss_anon_peak_bytes")}
    text = shown(file)
    assert "≈103.0" in text
    assert "≈111" not in text
    assert "111.0" in text
    assert "not ranked by it" in text


def test_compare_gives_memory_as_counted_and_the_error_of_replaying_beside_it(table) -> None:
    table(TABLE)
    text = shown(peaks(glibc=100_000, jemalloc=103_000, mimalloc=111_000))
    assert "103.0" in text
    assert "≈" not in text
    assert "peak memory 4.0 to 9.0 %" in text


def test_verdicts_are_withheld_within_the_error(table) -> None:
    table(TABLE)
    file = peaks(glibc=100_000, jemalloc=103_000, mimalloc=111_000)
    found = verdicts(
        [file], "glibc", error_of=lambda figure, a, b: fidelity.errors_of([figure], [a, b]).get(figure, 0.0)
    ).set_index("a")
    assert found.loc["jemalloc", "verdict"] == "within error"
    assert found.loc["mimalloc", "verdict"] == "more"


def test_results_from_elsewhere_carry_no_error_of_ours(table) -> None:
    table(TABLE)
    file = peaks(glibc=100_000, jemalloc=103_000)
    del file.data["heaptape"]
    assert "≈" not in shown(file)


def test_without_a_table_there_is_no_note(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fidelity, "FILE", tmp_path / "absent.json")
    assert "≈" not in shown(peaks(glibc=100_000, jemalloc=103_000))


def test_the_note_under_a_comparison_gives_ranges_and_names_what_is_not_predicted(table) -> None:
    def one(*errors: float) -> dict:
        found = {f"a{number}": {"p90": error} for number, error in enumerate(errors)}
        return {"all": {"p90": max(errors)}, "allocators": found}

    table(TABLE | {"figures": {"peak_rss": one(0.82, 4.31), "vm_size": one(2.0, 2.0), "bare_cpu": one(9.0, 2788.0)}})
    assert fidelity.sentence(["bare_cpu", "peak_rss", "mean_rss", "vm_size"], ["a0", "a1"]) == (
        "Error of replays against live programs, 90th percentile: peak memory 0.8 to 4.3 %, VmSize 2.0 %; bare CPU is "
        "not predicted. By allocator: docs/methods/FIDELITY.md."
    )
    assert fidelity.sentence(["mean_rss"], ["a0"]) == ""


def test_the_packaged_note_takes_two_lines_at_most() -> None:
    allocators = ["jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "reference"]
    note = fidelity.sentence(["bare_wall", "bare_cpu", "peak_rss", "mean_rss", "vm_size", "page_faults"], allocators)
    assert len(note) <= 220
