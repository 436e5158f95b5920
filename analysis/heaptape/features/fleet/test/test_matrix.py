# SPDX-License-Identifier: MIT
"""The evaluation of a store's cells, with figures computed by hand; and its page."""

import re

import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.fleet import page as fleet_page
from heaptape.features.fleet.matrix import BEST, OUTLIERS, SINGLE, TOTALS, matrix
from heaptape.features.fleet.store import COLUMNS, Store

from tests.support import HEAPTAPE_HERE, succeed

# workload -> weight, and each allocator's figure
CELLS = {
    "a": (1.0, {"glibc": 100, "x": 50, "y": 80}),
    "b": (10.0, {"glibc": 100, "x": 70, "y": 100}),
    "c": (2.0, {"glibc": 100, "x": 130, "y": 105}),
}


def results(cells=CELLS, figure="peak_rss", unit="bytes", pass_="memory"):
    """Results as from a store."""
    rows = [
        (
            name * 64,
            name,
            "p",
            weight,
            label,
            "l",
            label,
            "",
            pass_,
            "recorded",
            0,
            "m",
            None,
            figure,
            unit,
            float(value),
        )
        for name, (weight, values) in cells.items()
        for label, value in values.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def test_totals_are_sums_by_weight():
    found = matrix(results(), "glibc", 5).totals.set_index("label")
    x, y = found.loc["x"], found.loc["y"]
    assert (x["baseline_value"], x["value"], x["saved"]) == (1300, 50 + 700 + 260, 290)
    assert (y["value"], y["saved"], y["workloads"], y["weight"]) == (80 + 1000 + 210, 10, 3, 13)
    assert (x["worst_ratio"], x["worst_workload"]) == (1.3, "c")


def test_the_single_choice_is_nowhere_worse_than_the_bound_and_says_what_it_left_out():
    bounded = matrix(results(), "glibc", 5).single.iloc[0]
    assert (bounded["label"], bounded["worst_workload"]) == ("y", "c")
    assert bounded["left_out"] == "x (22.3 % less): 30.0 % more on c"
    assert matrix(results(), "glibc", 30).single.iloc[0]["label"] == "x"
    strict = matrix(results(), "glibc", 1).single.iloc[0]
    assert (strict["label"], strict["saved"]) == ("glibc", 0)


def test_a_candidate_that_was_not_measured_everywhere_is_no_choice_for_all():
    cells = {name: (weight, dict(values)) for name, (weight, values) in CELLS.items()}
    del cells["c"][1]["x"]
    single = matrix(results(cells), "glibc", 5).single.iloc[0]
    assert single["label"] == "y"
    assert single["left_out"].endswith("measured on 2 workloads only")


def test_the_best_of_a_workload_is_the_baseline_where_none_is_below_it():
    best = matrix(results(), "glibc", 5).best.set_index("name")
    assert best["label"].to_dict() == {"a": "x", "b": "x", "c": "glibc"}
    assert best["ratio"].to_dict() == {"a": 0.5, "b": 0.7, "c": 1.0}
    assert best["supported"].to_dict() == {"a": True, "b": True, "c": False}


def test_outliers_are_the_workloads_that_are_far_from_the_median():
    cells = {f"{n}": (1.0, {"glibc": 1000, "x": 900 + n}) for n in range(9)}
    cells["far"] = (1.0, {"glibc": 1000, "x": 1500})
    found = matrix(results(cells), "glibc", 5).outliers
    assert found["name"].tolist() == ["far"]
    assert found["deviations"].iloc[0] > 3.5
    near = {f"{n}": (1.0, {"glibc": 1000, "x": 900}) for n in range(9)} | {"one": (1.0, {"glibc": 1000, "x": 905})}
    assert matrix(results(near), "glibc", 5).outliers.empty, "half a percent is nothing to look at"


def test_a_store_without_the_baseline_is_refused():
    with pytest.raises(HeaptapeError, match="'jemalloc' was not measured: there are glibc, x, y"):
        matrix(results(), "jemalloc", 5)
    with pytest.raises(HeaptapeError, match="nothing was measured on the same workload"):
        matrix(results({"a": (1.0, {"glibc": 1}), "b": (1.0, {"x": 1})}), "glibc", 5)


def timed():
    """Two blocks of a candidate that is faster, and of one without a clear result."""
    parts = []
    for block, (glibc, fast, like) in enumerate([(100, 80, 90), (110, 88, 121), (105, 84, 105)]):
        cells = {"a": (1.0, {"glibc": glibc, "fast": fast, "like": like})}
        parts.append(results(cells, "bare_cpu", "ns", "bare").assign(block=f"b{block}"))
    return pd.concat(parts, ignore_index=True)


def test_the_page_needs_nothing_else_and_shows_intervals_and_chance():
    found = matrix(pd.concat([results(), timed()], ignore_index=True), "glibc", 5)
    page = fleet_page.make(found, "s3://bucket/<store>")
    assert "s3://bucket/&lt;store&gt;" in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert "Peak RSS: no reason to change: y for all saves 10 bytes, 0.8 % of glibc&#39;s, less than 2 %." in page
    assert "-20.0 ± 0.0" in page
    assert re.search(r">\(\S+ ± \S+\)<", page), "in brackets: no more than chance"
    assert page.count("<figure") == 2


def test_the_command_writes_the_page_and_all_tables(tmp_path, monkeypatch):
    from heaptape.features.fleet.store import open_store

    open_store(str(tmp_path / "s"), create=True)
    monkeypatch.setattr(Store, "results", lambda self: results())
    page, tables = tmp_path / "r.html", tmp_path / "tables"
    said = succeed(
        HEAPTAPE_HERE, "fleet", "report", tmp_path / "s", "-o", page, "--parquet", tables, "--worst", "30"
    ).stdout
    assert said.startswith("Peak RSS: x for all saves 290 bytes")
    assert page.read_text().startswith("<!doctype html>")
    for name, columns in (("totals", TOTALS), ("best", BEST), ("single", SINGLE), ("outliers", OUTLIERS)):
        assert list(pd.read_parquet(tables / f"{name}.parquet").columns) == columns
    assert len(pd.read_parquet(tables / "ratios.parquet")) == 6
